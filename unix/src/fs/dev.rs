//! What stands behind a device number.
//!
//! *Interface.* A driver [`register`]s an opener for its number at boot; opening a device node anywhere calls it.

use abi::errno::{Errno, Result};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use sync::Monitor;

use super::inode::How;
use crate::file::OpenFile;

/// Opens a device: makes a file behaviour and returns `how.finish(file)`.
pub type Opener = fn(rdev: u64, how: How) -> Result<Arc<OpenFile>>;

static CHAR: Monitor<BTreeMap<u64, Opener>> = Monitor::new(BTreeMap::new());

/// Gives the character devices `major`:`minors` the behaviour of `opener`.
pub fn register(major: u32, minors: core::ops::RangeInclusive<u32>, opener: Opener) {
    let mut table = CHAR.lock();
    for minor in minors {
        table.insert(abi::linux::makedev(major, minor), opener);
    }
}

/// Opens the character device `rdev`; `ENXIO` when nothing stands behind the number.
pub fn open(rdev: u64, how: How) -> Result<Arc<OpenFile>> {
    let opener = CHAR.lock().get(&rdev).copied().ok_or(Errno::ENXIO)?;
    opener(rdev, how)
}
