//! The array behind the queues: `N` places, found by position.

use core::mem::MaybeUninit;
use sync::primitive::UnsafeCell;

/// `N` places for values that a queue says are there or not.
#[repr(transparent)]
pub(super) struct Slots<T, const N: usize>([UnsafeCell<MaybeUninit<T>>; N]);

impl<T, const N: usize> Slots<T, N> {
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        const { assert!(N.is_power_of_two()) };
        Slots([const { UnsafeCell::new(MaybeUninit::uninit()) }; N])
    }

    #[cfg(loom)]
    pub fn new() -> Self {
        Slots(core::array::from_fn(|_| {
            UnsafeCell::new(MaybeUninit::uninit())
        }))
    }

    /// Put a value at `position`.
    ///
    /// # Safety
    /// No other party accesses the place, and it holds no value.
    pub unsafe fn put(&self, position: usize, value: T) {
        // SAFETY: the caller's promise.
        self.0[position % N].with_mut(|at| unsafe { (*at).write(value) });
    }

    /// Take the value from `position`.
    ///
    /// # Safety
    /// No other party accesses the place, and it holds a value, which is moved out.
    pub unsafe fn take(&self, position: usize) -> T {
        // SAFETY: the caller's promise. A mutable access, so that loom sees taking as the end of the value.
        self.0[position % N].with_mut(|at| unsafe { (*at).assume_init_read() })
    }
}
