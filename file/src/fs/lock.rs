//! Advisory locks: `fcntl` record locks, open file description locks and `flock`.
//!
//! *Interface.* [`set`], [`test()`], [`wait_set`], [`clear`] work on byte ranges; flock(2) locks whole files.
//! [`set_now`] and [`clear_now`] do what is simple, without waiting for a monitor; [`give_up`] clears all.
//! Record locks belong to a descriptor table (a process), the other two kinds to a description. [`LockPayer`]
//! counts them for a user. [`crate::close_cleanup`] tells a close whether there are any. Errors: `EAGAIN` for
//! a conflict with another owner, `ENOLCK` when the payer's limit is reached or memory is out, `EDEADLK` when
//! waiters would wait for each other.
//!
//! Each file with locks has a monitor and a list of waiters of its own; a table finds them, in buckets by
//! file. Locks are kept in order of their starts (`ranges`). Of the files that have none any more each bucket
//! keeps one, which is *idle*: a file that is locked and unlocked again and again is not made anew each time.
//! [`give_up_idle`] forgets them.

mod deadlock;
mod ranges;

use abi::errno::{Errno, Result};
use abi::layout::PAGE;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use sync::{Monitor, WaitList};

use crate::close_cleanup::CloseCleanup;
use crate::fs::file::OpenFile;
use account::User;
use account::user::{self, Charge, Resource};
use deadlock::Waits;
use ranges::Ranges;
use vm::fallible::try_reserve_kept;

/// The owner of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockOwner {
    /// A descriptor table, by [`crate::fdtable::FdTable::lock_owner`].
    Table(usize),
    /// A description, by address (`F_OFD_SETLK`).
    Description(usize),
    /// A description, by address, under `flock`, which does not see the other two.
    Flock(usize),
}

impl LockOwner {
    fn sees(self, other: LockOwner) -> bool {
        matches!(self, LockOwner::Flock(_)) == matches!(other, LockOwner::Flock(_))
    }
}

/// One lock on the bytes `start..end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileLock {
    /// First byte.
    pub start: u64,
    /// Byte after the last; `u64::MAX` for the end of the file wherever that is.
    pub end: u64,
    /// A write lock.
    pub exclusive: bool,
    /// Its owner.
    pub owner: LockOwner,
    /// The process that took it, for `F_GETLK`.
    pub pid: i32,
}

impl FileLock {
    /// Whether this one, on some of the same bytes, is in the way of `wanted`.
    fn excludes(&self, wanted: &FileLock) -> bool {
        self.owner != wanted.owner
            && self.owner.sees(wanted.owner)
            && (self.exclusive || wanted.exclusive)
    }
}

/// The user to be charged for a lock, and the limit.
pub struct LockPayer<'a> {
    /// The user.
    pub user: &'a Arc<User>,
    /// `RLIMIT_LOCKS`.
    pub limit: u64,
}

impl LockPayer<'_> {
    /// Part of memory that locks may take.
    const PART: usize = 16;
    /// The approximate size of a lock.
    const BYTES: usize = 128;

    fn pay(&self) -> Result<Charge> {
        let total = (vm::frame::total() * PAGE / Self::PART / Self::BYTES) as u64;
        let share = if self.user.uid() == 0 {
            total
        } else {
            user::share(total)
        };
        let most = self.limit.min(share);
        self.user
            .charge(Resource::Locks, 1, most)
            .ok_or(Errno::ENOLCK)
    }
}

type FileId = (u64, u64);

/// The locks of one file, and their waiters.
struct Locks {
    held: Monitor<Ranges>,
    released: WaitList,
}

/// A file that has locks, or is about to, or is idle.
struct Entry {
    file: FileId,
    /// How many [`Use`]s there are.
    uses: usize,
    locks: Arc<Locks>,
    /// Unless it is idle: then it has neither locks nor uses.
    tie: Option<CloseCleanup>,
}

/// The files with locks in one bucket, by rising number.
type Bucket = Monitor<Vec<Entry>>;

/// Of more files of a bucket none is searched with interrupts off.
const MANY: usize = 8;

const BUCKETS: usize = 64;
static TABLE: [Bucket; BUCKETS] = [const { Monitor::new(Vec::new()) }; BUCKETS];

fn bucket(file: FileId) -> &'static Bucket {
    &TABLE[(file.0.wrapping_mul(7) ^ file.1) as usize % BUCKETS]
}

/// A use of a file's locks; after the last one the file is idle if there is none.
struct Use {
    file: FileId,
    locks: Arc<Locks>,
}

