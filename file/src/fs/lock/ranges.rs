//! The locks of one file by where they begin, in short sorted runs.
//!
//! *Interface.* [`Ranges`]. [`Ranges::conflict`] finds a lock in the way of another, [`Ranges::set`] replaces
//! an owner's locks in its range and merges it with equal neighbours, [`Ranges::clear`] cuts a range out of
//! an owner's locks. Each skips the runs whose locks end before a range, searches those that reach into it,
//! and moves at most a few runs. An operation that needs memory allocates it first, and changes nothing
//! without it (`ENOLCK`).
//!
//! The locks of one owner are disjoint; those of several may overlap where they are shared.

use abi::errno::{Errno, Result};
use alloc::vec::Vec;

use super::{FileLock, LockOwner};
use account::user::Charge;
use vm::fallible::try_reserve_kept;

/// The most locks of a run.
const RUN: usize = 128;
/// So many are few.
const FEW: usize = 8;
/// The locks that one change may add: a lock, and the rests of another on both sides.
const MARGIN: usize = 3;

/// A lock, and its charge.
#[derive(Debug)]
struct Held {
    lock: FileLock,
    charge: Charge,
}

/// The locks that begin at `start` or behind it, and before the next run's start.
#[derive(Default)]
struct Run {
    start: u64,
    /// By rising start.
    locks: Vec<Held>,
    /// The largest end of its locks.
    end: u64,
}

impl Run {
    fn measure(&mut self) {
        let ends = self.locks.iter().map(|held| held.lock.end);
        self.end = ends.max().unwrap_or(0);
    }
}

/// The locks of one file.
#[derive(Default)]
pub(super) struct Ranges(Vec<Run>);

