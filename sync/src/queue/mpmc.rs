//! The queue of many producers and many consumers.
//!
//! *Interface*: [`Queue::put`] and [`Queue::get`] from anywhere, handlers included. Values are words.
//!
//! Source: `Put` and `Get` of the dissertation's figure 5.6, which change a position and an element in one CAS2 of two distant words. Here the word and its
//! *round* are adjacent and change together; the position follows, and whoever finds it behind moves it. That is the helping which
//! Vyukov's queue of the same shape lacks, where everyone waits for a party that stalls between claim and fill.
//!
//! A place's round is `p` while it is free for position `p`, `p + 1` while it holds the value of `p`, and `p + N` (free for the next turn) after that one was
//! taken. Rounds only grow, so an exchange that expects one cannot be fooled; and a position passes `p` only after the place's round has, so places are filled and emptied in order.
//!
//! Progress: lock-free; each retry means that another party's exchange or help succeeded. Memory order: exchanges of pairs are full barriers; the positions carry no data, only hints.

use crate::cas2::Pair;
use crate::primitive::atomic::{AtomicU64, Ordering};
use crate::word::Word;
use core::marker::PhantomData;

#[repr(align(64))]
struct Line(AtomicU64);

/// Up to `N` words (at least 2) between any parties.
pub struct Queue<T: Word, const N: usize> {
    head: Line,
    tail: Line,
    /// Low: the word. High: the round.
    places: [Pair; N],
    values: PhantomData<T>,
}

impl<T: Word, const N: usize> Queue<T, N> {
    /// An empty queue.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        const { assert!(N.is_power_of_two() && N > 1) };
        let mut places = [const { Pair::new(0, 0) }; N];
        let mut n = 0;
        while n < N {
            places[n] = Pair::new(0, n as u64);
            n += 1;
        }
        Queue {
            head: Line(AtomicU64::new(0)),
            tail: Line(AtomicU64::new(0)),
            places,
            values: PhantomData,
        }
    }

    /// An empty queue.
    #[cfg(loom)]
    pub fn new() -> Self {
        Queue {
            head: Line(AtomicU64::new(0)),
            tail: Line(AtomicU64::new(0)),
            places: core::array::from_fn(|n| Pair::new(0, n as u64)),
            values: PhantomData,
        }
    }

    fn place(&self, position: u64) -> &Pair {
        &self.places[position as usize % N]
    }

    /// Move a position on, unless somebody did.
    fn pass(line: &Line, position: u64) {
        let next = position.wrapping_add(1);
        let _ = line
            .0
            .compare_exchange(position, next, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Put a value at the end.
    ///
    /// # Errors
    /// `value`, when there are `N` already.
    pub fn put(&self, value: T) -> Result<(), T> {
        loop {
            let head = self.head.0.load(Ordering::Acquire);
            let place = self.place(head);
            let old = place.read();
            match old.1.wrapping_sub(head) as i64 {
                0 => {
                    let new = (value.into_word(), head.wrapping_add(1));
                    if place.compare_exchange(old, new).is_ok() {
                        Self::pass(&self.head, head);
                        return Ok(());
                    }
                }
                // Holds the value of the turn before: full, and was so when `old` was loaded.
                ..0 => return Err(value),
                // Filled, and the one who did has not moved the position yet; or `head` was old already.
                _ => Self::pass(&self.head, head),
            }
        }
    }

    /// Take the value at the front.
    pub fn get(&self) -> Option<T> {
        loop {
            let tail = self.tail.0.load(Ordering::Acquire);
            let place = self.place(tail);
            let old = place.read();
            match old.1.wrapping_sub(tail) as i64 {
                1 => {
                    let new = (0, tail.wrapping_add(N as u64));
                    if place.compare_exchange(old, new).is_ok() {
                        Self::pass(&self.tail, tail);
                        // SAFETY: the round says that `put` filled the place, and the exchange that nobody took it before.
                        return Some(unsafe { T::from_word(old.0) });
                    }
                }
                // Free for this very position: empty, and was so when `old` was loaded.
                ..1 => return None,
                _ => Self::pass(&self.tail, tail),
            }
        }
    }

    /// Values at this instant, as far as one can tell.
    pub fn len(&self) -> usize {
        let tail = self.tail.0.load(Ordering::Acquire);
        (self.head.0.load(Ordering::Acquire).wrapping_sub(tail) as usize).min(N)
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
