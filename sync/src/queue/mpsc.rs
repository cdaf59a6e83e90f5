//! The queue of many producers and one consumer, with atomic insertion of many items.
//!
//! *Interface*: [`Queue::put`] and [`Queue::put_all`] from anywhere, handlers included; [`Queue::get`] from one consumer.
//!
//! Source: figure 2 of Massalin and Pu 1989. A producer stakes a claim to its space by one compare-and-swap on `head`, then fills it at the same time as others
//! fill theirs; a flag beside each place tells the consumer that it is filled, and the consumer clears it.
//!
//! Progress: lock-free for producers among themselves, wait-free for the consumer. Values come out in the order of the claims, so a producer that is
//! interrupted between its claim and its flag delays what was claimed after it: the consumer then sees "empty", it does not wait, and whoever wakes
//! the consumer does so after the flag. Memory order: the flag's release is acquired before the value is read; `tail`'s release, before the place is filled again. `head` is
//! acquired too: a tail that is older than the head would pass for a head that is older than the tail.

use super::slots::Slots;
use crate::primitive::atomic::{AtomicBool, AtomicUsize, Ordering};

#[repr(align(64))]
struct Line(AtomicUsize);

/// Up to `N` values on their way to one consumer.
pub struct Queue<T, const N: usize> {
    /// Next position to claim.
    head: Line,
    /// Next position to take. Written by the consumer only.
    tail: Line,
    filled: [AtomicBool; N],
    slots: Slots<T, N>,
}

// SAFETY: values move from a producer's thread to the consumer's; claims and flags keep them apart.
unsafe impl<T: Send, const N: usize> Sync for Queue<T, N> {}
// SAFETY: as above.
unsafe impl<T: Send, const N: usize> Send for Queue<T, N> {}

impl<T, const N: usize> Queue<T, N> {
    /// An empty queue.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Queue {
            head: Line(AtomicUsize::new(0)),
            tail: Line(AtomicUsize::new(0)),
            filled: [const { AtomicBool::new(false) }; N],
            slots: Slots::new(),
        }
    }

    /// An empty queue.
    #[cfg(loom)]
    pub fn new() -> Self {
        Queue {
            head: Line(AtomicUsize::new(0)),
            tail: Line(AtomicUsize::new(0)),
            filled: core::array::from_fn(|_| AtomicBool::new(false)),
            slots: Slots::new(),
        }
    }

    /// Claim `n` places; the first position.
    fn claim(&self, n: usize) -> Option<usize> {
        let mut head = self.head.0.load(Ordering::Acquire);
        loop {
            let tail = self.tail.0.load(Ordering::Acquire);
            // Whoever claimed up to `head` had seen the tail within `N` of it, and so do we: more than `N`
            // means that `head` is older than `tail`, and the exchange will say so.
            let used = head.wrapping_sub(tail);
            if used <= N && n > N - used {
                let now = self.head.0.load(Ordering::Acquire);
                if now == head {
                    return None;
                }
                head = now;
                continue;
            }
            match self.head.0.compare_exchange_weak(
                head,
                head.wrapping_add(n),
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => return Some(head),
                Err(now) => head = now,
            }
        }
    }

    fn fill(&self, position: usize, value: T) {
        // SAFETY: `claim` gave the position to us alone, and the consumer had left its place.
        unsafe { self.slots.put(position, value) };
        self.filled[position % N].store(true, Ordering::Release);
    }

    /// Put a value at the end.
    ///
    /// # Errors
    /// `value`, when there are `N` already.
    pub fn put(&self, value: T) -> Result<(), T> {
        match self.claim(1) {
            Some(position) => {
                self.fill(position, value);
                Ok(())
            }
            None => Err(value),
        }
    }

    /// Put all values, next to each other, or none. False when there is no room for all.
    pub fn put_all<const M: usize>(&self, values: [T; M]) -> Result<(), [T; M]> {
        match self.claim(M) {
            Some(position) => {
                for (n, value) in values.into_iter().enumerate() {
                    self.fill(position.wrapping_add(n), value);
                }
                Ok(())
            }
            None => Err(values),
        }
    }

    /// Take the value at the front.
    ///
    /// # Safety
    /// No other `get` of this queue runs at the same time.
    pub unsafe fn get(&self) -> Option<T> {
        let tail = self.tail.0.load(Ordering::Relaxed);
        let filled = &self.filled[tail % N];
        if !filled.load(Ordering::Acquire) {
            return None;
        }
        // SAFETY: filled by the producer that claimed it; there is no other consumer.
        let value = unsafe { self.slots.take(tail) };
        filled.store(false, Ordering::Relaxed);
        self.tail.0.store(tail.wrapping_add(1), Ordering::Release);
        Some(value)
    }

    /// The consumer's end. The queue is borrowed mutably only to make it, so there must be no other.
    ///
    /// # Safety
    /// While it lives, nobody else calls [`get`](Queue::get).
    pub unsafe fn consumer(&self) -> Consumer<'_, T, N> {
        Consumer(self)
    }

    /// Values claimed and not yet taken at this instant.
    pub fn len(&self) -> usize {
        let tail = self.tail.0.load(Ordering::Acquire);
        self.head
            .0
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

/// The end that gets.
pub struct Consumer<'a, T, const N: usize>(&'a Queue<T, N>);

impl<T, const N: usize> Consumer<'_, T, N> {
    /// Take the value at the front.
    pub fn get(&mut self) -> Option<T> {
        // SAFETY: this is the only consumer, borrowed mutably.
        unsafe { self.0.get() }
    }
}