impl Entry {
    fn is_idle(&self) -> bool {
        self.tie.is_none()
    }

    fn used(&mut self) -> Use {
        self.uses += 1;
        self.tie.get_or_insert_default();
        Use {
            file: self.file,
            locks: self.locks.clone(),
        }
    }
}

fn place(bucket: &[Entry], file: FileId) -> core::result::Result<usize, usize> {
    bucket.binary_search_by_key(&file, |entry| entry.file)
}

impl Use {
    /// The locks of `file`, if there are any.
    fn find(file: FileId) -> Option<Use> {
        // Bound: one in 64 of the files with locks: a binary search, and their being moved up.
        let mut bucket = bucket(file).lock();
        let place = place(&bucket, file).ok()?;
        (!bucket[place].is_idle()).then(|| bucket[place].used())
    }

    /// The locks of `file`, or none yet. ENOLCK.
    fn make(file: FileId) -> Result<Use> {
        let mut bucket = bucket(file).lock();
        let place = match place(&bucket, file) {
            Ok(place) => place,
            Err(place) => {
                try_reserve_kept(&mut bucket, 1).map_err(|_| Errno::ENOLCK)?;
                let entry = Entry {
                    file,
                    uses: 0,
                    locks: Arc::new(Locks {
                        held: Monitor::new(Ranges::default()),
                        released: WaitList::new(),
                    }),
                    tie: None,
                };
                #[expect(clippy::disallowed_methods, reason = "room was made above")]
                bucket.insert(place, entry);
                place
            }
        };
        Ok(bucket[place].used())
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        // Bound: one in 64 of the files with locks: a binary search, and their being moved up.
        let mut bucket = bucket(self.file).lock();
        let Ok(place) = place(&bucket, self.file) else {
            return;
        };
        bucket[place].uses -= 1;
        // Bound: the locks of one file: its runs of 128, those that the range touches; all of them at a
        // close.
        if bucket[place].uses == 0 && self.locks.held.lock().is_empty() {
            let before = bucket.iter().position(Entry::is_idle);
            bucket[place].tie = None;
            let gone = before.map(|before| bucket.remove(before));
            drop(bucket);
            drop(gone);
        }
    }
}

/// Forgets the files that are idle: for when memory is short.
pub fn give_up_idle() {
    for bucket in &TABLE {
        // Bound: as for `bucket(file)`; 64 in turn, when memory is short.
        let mut bucket = bucket.lock();
        let idle = bucket.iter().position(Entry::is_idle);
        let gone = idle.map(|idle| bucket.remove(idle));
        let unused = match bucket.is_empty() {
            true => core::mem::take(&mut *bucket),
            false => Vec::new(),
        };
        drop(bucket);
        drop((gone, unused));
    }
}

/// A lock that is in the way of `wanted`.
pub fn test(file: FileId, wanted: &FileLock) -> Option<FileLock> {
    let used = Use::find(file)?;
    // Bound: the locks of one file: its runs of 128, those that the range touches; all of them at a close.
    used.locks.held.lock().conflict(wanted)
}

impl Locks {
    fn try_set(&self, wanted: &FileLock, payer: &LockPayer) -> Result<()> {
        // Bound: the locks of one file: its runs of 128, those that the range touches; all of them at a
        // close.
        let mut held = self.held.lock();
        let (owner, all) = (wanted.owner, 0..u64::MAX);
        let mut released = false;
        // A change of a whole file's lock to another kind first releases the old one (flock(2)).
        if matches!(owner, LockOwner::Flock(_)) && held.has_other_kind(wanted) {
            released = held.clear(owner, all.start, all.end, || payer.pay())?;
        }
        let result = match held.conflict(wanted) {
            Some(_) => Err(Errno::EAGAIN),
            None => held.set(wanted, || payer.pay()),
        };
        // A write lock may have become a read lock.
        released |= result.is_ok() && !wanted.exclusive;
        drop(held);
        if released {
            self.released.wake_all();
        }
        result
    }
}

/// Takes `wanted`, replacing what its owner holds there.
pub fn set(file: FileId, wanted: &FileLock, payer: &LockPayer) -> Result<()> {
    Use::make(file)?.locks.try_set(wanted, payer)
}

