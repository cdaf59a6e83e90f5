//! Tables of the kernel of which most entries are never used: a page of one has memory when an entry there is
//! first needed, and keeps it.
//!
//! *Interface*: [`SparseTable`], of words that are zero until then, and that anybody may read; `reserve`
//! (addresses) and `back` (populates a page) for a table whose owner reads nothing before; [`held`]. The
//! tables lie one behind the other in `abi::layout::SPARSE`, from a random start page on (KASLR).
//!
//! A page of a [`SparseTable`] that was not needed yet shows one page of zeros, which cannot be written and
//! is the same for all. Progress: lock-free, but [`SparseTable::back`] waits until all CPUs have forgotten
//! the page of zeros.

use core::marker::PhantomData;
use core::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use abi::errno::{Errno, Result};
use abi::layout::PAGE;

/// Words in a page.
const WORDS: usize = PAGE / size_of::<u64>();

/// Types of eight bytes of which zeros are a value, and that are changed through shared references.
///
/// # Safety
/// Just that.
pub unsafe trait Word: Sync {}
// SAFETY: zero is a number.
unsafe impl Word for AtomicU64 {}
// SAFETY: zero is the null pointer.
unsafe impl Word for AtomicPtr<()> {}

/// A table of `COUNT` words. Before [`SparseTable::install`] it has none.
pub struct SparseTable<T, const COUNT: usize> {
    start: AtomicPtr<()>,
    count: AtomicUsize,
    words: PhantomData<T>,
}

// SAFETY: nothing but atomics, which lead to words that all may use.
unsafe impl<T: Word, const COUNT: usize> Sync for SparseTable<T, COUNT> {}

impl<T: Word, const COUNT: usize> Default for SparseTable<T, COUNT> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Word, const COUNT: usize> SparseTable<T, COUNT> {
    const PAGES: usize = COUNT.div_ceil(WORDS);

    /// A table without words.
    pub const fn new() -> Self {
        const { assert!(size_of::<T>() == size_of::<u64>() && align_of::<T>() <= PAGE) };
        SparseTable {
            start: AtomicPtr::new(core::ptr::null_mut()),
            count: AtomicUsize::new(0),
            words: PhantomData,
        }
    }

    /// Gives the table its words, which are zero. Once, at boot. ENOMEM.
    pub fn install(&self) -> Result<()> {
        let start = place::zeros(Self::PAGES).ok_or(Errno::ENOMEM)?;
        self.start.store(start.cast(), Ordering::Relaxed);
        self.count.store(COUNT, Ordering::Release);
        Ok(())
    }

    /// The word with this number, to be read; to be written after [`Self::back`].
    #[inline]
    pub fn word(&self, number: usize) -> Option<&T> {
        if number >= self.count.load(Ordering::Acquire) {
            return None;
        }
        let start = self.start.load(Ordering::Relaxed).cast::<T>();
        // SAFETY: `install` has mapped so many words for ever, of zeros, which `Word` allows.
        Some(unsafe { &*start.add(number) })
    }

    /// From now on the word with this number can be written, and those up to the number that this answers.
    /// May sleep. ENOMEM.
    pub fn back(&self, number: usize) -> Result<usize> {
        let page = number / WORDS;
        let start = self.start.load(Ordering::Acquire).addr();
        let is_there = start != 0 && page < Self::PAGES;
        if !is_there || !crate::frame::admits(1) || !back(start + page * PAGE) {
            return Err(Errno::ENOMEM);
        }
        // The page of zeros may still be known somewhere, also where another has put this page.
        crate::tlb::forget_kernel();
        Ok((page + 1) * WORDS)
    }
}

#[cfg(target_os = "none")]
pub(crate) use place::reserve;

/// Puts a frame of zeros of its own behind the page at `address`, which `reserve` has given, unless it has
/// one. CPUs may remember a page of zeros there until `tlb::forget_kernel`. `false`: no memory.
pub(crate) fn back(address: usize) -> bool {
    place::back(address)
}

