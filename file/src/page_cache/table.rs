//! The pages of one cached file: two arrays of addresses, and the fills in progress.
//!
//! *Interface*: [`PageArrays`], behind its monitor. The first array has the addresses of pages, the second
//! the addresses for writing routines (`quaject::fsmap::slot`).
//!
//! *Unsafe*: the arrays that routines read, published; garbage of a grace period.

use abi::errno::{Errno, Result};
use abi::layout::PAGE;
use alloc::boxed::Box;
use alloc::vec::Vec;
use codegen::fault_injection::refused;
use core::sync::atomic::{AtomicU64, Ordering};
use quaject::fsmap::FileCore;
use quaject::fsmap::slot::Slot;
use sync::epoch;
use vm::frame::{self, Frame, FrameRef};

use super::backing::UNIT;

/// The most pages that an array may have: the size of `abi::layout::NOWHERE`.
const MAX_PAGES: usize = 1 << 24;
const FIRST_CAPACITY: usize = 4;

/// Fills of one file that are under way at the same time.
const FILLS: usize = 4;
/// Pages that are read together from the beginning of a longer file.
const FIRST: u64 = 4;

/// The pages of a file, with the table's monitor held.
#[derive(Default)]
pub(super) struct PageArrays {
    /// The addresses of all pages, and behind them those for routines that write.
    words: Box<[AtomicU64]>,
    /// Pages that are there.
    pub resident: usize,
    /// Pages that are dirty.
    pub dirty: usize,
    /// Pages are being stored.
    pub storing: bool,
    /// Pages of fills that are under way: the first, and how many.
    fills: [Option<(u64, u64)>; FILLS],
    /// Counts the changes that invalidate a fill in progress.
    pub generation: u64,
    /// The page behind the last fill.
    next: u64,
    /// Where eviction continues.
    hand: u64,
}

/// Neighbouring pages: the first, and how many.
pub(super) type Run = (u64, usize);
/// Shares of the pages of a run.
pub(super) type Pages = [Option<FrameRef>; UNIT];

impl PageArrays {
    /// Pages that there is a place for.
    pub fn capacity(&self) -> usize {
        self.words.len() / 2
    }

