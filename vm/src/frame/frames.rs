//! The frame allocator: a bitmap of free frames, a stock of zeroed ones, a share count each.
//!
//! *Interface*: [`Frames`]; [`Frames::metadata_bytes`] and [`Frames::install`] at boot.
//!
//! In front of both stands a pair of magazines for each CPU: the next program on that CPU reuses the frames
//! that the last one freed, and CPUs do not share a word for every page. When the rest is used up, every CPU
//! takes from all magazines.
//!
//! Progress: lock-free throughout: bitmap and stock are, sharing is one addition, releasing one
//! compare-and-swap that only another owner's can spoil. The count of free frames is ahead of the bitmap by
//! what is under way ([`super::free_count`]).

use super::Frame;
use super::bitmap::{Bitmap, Hints, ORDERS};
use super::free_count::FreeCount;
use super::zero_pool::ZeroPool;
use crate::magazine::Magazine;
use abi::layout::PAGE;
use core::cell::UnsafeCell;
use core::mem::size_of;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use machine::cpu::{MAX_CPUS, this_cpu};

/// Frames below this number lie in the window.
fn low() -> usize {
    machine::paging::window_len() / PAGE
}

/// Counts of frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Frames that the allocator was given.
    pub total: usize,
    /// Free frames, including the stock.
    pub free: usize,
    /// Free frames that are known to be zero.
    pub stocked: usize,
    /// Frames that programs' pages may not take: the kernel's own, and those promised to threads.
    pub reserve: usize,
}

/// The hints of an allocator without frames.
static NO_HINTS: Hints = Hints {
    bottom: AtomicUsize::new(0),
    top: AtomicUsize::new(0),
    run: AtomicUsize::new(0),
};

/// Values set at boot, and constant from then on.
struct Installed {
    bitmap: Bitmap<'static>,
    shares: &'static [AtomicU32],
    total: usize,
    stock_limit: usize,
}

/// More frames than there are: while [`super::fault_injection`] is armed the floor is so much higher, and
/// every question comes to [`Frames::admits_after_all`].
const OUT_OF_REACH: usize = 1 << 40;

/// Frames in a full magazine.
const DEPTH: u64 = 64;

/// The frames that were given back lately on one CPU, linked through the share counts.
#[repr(align(64))]
struct Near {
    dirty: Magazine,
    zeroed: Magazine,
}

/// An allocator of frames.
pub struct Frames {
    installed: UnsafeCell<Installed>,
    near: [Near; MAX_CPUS],
    /// Frames in the bitmap and in the stock.
    free: FreeCount,
    /// As many stay free when programs take theirs.
    floor: AtomicUsize,
    /// Frames that came after boot, less those that became the kernel's for good; modulo 2^64.
    late: AtomicUsize,
    stock: ZeroPool,
}

// SAFETY: `installed` is written once by `install`, before any other use of the allocator; all else is
// atomic.
unsafe impl Sync for Frames {}

impl Frames {
    /// An allocator without frames.
    pub const fn empty() -> Self {
        Frames {
            installed: UnsafeCell::new(Installed {
                bitmap: Bitmap {
                    words: &[],
                    summary: &[],
                    hints: &NO_HINTS,
                },
                shares: &[],
                total: 0,
                stock_limit: 0,
            }),
            near: [const {
                Near {
                    dirty: Magazine(AtomicU64::new(0)),
                    zeroed: Magazine(AtomicU64::new(0)),
                }
            }; MAX_CPUS],
            free: FreeCount(AtomicUsize::new(0)),
            floor: AtomicUsize::new(0),
            late: AtomicUsize::new(0),
            stock: ZeroPool {
                head: AtomicU64::new(0),
                len: AtomicUsize::new(0),
            },
        }
    }

    /// Bytes of metadata for memory of `frames` frames, counted from physical address zero.
    pub const fn metadata_bytes(frames: usize) -> usize {
        let words = frames.div_ceil(64);
        size_of::<Hints>()
            + (words + words.div_ceil(64)) * size_of::<u64>()
            + frames * size_of::<AtomicU32>()
    }

