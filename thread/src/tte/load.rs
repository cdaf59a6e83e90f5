//! A thread's part of a CPU, as it is kept from one wake-up across CPUs to the next.
//!
//! *Interface*: [`Kept`]; `balance::pairs` decides by it.

use core::sync::atomic::{AtomicU64, Ordering};
use feedback::pair::{Load, WORDS};

/// A thread's load. Its words may be those of two wakers, half and half, and then a decision comes later. A
/// new thread has the last one's of its entry, which is soon too old to count.
pub(crate) struct Kept([AtomicU64; WORDS]);

impl Kept {
    pub(crate) const fn new() -> Kept {
        Kept([const { AtomicU64::new(0) }; WORDS])
    }

    pub(crate) fn get(&self) -> Load {
        Load::of(core::array::from_fn(|i| self.0[i].load(Ordering::Relaxed)))
    }

    pub(crate) fn set(&self, load: Load) {
        let words = self.0.iter().zip(load.words());
        words.for_each(|(to, word)| to.store(word, Ordering::Relaxed));
    }
}
