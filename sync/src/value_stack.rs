//! A stack of values of any type, bounded, without nodes to allocate.
//!
//! *Interface*: [`ValueStack::push`] (gives the value back when full) and [`ValueStack::pop`], from anywhere,
//! handlers included.
//!
//! Source: the dissertation's stack in an array (figure 5.5), as [`ArrayStack`] has it for values that fit
//! into one word beside their index. Here the stack has place numbers: a push takes a free place by one
//! exchange, fills it, and pushes its number; a pop of a number owns the place, empties it, and frees it by a
//! store. So a push and a pop are three exchanges of 8 bytes or less.
//!
//! Progress: lock-free; the search for a place ends after `N`. A thread that stops between taking a place and
//! pushing its number keeps that place until it continues; then `push` may report a full stack while it holds
//! fewer than `N`. Memory order: the number's exchanges release the value to the pop that takes it; freeing
//! releases the empty place to the next push that takes it.

use crate::ArrayStack;
use crate::primitive::UnsafeCell;
use crate::primitive::atomic::{AtomicBool, Ordering};
use core::mem::MaybeUninit;

/// A stack of up to `N` values, at most 256.
pub struct ValueStack<T, const N: usize> {
    /// The numbers of filled places.
    numbers: ArrayStack<u8, N>,
    places: [Place<T>; N],
}

struct Place<T> {
    taken: AtomicBool,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: a value is touched only by the party that took its place, or that popped its number.
unsafe impl<T: Send, const N: usize> Sync for ValueStack<T, N> {}

impl<T> Place<T> {
    crate::primitive::constructor! {
        fn new() -> Place<T> {
            Place { taken: AtomicBool::new(false), value: UnsafeCell::new(MaybeUninit::uninit()) }
        }
    }

    /// Makes the place the caller's, if it is free.
    fn take(&self) -> bool {
        !self.taken.load(Ordering::Relaxed) && !self.taken.swap(true, Ordering::Acquire)
    }
}

impl<T, const N: usize> ValueStack<T, N> {
    /// An empty stack.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        const { assert!(N <= 1 << u8::BITS) };
        ValueStack {
            numbers: ArrayStack::new(),
            places: [const { Place::new() }; N],
        }
    }

    /// An empty stack.
    #[cfg(loom)]
    pub fn new() -> Self {
        ValueStack {
            numbers: ArrayStack::new(),
            places: core::array::from_fn(|_| Place::new()),
        }
    }

    /// Put `value` on top.
    ///
    /// # Errors
    /// `value`, when every place is filled, or kept by an unfinished operation.
    #[inline]
    pub fn push(&self, value: T) -> Result<(), T> {
        let Some(number) = self.places.iter().position(Place::take) else {
            return Err(value);
        };
        self.places[number].value.with_mut(|at| {
            // SAFETY: the place is ours.
            unsafe { (*at).write(value) };
        });
        let stacked = self.numbers.push(number as u8);
        debug_assert!(stacked.is_ok(), "as many numbers as places");
        Ok(())
    }

    /// Take the top value.
    #[inline]
    pub fn pop(&self) -> Option<T> {
        let place = &self.places[usize::from(self.numbers.pop()?)];
        // SAFETY: filled before its number was stacked, and ours since we took that.
        let value = place.value.with(|at| unsafe { (*at).assume_init_read() });
        place.taken.store(false, Ordering::Release);
        Some(value)
    }

    /// Values at this instant.
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Whether there was none at this instant.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T, const N: usize> Default for ValueStack<T, N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T, const N: usize> Drop for ValueStack<T, N> {
    fn drop(&mut self) {
        while self.pop().is_some() {}
    }
}
