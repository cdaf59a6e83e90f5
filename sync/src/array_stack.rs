//! A stack in an array, without nodes to allocate.
//!
//! *Interface*: [`ArrayStack::push`] (gives the value back when full) and [`ArrayStack::pop`], from anywhere, handlers included.
//!
//! Source: the dissertation's Push and Pop (figure 5.5) change the stack pointer and the cell that it comes to point at in one CAS2 of two distant words. Without
//! that instruction: after Shafiei, *Non-blocking array-based algorithms for stacks and queues* (ICDCN 2009). The top of the stack is one pair of adjacent
//! words: its value, and its index with the number of changes so far. The array holds the rest and lags behind by one value, which whoever pushes
//! next writes into its cell first. A cell has beside its value the number of the change that put it on top. A value that comes to the top again because those above were taken is in
//! its cell already, and the top says so; then the pair's other word means nothing. So a `pop` changes nothing but the index, and needs not know the value that it uncovers.
//!
//! Why a late writer does no harm: it looks at the cell, then at the top, and exchanges the cell only from what it saw to the value of that top. The next one
//! who goes past a top whose value is not in its cell makes sure that it is: so a cell changes between any two values that a late writer could mix up, and
//! not at all while its value is the top one and was stored.
//!
//! Progress: lock-free; nobody waits for the one whose value lags, everybody can finish it. Memory order: all changes are exchanges of
//! pairs, each a full barrier. The number of changes has 39 bits: an operation would have to sleep through 2³⁹ changes to be fooled.

use crate::cas2::Pair;
use crate::word::Word;
use core::marker::PhantomData;

/// A stack of up to `N` words.
pub struct ArrayStack<T: Word, const N: usize> {
    /// Low: the top value, unless it is in its cell. High: [`Top`].
    top: Pair,
    /// Low: a value. High: number of the change that put it on top.
    cells: [Pair; N],
    values: PhantomData<T>,
}

/// How many values there are, which is the number of the top's cell, counted from 1.
const INDEX: u64 = STORED - 1;
/// The top value is in its cell, or there is none.
const STORED: u64 = 1 << 24;
/// One change more. Nothing is above, so that it counts round.
const CHANGE: u64 = 1 << 25;

/// From below: [`INDEX`], [`STORED`], the number of changes.
#[derive(Clone, Copy)]
struct Top(u64);

impl Top {
    fn index(self) -> usize {
        (self.0 & INDEX) as usize
    }

    fn changes(self) -> u64 {
        self.0 / CHANGE
    }

    fn is_stored(self) -> bool {
        self.0 & STORED != 0
    }

    /// The top after a value came, which is not in its cell yet.
    fn pushed(self) -> u64 {
        (self.0 & !STORED).wrapping_add(CHANGE) + 1
    }

    /// The top after a value went; the one below was stored when it was pushed upon.
    fn popped(self) -> u64 {
        (self.0 | STORED).wrapping_add(CHANGE) - 1
    }
}

impl<T: Word, const N: usize> ArrayStack<T, N> {
    /// An empty stack.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        const { assert!(N > 0 && (N as u64) < INDEX) };
        ArrayStack {
            top: Pair::new(0, STORED),
            cells: [const { Pair::new(0, 0) }; N],
            values: PhantomData,
        }
    }

    /// An empty stack.
    #[cfg(loom)]
    pub fn new() -> Self {
        ArrayStack {
            top: Pair::new(0, STORED),
            cells: core::array::from_fn(|_| Pair::new(0, 0)),
            values: PhantomData,
        }
    }

    /// The cell of the `index`-th value, counted from 1.
    fn cell(&self, index: usize) -> &Pair {
        &self.cells[index - 1]
    }

    /// Write the top value into its cell unless somebody did; false when the top has changed.
    fn store(&self, value: u64, top: Top) -> bool {
        let cell = self.cell(top.index());
        loop {
            let old = cell.read();
            if old.1 == top.changes() {
                return true;
            }
            // Otherwise `old` may be younger than the value.
            if self.top.read() != (value, top.0) {
                return false;
            }
            if cell.compare_exchange(old, (value, top.changes())).is_ok() {
                return true;
            }
        }
    }

    /// Put `value` on top.
    ///
    /// # Errors
    /// `value`, when there are `N` already.
    #[inline]
    pub fn push(&self, value: T) -> Result<(), T> {
        loop {
            // Until the exchange only the high word is relied upon.
            let old = self.top.guess();
            let top = Top(old.1);
            if top.index() >= N {
                return Err(value);
            }
            if !top.is_stored() && !self.store(old.0, top) {
                continue;
            }
            let new = (value.into_word(), top.pushed());
            if self.top.compare_exchange(old, new).is_ok() {
                return Ok(());
            }
        }
    }

    /// Take the top value.
    #[inline]
    pub fn pop(&self) -> Option<T> {
        loop {
            // Until the exchange only the high word is relied upon.
            let old = self.top.guess();
            let top = Top(old.1);
            if top.index() == 0 {
                return None;
            }
            // A stored one does not change while it is the top.
            let value = if top.is_stored() {
                self.cell(top.index()).low()
            } else {
                old.0
            };
            if self
                .top
                .compare_exchange(old, (old.0, top.popped()))
                .is_ok()
            {
                // SAFETY: it was the top value, so a `push` of this stack made the word.
                return Some(unsafe { T::from_word(value) });
            }
        }
    }

    /// Values at this instant.
    pub fn len(&self) -> usize {
        Top(self.top.read().1).index()
    }

    /// Whether there was none at this instant.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T: Word, const N: usize> Default for ArrayStack<T, N> {
    fn default() -> Self {
        Self::new()
    }
}
