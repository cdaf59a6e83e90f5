//! A thread's part of a CPU, as it is kept from one wake-up across CPUs to the next.
//!
//! *Interface*: [`SavedLoad`]; `balance::wake_affinity` decides by it.

use core::sync::atomic::{AtomicU64, Ordering};
use feedback::wake_affinity::{ThreadLoad, WORDS};

/// A thread's load. Its words may be those of two wakers, half and half, and then a decision comes later. A
/// new thread has the last one's of its entry, which is soon too old to count.
pub(crate) struct SavedLoad([AtomicU64; WORDS]);

impl SavedLoad {
    pub(crate) const fn new() -> SavedLoad {
        SavedLoad([const { AtomicU64::new(0) }; WORDS])
    }

    pub(crate) fn get(&self) -> ThreadLoad {
        ThreadLoad::of(core::array::from_fn(|i| self.0[i].load(Ordering::Relaxed)))
    }

    pub(crate) fn set(&self, load: ThreadLoad) {
        let words = self.0.iter().zip(load.words());
        words.for_each(|(to, word)| to.store(word, Ordering::Relaxed));
    }
}
