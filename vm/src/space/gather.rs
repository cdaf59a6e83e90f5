//! Frames that were taken out of a table and may be freed once no CPU translates to them.
//!
//! *Interface*: [`Gather::page`], [`Gather::table`] while clearing; [`Gather::finish`] at the end. In
//! between, a full gather forgets and frees what it has.

use crate::frame::Frame;
use crate::memory::Memory;

/// Frames held back at once.
const ROOM: usize = 32;

/// Marks a frame that is a table, all zero.
const TABLE: u32 = 1 << 31;

/// More pages than this are forgotten all at once.
pub(super) const MANY: usize = 8;

pub(super) struct Gather<M: Memory> {
    memory: M,
    root: u64,
    /// Frame numbers, [`TABLE`] added to those of tables; `None` before the first one.
    frames: Option<[u32; ROOM]>,
    len: usize,
    /// Range of addresses whose entries have changed since the last `forget`.
    low: usize,
    high: usize,
}

impl<M: Memory> Gather<M> {
    pub(super) fn new(memory: M, root: u64) -> Self {
        Gather {
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
        self.high = self.high.max(address + abi::layout::PAGE);
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
            let pages = (self.high - self.low) / abi::layout::PAGE;
            let pages = if pages > MANY { usize::MAX } else { pages };
            self.memory.forget(self.root, self.low, pages);
        }
        for frame in self.frames.iter().flatten().take(self.len) {
            if frame & TABLE != 0 {
                self.memory.frames().release_zeroed(Frame(frame & !TABLE));
            } else {
                self.memory.frames().release(Frame(*frame));
            }
        }
        (self.len, self.low, self.high) = (0, usize::MAX, 0);
    }
}
