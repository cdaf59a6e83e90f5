//! How many pages of a space are present: a count for each CPU, so that no fault needs a locked instruction for it.
//!
//! *Interface*: [`Resident::add`] by who is pinned on that CPU, or holds the monitor ([`UNDER_MONITOR`]); [`Resident::pages`]: their sum.

use core::sync::atomic::{AtomicU32, Ordering};
use machine::cpu::MAX_CPUS;

/// The count of who holds the space's monitor.
pub(super) const UNDER_MONITOR: usize = MAX_CPUS;

/// The counts; each alone means nothing, since a page may appear under one and go under another.
pub(super) struct Resident([AtomicU32; MAX_CPUS + 1]);

impl Resident {
    pub(super) const fn new() -> Self {
        Resident([const { AtomicU32::new(0) }; MAX_CPUS + 1])
    }

    /// Adds `pages`, which may be negative. One party at a time for each `tally`.
    #[inline]
    pub(super) fn add(&self, tally: usize, pages: isize) {
        let count = &self.0[tally];
        let sum = count.load(Ordering::Relaxed).wrapping_add(pages as u32);
        count.store(sum, Ordering::Relaxed);
    }

    /// Pages that are present; those that appear or go meanwhile may be counted or not.
    pub(super) fn pages(&self) -> usize {
        self.0
            .iter()
            .fold(0, |sum: u32, count| {
                sum.wrapping_add(count.load(Ordering::Relaxed))
            })
            .cast_signed()
            .max(0) as usize
    }
}