    /// Gives the allocator its metadata, for frames 0 to `frames`; none of them is free yet.
    ///
    /// # Safety
    /// Nobody else uses the allocator yet. `metadata` is aligned to 8, has [`Frames::metadata_bytes`] of
    /// `frames` bytes, and is the allocator's for ever.
    pub unsafe fn install(&self, metadata: *mut u8, frames: usize) {
        let words = frames.div_ceil(64);
        let summary_words = words.div_ceil(64);
        // SAFETY: by the caller's promise the bytes are ours; zero is valid for atomics, and the
        // arrays lie one after the other, the wider ones first.
        let (hints, words, summary, shares) = unsafe {
            core::ptr::write_bytes(metadata, 0, Self::metadata_bytes(frames));
            let hints = metadata.cast::<Hints>();
            let first = hints.add(1).cast::<AtomicU64>();
            let second = first.add(words);
            let third = second.add(summary_words).cast::<AtomicU32>();
            (
                &*hints,
                core::slice::from_raw_parts(first, words),
                core::slice::from_raw_parts(second, summary_words),
                core::slice::from_raw_parts(third, frames),
            )
        };
        // SAFETY: nobody else uses the allocator yet.
        unsafe {
            *self.installed.get() = Installed {
                bitmap: Bitmap {
                    words,
                    summary,
                    hints,
                },
                shares,
                total: 0,
                stock_limit: 0,
            };
        }
    }

    /// Adds the free frames `first` to `end`, at boot, and sets the kernel's reserve anew.
    ///
    /// # Safety
    /// Nobody else uses the allocator yet. The frames are memory, below the number given to `install`, and
    /// nobody uses them.
    pub unsafe fn add(&self, first: Frame, end: Frame) {
        // SAFETY: nobody else uses the allocator yet.
        let installed = unsafe { &mut *self.installed.get() };
        let count = end.index().saturating_sub(first.index());
        let bitmap = &installed.bitmap;
        self.free
            .give(count, || bitmap.give_run(first.index(), count));
        installed.total += count;
        // A thirty-second, between 1 MiB and 16 MiB, and never more than an eighth.
        let reserve = (installed.total / 32)
            .clamp(256, 4096)
            .min(installed.total / 8);
        self.floor.store(reserve, Ordering::Relaxed);
        installed.stock_limit = (installed.total / 16).clamp(16, 4096);
    }

    /// Adds the free frames `first` to `end` after boot.
    ///
    /// # Safety
    /// The frames are memory, below the number given to `install`, and nobody uses them.
    pub unsafe fn add_late(&self, first: Frame, end: Frame) {
        let count = end.index().saturating_sub(first.index());
        self.late.fetch_add(count, Ordering::Relaxed);
        let bitmap = &self.known().bitmap;
        self.free
            .give(count, || bitmap.give_run(first.index(), count));
    }

    #[inline]
    fn known(&self) -> &Installed {
        // SAFETY: written only before the allocator is in use.
        unsafe { &*self.installed.get() }
    }

    /// Is there room for `count` more frames beyond what is kept?
    #[inline]
    pub fn admits(&self, count: usize) -> bool {
        let free = self.free.now();
        let room = free.checked_sub(self.floor.load(Ordering::Relaxed));
        room.is_some_and(|room| room >= count) || self.admits_after_all(count)
    }

    /// As [`admits`](Self::admits), looking closely.
    #[cold]
    fn admits_after_all(&self, count: usize) -> bool {
        let floor = self.floor.load(Ordering::Relaxed);
        if floor >= OUT_OF_REACH && super::fault_injection::refuses() {
            return false;
        }
        self.has_room(count)
    }

    /// As [`admits`](Self::admits), but never refused on purpose.
    pub fn has_room(&self, count: usize) -> bool {
        let floor = self.floor.load(Ordering::Relaxed) % OUT_OF_REACH;
        self.free() >= floor.saturating_add(count)
    }

    /// Keeps `count` more frames from programs until [`withdraw`](Self::withdraw); `false` if there is no
    /// room for them.
    pub fn promise(&self, count: usize) -> bool {
        let room = self.admits(count);
        if room {
            self.floor.fetch_add(count, Ordering::Relaxed);
        }
        room
    }

    /// Takes a promise back.
    pub fn withdraw(&self, count: usize) {
        self.floor.fetch_sub(count, Ordering::Relaxed);
    }

    pub(super) fn raise_floor(&self) {
        self.floor.fetch_add(OUT_OF_REACH, Ordering::Relaxed);
    }

    pub(super) fn lower_floor(&self) {
        self.floor.fetch_sub(OUT_OF_REACH, Ordering::Relaxed);
    }

    /// Free frames.
    #[cold]
    fn free(&self) -> usize {
        let near = self.near.iter();
        let near: usize = near.map(|near| near.dirty.len() + near.zeroed.len()).sum();
        self.free.now() + near
    }

    /// This CPU's magazines; another's do as well if the thread moves meanwhile.
    #[inline]
    fn near(&self) -> &Near {
        &self.near[this_cpu().number()]
    }

