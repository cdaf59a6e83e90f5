//! Flat combining with one bit per work item, in one word: many submit, one executes.
//!
//! *Interface*: [`Combiner::leave`] leaves a piece by its number, and does all the work left there, unless
//! another thread is working, which then does this piece too.
//!
//! Source: dissertation, section 5.1.4, the fourth of the five points (split the work and postpone the rest).
//!
//! Progress: wait-free for a thread that finds another working; the working thread continues while others
//! leave work. A worker that is stopped delays the others' work, so call this with interrupts off. Memory
//! order: every change of the mark is an exchange. A thread sets the bit of its piece before it tries to set
//! the mark, and the worker clears the mark before it reads the bits: the second of the two exchanges sees
//! the stores before the first.

use crate::primitive::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::primitive::constructor;

impl Default for Combiner {
    fn default() -> Self {
        Self::new()
    }
}

/// The pieces left, and whether a thread is working.
pub struct Combiner {
    left: AtomicU64,
    busy: AtomicBool,
}

impl Combiner {
    constructor! {
        /// Nothing is left.
        pub fn new() -> Combiner {
            Combiner { left: AtomicU64::new(0), busy: AtomicBool::new(false) }
        }
    }

    /// Leaves piece `number`, below 64. Unless another thread is working, calls `work` with a bit for each
    /// piece that was left; the next worker sees its stores.
    pub fn leave(&self, number: u32, mut work: impl FnMut(u64)) {
        self.left.fetch_or(1 << (number % 64), Ordering::SeqCst);
        while self.left.load(Ordering::SeqCst) != 0 && !self.busy.swap(true, Ordering::SeqCst) {
            let pieces = self.left.swap(0, Ordering::SeqCst);
            if pieces != 0 {
                work(pieces);
            }
            // An exchange: a thread that has just found this one working has written here before, so its
            // piece is seen above.
            self.busy.swap(false, Ordering::SeqCst);
        }
    }
}
