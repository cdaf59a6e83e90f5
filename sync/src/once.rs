//! A cell that is written once, for values that boot determines.
//!
//! *Interface*: [`Once::set`] (the first wins), [`Once::get`]. A reader that comes before the value is ready
//! gets `None`; no reader waits.
//!
//! Progress: wait-free. Memory order: the writer's release of the state is acquired before the value is read.
//! Source: the first point of section 5.1.4's plan, avoid synchronization: after boot these are constants.

use crate::primitive::atomic::{AtomicU8, Ordering};
use crate::primitive::{UnsafeCell, constructor};

const EMPTY: u8 = 0;
const WRITING: u8 = 1;
const READY: u8 = 2;

/// A value that is missing at first and then never changes.
pub struct Once<T> {
    state: AtomicU8,
    value: UnsafeCell<Option<T>>,
}

// SAFETY: the value is written by the one that moved the state from EMPTY, and shared only when READY.
unsafe impl<T: Send + Sync> Sync for Once<T> {}
// SAFETY: it owns its value.
unsafe impl<T: Send> Send for Once<T> {}

impl<T> Once<T> {
    constructor! {
        /// A cell without a value.
        pub fn new() -> Once<T> {
            Once { state: AtomicU8::new(EMPTY), value: UnsafeCell::new(None) }
        }
    }

    /// Write the value.
    ///
    /// # Errors
    /// `value`, when another was there first or is being written.
    pub fn set(&self, value: T) -> Result<(), T> {
        if self
            .state
            .compare_exchange(EMPTY, WRITING, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            return Err(value);
        }
        // SAFETY: only one caller moves the state from EMPTY, and no reader reads before READY.
        self.value.with_mut(|at| unsafe { *at = Some(value) });
        self.state.store(READY, Ordering::Release);
        Ok(())
    }

    /// The value, if it was written.
    pub fn get(&self) -> Option<&T> {
        if self.state.load(Ordering::Acquire) != READY {
            return None;
        }
        // SAFETY: READY means written for ever.
        self.value.with(|at| unsafe { (*at).as_ref() })
    }
}

impl<T> Default for Once<T> {
    fn default() -> Self {
        Self::new()
    }
}