    /// Takes a frame from a magazine; it belongs to the caller alone.
    #[inline]
    fn pop(&self, magazine: &Magazine) -> Option<Frame> {
        let shares = self.known().shares;
        let frame = magazine.pop(|number| &shares[number as usize])?;
        shares[frame as usize].store(0, Ordering::Relaxed);
        Some(Frame(frame))
    }

    /// Puts a free frame into a magazine, if there is room.
    #[inline]
    fn push(&self, magazine: &Magazine, frame: Frame) -> bool {
        magazine.push(DEPTH, frame.0, &self.known().shares[frame.index()])
    }

    /// Bitmap and stock are used up: a frame from whichever CPU has one.
    #[cold]
    fn any_frame(&self) -> Option<Frame> {
        let mut near = self.near.iter();
        near.find_map(|near| self.pop(&near.dirty).or_else(|| self.pop(&near.zeroed)))
    }

    /// A frame from the top of memory, with whatever content.
    #[inline]
    pub fn alloc(&self) -> Option<Frame> {
        self.alloc_beside(self.near())
    }

    /// A frame, and whether it is one of zeros: one of those as long as there are some.
    #[inline]
    pub fn alloc_clean(&self) -> Option<(Frame, bool)> {
        let near = self.near();
        match self.stocked_beside(near) {
            Some(frame) => Some((frame, true)),
            None => self.alloc_beside(near).map(|frame| (frame, false)),
        }
    }

    #[inline(always)]
    fn alloc_beside(&self, near: &Near) -> Option<Frame> {
        if let Some(frame) = self.pop(&near.dirty) {
            return Some(frame);
        }
        match self.known().bitmap.take_top() {
            Some(index) => {
                self.free.taken(1);
                Some(Frame(index as u32))
            }
            None => self.stocked().or_else(|| self.any_frame()),
        }
    }

    /// A frame for a program, with whatever content; leaves the kernel its reserve.
    #[inline]
    pub fn alloc_user(&self) -> Option<Frame> {
        if self.admits(1) { self.alloc() } else { None }
    }

    /// A frame below 1 GiB, with whatever content.
    #[inline]
    pub fn alloc_low(&self) -> Option<Frame> {
        let index = match self.known().bitmap.take_bottom(low()) {
            Some(index) => index,
            None => {
                self.destock();
                self.known().bitmap.take_bottom(low())?
            }
        };
        self.free.taken(1);
        Some(Frame(index as u32))
    }

    /// `count` contiguous frames below 1 GiB, the first a multiple of `align` frames (a power of two).
    pub fn alloc_run(&self, count: usize, align: usize) -> Option<Frame> {
        if count == 1 && align == 1 {
            return self.alloc_low();
        }
        let index = match self.known().bitmap.take_run(count, align, low()) {
            Some(index) => index,
            None => {
                self.destock();
                self.known().bitmap.take_run(count, align, low())?
            }
        };
        self.free.taken(count);
        Some(Frame(index as u32))
    }

    /// Gives back `count` frames without other owners.
    pub fn free_run(&self, first: Frame, count: usize) {
        let bitmap = &self.known().bitmap;
        self.free
            .give(count, || bitmap.give_run(first.index(), count));
    }

    /// Adds an owner. Beyond the top of memory, where devices are, there are no owners.
    #[inline]
    pub fn share(&self, frame: Frame) {
        self.counts().share(frame);
    }

    /// The counts of owners, for many frames in turn.
    #[inline]
    pub(super) fn counts(&self) -> Counts {
        Counts(self.known().shares)
    }

    /// The number of owners besides the caller, which has a share. Zero stays zero until the caller shares
    /// it.
    #[inline]
    pub fn others(&self, frame: Frame) -> u32 {
        match self.known().shares.get(frame.index()) {
            Some(count) => count.load(Ordering::Acquire),
            None => 1,
        }
    }

    /// Gives back one share; the last one frees the frame. Answers whether it was the last.
    // Of many frames in turn, most have another owner: a call is as much again.
    #[inline(always)]
    pub fn release(&self, frame: Frame) -> bool {
        let last = self.counts().drop_share(frame);
        if last {
            self.take_back(frame);
        }
        last
    }

    /// Gives back one share of each of `frames`.
    #[inline(always)]
    pub fn release_each(&self, frames: impl Iterator<Item = Frame>) {
        let counts = self.counts();
        for frame in frames {
            if counts.drop_share(frame) {
                self.take_back(frame);
            }
        }
    }