    /// The words of page `index`, which has a place.
    fn slot(&self, index: u64) -> Option<Slot<'_>> {
        let (pages, for_writing) = self.words.split_at(self.capacity());
        let index = usize::try_from(index).ok()?;
        Some(Slot::new(pages.get(index)?, for_writing.get(index)?))
    }

    /// A share of page `index` if it is there.
    pub fn page(&self, index: u64) -> Option<FrameRef> {
        let address = self.slot(index)?.page();
        (address != 0).then(|| FrameRef::share(Frame::from_routines(address)))
    }

    /// Makes places for `pages` pages: larger arrays, published in `core` before the old ones are retired.
    /// EFBIG, ENOMEM.
    #[expect(
        clippy::disallowed_methods,
        reason = "room may be refused, and is exact"
    )]
    pub fn reach(&mut self, core: &FileCore, pages: u64) -> Result<()> {
        let needed = usize::try_from(pages).map_err(|_| Errno::EFBIG)?;
        let old_capacity = self.capacity();
        if needed <= old_capacity {
            return Ok(());
        }
        if needed > MAX_PAGES {
            return Err(Errno::EFBIG);
        }
        let capacity = (old_capacity * 2)
            .clamp(FIRST_CAPACITY, MAX_PAGES)
            .max(needed);
        let mut words: Vec<AtomicU64> = Vec::new();
        let bytes = 2 * capacity * size_of::<AtomicU64>();
        if refused() || !frame::admits(bytes.div_ceil(PAGE)) {
            return Err(Errno::ENOMEM);
        }
        if words.try_reserve_exact(2 * capacity).is_err() {
            return Err(Errno::ENOMEM);
        }
        for half in [&self.words[..old_capacity], &self.words[old_capacity..]] {
            let end = words.len() + capacity;
            words.extend(
                half.iter()
                    .map(|word| AtomicU64::new(word.load(Ordering::Relaxed))),
            );
            words.resize_with(end, || AtomicU64::new(0));
        }
        let words = words.into_boxed_slice();
        let first = words.as_ptr().cast_mut();
        // SAFETY: the halves hold what those of the old array held, and nothing; pages leave them by `take`,
        // and are retired.
        unsafe { core.replace_pages(first, first.wrapping_add(capacity), capacity) };
        let old = core::mem::replace(&mut self.words, words);
        if !old.is_empty() {
            retire(old);
        }
        Ok(())
    }

    /// Puts `page`, clean, at `index`, unless there is one: then that one is the result, as it is if there is
    /// no place.
    pub fn put(&mut self, index: u64, page: FrameRef) -> Option<FrameRef> {
        let slot = self.slot(index)?;
        let there = slot.page();
        if there != 0 {
            return Some(FrameRef::share(Frame::from_routines(there)));
        }
        slot.put(page.clone().into_frame().for_routines());
        self.resident += 1;
        Some(page)
    }

    /// Page `index`, if it is `page`, becomes dirty. None: it is another; else whether it was clean.
    pub fn mark(&mut self, index: u64, page: &FrameRef) -> Option<bool> {
        let slot = self.slot(index)?;
        if slot.page() != page.frame().for_routines() {
            return None;
        }
        let was_clean = slot.mark();
        self.dirty += usize::from(was_clean);
        Some(was_clean)
    }

    /// The next run of dirty pages from `from` on and before `to`, which are clean from now on. Their bytes
    /// are to be read a grace period later.
    pub fn clean(&mut self, from: u64, to: u64) -> Option<Run> {
        let to = to.min(self.capacity() as u64);
        let dirty = |index: &u64| self.slot(*index).is_some_and(Slot::is_dirty);
        let first = (from..to).find(dirty)?;
        let count = (first..to).take(UNIT).take_while(dirty).count();
        for index in first..first + count as u64 {
            self.slot(index).map(Slot::clean);
        }
        self.dirty -= count;
        Some((first, count))
    }

    /// Shares of the pages of `run`, up to the first that is not there.
    pub fn share(&self, (first, count): Run) -> Pages {
        core::array::from_fn(|at| {
            let inside = at < count;
            inside.then(|| self.page(first + at as u64)).flatten()
        })
    }

    /// Removes page `index` in any state: its address, to be freed after a grace period; 0 if there was none.
    pub fn take(&mut self, index: u64) -> u64 {
        let Some(slot) = self.slot(index) else {
            return 0;
        };
        let was_dirty = slot.clean();
        let address = slot.take();
        self.dirty -= usize::from(was_dirty);
        self.resident -= usize::from(address != 0);
        address
    }

    /// Removes page `index` if it is clean and has no other share and no fill in progress.
    pub fn evict(&mut self, index: u64) -> u64 {
        let spare = self.slot(index).is_some_and(|slot| {
            let address = slot.page();
            address != 0 && !slot.is_dirty() && frame::others(Frame::from_routines(address)) == 0
        });
        match spare && !self.is_filling(index) {
            true => self.take(index),
            false => 0,
        }
    }

    /// Eviction goes over `count` places, at most as many as there are: the first of them. They end where the
    /// arrays do.
    pub fn pass(&mut self, count: usize) -> u64 {
        let end = (self.capacity() as u64).saturating_sub(count as u64);
        let first = if self.hand > end { 0 } else { self.hand };
        self.hand = first + count as u64;
        first
    }

    /// Puts a share of each clean page that others have shares of into `pages`, which begin with page
    /// `first`. Whether there are any.
    pub fn mapped(&self, first: u64, pages: &mut [Option<FrameRef>]) -> bool {
        let mut any = false;
        for (index, place) in (first..).zip(pages) {
            let shown = self.slot(index).is_some_and(|slot| {
                let address = slot.page();
                address != 0 && !slot.is_dirty() && frame::others(Frame::from_routines(address)) > 0
            });
            if shown {
                *place = self.page(index);
                any = true;
            }
        }
        any
    }

    /// Whether page `index` is there and clean.
    pub fn is_clean(&self, index: u64) -> bool {
        self.slot(index)
            .is_some_and(|slot| slot.page() != 0 && !slot.is_dirty())
    }

    fn is_filling(&self, index: u64) -> bool {
        let covers = |fill: &(u64, u64)| index.checked_sub(fill.0).is_some_and(|at| at < fill.1);
        self.fills.iter().flatten().any(covers)
    }

    /// Begins a fill of page `index`, which is not there, and of those behind it: `wanted` of them, and more
    /// if they are read in turn. At most `unit`, and before page `end`.
    /// None: it is being filled already, or too many are.
    pub fn begin(&mut self, index: u64, wanted: u64, unit: u64, end: u64) -> Option<Run> {
        let place = self.fills.iter().position(Option::is_none)?;
        if self.is_filling(index) {
            return None;
        }
        let ahead = match index {
            0 if end > unit => FIRST,
            0 => unit,
            _ if index == self.next => unit,
            _ => 1,
        };
        let most = wanted
            .max(ahead)
            .min(unit)
            .min(end.saturating_sub(index))
            .max(1);
        let missing = |at: &u64| self.slot(*at).is_some_and(|slot| slot.page() == 0);
        let free = |at: &u64| missing(at) && !self.is_filling(*at);
        let count = (index..index + most).take_while(free).count().max(1);
        self.fills[place] = Some((index, count as u64));
        self.next = index + count as u64;
        Some((index, count))
    }

    /// The fill that began at page `first` has ended.
    pub fn end(&mut self, first: u64) {
        for fill in &mut self.fills {
            if fill.is_some_and(|fill| fill.0 == first) {
                *fill = None;
            }
        }
    }
}

impl Drop for PageArrays {
    fn drop(&mut self) {
        for index in 0..self.capacity() as u64 {
            let address = self.take(index);
            if address != 0 {
                frame::release(Frame::from_routines(address));
            }
        }
    }
}

/// Drops `garbage` after a grace period.
fn retire<T: 'static>(garbage: T) {
    epoch::retire(
        // SAFETY: the argument is the box made below, and the callback runs once.
        |raw| drop(unsafe { Box::from_raw(raw as *mut T) }),
        Box::into_raw(Box::new(garbage)) as usize,
    );
}
