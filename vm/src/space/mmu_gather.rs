//! Frames that were taken out of a table and may be freed once no CPU translates to them.
//!
//! *Interface*: [`MmuGather::clear`], [`MmuGather::page`], [`MmuGather::table`] while clearing;
//! [`MmuGather::finish`] at the end. In between, a full gather forgets and frees what it has.

use super::Machine;
use crate::frame::Frame;
use crate::table::{any_set, frame_of};
use abi::layout::PAGE;
use core::sync::atomic::{AtomicU64, Ordering};

/// Frames held back at once.
const ROOM: usize = 32;

/// Entries that are cleared at a time.
const FEW: usize = 8;

/// Marks a frame that is a table, all zero.
const TABLE: u32 = 1 << 31;

/// More pages than this are forgotten all at once.
pub(super) const MANY: usize = 8;

pub(super) struct MmuGather<M: Machine> {
    memory: M,
    root: u64,
    /// Frame numbers, [`TABLE`] added to those of tables; `None` before the first one.
    frames: Option<[u32; ROOM]>,
    len: usize,
    /// Range of addresses whose entries have changed since the last `forget`.
    low: usize,
    high: usize,
}

impl<M: Machine> MmuGather<M> {
    pub(super) fn new(memory: M, root: u64) -> Self {
        MmuGather {
            memory,
            root,
            frames: None,
            len: 0,
            low: usize::MAX,
            high: 0,
        }
    }

    /// The entry of `address` has changed from one that was present.
    #[inline]
    pub(super) fn changed(&mut self, address: usize) {
        self.low = self.low.min(address);
        self.high = self.high.max(address + PAGE);
    }

    /// Clears the entries `words`, the first of which is that of `base`, and takes a share of the frame of
    /// each that was set. Answers how many these were.
    pub(super) fn clear(&mut self, base: usize, words: &[AtomicU64]) -> isize {
        let (parts, rest) = words.as_chunks::<FEW>();
        let mut gone = 0usize;
        let mut address = base;
        for part in parts {
            // Most are empty.
            if any_set(part) {
                gone = gone.wrapping_add(self.clear_few(address, part));
            }
            address = address.wrapping_add(FEW * PAGE);
        }
        if rest.iter().any(|word| word.load(Ordering::Relaxed) != 0) {
            gone = gone.wrapping_add(self.clear_few(address, rest));
        }
        gone as isize
    }

    /// The same of at most [`FEW`].
    #[inline(always)]
    fn clear_few(&mut self, base: usize, words: &[AtomicU64]) -> usize {
        let Some(room) = self.room() else { return 0 };
        let (mut set, mut count) = (0u32, 0usize);
        for (index, word) in words.iter().enumerate() {
            let entry = word.load(Ordering::Relaxed);
            if entry != 0 {
                word.store(0, Ordering::Release);
                room[count % FEW] = frame_of(entry).0;
                count = count.wrapping_add(1);
                set |= 1 << index;
            }
        }
        if set != 0 {
            self.len += count;
            let after = |pages: u32| base.wrapping_add(pages as usize * PAGE);
            self.low = self.low.min(after(set.trailing_zeros()));
            self.high = self.high.max(after(u32::BITS - set.leading_zeros()));
        }
        count
    }

    /// Room for [`FEW`] more frames.
    #[inline]
    fn room(&mut self) -> Option<&mut [u32; FEW]> {
        if self.frames.is_none() || self.len > ROOM - FEW {
            self.finish();
            self.frames.get_or_insert([0; ROOM]);
        }
        self.frames.as_mut()?.get_mut(self.len..)?.first_chunk_mut()
    }

    /// The page at `address` is cleared; one share of `frame` goes.
    #[inline]
    pub(super) fn page(&mut self, address: usize, frame: Frame) {
        self.changed(address);
        self.push(frame.0);
    }

    /// A table that mapped nothing, in a range that was noted.
    #[inline]
    pub(super) fn table(&mut self, frame: Frame) {
        // The CPU may cache the path to an empty table too.
        self.low = 0;
        self.high = usize::MAX;
        self.push(frame.0 | TABLE);
    }

    #[inline]
    fn push(&mut self, frame: u32) {
        let place = self.frames.as_mut().and_then(|all| all.get_mut(self.len));
        if let Some(place) = place {
            *place = frame;
            self.len += 1;
        } else {
            self.begin(frame);
        }
    }

    /// The first of an empty gather; a full one is emptied before.
    #[inline(never)]
    fn begin(&mut self, frame: u32) {
        self.finish();
        self.frames.get_or_insert([0; ROOM])[0] = frame;
        self.len = 1;
    }

    /// Makes CPUs forget, then frees.
    #[inline]
    pub(super) fn finish(&mut self) {
        if self.low < self.high || self.len != 0 {
            self.forget_and_free();
        }
    }

    #[inline(never)]
    fn forget_and_free(&mut self) {
        // A frame that found no room before has been forgotten with those that had it.
        if self.low < self.high {
            let pages = (self.high - self.low) / PAGE;
            let pages = if pages > MANY { usize::MAX } else { pages };
            self.memory.forget(self.root, self.low, pages);
        }
        let frames = self.memory.frames();
        let held = self.frames.as_ref().map_or(&[][..], |all| &all[..self.len]);
        frames.release_each(held.iter().filter_map(|number| {
            if number & TABLE == 0 {
                return Some(Frame(*number));
            }
            frames.release_zeroed(Frame(number & !TABLE));
            None
        }));
        (self.len, self.low, self.high) = (0, usize::MAX, 0);
    }
}
