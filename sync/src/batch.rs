//! Work that many leave and one at a time does: a bit for each piece, in one word.
//!
//! *Interface*: [`Batch::leave`] leaves a piece by its number, and does what is there unless somebody is at
//! it, who then does this piece too.
//!
//! Source: dissertation, section 5.1.4, the fourth of the five points (split the work and postpone the rest).
//! [`crate::WorkServer`] does the same for requests that are not numbered.
//!
//! Progress: wait-free for who finds another at it; who is at it goes on while others leave work. Who stops
//! in between keeps the others' work waiting, so call it with interrupts off.
//! Memory order: every change of the mark is an exchange. Who leaves a piece sets its bit before it tries for
//! the mark, who is at it takes the mark away before it looks at the bits: whichever exchange comes second
//! sees what stood before the first.

use crate::primitive::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::primitive::constructor;

impl Default for Batch {
    fn default() -> Self {
        Self::new()
    }
}

/// What was left, and whether somebody is at it.
pub struct Batch {
    left: AtomicU64,
    busy: AtomicBool,
}

impl Batch {
    constructor! {
        /// Nothing is left.
        pub fn new() -> Batch {
            Batch { left: AtomicU64::new(0), busy: AtomicBool::new(false) }
        }
    }

    /// Leaves piece `number`, below 64. Unless somebody is at it, `work` is called with a bit for each piece
    /// that was left; what it stores, whoever is at it next sees.
    pub fn leave(&self, number: u32, mut work: impl FnMut(u64)) {
        self.left.fetch_or(1 << (number % 64), Ordering::SeqCst);
        while self.left.load(Ordering::SeqCst) != 0 && !self.busy.swap(true, Ordering::SeqCst) {
            let pieces = self.left.swap(0, Ordering::SeqCst);
            if pieces != 0 {
                work(pieces);
            }
            // An exchange: who has just found somebody at it has written here before, so what that one left
            // is seen above.
            self.busy.swap(false, Ordering::SeqCst);
        }
    }
}
