//! Handles: numbers by which a file in memory is found under any name.
//!
//! *Interface*: [`TmpInode::handle`] gives one, [`Super::by_handle`] finds its file. A file whose handle was
//! requested is in a table until it is freed; no other is found. A handle has the format of Linux's tmpfs:
//! the file system, and the two halves of the file's number, which is never reused.

use abi::errno::Result;
use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use core::sync::atomic::Ordering;
use sync::{Monitor, epoch};

use super::{Super, TmpInode};
use crate::fs::inode::{FileHandle, Inode};
use vm::fallible::try_insert;

/// Files of one file system whose handles were requested, by their numbers. A holder of this lock takes no
/// other.
#[derive(Default)]
pub(super) struct Handles(Monitor<BTreeMap<u64, Weak<TmpInode>>>);

impl Handles {
    /// A file that is gone is found no more.
    pub(super) fn forget(&self, ino: u64) {
        // Bound: one file system’s handles: a look in a tree, and no more.
        let forgotten = self.0.lock().remove(&ino);
        drop(forgotten);
    }
}

impl TmpInode {
    /// Its handle. ENOMEM.
    pub(super) fn handle(&self) -> Result<FileHandle> {
        if !self.handled.load(Ordering::Acquire) {
            // Bound: one file system’s handles: a look in a tree, and no more, and a node for it.
            let mut handles = self.fs.handles.0.lock();
            try_insert(&mut handles, self.ino, self.this.clone())?;
            self.handled.store(true, Ordering::Release);
        }
        Ok([self.fs.dev as u32, self.ino as u32, (self.ino >> 32) as u32])
    }
}

impl Super {
    /// The file that gave `handle`, while it is there.
    pub(super) fn by_handle(&self, handle: FileHandle) -> Option<Arc<dyn Inode>> {
        let [generation, low, high] = handle;
        if generation != self.dev as u32 {
            return None;
        }
        let ino = u64::from(high) << 32 | u64::from(low);
        // Bound: one file system’s handles: a look in a tree, and no more, and a node for it.
        let look = || self.handles.0.lock().get(&ino).and_then(Weak::upgrade);
        let found = look()?;
        // Bound: a word.
        if found.meta.lock().nlink != 0 || epoch::pending() == 0 {
            return Some(found);
        }
        // A description that was closed while others had the table is dropped a grace period later, and this
        // may have been its last reference.
        drop(found);
        // Bound: a grace period, asleep, in a request for a file without a name.
        epoch::synchronize();
        look().map(|node| node as Arc<dyn Inode>)
    }
}
