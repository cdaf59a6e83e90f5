//! The queue of many producers and one consumer, with atomic insertion of many items.
//!
//! *Interface*: [`Queue::put`] and [`Queue::put_all`] from anywhere, handlers included; [`Queue::get`] from
//! one consumer.
//!
//! Source: figure 2 of Massalin and Pu 1989. A producer stakes a claim to its space by one compare-and-swap
//! on `head`, then fills it at the same time as others fill theirs; a flag beside each place tells the
//! consumer that it is filled. In the figure a producer that stops between its claim and its flag stops the
//! queue: later claims are filled, but cannot be taken. Here the flag is a *turn* (a position and its state).
//! A consumer that finds a filled place behind an unfilled place *skips* the latter by one exchange. The
//! producer notices this when it sets its flag, gives the place back and claims a new one: it had not
//! finished, so its value may come later. Until then the place is out of use, and positions that fall on it
//! are skipped.
//!
//! Turns of a place, each with a position that only grows:
//!
//! | turn | meaning |
//! | --- | --- |
//! | `FREE(p)` | for position `p`; claimed when `head` is beyond `p` |
//! | `FILLED(p)`, `BATCH(p)` | one value, or the first of several whose number stands beside |
//! | `VOID(p)` | claimed and given up: the consumer continues |
//! | `SKIPPED(p)` | a slow producer still owns the place; no position up to `p` has a value in it |
//!
//! A producer moves `head` over a position only when it has claimed it, or has marked it as one without a
//! value; so a position behind `head` that is free is one that a producer is about to fill.
//!
//! Progress: `put` is lock-free (it begins again only when another's put or get has succeeded), `get` is
//! wait-free (one look at each place). A producer that stops for ever costs only the places it had claimed.
//! Memory order: a turn's release after the value was written is acquired before it is read, and its release
//! after the value was taken before the place is written again; a skipped producer learns this by the same
//! exchange.

use super::slots::Slots;
use sync::primitive::atomic::{AtomicU64, AtomicUsize, Ordering};

#[repr(align(64))]
struct Line(AtomicU64);

/// The consumer's private data.
#[repr(align(64))]
struct Consuming {
    /// Next position to take.
    tail: AtomicU64,
    /// How many of the positions from `tail` belong to a batch whose first was taken.
    batch: AtomicUsize,
}

const FREE: u64 = 0;
const FILLED: u64 = 1;
const BATCH: u64 = 2;
const VOID: u64 = 3;
const SKIPPED: u64 = 4;

/// Lower three bits: what; above: position.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Turn(u64);

const fn turn(what: u64, position: u64) -> u64 {
    position << 3 | what
}

impl Turn {
    fn what(self) -> u64 {
        self.0 & 7
    }

    fn position(self) -> u64 {
        self.0 >> 3
    }

    /// How far the turn is beyond `position`.
    fn beyond(self, position: u64) -> i64 {
        distance(self.position(), position)
    }
}

/// `a - b` of positions, which count modulo 2^61.
fn distance(a: u64, b: u64) -> i64 {
    (a.wrapping_sub(b) << 3) as i64 >> 3
}

fn after(position: u64, n: usize) -> u64 {
    position.wrapping_add(n as u64) & (u64::MAX >> 3)
}

/// Up to `N` values on their way to one consumer.
pub struct Queue<T, const N: usize> {
    /// Next position to claim.
    head: Line,
    consuming: Consuming,
    turns: [AtomicU64; N],
    /// How many values follow the first of a batch; written by its producer before the turn.
    lengths: [AtomicUsize; N],
    slots: Slots<T, N>,
}

// SAFETY: values move from a producer's thread to the consumer's; claims and turns keep them apart.
unsafe impl<T: Send, const N: usize> Sync for Queue<T, N> {}
// SAFETY: as above.
unsafe impl<T: Send, const N: usize> Send for Queue<T, N> {}