#[cfg(target_os = "none")]
mod place {
    use super::{AtomicUsize, Ordering, PAGE};
    use crate::frame::{self, Kernel, PhysMemory};
    use crate::kernel;
    use crate::stack;
    use crate::table::{KERNEL_DATA, PRESENT, WRITE, no_execute};
    use abi::layout::{SPARSE, SPARSE_LEN, page_ceil};

    /// The tables need at most so much together: the lot leaves it.
    const NEEDED: usize = 8 << 20;
    /// Bytes of the region that are given out, or lie before the first; 0 before there are any.
    static USED: AtomicUsize = AtomicUsize::new(0);

    /// Addresses for `bytes` bytes, from a page's first on. Nothing is there yet. `None`: no room.
    pub(crate) fn reserve(bytes: usize) -> Option<usize> {
        let bytes = page_ceil(bytes)?;
        if USED.load(Ordering::Relaxed) == 0 {
            let lot = match machine::paging::randomized() {
                true => machine::random::u64() as usize,
                false => 0,
            };
            let first = 1 + lot % ((SPARSE_LEN - NEEDED) / PAGE);
            // Another was faster, or this one.
            let _ = USED.compare_exchange(0, first * PAGE, Ordering::Relaxed, Ordering::Relaxed);
        }
        let took = USED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            used.checked_add(bytes).filter(|end| *end <= SPARSE_LEN)
        });
        Some(SPARSE + took.ok()?)
    }

    /// `pages` pages of zeros. `None`: no memory, or no room.
    pub(super) fn zeros(pages: usize) -> Option<*mut u8> {
        let entry = stack::zeros()? | PRESENT | no_execute();
        let start = reserve(pages * PAGE)?;
        let tables = kernel::tables();
        for page in 0..pages {
            let word = tables.leaf_or_make(start + page * PAGE)?;
            word.store(entry, Ordering::Release);
        }
        Some(core::ptr::with_exposed_provenance_mut(start))
    }

    pub(super) fn back(address: usize) -> bool {
        let tables = kernel::tables();
        let Some(word) = tables.leaf_or_make(address) else {
            return false;
        };
        let seen = word.load(Ordering::Acquire);
        if seen & WRITE != 0 {
            return true;
        }
        let Some(frame) = Kernel.zeroed() else {
            return false;
        };
        let entry = frame.address() | KERNEL_DATA | no_execute();
        if (word.compare_exchange(seen, entry, Ordering::AcqRel, Ordering::Acquire)).is_err() {
            // Somebody else has put one there.
            frame::release(frame);
        } else {
            super::HELD.fetch_add(PAGE, Ordering::Relaxed);
        }
        true
    }
}

/// Bytes of frames that the tables have.
pub fn held() -> usize {
    HELD.load(Ordering::Relaxed)
}

static HELD: AtomicUsize = AtomicUsize::new(0);

/// On the host all pages have memory.
#[cfg(not(target_os = "none"))]
mod place {
    use super::PAGE;
    use std::alloc::{Layout, alloc_zeroed};

    pub(super) fn zeros(pages: usize) -> Option<*mut u8> {
        let layout = Layout::from_size_align(pages * PAGE, PAGE).ok()?;
        // SAFETY: the layout is not empty: no table is.
        let start = unsafe { alloc_zeroed(layout) };
        (!start.is_null()).then_some(start)
    }

    pub(super) fn back(_address: usize) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_words_once_it_is_installed() {
        static TABLE: SparseTable<AtomicU64, 1000> = SparseTable::new();
        assert!(TABLE.word(0).is_none());
        assert_eq!(TABLE.back(0), Err(Errno::ENOMEM));
        TABLE.install().unwrap();
        for number in [0, 511, 512, 999] {
            let word = TABLE.word(number).unwrap();
            assert_eq!(word.load(Ordering::Relaxed), 0);
            assert_eq!(TABLE.back(number), Ok(number / 512 * 512 + 512));
            word.store(number as u64 + 1, Ordering::Relaxed);
        }
        assert_eq!(TABLE.back(1024), Err(Errno::ENOMEM));
        assert!(TABLE.word(1000).is_none() && TABLE.word(usize::MAX).is_none());
        assert_eq!(TABLE.word(512).unwrap().load(Ordering::Relaxed), 513);
    }
}
