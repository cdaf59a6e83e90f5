//! Resident set size: how many pages of a space are present; a count for each CPU, so that no fault needs a
//! locked instruction for it.
//!
//! *Interface*: [`RssCounter::add`] by a thread that is pinned on that CPU, or holds the monitor
//! ([`UNDER_MONITOR`]); [`RssCounter::pages`]: their sum.

use core::sync::atomic::{AtomicU32, Ordering};
use machine::cpu::MAX_CPUS;

/// The count of the monitor's holder.
pub(super) const UNDER_MONITOR: usize = MAX_CPUS;

/// The counts; each alone means nothing, since a page may appear under one and go under another.
pub(super) struct RssCounter {
    counts: [AtomicU32; MAX_CPUS + 1],
    /// The most that they were together before pages went.
    most: AtomicU32,
}

impl RssCounter {
    pub(super) const fn new() -> Self {
        RssCounter {
            counts: [const { AtomicU32::new(0) }; MAX_CPUS + 1],
            most: AtomicU32::new(0),
        }
    }

    /// Adds `pages`, which may be negative. One party at a time for each `tally`.
    #[inline]
    pub(super) fn add(&self, tally: usize, pages: isize) {
        let count = &self.counts[tally];
        let sum = count.load(Ordering::Relaxed).wrapping_add(pages as u32);
        count.store(sum, Ordering::Relaxed);
    }

    /// Pages that are present; those that appear or go meanwhile may be counted or not.
    pub(super) fn pages(&self) -> usize {
        self.counts
            .iter()
            .fold(0, |sum: u32, count| {
                sum.wrapping_add(count.load(Ordering::Relaxed))
            })
            .cast_signed()
            .max(0) as usize
    }

    /// Pages are about to go.
    pub(super) fn note_most(&self) {
        self.most.fetch_max(self.pages() as u32, Ordering::Relaxed);
    }

    /// Earlier counts are dropped.
    pub(super) fn forget_most(&self) {
        self.most.store(0, Ordering::Relaxed);
    }

    /// The most pages that were present at a time: more come one by one, so it is enough to look before some
    /// go.
    pub(super) fn most(&self) -> usize {
        self.pages().max(self.most.load(Ordering::Relaxed) as usize)
    }
}
