//! The queue of one producer and one consumer.
//!
//! *Interface*: [`Queue::split`] gives the two ends, safely; [`Queue::put`] and [`Queue::get`] are for statics whose sides are known otherwise.
//!
//! Source: figure 1 of Massalin and Pu 1989; code isolation: `head` is written by the producer alone, `tail` by the consumer alone, and
//! each is written last. Each side remembers what it last saw of the other's position and looks again only when that is not enough.
//!
//! Progress: wait-free. Memory order: the producer's release of `head` is acquired by the consumer before it reads the value; the consumer's release of
//! `tail` is acquired by the producer before it writes the place again.

use super::slots::Slots;
use crate::primitive::atomic::{AtomicUsize, Ordering};
use crate::primitive::constructor;
use core::mem::offset_of;

/// One side's variables, on lines of their own (some processors fetch lines in pairs).
#[repr(C, align(128))]
struct Side {
    /// Written by this side only.
    mine: AtomicUsize,
    /// What this side last saw of the other's `mine`. Touched by this side only.
    theirs: AtomicUsize,
}

impl Side {
    constructor! {
        fn new() -> Side {
            Side { mine: AtomicUsize::new(0), theirs: AtomicUsize::new(0) }
        }
    }
}

/// Up to `N` values on their way from one thread (or handler) to another. Generated code finds its words by [`HEAD`](Queue::HEAD), [`TAIL`](Queue::TAIL) and [`PLACES`](Queue::PLACES).
#[repr(C)]
pub struct Queue<T, const N: usize> {
    producer: Side,
    consumer: Side,
    slots: Slots<T, N>,
}

// SAFETY: values move from the producer's thread to the consumer's; the positions keep them apart.
unsafe impl<T: Send, const N: usize> Sync for Queue<T, N> {}
// SAFETY: as above.
unsafe impl<T: Send, const N: usize> Send for Queue<T, N> {}

impl<T, const N: usize> Queue<T, N> {
    /// Offset of the next position to fill, a word that counts up for ever; the producer's.
    pub const HEAD: usize = offset_of!(Self, producer) + offset_of!(Side, mine);
    /// Offset of the next position to take; the consumer's. A producer in generated code looks here, at any age it likes.
    pub const TAIL: usize = offset_of!(Self, consumer) + offset_of!(Side, mine);
    /// Offset of the places; position `p` has the one with the number `p % N`.
    pub const PLACES: usize = offset_of!(Self, slots);

    constructor! {
        /// An empty queue.
        pub fn new() -> Self {
            Queue { producer: Side::new(), consumer: Side::new(), slots: Slots::new() }
        }
    }

    /// The two ends. The queue is borrowed mutably, so there are no others.
    pub fn split(&mut self) -> (Producer<'_, T, N>, Consumer<'_, T, N>) {
        (Producer(self), Consumer(self))
    }

    /// Put a value at the end.
    ///
    /// # Safety
    /// No other `put` of this queue runs at the same time.
    ///
    /// # Errors
    /// `value`, when there are `N` already.
    pub unsafe fn put(&self, value: T) -> Result<(), T> {
        let head = self.producer.mine.load(Ordering::Relaxed);
        if head.wrapping_sub(self.producer.theirs.load(Ordering::Relaxed)) == N {
            let tail = self.consumer.mine.load(Ordering::Acquire);
            self.producer.theirs.store(tail, Ordering::Relaxed);
            if head.wrapping_sub(tail) == N {
                return Err(value);
            }
        }
        // SAFETY: `head - tail < N`, so the consumer has left this place, and there is no other producer.
        unsafe { self.slots.put(head, value) };
        self.producer
            .mine
            .store(head.wrapping_add(1), Ordering::Release);
        Ok(())
    }

    /// Take the value at the front.
    ///
    /// # Safety
    /// No other `get` of this queue runs at the same time.
    pub unsafe fn get(&self) -> Option<T> {
        let tail = self.consumer.mine.load(Ordering::Relaxed);
        if tail == self.consumer.theirs.load(Ordering::Relaxed) {
            let head = self.producer.mine.load(Ordering::Acquire);
            self.consumer.theirs.store(head, Ordering::Relaxed);
            if tail == head {
                return None;
            }
        }
        // SAFETY: `tail != head`, so the producer has filled this place, and there is no other consumer.
        let value = unsafe { self.slots.take(tail) };
        self.consumer
            .mine
            .store(tail.wrapping_add(1), Ordering::Release);
        Some(value)
    }

    /// Values at this instant, as far as one can tell.
    pub fn len(&self) -> usize {
        let tail = self.consumer.mine.load(Ordering::Acquire);
        self.producer
            .mine
            .load(Ordering::Acquire)
            .wrapping_sub(tail)
            .min(N)
    }

    /// Whether there was none at this instant.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T, const N: usize> Default for Queue<T, N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T, const N: usize> Drop for Queue<T, N> {
    fn drop(&mut self) {
        // SAFETY: the queue is borrowed mutably.
        while unsafe { self.get() }.is_some() {}
    }
}

/// The end that puts.
pub struct Producer<'a, T, const N: usize>(&'a Queue<T, N>);

impl<T, const N: usize> Producer<'_, T, N> {
    /// Put a value at the end.
    ///
    /// # Errors
    /// `value`, when there are `N` already.
    pub fn put(&mut self, value: T) -> Result<(), T> {
        // SAFETY: this is the only producer, borrowed mutably.
        unsafe { self.0.put(value) }
    }
}

/// The end that gets.
pub struct Consumer<'a, T, const N: usize>(&'a Queue<T, N>);

impl<T, const N: usize> Consumer<'_, T, N> {
    /// Take the value at the front.
    pub fn get(&mut self) -> Option<T> {
        // SAFETY: this is the only consumer, borrowed mutably.
        unsafe { self.0.get() }
    }
}
