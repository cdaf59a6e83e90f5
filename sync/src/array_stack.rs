//! A stack in an array, without nodes to allocate.
//!
//! *Interface*: [`ArrayStack::push`] (gives the value back when full) and [`ArrayStack::pop`], from anywhere,
//! handlers included. Values are of at most 32 bits; [`ValueStack`](crate::ValueStack) stacks anything, by
//! number.
//!
//! Source: the dissertation's Push and Pop (figure 5.5) change the stack pointer and the cell that it comes
//! to point at in one CAS2 of two distant words. Without that instruction: after Shafiei, *Non-blocking
//! array-based algorithms for stacks and queues* (ICDCN 2009). The top of the stack is one word: its value,
//! its index, and the number of the push that put it there, so an undisturbed operation changes it by one
//! exchange of 8 bytes. The array holds the other values and lags behind by one, which the next push first
//! writes into its cell. A cell has the number of the push beside its value. A value that becomes the top
//! again, because the values above were taken, is already in its cell, and the top says so; then the value
//! beside the index has no meaning. So a `pop` changes only the index, and need not know the value that it
//! uncovers.
//!
//! Why a late writer does no harm: it reads the cell, then the top, and exchanges the cell only from the
//! contents that it read to that top's value and number. The next push above a top first ensures that the
//! cell holds both. So before anything is pushed above the value, the cell changes from the contents that a
//! late writer read, and never returns to them, since no number comes twice. And while its value is the top
//! and stored, the cell does not change at all.
//!
//! Why the number is wide enough: it has the bits that value and index leave of the word, at least 24, and 51
//! in the kernel's use (one byte, eight places). Pops need not count: between two pushes the index only
//! falls. A thread that is stopped between its load and its exchange is misled only if others meanwhile push
//! exactly a multiple of 2²⁴ times (a tenth of a second of nothing else) or 2⁵¹ times (months), and that push
//! puts the same value at the same index with another value below or in its cell. When the numbers wrap and
//! no thread was stopped, no thread is misled: a cell counts as written only if number *and* value equal
//! those of the top.
//!
//! Progress: lock-free; no thread waits for a lagging value, any thread can write it. Memory order: a cell is
//! written by a release after the top was read by an acquire, so a thread that acquires a cell's newer
//! content sees the newer top too, and does not change the cell; each exchange of the top releases the cells
//! below to the next thread. All are full barriers on this machine.

use crate::primitive::atomic::{AtomicU64, Ordering};
use crate::word::Small;
use core::marker::PhantomData;

/// A stack of up to `N` small values. Narrow ones and few of them leave more bits to the number of pushes.
pub struct ArrayStack<T: Small, const N: usize> {
    /// From below: the value unless it is in its cell, its index counted from 1, [`STORED`](Self::STORED),
    /// the number of the push.
    top: AtomicU64,
    /// As `top`, without index and `STORED`.
    cells: [AtomicU64; N],
    values: PhantomData<T>,
}

/// Least bits for the number of pushes.
const NUMBER_BITS: u32 = 24;

impl<T: Small, const N: usize> ArrayStack<T, N> {
    const VALUE: u64 = (1 << T::BITS) - 1;
    /// One more place.
    const PLACE: u64 = 1 << T::BITS;
    /// The top value is in its cell, or there is none.
    const STORED: u64 = {
        let above = T::BITS + usize::BITS - N.leading_zeros();
        assert!(N > 0 && above + 1 + NUMBER_BITS <= u64::BITS);
        1 << above
    };
    /// One more push. The number has the highest bits, so it wraps.
    const PUSH: u64 = Self::STORED << 1;
    /// A cell's copy of its top.
    const IN_CELL: u64 = Self::VALUE | !(Self::PUSH - 1);

    /// An empty stack.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        ArrayStack {
            top: AtomicU64::new(Self::STORED),
            cells: [const { AtomicU64::new(0) }; N],
            values: PhantomData,
        }
    }

    /// An empty stack.
    #[cfg(loom)]
    pub fn new() -> Self {
        ArrayStack {
            top: AtomicU64::new(Self::STORED),
            cells: core::array::from_fn(|_| AtomicU64::new(0)),
            values: PhantomData,
        }
    }

    /// How many values there are when this is the top, which is the number of the top's cell, counted from 1.
    fn index(top: u64) -> usize {
        ((top & (Self::STORED - 1)) >> T::BITS) as usize
    }

    /// The cell of the top value.
    fn cell(&self, top: u64) -> &AtomicU64 {
        &self.cells[Self::index(top) - 1]
    }

    /// Writes the top value into its cell unless that is done; false when the top has changed.
    fn store(&self, top: u64) -> bool {
        let cell = self.cell(top);
        let content = top & Self::IN_CELL;
        loop {
            let old = cell.load(Ordering::Acquire);
            if old == content {
                return true;
            }
            // Otherwise `old` may be younger than the value.
            if self.top.load(Ordering::Acquire) != top {
                return false;
            }
            if cell
                .compare_exchange(old, content, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
            {
                return true;
            }
        }
    }

    #[inline]
    fn replace(&self, old: u64, new: u64) -> Result<u64, u64> {
        self.top
            .compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire)
    }

    /// Put `value` on top.
    ///
    /// # Errors
    /// `value`, when there are `N` already.
    #[inline]
    pub fn push(&self, value: T) -> Result<(), T> {
        let mut top = self.top.load(Ordering::Acquire);
        loop {
            if Self::index(top) >= N {
                return Err(value);
            }
            if top & Self::STORED == 0 && !self.store(top) {
                top = self.top.load(Ordering::Acquire);
                continue;
            }
            // Its cell does not have it yet.
            let below = top & !(Self::VALUE | Self::STORED);
            let new = below.wrapping_add(Self::PUSH + Self::PLACE) | value.into_word();
            match self.replace(top, new) {
                Ok(_) => return Ok(()),
                Err(now) => top = now,
            }
        }
    }

    /// Take the top value.
    #[inline]
    pub fn pop(&self) -> Option<T> {
        let mut top = self.top.load(Ordering::Acquire);
        loop {
            if Self::index(top) == 0 {
                return None;
            }
            // A stored one does not change while it is the top.
            let holder = if top & Self::STORED == 0 {
                top
            } else {
                self.cell(top).load(Ordering::Acquire)
            };
            // The one below was stored when it was pushed upon.
            match self.replace(top, (top | Self::STORED) - Self::PLACE) {
                // SAFETY: it was the top value, so a `push` of this stack made the word.
                Ok(_) => return Some(unsafe { T::from_word(holder & Self::VALUE) }),
                Err(now) => top = now,
            }
        }
    }

    /// Values at this instant.
    pub fn len(&self) -> usize {
        Self::index(self.top.load(Ordering::Acquire))
    }

    /// Whether there was none at this instant.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T: Small, const N: usize> Default for ArrayStack<T, N> {
    fn default() -> Self {
        Self::new()
    }
}
