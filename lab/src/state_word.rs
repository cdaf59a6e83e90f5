//! Sleep and wakeup on one state word: the ready flag and the conditions a thread waits for, side by side.
//!
//! *Interface*: the thread itself calls [`StateWord::sleep`]; any party calls [`StateWord::wakeup`] and makes
//! the thread ready if it returns true.
//!
//! Source: Hohmuth and Härtig 2001, figure 3. Because condition and ready flag are one word, a wake-up
//! between the check of the condition and the sleep makes the exchange fail: none is lost, and nothing is
//! locked.
//!
//! Progress: `wakeup` is wait-free, `sleep` lock-free except for the sleep itself. Memory order: writes
//! before `wakeup` are visible after the `sleep` that it ends.

use sync::primitive::atomic::{AtomicU32, Ordering};
use sync::primitive::constructor;

/// The thread is ready or running.
pub const RUNNING: u32 = 1 << 31;

/// A thread's state: [`RUNNING`], and 31 conditions.
pub struct StateWord(AtomicU32);

impl StateWord {
    constructor! {
        /// The word of a running thread without events.
        pub fn new() -> StateWord {
            StateWord(AtomicU32::new(RUNNING))
        }
    }

    /// Returns once one of the bits in `condition` was set, and clears them; gives those that were set.
    /// Meanwhile calls `schedule`, which runs other threads until this one is made ready (or returns at once,
    /// without harm). Only for the word's own thread.
    pub fn sleep(&self, condition: u32, mut schedule: impl FnMut()) -> u32 {
        let mut old = self.0.load(Ordering::Acquire);
        while old & condition == 0 {
            match self
                .0
                .compare_exchange(old, old & !RUNNING, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => {
                    schedule();
                    old = self.0.load(Ordering::Acquire);
                }
                Err(now) => old = now,
            }
        }
        self.0.fetch_and(!condition, Ordering::AcqRel) & condition
    }

    /// Sets the bits of `condition`. True when the thread slept and the caller must make it ready: exactly
    /// one caller gets true.
    #[must_use]
    pub fn wakeup(&self, condition: u32) -> bool {
        self.0.fetch_or(RUNNING | condition, Ordering::AcqRel) & RUNNING == 0
    }
}

impl Default for StateWord {
    fn default() -> Self {
        Self::new()
    }
}
