//! The write count of an inode: writers and executors of a program file exclude each other (ETXTBSY).
//!
//! *Interface*: [`WriteAccess`] is held by each writable description of an executable file, and by its
//! writable mappings; [`DenyWrite`] by each address space that runs one. While one kind exists the other is
//! refused. Descriptions on an inactive list, or waiting for a grace period, are dropped before they cause a
//! refusal.

use abi::errno::{Errno, Result};
use abi::linux::{O_RDWR, O_WRONLY};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicI32, Ordering};
use sync::epoch;

use super::inode::Inode;

/// For one file: the number of writers, or, negative, of executors.
#[derive(Default)]
pub struct WriteCount(AtomicI32);

impl WriteCount {
    /// Neither writers nor executors.
    pub const fn new() -> WriteCount {
        WriteCount(AtomicI32::new(0))
    }

    /// Adds one, `by` 1 or -1, unless there is one of the other kind.
    fn enter(&self, by: i32) -> bool {
        let more = |now: i32| match now.signum() == -by {
            true => None,
            false => now.checked_add(by),
        };
        let (set, fetch) = (Ordering::AcqRel, Ordering::Acquire);
        self.0.fetch_update(set, fetch, more).is_ok()
    }

    fn leave(&self, by: i32) {
        self.0.fetch_sub(by, Ordering::AcqRel);
    }
}

/// A right to write that keeps a file from being run.
pub struct WriteAccess(Arc<dyn Inode>);

/// A use that keeps a file from being written.
pub struct DenyWrite(Arc<dyn Inode>);

impl WriteAccess {
    /// For `inode`; `None` for one that cannot be executed. ETXTBSY.
    pub fn begin(inode: &Arc<dyn Inode>) -> Result<Option<WriteAccess>> {
        match inode.busy() {
            None => Ok(None),
            Some(busy) if busy.enter(1) => Ok(Some(WriteAccess(inode.clone()))),
            Some(_) => Err(Errno::ETXTBSY),
        }
    }
}

impl DenyWrite {
    /// For `inode`; `None` for one that cannot be written. ETXTBSY. Thread context.
    pub fn begin(inode: &Arc<dyn Inode>) -> Result<Option<DenyWrite>> {
        let Some(busy) = inode.busy() else {
            return Ok(None);
        };
        let done = busy.enter(-1)
            || {
                let waiting = inode
                    .inactive()
                    .map(|list| [O_WRONLY, O_RDWR].map(|mode| list.take(mode)));
                drop(waiting);
                busy.enter(-1)
            }
            || {
                // Closed while others used the table: it goes after a grace period.
                if epoch::pending() > 0 {
                    // Bound: a grace period, asleep, before `exec` is refused a file that is written: each
                    // CPU’s next interrupt, switch or idle moment.
                    epoch::synchronize();
                }
                busy.enter(-1)
            };
        match done {
            true => Ok(Some(DenyWrite(inode.clone()))),
            false => Err(Errno::ETXTBSY),
        }
    }
}

impl Drop for WriteAccess {
    fn drop(&mut self) {
        if let Some(busy) = self.0.busy() {
            busy.leave(1);
        }
    }
}

impl Drop for DenyWrite {
    fn drop(&mut self) {
        if let Some(busy) = self.0.busy() {
            busy.leave(-1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_of_one_kind_and_none_of_the_other() {
        let busy = WriteCount::new();
        assert!(busy.enter(1) && busy.enter(1) && !busy.enter(-1));
        busy.leave(1);
        assert!(!busy.enter(-1));
        busy.leave(1);
        assert!(busy.enter(-1) && busy.enter(-1) && !busy.enter(1));
        busy.leave(-1);
        busy.leave(-1);
        assert!(busy.enter(1));
    }
}
