//! How many frames are free, of those that all CPUs share.
//!
//! *Interface*: [`FreeCount::give`] counts frames and then gives them, [`FreeCount::taken`] counts those that
//! were taken; [`FreeCount::now`].
//!
//! A frame is counted before anybody can take it, and until it has been taken. So the count is never below
//! the number of free frames, and never below zero. With the other order a taker that comes between a frame
//! and its count would make it the largest of all numbers.
//!
//! Progress: wait-free. Memory order: a frame is given by a release and taken by an acquire (`bitmap`,
//! `zero_pool`), so that the addition comes before the subtraction. Model: `tests/models.rs`.

use crate::primitive::atomic::{AtomicUsize, Ordering};

/// A number of frames.
pub(crate) struct FreeCount(pub(crate) AtomicUsize);

impl FreeCount {
    /// How many there are, and those that are about to be given or were just taken.
    #[inline]
    pub(crate) fn now(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Counts `count` more, which `give` gives.
    #[inline]
    pub(crate) fn give(&self, count: usize, give: impl FnOnce()) {
        self.0.fetch_add(count, Ordering::Relaxed);
        give();
    }

    /// The caller has taken `count`.
    #[inline]
    pub(crate) fn taken(&self, count: usize) {
        self.0.fetch_sub(count, Ordering::Relaxed);
    }
}
