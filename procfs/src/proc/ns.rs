//! `/proc/PID/ns`: of namespaces there is the one of mounts, as in a kernel built without the others, and all
//! processes are in it.
//!
//! *Interface*: [`ALL`].

use abi::errno::{Errno, Result};
use alloc::sync::Arc;
use alloc::vec::Vec;

use abi::linux::{CLONE_NEWNS, S_IFREG};
use file::fs::attr::Attr;
use file::fs::inode::{Inode, OpenRequest};
use file::fs::mount::{self, VfsPath, anonymous_dev};
use file::fs::pseudofs::{FixedEntry, MagicLink, PseudoEntry};
use file::{File, OpenFile};
use sync::Once;
use vm::fallible::{try_arc, try_copy};

/// The links.
pub const ALL: &[FixedEntry] = &[("mnt", || PseudoEntry::MagicLink(Arc::new(Link)))];

/// The number that Linux gives the first one.
const NUMBER: u64 = 4_026_531_841;
/// The kind of a namespace.
const NS_GET_NSTYPE: u32 = 0xb703;

struct Link;

impl MagicLink for Link {
    fn text(&self) -> Result<Vec<u8>> {
        try_copy(b"mnt:[4026531841]")
    }

    fn place(&self) -> Result<VfsPath> {
        Ok(mount::root()
            .ok_or(Errno::ENOENT)?
            .with_inode(try_arc(Mounts)?))
    }
}

/// The target of the link.
struct Mounts;

impl Inode for Mounts {
    fn attr(&self) -> Attr {
        static DEVICE: Once<u64> = Once::new();
        if DEVICE.get().is_none() {
            // The first caller sets the value.
            let _ = DEVICE.set(anonymous_dev());
        }
        Attr {
            dev: DEVICE.get().copied().unwrap_or_default(),
            ino: NUMBER,
            mode: S_IFREG | 0o444,
            nlink: 1,
            ..Attr::default()
        }
    }

    fn open(self: Arc<Self>, how: OpenRequest) -> Result<Arc<OpenFile>> {
        Ok(how.finish(try_arc(Opened)?))
    }
}

struct Opened;

impl File for Opened {
    fn ioctl(&self, _of: &OpenFile, command: u32, _argument: usize) -> Result<usize> {
        match command {
            NS_GET_NSTYPE => Ok(CLONE_NEWNS as usize),
            _ => Err(Errno::ENOTTY),
        }
    }
}
