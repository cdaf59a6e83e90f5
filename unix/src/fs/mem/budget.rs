//! How much of the machine files in memory may take, all file systems of this kind together: half of it, as Linux's tmpfs.
//!
//! *Interface*: [`PAGES`] are pages of contents, [`NODES`] files and further names of them. [`Bound::take`] counts before memory is taken; what it gives is kept with
//! [`Taken::keep`] when there is something that will [`Bound::give`] it back. [`bind`] ends boot: until then nothing is refused, and what the root took counts for nothing afterwards.
//! A sixteenth is left to the superuser.

use abi::errno::{Errno, Result};
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::process::{Task, quota, user};

/// Pages of files.
pub static PAGES: Bound = Bound::new();
/// Files, and names beside each file's first.
pub static NODES: Bound = Bound::new();

/// A count with an upper bound.
pub struct Bound {
    used: AtomicUsize,
    most: AtomicUsize,
}

/// What was counted, until it is kept or dropped.
#[must_use]
pub struct Taken(&'static Bound, usize);

impl Bound {
    const fn new() -> Bound {
        Bound {
            used: AtomicUsize::new(0),
            most: AtomicUsize::new(usize::MAX),
        }
    }

    /// Counts `count` more. ENOSPC.
    pub fn take(&'static self, count: usize) -> Result<Taken> {
        let most = self.most();
        let share = user::share(most as u64) as usize;
        if !self.add(count, share) {
            let boss = Task::here(|task| task.process.cred.get().fsuid == 0).unwrap_or(true);
            let bound = if boss { most } else { share };
            quota::insist(|| self.add(count, bound).then_some(())).ok_or(Errno::ENOSPC)?;
        }
        Ok(Taken(self, count))
    }

    fn add(&self, count: usize, bound: usize) -> bool {
        let more = |used: usize| used.checked_add(count).filter(|&then| then <= bound);
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        self.used.fetch_update(set, fetch, more).is_ok()
    }

    /// Counts one more, whatever the bound.
    pub fn force(&self) {
        self.used.fetch_add(1, Ordering::Relaxed);
    }

    /// Gives back what was kept.
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

impl Taken {
    /// It will be given back by [`Bound::give`].
    pub fn keep(self) {
        core::mem::forget(self);
    }
}

impl Drop for Taken {
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