    /// The frame has no owner any more.
    #[inline(never)]
    fn take_back(&self, frame: Frame) {
        if !self.push(&self.near().dirty, frame) {
            let bitmap = &self.known().bitmap;
            self.free.give(1, || bitmap.give(frame.index()));
        }
    }

    /// Gives back the only share of a frame of zeros: into the stock while that has room.
    #[inline]
    pub fn release_zeroed(&self, frame: Frame) {
        if self.push(&self.near().zeroed, frame) {
            return;
        }
        let known = self.known();
        self.free.give(1, || {
            if self.stock.len() < known.stock_limit {
                self.stock.push(known.shares, frame.0);
            } else {
                known.bitmap.give(frame.index());
            }
        });
    }

    /// A word for the only owner of a frame (its share count); zero again before the frame is given back.
    #[inline]
    pub(crate) fn word(&self, frame: Frame) -> &AtomicU32 {
        &self.known().shares[frame.index()]
    }

    /// The same for the owner of a page table, which may be one from boot that lies beyond.
    #[inline]
    pub(crate) fn word_of_table(&self, frame: Frame) -> Option<&AtomicU32> {
        self.known().shares.get(frame.index())
    }

    /// A frame of zeros from the stock.
    #[inline]
    pub fn stocked(&self) -> Option<Frame> {
        self.stocked_beside(self.near())
    }

    #[inline(always)]
    fn stocked_beside(&self, near: &Near) -> Option<Frame> {
        if let Some(frame) = self.pop(&near.zeroed) {
            return Some(frame);
        }
        let frame = Frame(self.stock.pop(self.known().shares)?);
        self.free.taken(1);
        Some(frame)
    }

    /// Has `zero` clear one free frame for the stock; `false` when the stock is full or memory scarce.
    pub fn restock(&self, zero: impl FnOnce(Frame)) -> bool {
        let known = self.known();
        if self.stock.len() >= known.stock_limit || !self.admits(1) {
            return false;
        }
        let Some(index) = known.bitmap.take_top() else {
            return false;
        };
        let frame = Frame(index as u32);
        zero(frame);
        self.stock.push(known.shares, frame.0);
        true
    }

    /// Gives the frames of stock and magazines back to the bitmap, for searches of a run.
    fn destock(&self) {
        let known = self.known();
        while let Some(frame) = self.any_frame() {
            self.free.give(1, || known.bitmap.give(frame.index()));
        }
        while let Some(index) = self.stock.pop(known.shares) {
            known.bitmap.give(index as usize);
        }
    }

    /// A frame that the caller owns is the kernel's for good, and counts as if it had been so since boot.
    pub(crate) fn forget_one(&self) {
        self.late.fetch_sub(1, Ordering::Relaxed);
    }

    /// Frames that the allocator was given, without counting anything.
    #[inline]
    pub fn total(&self) -> usize {
        let late = self.late.load(Ordering::Relaxed);
        self.known().total.wrapping_add(late)
    }

    /// Counts of frames.
    pub fn stats(&self) -> Stats {
        let zeroed: usize = self.near.iter().map(|near| near.zeroed.len()).sum();
        Stats {
            total: self.total(),
            free: self.free(),
            stocked: self.stock.len() + zeroed,
            reserve: self.floor.load(Ordering::Relaxed) % OUT_OF_REACH,
        }
    }

    /// Free blocks of 2^n frames in a row, each n its own element. Frames in the stock and the magazines
    /// count as single frames.
    pub fn blocks(&self) -> [usize; ORDERS] {
        let mut blocks = self.known().bitmap.blocks();
        let known: usize = (0..).zip(blocks).map(|(order, count)| count << order).sum();
        blocks[0] += self.free().saturating_sub(known);
        blocks
    }
}

/// How many owners each frame has, besides one.
#[derive(Clone, Copy)]
pub(super) struct Counts(&'static [AtomicU32]);

impl Counts {
    /// Adds an owner.
    #[inline(always)]
    pub(super) fn share(self, frame: Frame) {
        if let Some(count) = self.0.get(frame.index()) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Takes away one share; `true` when there was no other.
    #[inline(always)]
    fn drop_share(self, frame: Frame) -> bool {
        let Some(count) = self.0.get(frame.index()) else {
            return false;
        };
        let mut seen = count.load(Ordering::Acquire);
        loop {
            // An only owner cannot become two behind its own back, so a plain look is enough.
            if seen == 0 {
                return true;
            }
            match count.compare_exchange_weak(seen, seen - 1, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return false,
                Err(now) => seen = now,
            }
        }
    }
}