impl Ranges {
    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|run| run.locks.is_empty())
    }

    /// The locks that reach into `start..end`, in order of their starts.
    fn within(&self, start: u64, end: u64) -> impl Iterator<Item = &FileLock> {
        let runs = self.0.iter().take_while(move |run| run.start < end);
        let runs = runs.filter(move |run| start < run.end);
        let locks = runs.flat_map(|run| run.locks.iter().map(|held| &held.lock));
        locks.filter(move |lock| lock.start < end && start < lock.end)
    }

    /// A lock that is in the way of `wanted`.
    pub fn conflict(&self, wanted: &FileLock) -> Option<FileLock> {
        let mut met = self.within(wanted.start, wanted.end);
        met.find(|lock| lock.excludes(wanted)).copied()
    }

    /// Whether the owner of `wanted` holds a lock of the other kind on some of the same bytes.
    pub fn has_other_kind(&self, wanted: &FileLock) -> bool {
        let mut met = self.within(wanted.start, wanted.end);
        met.any(|lock| lock.owner == wanted.owner && lock.exclusive != wanted.exclusive)
    }

    /// Takes `wanted`, with which nothing is in conflict. `pay` gives a charge for one lock more.
    pub fn set(&mut self, wanted: &FileLock, pay: impl FnMut() -> Result<Charge>) -> Result<()> {
        let mut joined = *wanted;
        // Those that only touch it, too.
        let (start, end) = (wanted.start.saturating_sub(1), wanted.end.saturating_add(1));
        for lock in self.within(start, end) {
            if lock.owner == wanted.owner && lock.exclusive == wanted.exclusive {
                if lock.start <= wanted.start && wanted.end <= lock.end {
                    return Ok(());
                }
                joined.start = joined.start.min(lock.start);
                joined.end = joined.end.max(lock.end);
            }
        }
        self.replace(wanted.owner, joined.start, joined.end, Some(joined), pay)
    }

    /// Cuts `start..end` out of the locks of `owner`; returns whether there were any. `pay` as for
    /// [`Ranges::set`], since a lock may be split in two.
    pub fn clear(
        &mut self,
        owner: LockOwner,
        start: u64,
        end: u64,
        pay: impl FnMut() -> Result<Charge>,
    ) -> Result<bool> {
        if !self.within(start, end).any(|lock| lock.owner == owner) {
            return Ok(false);
        }
        self.replace(owner, start, end, None, pay)?;
        Ok(true)
    }

    /// Puts `new` in the place of all that `owner` holds in `start..end`.
    fn replace(
        &mut self,
        owner: LockOwner,
        start: u64,
        end: u64,
        new: Option<FileLock>,
        mut pay: impl FnMut() -> Result<Charge>,
    ) -> Result<()> {
        let mut add = [None, new, None];
        let mut freed = 0;
        for lock in self.within(start, end).filter(|lock| lock.owner == owner) {
            freed += 1;
            if lock.start < start {
                add[0] = Some(FileLock {
                    end: start,
                    ..*lock
                });
            }
            if end < lock.end {
                add[2] = Some(FileLock {
                    start: end,
                    ..*lock
                });
            }
        }
        // Old charges pay for the new locks first.
        let mut charges = [const { None }; MARGIN];
        for charge in charges
            .iter_mut()
            .take(add.iter().flatten().count())
            .skip(freed)
        {
            *charge = Some(pay()?);
        }
        for lock in add.iter().flatten() {
            self.make_room(lock.start)?;
        }
        self.remove(owner, start, end, &mut charges);
        for (lock, charge) in add.into_iter().flatten().zip(charges.into_iter().flatten()) {
            self.insert(Held { lock, charge });
        }
        self.join_runs();
        Ok(())
    }

    /// The locks of a file that has few.
    fn few(&mut self) -> Option<&mut Run> {
        match self.0.as_mut_slice() {
            [run] if run.locks.len() <= FEW => Some(run),
            _ => None,
        }
    }

    /// As [`Ranges::set`], of a lock that meets and touches none of its owner's, if there are few and there
    /// is room for it. `None`: nothing has changed.
    pub fn set_now(
        &mut self,
        wanted: &FileLock,
        pay: impl FnOnce() -> Option<Charge>,
    ) -> Option<()> {
        let run = self.few()?;
        let mut place = 0;
        for held in &run.locks {
            let lock = &held.lock;
            let own = lock.owner == wanted.owner;
            let touches = lock.start <= wanted.end && wanted.start <= lock.end;
            let meets = lock.start < wanted.end && wanted.start < lock.end;
            if own && touches || meets && lock.excludes(wanted) {
                return None;
            }
            place += usize::from(lock.start <= wanted.start);
        }
        if run.locks.len() == run.locks.capacity() {
            return None;
        }
        let charge = pay()?;
        run.end = run.end.max(wanted.end);
        let held = Held {
            lock: *wanted,
            charge,
        };
        #[expect(clippy::disallowed_methods, reason = "there is room")]
        run.locks.insert(place, held);
        Some(())
    }

    /// As [`Ranges::clear`], of one whole lock, if there are few: its charge, or nothing where the owner has
    /// none. `None`: nothing has changed, and more is to be done.
    pub fn clear_now(&mut self, owner: LockOwner, start: u64, end: u64) -> Option<Option<Charge>> {
        let run = self.few()?;
        let mut found = None;
        for (place, held) in run.locks.iter().enumerate() {
            let lock = &held.lock;
            if lock.owner == owner && lock.start < end && start < lock.end {
                if found.is_some() || lock.start < start || end < lock.end {
                    return None;
                }
                found = Some(place);
            }
        }
        let Some(place) = found else {
            return Some(None);
        };
        let gone = run.locks.remove(place);
        if run.end == gone.lock.end {
            run.measure();
        }
        Some(Some(gone.charge))
    }

    /// The run of what begins at `start`.
    fn run_at(&self, start: u64) -> usize {
        let after = self.0.partition_point(|run| run.start <= start);
        after.saturating_sub(1)
    }

    /// Sees to it that [`Ranges::insert`] at `start` needs no memory.
    #[expect(
        clippy::disallowed_methods,
        reason = "room is made, which may be refused"
    )]
    fn make_room(&mut self, start: u64) -> Result<()> {
        let no_memory = |_| Errno::ENOLCK;
        try_reserve_kept(&mut self.0, 1).map_err(no_memory)?;
        if self.0.is_empty() {
            self.0.push(Run::default());
        }
        let mut at = self.run_at(start);
        if self.0[at].locks.len() + MARGIN > RUN {
            let mut upper = Run::default();
            try_reserve_kept(&mut upper.locks, RUN).map_err(no_memory)?;
            upper.locks.extend(self.0[at].locks.drain(RUN / 2..));
            upper.start = upper.locks.first().map_or(start, |held| held.lock.start);
            upper.measure();
            self.0[at].measure();
            self.0.insert(at + 1, upper);
            at = self.run_at(start);
        }
        try_reserve_kept(&mut self.0[at].locks, MARGIN).map_err(no_memory)
    }

    #[expect(clippy::disallowed_methods, reason = "`make_room` made it")]
    fn insert(&mut self, held: Held) {
        let at = self.run_at(held.lock.start);
        let run = &mut self.0[at];
        let place = run
            .locks
            .partition_point(|other| other.lock.start <= held.lock.start);
        run.end = run.end.max(held.lock.end);
        run.locks.insert(place, held);
    }

    /// Removes the locks of `owner` in `start..end`, and puts their charges into the empty places of
    /// `charges`.
    fn remove(&mut self, owner: LockOwner, start: u64, end: u64, charges: &mut [Option<Charge>]) {
        let mut empty = charges.iter_mut().filter(|charge| charge.is_none());
        for run in &mut self.0 {
            if run.start >= end || run.end <= start {
                continue;
            }
            let goes = |held: &mut Held| {
                let lock = &held.lock;
                lock.owner == owner && lock.start < end && start < lock.end
            };
            for held in run.locks.extract_if(.., goes) {
                if let Some(place) = empty.next() {
                    *place = Some(held.charge);
                }
            }
            run.measure();
        }
    }

    /// Empty runs go, and those that have become short become one, as far as there is memory.
    fn join_runs(&mut self) {
        self.0.retain(|run| !run.locks.is_empty());
        if let Some(first) = self.0.first_mut() {
            first.start = 0;
        }
        let mut at = 1;
        while at < self.0.len() {
            let more = self.0[at].locks.len();
            let run = &mut self.0[at - 1];
            if run.locks.len() + more <= RUN / 4 && try_reserve_kept(&mut run.locks, more).is_ok() {
                let mut next = self.0.remove(at);
                let run = &mut self.0[at - 1];
                #[expect(clippy::disallowed_methods, reason = "there is room")]
                run.locks.append(&mut next.locks);
                run.measure();
            } else {
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use account::User;
    use account::user::Resource as What;
    use alloc::vec;

    fn random(state: &mut u64) -> u64 {
        *state = state.wrapping_mul(6364136223846793005).wrapping_add(99);
        *state >> 33
    }

    /// The locks at each byte: a letter for each owner.
    #[test]
    fn many_ranges_are_as_the_same_locks_byte_by_byte() {
        random_locks(600, 70_100);
    }

    #[test]
    fn few_ranges_are_the_same_by_the_short_way() {
        random_locks(12, 70_102);
    }

    fn random_locks(size: usize, uid: u32) {
        let user = User::of(uid).unwrap();
        let mut ranges = Ranges::default();
        let mut model = vec![[None; 4]; size];
        let mut short = 0;
        let mut state = 7;
        for round in 0..20_000 {
            let start = random(&mut state) % (size as u64 - 1);
            // Mostly short, so that there are many.
            let most = if round % 50 == 0 { 300 } else { 4 };
            let end = (start + 1 + random(&mut state) % most).min(size as u64);
            let who = random(&mut state) as usize % 4;
            let exclusive = random(&mut state).is_multiple_of(3);
            let pay = || user.charge(What::Locks, 1, u64::MAX).ok_or(Errno::ENOLCK);
            let (owner, bytes) = (LockOwner::Table(who), start as usize..end as usize);
            if random(&mut state).is_multiple_of(3) {
                let held = match ranges.clear_now(owner, start, end) {
                    Some(gone) => {
                        short += 1;
                        gone.is_some()
                    }
                    None => ranges.clear(owner, start, end, pay).unwrap(),
                };
                assert_eq!(held, model[bytes.clone()].iter().any(|b| b[who].is_some()));
                model[bytes].iter_mut().for_each(|b| b[who] = None);
            } else {
                let wanted = FileLock {
                    start,
                    end,
                    exclusive,
                    owner,
                    pid: 1,
                };
                let meets = |b: &[Option<bool>; 4]| {
                    (0..4).any(|other| other != who && b[other].is_some_and(|e| e || exclusive))
                };
                let conflict = ranges.conflict(&wanted);
                assert_eq!(conflict.is_some(), model[bytes.clone()].iter().any(meets));
                let now = ranges.set_now(&wanted, || pay().ok()).is_some();
                assert!(!now || conflict.is_none());
                if conflict.is_none() {
                    match now {
                        true => short += 1,
                        false => ranges.set(&wanted, pay).unwrap(),
                    }
                    model[bytes]
                        .iter_mut()
                        .for_each(|b| b[who] = Some(exclusive));
                }
            }
            if round % 500 == 0 {
                same(&ranges, &model, user.holds(What::Locks));
            }
        }
        assert!(size > 100 || short > 2_000, "{short}");
        for who in 0..4 {
            let all = ranges.clear(LockOwner::Table(who), 0, u64::MAX, || Err(Errno::ENOLCK));
            assert!(all.is_ok());
        }
        assert!(ranges.is_empty() && user.holds(What::Locks) == 0);
    }

    fn same(ranges: &Ranges, model: &[[Option<bool>; 4]], charged: u64) {
        let mut seen = vec![[None; 4]; model.len()];
        let mut count = 0;
        for lock in ranges.within(0, u64::MAX) {
            let LockOwner::Table(who) = lock.owner else {
                panic!("an owner that nobody is");
            };
            count += 1;
            for byte in &mut seen[lock.start as usize..lock.end as usize] {
                assert_eq!(byte[who].replace(lock.exclusive), None, "twice");
            }
        }
        assert_eq!(seen, model);
        assert_eq!(count, charged);
        assert!(ranges.0.is_sorted_by_key(|run| run.start));
        for run in &ranges.0 {
            assert!(run.locks.len() <= RUN);
            assert!(run.locks.is_sorted_by_key(|held| held.lock.start));
        }
    }

    #[test]
    fn like_neighbours_become_one_and_who_may_have_no_more_keeps_what_he_has() {
        let user = User::of(70_101).unwrap();
        let mut ranges = Ranges::default();
        let lock = |start, end, exclusive| FileLock {
            start,
            end,
            exclusive,
            owner: LockOwner::Table(1),
            pid: 1,
        };
        let pay = || user.charge(What::Locks, 1, 2).ok_or(Errno::ENOLCK);
        for start in 0..1000 {
            ranges.set(&lock(start, start + 1, true), pay).unwrap();
        }
        assert_eq!(user.holds(What::Locks), 1);
        // One becomes three: one too many.
        let split = ranges.set(&lock(10, 20, false), pay);
        assert_eq!(split, Err(Errno::ENOLCK));
        assert_eq!(user.holds(What::Locks), 1);
        ranges.set(&lock(990, u64::MAX, false), pay).unwrap();
        let cut = ranges.clear(LockOwner::Table(1), 5, 6, pay);
        assert_eq!(cut, Err(Errno::ENOLCK));
        assert_eq!(ranges.clear(LockOwner::Table(1), 0, 980, pay), Ok(true));
        let left: Vec<_> = ranges
            .within(0, u64::MAX)
            .map(|l| (l.start, l.end))
            .collect();
        assert_eq!(left, [(980, 990), (990, u64::MAX)]);
    }
}