impl<T, const N: usize> Queue<T, N> {
    /// An empty queue.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        let mut turns = [const { AtomicU64::new(0) }; N];
        let mut n = 0;
        while n < N {
            turns[n] = AtomicU64::new(turn(FREE, n as u64));
            n += 1;
        }
        Queue {
            head: Line(AtomicU64::new(0)),
            consuming: Consuming {
                tail: AtomicU64::new(0),
                batch: AtomicUsize::new(0),
            },
            turns,
            lengths: [const { AtomicUsize::new(0) }; N],
            slots: Slots::new(),
        }
    }

    /// An empty queue.
    #[cfg(loom)]
    pub fn new() -> Self {
        Queue {
            head: Line(AtomicU64::new(0)),
            consuming: Consuming {
                tail: AtomicU64::new(0),
                batch: AtomicUsize::new(0),
            },
            turns: core::array::from_fn(|n| AtomicU64::new(turn(FREE, n as u64))),
            lengths: core::array::from_fn(|_| AtomicUsize::new(0)),
            slots: Slots::new(),
        }
    }

    fn at(&self, position: u64) -> &AtomicU64 {
        &self.turns[position as usize % N]
    }

    fn look(&self, position: u64) -> Turn {
        Turn(self.at(position).load(Ordering::Acquire))
    }

    /// Change a turn; the one that is there otherwise.
    fn replace(&self, position: u64, old: Turn, new: u64) -> Result<(), Turn> {
        match self
            .at(position)
            .compare_exchange(old.0, new, Ordering::AcqRel, Ordering::Acquire)
        {
            Ok(_) => Ok(()),
            Err(now) => Err(Turn(now)),
        }
    }

    /// Moves `head` on, unless another producer did.
    fn advance(&self, head: u64, n: usize) -> Result<(), u64> {
        self.head
            .0
            .compare_exchange(head, after(head, n), Ordering::AcqRel, Ordering::Acquire)
            .map(drop)
    }

    /// Claim `n` places next to each other; the first position.
    fn claim(&self, n: usize) -> Option<u64> {
        if n > N {
            return None;
        }
        let mut head = self.head.0.load(Ordering::Acquire);
        let mut passed = 0;
        loop {
            // The number of free places from `head` on, and the problem with the place behind them.
            let mut usable = 0;
            let obstacle = loop {
                if usable == n {
                    break None;
                }
                let position = after(head, usable);
                let seen = self.look(position);
                if seen != Turn(turn(FREE, position)) {
                    break Some((position, seen));
                }
                usable += 1;
            };
            let Some((position, seen)) = obstacle else {
                match self.advance(head, n) {
                    Ok(()) => return Some(head),
                    Err(now) => head = now,
                }
                continue;
            };
            let behind = seen.beyond(position) < 0;
            if behind && seen.what() != SKIPPED {
                // Still taken by the turn before: full, if `head` had not moved when we saw that.
                let now = self.head.0.load(Ordering::Acquire);
                if now == head {
                    return None;
                }
                head = now;
                continue;
            }
            if behind {
                // The place of a slow producer. This position gets no value.
                passed += 1;
                if passed > N {
                    return None;
                }
                if self
                    .replace(position, seen, turn(SKIPPED, position))
                    .is_err()
                {
                    continue;
                }
            }
            // Pass over it, and over those before it, which are too few: claimed and given up. (A `head` that
            // was old already does not move.)
            let first = head;
            match self.advance(first, usable + 1) {
                Ok(()) => {
                    (0..usable).for_each(|n| self.give_up(after(first, n)));
                    head = after(first, usable + 1);
                }
                Err(now) => head = now,
            }
        }
    }

    /// Give a claimed place back without a value.
    fn give_up(&self, position: u64) {
        let mut seen = self.look(position);
        loop {
            let new = match seen.what() {
                // The consumer has gone on, and left the place to us to give back.
                SKIPPED => turn(FREE, after(seen.position(), N)),
                _ => turn(VOID, position),
            };
            match self.replace(position, seen, new) {
                Ok(()) => return,
                Err(now) => seen = now,
            }
        }
    }

    /// Put `M` values, next to each other.
    fn put_batch<const M: usize>(&self, mut values: [T; M]) -> Result<(), [T; M]> {
        loop {
            let Some(first) = self.claim(M) else {
                return Err(values);
            };
            for (n, value) in values.into_iter().enumerate() {
                // SAFETY: `claim` gave the position to us alone, and its place was free.
                unsafe { self.slots.put(after(first, n) as usize, value) };
            }
            let new = if M == 1 {
                turn(FILLED, first)
            } else {
                self.lengths[first as usize % N].store(M - 1, Ordering::Relaxed);
                turn(BATCH, first)
            };
            let Err(_) = self.replace(first, Turn(turn(FREE, first)), new) else {
                return Ok(());
            };
            // Skipped: the places are still ours, and so are the values.
            values = core::array::from_fn(|n| {
                // SAFETY: filled above, and no turn says so.
                unsafe { self.slots.take(after(first, n) as usize) }
            });
            (0..M).for_each(|n| self.give_up(after(first, n)));
        }
    }

    /// Put a value at the end.
    ///
    /// # Errors
    /// `value`, when there are `N` already (counting places that others are just filling or leaving).
    pub fn put(&self, value: T) -> Result<(), T> {
        self.put_batch([value]).map_err(|[value]| value)
    }

    /// Put all values, next to each other, or none.
    ///
    /// # Errors
    /// The values, when there is no room for all.
    pub fn put_all<const M: usize>(&self, values: [T; M]) -> Result<(), [T; M]> {
        if M == 0 {
            return Ok(());
        }
        self.put_batch(values)
    }

    /// Take the value at the front.
    ///
    /// # Safety
    /// No other `get` of this queue runs at the same time.
    pub unsafe fn get(&self) -> Option<T> {
        let tail = self.consuming.tail.load(Ordering::Relaxed);
        let batch = self.consuming.batch.load(Ordering::Relaxed);
        if batch > 0 {
            self.consuming.batch.store(batch - 1, Ordering::Relaxed);
            // SAFETY: filled with the first of its batch; there is no other consumer.
            return Some(unsafe { self.take(tail) });
        }
        let first = self.look(tail);
        if first == Turn(turn(FILLED, tail)) {
            // SAFETY: as above.
            return Some(unsafe { self.take(tail) });
        }
        self.find(tail, first)
    }

    /// Take the value at `position`, and go on behind it.
    ///
    /// # Safety
    /// It is filled, and this is the consumer.
    unsafe fn take(&self, position: u64) -> T {
        // SAFETY: the caller's promise.
        let value = unsafe { self.slots.take(position as usize) };
        self.at(position)
            .store(turn(FREE, after(position, N)), Ordering::Release);
        self.consuming
            .tail
            .store(after(position, 1), Ordering::Relaxed);
        value
    }

    /// Take the first value there is; `first` is the turn at `tail`.
    #[cold]
    fn find(&self, tail: u64, first: Turn) -> Option<T> {
        let mut position = tail;
        let mut seen = first;
        // Positions before this one will never have a value.
        let mut passed = tail;
        loop {
            let beyond = seen.beyond(position);
            let unfilled = match (beyond, seen.what()) {
                (0, FILLED | BATCH) => break,
                (0, FREE) if distance(self.head.0.load(Ordering::Acquire), position) <= 0 => {
                    return self.nothing(passed);
                }
                (0, FREE) => true,
                (0, VOID) => {
                    if passed == position {
                        self.at(position)
                            .store(turn(FREE, after(position, N)), Ordering::Release);
                    }
                    false
                }
                // `head` has not come here, or has been all the way round.
                (..0, _) => return self.nothing(passed),
                _ => false,
            };
            if !unfilled && passed == position {
                passed = after(passed, 1);
            }
            position = after(position, 1);
            seen = self.look(position);
        }
        // The place at `position` is filled: unfilled places before it have lost their turn.
        while passed != position {
            let mut seen = self.look(passed);
            while seen == Turn(turn(FREE, passed)) {
                match self.replace(passed, seen, turn(SKIPPED, passed)) {
                    Ok(()) => break,
                    Err(now) => seen = now,
                }
            }
            if seen == Turn(turn(FILLED, passed)) || seen == Turn(turn(BATCH, passed)) {
                break;
            }
            if seen == Turn(turn(VOID, passed)) {
                self.at(passed)
                    .store(turn(FREE, after(passed, N)), Ordering::Release);
            }
            passed = after(passed, 1);
        }
        if self.look(passed).what() == BATCH {
            let length = self.lengths[passed as usize % N].load(Ordering::Relaxed);
            self.consuming.batch.store(length, Ordering::Relaxed);
        }
        // SAFETY: its turn says that it is filled, and only the consumer ends that.
        Some(unsafe { self.take(passed) })
    }

    fn nothing(&self, tail: u64) -> Option<T> {
        self.consuming.tail.store(tail, Ordering::Relaxed);
        None
    }

    /// The consumer's end. The queue is borrowed mutably only to make it, so there must be no other.
    ///
    /// # Safety
    /// While it lives, no other code calls [`get`](Queue::get).
    pub unsafe fn consumer(&self) -> Consumer<'_, T, N> {
        Consumer(self)
    }

    /// Values claimed and not yet taken at this instant.
    pub fn len(&self) -> usize {
        let tail = self.consuming.tail.load(Ordering::Acquire);
        let head = self.head.0.load(Ordering::Acquire);
        distance(head, tail).clamp(0, N as i64) as usize
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
