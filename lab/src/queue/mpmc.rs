//! The queue of many producers and many consumers.
//!
//! *Interface*: [`Queue::put`] and [`Queue::get`] from anywhere, handlers included. Values are words.
//!
//! Source: `Put` and `Get` of the dissertation's figure 5.6, which change a position and an element in one
//! CAS2 of two distant words. Here the word and its *round* are adjacent and change together; the position is
//! a hint, stored afterwards and never ahead. A party that finds it behind continues from there by the rounds
//! of the places. So there is nothing to wait for, and a late store of an old hint costs the next party a few
//! loads. In Vyukov's queue of the same shape all parties wait for one that stalls between claim and fill.
//!
//! A place's round is `p` while it is free for position `p`, `p + 1` while it holds the value of `p`, and
//! `p + N` (free for the next turn) after that one was taken. Rounds only grow, so an exchange that expects a
//! round cannot be misled, and a `get` need change nothing else: the old word stays, and no round refers to
//! it. And no party goes past `p` before the place's round has, so places are filled and emptied in order.
//!
//! Progress: lock-free; each retry means that another party's exchange has succeeded. Memory order: exchanges
//! of pairs are full barriers; the positions carry no data, only hints.

use core::marker::PhantomData;
use sync::cas2::AtomicPair;
use sync::primitive::atomic::{AtomicU64, Ordering};
use sync::word::Word;

#[repr(align(64))]
struct Line(AtomicU64);

/// Up to `N` words (at least 2) between any parties.
pub struct Queue<T: Word, const N: usize> {
    head: Line,
    tail: Line,
    /// Low: the word. High: the round.
    places: [AtomicPair; N],
    values: PhantomData<T>,
}

impl<T: Word, const N: usize> Queue<T, N> {
    /// An empty queue.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        const { assert!(N.is_power_of_two() && N > 1) };
        let mut places = [const { AtomicPair::new(0, 0) }; N];
        let mut n = 0;
        while n < N {
            places[n] = AtomicPair::new(0, n as u64);
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
            places: core::array::from_fn(|n| AtomicPair::new(0, n as u64)),
            values: PhantomData,
        }
    }

    fn place(&self, position: u64) -> &AtomicPair {
        &self.places[position as usize % N]
    }

    /// A later position than `position`, whose place has the round `round` and so is past it: the next one,
    /// or the position that the place's round shows (a hint may be very old).
    fn on(position: u64, round: u64) -> u64 {
        let (next, reached) = (position.wrapping_add(1), round.wrapping_sub(N as u64));
        if reached.wrapping_sub(next) as i64 > 0 {
            reached
        } else {
            next
        }
    }

    /// The first position from `line`'s hint on whose place's round is at most `limit` beyond it.
    fn find(&self, line: &Line, limit: i64) -> u64 {
        let mut position = line.0.load(Ordering::Acquire);
        loop {
            let round = self.place(position).read().1;
            if round.wrapping_sub(position) as i64 <= limit {
                return position;
            }
            position = Self::on(position, round);
        }
    }

    /// Put a value at the end.
    ///
    /// # Errors
    /// `value`, when there are `N` already.
    pub fn put(&self, value: T) -> Result<(), T> {
        let mut head = self.head.0.load(Ordering::Acquire);
        loop {
            let place = self.place(head);
            // Until the exchange only the round is relied upon.
            let old = place.guess();
            match old.1.wrapping_sub(head) as i64 {
                0 => {
                    let new = (value.into_word(), head.wrapping_add(1));
                    if place.compare_exchange(old, new).is_ok() {
                        self.head.0.store(head.wrapping_add(1), Ordering::Release);
                        return Ok(());
                    }
                }
                // Holds the value of the turn before: full, and was so when `old` was loaded.
                ..0 => return Err(value),
                // Filled: the position lags, or another party was faster.
                _ => head = Self::on(head, old.1),
            }
        }
    }

    /// Take the value at the front.
    pub fn get(&self) -> Option<T> {
        let mut tail = self.tail.0.load(Ordering::Acquire);
        loop {
            let place = self.place(tail);
            let old = place.read();
            match old.1.wrapping_sub(tail) as i64 {
                1 => {
                    let new = tail.wrapping_add(N as u64);
                    if place.compare_exchange_high(old.1, new).is_ok() {
                        self.tail.0.store(tail.wrapping_add(1), Ordering::Release);
                        // SAFETY: the round says that `put` filled the place, and the exchange says that it
                        // was not taken before, so the word is still the one that was read with the round.
                        return Some(unsafe { T::from_word(old.0) });
                    }
                }
                // Free for this very position: empty, and was so when `old` was loaded.
                ..1 => return None,
                _ => tail = Self::on(tail, old.1),
            }
        }
    }

    /// Values at this instant, as far as one can tell.
    pub fn len(&self) -> usize {
        let tail = self.find(&self.tail, 1);
        (self.find(&self.head, 0).wrapping_sub(tail) as usize).min(N)
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
