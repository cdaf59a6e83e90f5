//! A stack in an array, without nodes to allocate.
//!
//! *Interface*: [`ArrayStack::push`] (gives the value back when full) and [`ArrayStack::pop`], from anywhere, handlers included.
//!
//! Source: the dissertation's Push and Pop (figure 5.5) change the stack pointer and the cell that it comes to point at in one CAS2 of two distant words. Without
//! that instruction: Shafiei, *Non-blocking array-based algorithms for stacks and queues* (ICDCN 2009). The top of the stack is one pair of adjacent
//! words: its value, and its index with a count. The array holds the rest and lags behind by one value, which whoever comes
//! next writes into its cell first; the cell's own count tells whether that was done already.
//!
//! Progress: lock-free; nobody waits for the one whose value lags, everybody can finish it. Memory order: all accesses are exchanges of
//! pairs, each a full barrier. Counts are 32 bits: an operation would have to sleep through 2³² changes *of one cell* to be fooled.

use crate::cas2::Pair;
use crate::word::Word;
use core::marker::PhantomData;

/// A stack of up to `N` words; `N` + 1 cells, of which the first only carries a count.
pub struct ArrayStack<T: Word, const N: usize> {
    /// Low: the top value. High: index of its cell in the upper half (0: empty), count in the lower.
    top: Pair,
    base: Pair,
    /// Low: a value. High: its count.
    cells: [Pair; N],
    values: PhantomData<T>,
}

const fn at(index: u64, count: u64) -> u64 {
    index << 32 | count & 0xffff_ffff
}

impl<T: Word, const N: usize> ArrayStack<T, N> {
    /// An empty stack.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        const { assert!(N > 0 && N < u32::MAX as usize) };
        ArrayStack {
            top: Pair::new(0, at(0, 1)),
            base: Pair::new(0, 0),
            cells: [const { Pair::new(0, 0) }; N],
            values: PhantomData,
        }
    }

    /// An empty stack.
    #[cfg(loom)]
    pub fn new() -> Self {
        ArrayStack {
            top: Pair::new(0, at(0, 1)),
            base: Pair::new(0, 0),
            cells: core::array::from_fn(|_| Pair::new(0, 0)),
            values: PhantomData,
        }
    }

    fn cell(&self, index: u64) -> &Pair {
        match index {
            0 => &self.base,
            n => &self.cells[n as usize - 1],
        }
    }

    /// Write the top value into its cell unless somebody did.
    fn finish(&self, (value, place): (u64, u64)) {
        let cell = self.cell(place >> 32);
        let old = cell.read();
        let count = place & 0xffff_ffff;
        if old.1 == count.wrapping_sub(1) & 0xffff_ffff {
            // Failing means somebody else did it.
            let _ = cell.compare_exchange(old, (value, count));
        }
    }

    /// Put `value` on top.
    ///
    /// # Errors
    /// `value`, when there are `N` already.
    pub fn push(&self, value: T) -> Result<(), T> {
        loop {
            let top = self.top.read();
            self.finish(top);
            let index = (top.1 >> 32) + 1;
            if index as usize > N {
                return Err(value);
            }
            let above = self.cell(index).read().1;
            let new = (value.into_word(), at(index, above.wrapping_add(1)));
            if self.top.compare_exchange(top, new).is_ok() {
                return Ok(());
            }
        }
    }

    /// Take the top value.
    pub fn pop(&self) -> Option<T> {
        loop {
            let top = self.top.read();
            self.finish(top);
            let index = top.1 >> 32;
            if index == 0 {
                return None;
            }
            let below = self.cell(index - 1).read();
            let new = (below.0, at(index - 1, below.1.wrapping_add(1)));
            if self.top.compare_exchange(top, new).is_ok() {
                // SAFETY: index is not 0, so a `push` of this stack made the word.
                return Some(unsafe { T::from_word(top.0) });
            }
        }
    }

    /// Values at this instant.
    pub fn len(&self) -> usize {
        (self.top.read().1 >> 32) as usize
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
