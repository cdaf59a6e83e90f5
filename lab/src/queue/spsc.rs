//! The queue of one producer and one consumer.
//!
//! *Interface*: [`Queue::split`] gives the two ends, safely; [`Queue::put`] and [`Queue::get`] are for
//! statics whose two sides are known otherwise.
//!
//! Source: figure 1 of Massalin and Pu 1989, with a flag in each place as in its figure 2. Code isolation:
//! `head` belongs to the producer and `tail` to the consumer, and neither reads the other's, since each place
//! says itself whether it is filled (Giacomoni, Moseley and Vachharajani 2008). A value and its flag travel
//! between two processors' caches on one line, where a value and a position take two.
//!
//! Progress: wait-free. Memory order: the producer's release of a flag is acquired by the consumer before it
//! reads the value; the consumer's release of it is acquired by the producer before it writes the place
//! again.

use core::mem::MaybeUninit;
use sync::primitive::UnsafeCell;
use sync::primitive::atomic::{AtomicBool, AtomicUsize, Ordering};
use sync::primitive::constructor;

/// One side's position, on lines of its own (some processors fetch lines in pairs). It counts up for ever,
/// written by that side only.
#[repr(align(128))]
struct Side(AtomicUsize);

impl Side {
    constructor! {
        fn new() -> Side {
            Side(AtomicUsize::new(0))
        }
    }
}

/// A place, and whether it holds a value.
struct Place<T> {
    full: AtomicBool,
    value: UnsafeCell<MaybeUninit<T>>,
}

impl<T> Place<T> {
    constructor! {
        fn new() -> Place<T> {
            Place { full: AtomicBool::new(false), value: UnsafeCell::new(MaybeUninit::uninit()) }
        }
    }
}

/// The places, on cache lines of their own.
#[repr(align(128))]
struct Places<T, const N: usize>([Place<T>; N]);

/// Up to `N` values on their way from one thread (or handler) to another.
pub struct Queue<T, const N: usize> {
    producer: Side,
    consumer: Side,
    places: Places<T, N>,
}

// SAFETY: values move from the producer's thread to the consumer's; the flags keep them apart.
unsafe impl<T: Send, const N: usize> Sync for Queue<T, N> {}
// SAFETY: as above.
unsafe impl<T: Send, const N: usize> Send for Queue<T, N> {}

impl<T, const N: usize> Queue<T, N> {
    /// An empty queue.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        const { assert!(N.is_power_of_two()) };
        Queue {
            producer: Side::new(),
            consumer: Side::new(),
            places: Places([const { Place::new() }; N]),
        }
    }

    /// An empty queue.
    #[cfg(loom)]
    pub fn new() -> Self {
        Queue {
            producer: Side::new(),
            consumer: Side::new(),
            places: Places(core::array::from_fn(|_| Place::new())),
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
        let head = self.producer.0.load(Ordering::Relaxed);
        let place = &self.places.0[head % N];
        if place.full.load(Ordering::Acquire) {
            return Err(value);
        }
        // SAFETY: not full, so the consumer has left this place, and there is no other producer.
        place.value.with_mut(|at| unsafe { (*at).write(value) });
        place.full.store(true, Ordering::Release);
        self.producer
            .0
            .store(head.wrapping_add(1), Ordering::Relaxed);
        Ok(())
    }

    /// Take the value at the front.
    ///
    /// # Safety
    /// No other `get` of this queue runs at the same time.
    pub unsafe fn get(&self) -> Option<T> {
        let tail = self.consumer.0.load(Ordering::Relaxed);
        let place = &self.places.0[tail % N];
        if !place.full.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: full, so the producer has filled this place, and there is no other consumer.
        let value = place
            .value
            .with_mut(|at| unsafe { (*at).assume_init_read() });
        place.full.store(false, Ordering::Release);
        self.consumer
            .0
            .store(tail.wrapping_add(1), Ordering::Relaxed);
        Some(value)
    }

    /// Values at this instant, as far as one can tell.
    pub fn len(&self) -> usize {
        let tail = self.consumer.0.load(Ordering::Acquire);
        let head = self.producer.0.load(Ordering::Acquire);
        (head.wrapping_sub(tail) as isize).clamp(0, N as isize) as usize
    }

    /// Whether there was none to take at this instant.
    pub fn is_empty(&self) -> bool {
        let tail = self.consumer.0.load(Ordering::Acquire);
        !self.places.0[tail % N].full.load(Ordering::Acquire)
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
