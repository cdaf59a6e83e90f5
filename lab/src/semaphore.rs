//! The binary semaphore.
//!
//! *Interface*: [`BinarySemaphore::down`] sleeps until it is up and takes it; [`BinarySemaphore::up`] raises
//! it, from anywhere, handlers included. As the condition of a monitor ([`crate::helping::Helping::wait`]) it
//! begins down.
//!
//! Source: Hohmuth and Härtig 2001, figure 1. There the sleeper enters the list before it counts down; here
//! too a waiter enrols, checks the word again and only then sleeps. The figure's count of waiters is the list
//! itself.
//!
//! Progress: `up` is lock-free, `try_down` wait-free; `down` sleeps. Memory order: `down` acquires what the
//! `up` released; each `up` is an exchange, so an `up` that finds it already up is also ordered before the
//! next `down`.

use sync::primitive::atomic::{AtomicU32, Ordering};
use sync::primitive::constructor;
use sync::wait::WaitList;

/// Up or down, and its waiters.
pub struct BinarySemaphore {
    up: AtomicU32,
    waiters: WaitList,
}

impl BinarySemaphore {
    constructor! {
        /// A semaphore that is up or down.
        pub fn new(up: bool) -> BinarySemaphore {
            BinarySemaphore { up: AtomicU32::new(up as u32), waiters: WaitList::new() }
        }
    }

    /// Takes it if it is up.
    pub fn try_down(&self) -> bool {
        self.up
            .compare_exchange(1, 0, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// Sleeps until it is up, and takes it.
    pub fn down(&self) {
        self.waiters
            .wait_until(|| (self.up.swap(0, Ordering::AcqRel) == 1).then_some(()));
    }

    /// Raises it and wakes a waiter. Raising twice is raising once.
    pub fn up(&self) {
        self.up.swap(1, Ordering::AcqRel);
        self.waiters.wake_one();
    }
}