/// As [`set`], waiting; `EINTR` (restartable) when a signal comes first.
pub fn wait_set(file: FileId, wanted: &FileLock, payer: &LockPayer) -> Result<()> {
    let used = Use::make(file)?;
    let locks = &used.locks;
    let mut waits = None;
    let attempt = || match locks.try_set(wanted, payer) {
        Err(Errno::EAGAIN) => {
            if let LockOwner::Table(table) = wanted.owner {
                if waits.is_none() {
                    match Waits::enter(table, locks, wanted) {
                        Ok(entered) => waits = Some(entered),
                        Err(e) => return Some(Err(e)),
                    }
                }
                if deadlock::closes_a_circle(table) {
                    return Some(Err(Errno::EDEADLK));
                }
            }
            None
        }
        done => Some(done),
    };
    let result = locks.released.wait_interruptible(attempt);
    drop(waits);
    result.unwrap_or(Err(Errno::ERESTARTSYS))
}

/// Releases the locks of `owner` in `start..end`. ENOLCK when this would split a lock and exceed the limit.
pub fn clear(
    file: FileId,
    owner: LockOwner,
    start: u64,
    end: u64,
    payer: &LockPayer,
) -> Result<()> {
    match Use::find(file) {
        Some(used) => used.clear(owner, start, end, || payer.pay()),
        None => Ok(()),
    }
}

/// As [`set`], at once, of a lock that meets none of its owner's in a file with few: whether it was taken.
/// Interrupts are off.
pub fn set_now(file: FileId, wanted: &FileLock, payer: &LockPayer) -> bool {
    let set = || {
        // Bound: never waits; a binary search, and at most 8 locks; interrupts are off.
        let mut bucket = bucket(file).try_lock()?;
        let at = place(&bucket, file).ok()?;
        let entry = bucket.get_mut(at)?;
        // Bound: never waits; a binary search, and at most 8 locks; interrupts are off.
        let mut held = entry.locks.held.try_lock()?;
        held.set_now(wanted, || payer.pay().ok())?;
        drop(held);
        entry.tie.get_or_insert_default();
        Some(())
    };
    set().is_some()
}

/// As [`clear`], at once, of one whole lock in a file with few: whether it was released, or nothing was
/// there. Interrupts are off.
pub fn clear_now(file: FileId, owner: LockOwner, start: u64, end: u64) -> bool {
    let clear = || {
        let mut bucket = bucket(file).try_lock()?;
        let Ok(at) = place(&bucket, file) else {
            return Some(None);
        };
        let last = bucket.get(at)?.uses == 0;
        if last && (bucket.len() > MANY || bucket.iter().any(Entry::is_idle)) {
            // It may be the next idle one, for which another has to go.
            return None;
        }
        let entry = bucket.get_mut(at)?;
        let mut held = entry.locks.held.try_lock()?;
        let charge = held.clear_now(owner, start, end)?;
        let empty = last && held.is_empty();
        drop(held);
        if empty {
            entry.tie = None;
            return Some(charge.map(|charge| (charge, None)));
        }
        Some(charge.map(|charge| (charge, Some(entry.locks.clone()))))
    };
    let cleared = clear();
    if let Some(Some((_charge, Some(locks)))) = &cleared {
        locks.released.wake_all();
    }
    cleared.is_some()
}

/// `owner` gives up all its locks on `file`.
pub fn give_up(file: FileId, owner: LockOwner) {
    if let Some(used) = Use::find(file) {
        // Whole locks go, which leaves nothing to pay for.
        let done = used.clear(owner, 0, u64::MAX, || Err(Errno::ENOLCK));
        debug_assert_eq!(done, Ok(()));
    }
}

impl Use {
    fn clear(
        &self,
        owner: LockOwner,
        start: u64,
        end: u64,
        pay: impl FnMut() -> Result<Charge>,
    ) -> Result<()> {
        let cleared = self.locks.held.lock().clear(owner, start, end, pay)?;
        if cleared {
            self.locks.released.wake_all();
        }
        Ok(())
    }
}

