//! A replaceable counted value: what several processes may share and one may exchange.
//!
//! *Interface*: [`Shared::get`] takes a count on the present value, [`Shared::set`] puts another in place
//! and returns the old. Thread context only.

use alloc::sync::Arc;
use sync::monitor::Monitor;

/// One `Arc` behind a monitor held for a few instructions.
pub struct Shared<T: ?Sized>(Monitor<Arc<T>>);

impl<T: ?Sized> Shared<T> {
    /// Holds `value`.
    pub const fn new(value: Arc<T>) -> Self {
        Shared(Monitor::new(value))
    }

    /// The present value.
    pub fn get(&self) -> Arc<T> {
        self.0.lock().clone()
    }

    /// Calls `look` with the present value, without counting. It is held still meanwhile, so `look` must be short, and
    /// must not come back to this value.
    #[inline]
    pub fn with<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        look(&self.0.lock())
    }

    /// As [`Shared::with`], if nobody holds the value: never sleeps.
    #[inline]
    pub fn try_with<R>(&self, look: impl FnOnce(&T) -> R) -> Option<R> {
        Some(look(&*self.0.try_lock()?))
    }

    /// Exchanges the value; dropping the old one is left to the caller.
    pub fn set(&self, value: Arc<T>) -> Arc<T> {
        core::mem::replace(&mut *self.0.lock(), value)
    }
}
