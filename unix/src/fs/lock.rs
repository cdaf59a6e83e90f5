//! Advisory locks: `fcntl` record locks, open file description locks and `flock`.
//!
//! *Interface.* [`set`], [`test()`], [`wait_set`] work on byte ranges; flock(2) locks whole files. Record locks belong to a descriptor table (a
//! process), the other two kinds to a description. [`any`] is a cheap guard for the hooks at close.
//! Errors: `EAGAIN` when another owner is in the way.

use abi::errno::{Errno, Result};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};
use sync::{Monitor, WaitList};

use crate::file::OpenFile;

/// Whose a lock is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A descriptor table, by [`crate::files::Files::lock_owner`].
    Table(usize),
    /// A description, by address (`F_OFD_SETLK`).
    Description(usize),
    /// A description, by address, under `flock`, which does not see the other two.
    Flock(usize),
}

impl Owner {
    fn sees(self, other: Owner) -> bool {
        matches!(self, Owner::Flock(_)) == matches!(other, Owner::Flock(_))
    }
}

/// One lock on the bytes `start..end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lock {
    /// First byte.
    pub start: u64,
    /// Byte after the last; `u64::MAX` for the end of the file wherever that is.
    pub end: u64,
    /// A write lock.
    pub exclusive: bool,
    /// Whose.
    pub owner: Owner,
    /// The process that took it, for `F_GETLK`.
    pub pid: i32,
}

type FileId = (u64, u64);

static LOCKS: Monitor<BTreeMap<FileId, Vec<Lock>>> = Monitor::new(BTreeMap::new());
static RELEASED: WaitList = WaitList::new();
/// Files that have locks.
static LOCKED: AtomicUsize = AtomicUsize::new(0);

/// Whether any lock exists.
#[inline]
pub fn any() -> bool {
    LOCKED.load(Ordering::Relaxed) != 0
}

fn conflict(held: &[Lock], wanted: &Lock) -> Option<Lock> {
    held.iter()
        .find(|l| {
            l.owner != wanted.owner
                && l.owner.sees(wanted.owner)
                && (l.exclusive || wanted.exclusive)
                && l.start < wanted.end
                && wanted.start < l.end
        })
        .copied()
}

/// The locks of `owner` in `start..end` are cut out of the list.
fn cut(held: &mut Vec<Lock>, owner: Owner, start: u64, end: u64) {
    let mut rest = Vec::new();
    held.retain(|l| {
        if l.owner != owner || l.end <= start || end <= l.start {
            return true;
        }
        if l.start < start {
            rest.push(Lock { end: start, ..*l });
        }
        if end < l.end {
            rest.push(Lock { start: end, ..*l });
        }
        false
    });
    held.append(&mut rest);
}

/// A lock that is in the way of `wanted`.
pub fn test(file: FileId, wanted: &Lock) -> Option<Lock> {
    LOCKS
        .lock()
        .get(&file)
        .and_then(|held| conflict(held, wanted))
}

/// Takes `wanted`, replacing what its owner holds there; `EAGAIN`.
pub fn set(file: FileId, wanted: &Lock) -> Result<()> {
    let mut locks = LOCKS.lock();
    let held = locks.entry(file).or_default();
    if conflict(held, wanted).is_some() {
        return Err(Errno::EAGAIN);
    }
    cut(held, wanted.owner, wanted.start, wanted.end);
    held.push(*wanted);
    LOCKED.store(locks.len(), Ordering::Relaxed);
    drop(locks);
    // A write lock may have become a read lock.
    RELEASED.wake_all();
    Ok(())
}

/// As [`set`], waiting; `EINTR` (restartable) when a signal comes first.
pub fn wait_set(file: FileId, wanted: &Lock) -> Result<()> {
    RELEASED
        .wait_interruptible(|| match set_quietly(file, wanted) {
            Err(Errno::EAGAIN) => None,
            done => Some(done),
        })
        .unwrap_or(Err(Errno::ERESTARTSYS))
}

fn set_quietly(file: FileId, wanted: &Lock) -> Result<()> {
    let blocked = test(file, wanted).is_some();
    if blocked {
        Err(Errno::EAGAIN)
    } else {
        set(file, wanted)
    }
}

/// Gives up what `owner` holds in `start..end`.
pub fn clear(file: FileId, owner: Owner, start: u64, end: u64) {
    let mut locks = LOCKS.lock();
    if let Some(held) = locks.get_mut(&file) {
        cut(held, owner, start, end);
        if held.is_empty() {
            locks.remove(&file);
        }
    }
    LOCKED.store(locks.len(), Ordering::Relaxed);
    drop(locks);
    RELEASED.wake_all();
}

/// A table closed a descriptor of `of`: the record locks of the table on that file go, and with the last descriptor those of the description.
#[cold]
pub fn descriptor_closed(table: usize, of: &OpenFile) {
    let Some(inode) = of.inode() else { return };
    let file = inode.id();
    clear(file, Owner::Table(table), 0, u64::MAX);
    if of.slots.load(Ordering::Acquire) == 0 {
        let description = core::ptr::from_ref(of) as usize;
        clear(file, Owner::Description(description), 0, u64::MAX);
        clear(file, Owner::Flock(description), 0, u64::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(owner: usize, start: u64, end: u64, exclusive: bool) -> Lock {
        Lock {
            start,
            end,
            exclusive,
            owner: Owner::Table(owner),
            pid: owner as i32,
        }
    }

    #[test]
    fn ranges_of_one_owner_split_and_join_others_conflict() {
        let file = (90, 1);
        set(file, &lock(1, 0, 100, true)).unwrap();
        set(file, &lock(1, 40, 60, false)).unwrap();
        assert_eq!(set(file, &lock(2, 30, 41, false)), Err(Errno::EAGAIN));
        set(file, &lock(2, 45, 50, false)).unwrap();
        assert_eq!(test(file, &lock(2, 99, 200, false)).unwrap().pid, 1);
        clear(file, Owner::Table(1), 60, 100);
        assert!(test(file, &lock(2, 60, u64::MAX, true)).is_none());
        clear(file, Owner::Table(1), 0, u64::MAX);
        clear(file, Owner::Table(2), 0, u64::MAX);
        assert!(!LOCKS.lock().contains_key(&file));
    }

    #[test]
    fn flock_and_records_do_not_see_each_other() {
        let file = (90, 2);
        set(file, &lock(1, 0, u64::MAX, true)).unwrap();
        let whole = Lock {
            owner: Owner::Flock(5),
            ..lock(2, 0, u64::MAX, true)
        };
        set(file, &whole).unwrap();
        clear(file, Owner::Flock(5), 0, u64::MAX);
        clear(file, Owner::Table(1), 0, u64::MAX);
    }
}