/// A table closed a descriptor of `of`: the record locks of the table on that file go, and with the last
/// descriptor those of the description.
#[cold]
pub fn descriptor_closed(table: usize, of: &OpenFile) {
    let Some(used) = Use::find(of.lock_id()) else {
        return;
    };
    // Whole locks go, which leaves nothing to pay for.
    let all = |owner| used.clear(owner, 0, u64::MAX, || Err(Errno::ENOLCK));
    let mut done = all(LockOwner::Table(table));
    if of.slots.load(Ordering::Acquire) == 0 {
        let description = core::ptr::from_ref(of) as usize;
        done = done.and(all(LockOwner::Description(description)));
        done = done.and(all(LockOwner::Flock(description)));
    }
    debug_assert_eq!(done, Ok(()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(owner: usize, start: u64, end: u64, exclusive: bool) -> FileLock {
        FileLock {
            start,
            end,
            exclusive,
            owner: LockOwner::Table(owner),
            pid: owner as i32,
        }
    }

    fn known(file: FileId) -> bool {
        let bucket = bucket(file).lock();
        place(&bucket, file).is_ok_and(|place| !bucket[place].is_idle())
    }

    #[test]
    fn ranges_of_one_owner_split_and_join_others_conflict() {
        let user = User::of(70_110).unwrap();
        let payer = LockPayer {
            user: &user,
            limit: 100,
        };
        let file = (90, 1);
        set(file, &lock(1, 0, 100, true), &payer).unwrap();
        set(file, &lock(1, 40, 60, false), &payer).unwrap();
        let refused = set(file, &lock(2, 30, 41, false), &payer);
        assert_eq!(refused, Err(Errno::EAGAIN));
        set(file, &lock(2, 45, 50, false), &payer).unwrap();
        assert_eq!(test(file, &lock(2, 99, 200, false)).unwrap().pid, 1);
        clear(file, LockOwner::Table(1), 60, 100, &payer).unwrap();
        assert!(test(file, &lock(2, 60, u64::MAX, true)).is_none());
        clear(file, LockOwner::Table(1), 0, u64::MAX, &payer).unwrap();
        assert!(known(file));
        clear(file, LockOwner::Table(2), 0, u64::MAX, &payer).unwrap();
        assert!(!known(file));
        assert_eq!(user.holds(Resource::Locks), 0);
    }

    #[test]
    fn one_file_of_a_bucket_stays_idle_and_is_locked_again() {
        let user = User::of(70_112).unwrap();
        let payer = LockPayer {
            user: &user,
            limit: 100,
        };
        // Files of one bucket that no other test has.
        let files = [0, 1, 2].map(|round| (7_000, BUCKETS as u64 * (90 + round)));
        let idle = |file| {
            let bucket = bucket(file).lock();
            place(&bucket, file).is_ok_and(|place| bucket[place].is_idle())
        };
        let one = lock(1, 0, 1, true);
        assert!(!set_now(files[0], &one, &payer), "it is not known yet");
        set(files[0], &one, &payer).unwrap();
        for _ in 0..3 {
            assert!(clear_now(files[0], one.owner, 0, 1));
            assert!(idle(files[0]) && user.holds(Resource::Locks) == 0);
            assert!(test(files[0], &lock(2, 0, 1, true)).is_none());
            assert!(set_now(files[0], &one, &payer));
            assert!(known(files[0]) && test(files[0], &lock(2, 0, 1, true)).is_some());
        }
        set(files[1], &one, &payer).unwrap();
        assert!(clear_now(files[0], one.owner, 0, 1) && idle(files[0]));
        // Another takes its place.
        assert!(!clear_now(files[1], one.owner, 0, 1) && known(files[1]));
        clear(files[1], one.owner, 0, 1, &payer).unwrap();
        assert!(idle(files[1]) && !idle(files[0]) && !known(files[0]));
        set(files[2], &one, &payer).unwrap();
        give_up_idle();
        assert!(!idle(files[1]) && known(files[2]));
        clear(files[2], one.owner, 0, 1, &payer).unwrap();
        give_up_idle();
        assert_eq!(user.holds(Resource::Locks), 0);
    }

    #[test]
    fn flock_and_records_do_not_see_each_other() {
        let user = User::of(70_111).unwrap();
        let payer = LockPayer {
            user: &user,
            limit: 2,
        };
        let file = (90, 2);
        set(file, &lock(1, 0, u64::MAX, true), &payer).unwrap();
        let whole = FileLock {
            owner: LockOwner::Flock(5),
            ..lock(2, 0, u64::MAX, true)
        };
        set(file, &whole, &payer).unwrap();
        let now = |owner, exclusive| {
            let wanted = FileLock {
                owner: LockOwner::Flock(owner),
                exclusive,
                ..whole
            };
            set_now(file, &wanted, &payer)
        };
        // Neither another's, nor a change of one's own, is had at once; with nothing in the way it is.
        assert!(!now(6, false) && !now(5, false));
        assert!(clear_now(file, LockOwner::Flock(5), 0, u64::MAX));
        assert!(now(5, true) && !now(6, true));
        let third = set((90, 3), &whole, &payer);
        assert_eq!(third, Err(Errno::ENOLCK));
        clear(file, LockOwner::Flock(5), 0, u64::MAX, &payer).unwrap();
        clear(file, LockOwner::Table(1), 0, u64::MAX, &payer).unwrap();
        assert!(!known(file) && !known((90, 3)));
    }
}
