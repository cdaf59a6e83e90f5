//! The memory limits of tmpfs: half of memory for all tmpfs together, as on Linux, and the limits of each
//! mount.
//!
//! *Interface*: [`PAGES`] are pages of contents, [`NODES`] files and further names of them.
//! [`MemoryBound::take`] counts before memory is taken; its result is kept with [`BoundCharge::keep`] when an
//! object exists that will [`MemoryBound::give`] it back. [`bind`] ends boot: until then nothing is refused,
//! and the root's files do not count afterwards. A sixteenth is left to the superuser. The limits of one file
//! system (`size=`, `nr_inodes=`) are its [`FsLimits`].

use abi::errno::{Errno, Result};
use core::sync::atomic::{AtomicUsize, Ordering};

use account::caller;
use account::quota;
use account::user;

/// Pages of files.
pub static PAGES: MemoryBound = MemoryBound::new();
/// Files, and names beside each file's first.
pub static NODES: MemoryBound = MemoryBound::new();

/// A count with an upper bound.
pub struct MemoryBound {
    used: AtomicUsize,
    most: AtomicUsize,
}

/// A count, until it is kept or dropped.
#[must_use]
pub struct BoundCharge(&'static MemoryBound, usize);

impl MemoryBound {
    const fn new() -> MemoryBound {
        MemoryBound {
            used: AtomicUsize::new(0),
            most: AtomicUsize::new(usize::MAX),
        }
    }

    /// Counts `count` more. ENOSPC.
    pub fn take(&'static self, count: usize) -> Result<BoundCharge> {
        let most = self.most();
        let share = user::share(most as u64) as usize;
        if !self.add(count, share) {
            // The files of the root archive are unpacked before there is a process.
            let boss = caller::cred_or_kernel().fsuid == 0;
            let bound = if boss { most } else { share };
            quota::retry_after_reclaim(|| self.add(count, bound).then_some(()))
                .ok_or(Errno::ENOSPC)?;
        }
        Ok(BoundCharge(self, count))
    }

    fn add(&self, count: usize, bound: usize) -> bool {
        let more = |used: usize| used.checked_add(count).filter(|&then| then <= bound);
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        self.used.fetch_update(set, fetch, more).is_ok()
    }

    /// Counts one more, regardless of the bound.
    pub fn force(&self) {
        self.used.fetch_add(1, Ordering::Relaxed);
    }

    /// Gives back a kept count.
    pub fn give(&self, count: usize) {
        self.used.fetch_sub(count, Ordering::Relaxed);
    }

    /// The bound.
    pub fn most(&self) -> usize {
        self.most.load(Ordering::Relaxed)
    }

    /// How much is left of it.
    pub fn left(&self) -> usize {
        let used = self.used.load(Ordering::Relaxed);
        self.most().saturating_sub(used)
    }

    fn bind(&self, more: usize) {
        let used = self.used.load(Ordering::Relaxed);
        self.most
            .store(used.saturating_add(more), Ordering::Relaxed);
    }
}

/// The limits of one file system for pages and files.
#[derive(Default)]
pub struct FsLimits {
    /// Pages of its files.
    pub pages: FsLimit,
    /// Its files, and further names.
    pub nodes: FsLimit,
}

/// A count with a bound that may be none.
pub struct FsLimit {
    used: AtomicUsize,
    most: AtomicUsize,
}

/// A count in a file system and in total, until it is kept or dropped.
#[must_use]
pub struct FsCharge<'a> {
    part: &'a FsLimit,
    count: usize,
    taken: Option<BoundCharge>,
}

impl Default for FsLimit {
    fn default() -> FsLimit {
        FsLimit {
            used: AtomicUsize::new(0),
            most: AtomicUsize::new(usize::MAX),
        }
    }
}

impl FsLimit {
    /// Counts `count` more, here and in `all`. ENOSPC.
    pub fn take(&self, count: usize, all: &'static MemoryBound) -> Result<FsCharge<'_>> {
        let most = self.most.load(Ordering::Relaxed);
        let more = |used: usize| used.checked_add(count).filter(|&then| then <= most);
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        // Removed objects are given back a grace period later.
        let counted = quota::retry_after_reclaim(|| self.used.fetch_update(set, fetch, more).ok());
        counted.ok_or(Errno::ENOSPC)?;
        let mut paid = FsCharge {
            part: self,
            count,
            taken: None,
        };
        paid.taken = Some(all.take(count)?);
        Ok(paid)
    }

    /// Counts one more, regardless of the bounds.
    pub fn force(&self, all: &'static MemoryBound) {
        self.used.fetch_add(1, Ordering::Relaxed);
        all.force();
    }

    /// Gives back a kept count.
    pub fn give(&self, count: usize, all: &'static MemoryBound) {
        self.used.fetch_sub(count, Ordering::Relaxed);
        all.give(count);
    }

    /// Bounds it. EINVAL: there is more already.
    pub fn bound(&self, most: usize) -> Result<()> {
        if self.used.load(Ordering::Relaxed) > most {
            return Err(Errno::EINVAL);
        }
        self.most.store(most, Ordering::Relaxed);
        Ok(())
    }

    /// The bound, and the rest of it; the total's if it has none.
    pub fn room(&self, all: &'static MemoryBound) -> (usize, usize) {
        let used = self.used.load(Ordering::Relaxed);
        match self.most.load(Ordering::Relaxed) {
            usize::MAX => (all.most(), all.left()),
            most => (most, most.saturating_sub(used).min(all.left())),
        }
    }
}

impl FsCharge<'_> {
    /// It will be given back by [`FsLimit::give`].
    pub fn keep(mut self) {
        self.count = 0;
        if let Some(taken) = self.taken.take() {
            taken.keep();
        }
    }
}

impl Drop for FsCharge<'_> {
    fn drop(&mut self) {
        self.part.used.fetch_sub(self.count, Ordering::Relaxed);
    }
}

impl BoundCharge {
    /// It will be given back by [`MemoryBound::give`].
    pub fn keep(self) {
        core::mem::forget(self);
    }
}

impl Drop for BoundCharge {
    fn drop(&mut self) {
        self.0.give(self.1);
    }
}

/// From now on half of the memory that is there for programs binds.
pub fn bind() {
    let frames = vm::frame::stats();
    let half = frames.free / 2;
    PAGES.bind(half);
    NODES.bind(half);
    machine::log!("files in memory: at most {half} pages, {half} more files");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_purse_binds_beside_the_common_bound_and_gives_back_what_is_not_kept() {
        static ALL: MemoryBound = MemoryBound::new();
        let part = FsLimit::default();
        assert_eq!(part.bound(3), Ok(()));
        part.take(2, &ALL).unwrap().keep();
        drop(part.take(1, &ALL).unwrap());
        assert_eq!(part.take(2, &ALL).err(), Some(Errno::ENOSPC));
        assert_eq!(
            (part.room(&ALL), ALL.used.load(Ordering::Relaxed)),
            ((3, 1), 2)
        );
        assert_eq!(part.bound(1), Err(Errno::EINVAL));
        part.give(2, &ALL);
        assert_eq!(part.bound(1), Ok(()));
        assert_eq!(ALL.used.load(Ordering::Relaxed), 0);
    }
}
