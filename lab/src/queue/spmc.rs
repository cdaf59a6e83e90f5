//! The queue of one producer and many consumers.
//!
//! *Interface*: [`Queue::put`] from one producer; [`Queue::get`] from anywhere, handlers included. Values are
//! words: a consumer reads before it owns.
//!
//! Source: the third of the four kinds of Massalin and Pu 1989; the mirror image of figure 2, and `Get` of
//! the dissertation's figure 5.6. There the CAS2 also compares the element, since positions repeat; here they
//! do not, so one compare-and-swap on `tail` is enough: when it succeeds, the place had not been given back,
//! so the word read before is its own.
//!
//! Progress: `put` is wait-free, `get` lock-free. Memory order: `head`'s release is acquired before the word
//! is read; the release of `tail` keeps that read before the exchange, and the producer acquires it before it
//! writes the place again.

use core::marker::PhantomData;
use sync::primitive::atomic::{AtomicU64, AtomicUsize, Ordering};
use sync::word::Word;

#[repr(align(64))]
struct Line(AtomicUsize);

/// Up to `N` words on their way from one producer.
pub struct Queue<T: Word, const N: usize> {
    /// Next position to fill. Written by the producer only.
    head: Line,
    /// Next position to take.
    tail: Line,
    words: [AtomicU64; N],
    values: PhantomData<T>,
}

impl<T: Word, const N: usize> Queue<T, N> {
    /// An empty queue.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        const { assert!(N.is_power_of_two()) };
        Queue {
            head: Line(AtomicUsize::new(0)),
            tail: Line(AtomicUsize::new(0)),
            words: [const { AtomicU64::new(0) }; N],
            values: PhantomData,
        }
    }

    /// An empty queue.
    #[cfg(loom)]
    pub fn new() -> Self {
        Queue {
            head: Line(AtomicUsize::new(0)),
            tail: Line(AtomicUsize::new(0)),
            words: core::array::from_fn(|_| AtomicU64::new(0)),
            values: PhantomData,
        }
    }

    /// Put a value at the end.
    ///
    /// # Safety
    /// No other `put` of this queue runs at the same time.
    ///
    /// # Errors
    /// `value`, when there are `N` already.
    pub unsafe fn put(&self, value: T) -> Result<(), T> {
        let head = self.head.0.load(Ordering::Relaxed);
        if head.wrapping_sub(self.tail.0.load(Ordering::Acquire)) == N {
            return Err(value);
        }
        self.words[head % N].store(value.into_word(), Ordering::Relaxed);
        self.head.0.store(head.wrapping_add(1), Ordering::Release);
        Ok(())
    }

    /// Take the value at the front.
    pub fn get(&self) -> Option<T> {
        let mut tail = self.tail.0.load(Ordering::Acquire);
        loop {
            if tail == self.head.0.load(Ordering::Acquire) {
                return None;
            }
            let word = self.words[tail % N].load(Ordering::Relaxed);
            match self.tail.0.compare_exchange_weak(
                tail,
                tail.wrapping_add(1),
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                // SAFETY: position `tail` was filled by `put` and not taken before this exchange.
                Ok(_) => return Some(unsafe { T::from_word(word) }),
                Err(now) => tail = now,
            }
        }
    }

    /// Values at this instant, as far as one can tell.
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

impl<T: Word, const N: usize> Default for Queue<T, N> {
    fn default() -> Self {
        Self::new()
    }
}
