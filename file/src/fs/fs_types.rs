//! The file system types, by name, as `mount` and `/proc/filesystems` have them.
//!
//! *Interface*: [`add`] at boot, by each room that has some; [`find`] and [`number`] by name, [`all`] in the
//! order in which they were added.

use abi::errno::Result;
use alloc::sync::Arc;
use sync::Once;

use super::mount::FileSystem;

/// Makes a file system, or finds the one that there is, from what `mount` names as its source and its
/// options. EINVAL, ENOENT, ENOMEM.
pub type MakeFs = fn(source: &str, options: &str) -> Result<Arc<dyn FileSystem>>;

/// One kind.
#[derive(Clone, Copy)]
pub struct FsType {
    /// As in `/proc/filesystems`.
    pub name: &'static str,
    /// The function that `mount` calls.
    pub make: MakeFs,
}

/// No more can be added.
const MOST: usize = 16;

static KINDS: [Once<FsType>; MOST] = [const { Once::new() }; MOST];

/// One more, at boot. False: there is no room.
pub fn add(kind: FsType) -> bool {
    KINDS.iter().any(|place| place.set(kind).is_ok())
}

/// All of them.
pub fn all() -> impl Iterator<Item = &'static FsType> {
    KINDS.iter().map_while(Once::get)
}

/// The one of this name.
pub fn find(name: &str) -> Option<&'static FsType> {
    all().find(|kind| kind.name == name)
}

/// Its number among all.
pub fn number(name: &[u8]) -> Option<usize> {
    all().position(|kind| kind.name.as_bytes() == name)
}
