//! Physical memory in frames of 4096 bytes: their owners and share counts.
//!
//! *Interface*: a [`Frame`] is a number, not an owner; the caller of [`alloc()`] owns one share and gives it
//! back with [`release`]. [`share`] adds an owner (copy-on-write, file pages), [`FrameRef`] is an owner that
//! gives back by itself, and whose bytes are read and written through [`FrameBytes`] alone; a [`FrameBatch`]
//! owns those of several pages. The kernel's own frames come from the bottom of memory and programs' from the
//! top, so that the heap finds room below 1 GiB. Programs' pages ask [`alloc_user`], which leaves the kernel
//! a reserve: so the kernel's own small allocations succeed when programs have eaten everything else.
//! [`PhysMemory`] is where physical memory is seen from; tables, spaces and the heap work on any.
//!
//! The metadata (two bits' worth of bitmap and four bytes of share count a frame) is sized and placed at
//! boot.
//!
//! Progress: lock-free (of several searches for a run that collide, one goes on).
//! Source: Massalin and Pu 1991, "real memory management" (a lock-free free list there; a bitmap
//! here, because contiguous runs can be found in it).

#[cfg(not(target_os = "none"))]
mod arena;
mod bitmap;
mod bytes;
pub mod fault_injection;
mod frame_batch;
mod frames;
mod free_count;
mod memory;
mod raw;
mod reference;
#[cfg(test)]
mod tests;
mod zero_pool;

pub use bytes::FrameBytes;
pub use frame_batch::{BatchSlots, FrameBatch};
pub use frames::{Frames, Stats};
pub use memory::{Kernel, PhysMemory};
pub use reference::FrameRef;

use abi::layout::PAGE_SHIFT;
use bitmap::ORDERS;

/// The number of a frame: its physical address divided by 4096.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct Frame(pub u32);

impl Frame {
    /// The frame that contains physical address `physical`.
    #[inline]
    pub const fn containing(physical: u64) -> Frame {
        Frame((physical >> PAGE_SHIFT) as u32)
    }

    /// Its first physical address.
    #[inline]
    pub const fn address(self) -> u64 {
        (self.0 as u64) << PAGE_SHIFT
    }

    /// Its number, as an index.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The number by which generated routines find its bytes. Rust makes no pointer of it:
    /// [`FrameRef::bytes`] is the door.
    #[inline]
    pub fn for_routines(self) -> u64 {
        Kernel.at(self) as u64
    }

    /// The frame whose number is `seen`, from [`for_routines`](Self::for_routines).
    #[inline]
    pub fn from_routines(seen: u64) -> Frame {
        Frame::containing(seen.wrapping_sub(Frame(0).for_routines()))
    }
}

static FRAMES: Frames = Frames::empty();

/// The allocator of the machine's memory.
#[inline]
pub fn global() -> &'static Frames {
    #[cfg(not(target_os = "none"))]
    arena::arena();
    &FRAMES
}

/// The allocator before anything is known about the memory.
pub(crate) fn uninitialized() -> &'static Frames {
    &FRAMES
}

/// Adds whole frames of a physical range after boot.
///
/// # Safety
/// The range is memory that boot used and that nobody uses any more; its end is not above what the boot
/// memory map and the initrd cover.
pub unsafe fn add_late(range: core::ops::Range<usize>) {
    let (first, end) = (range.start as u64, range.end as u64);
    // SAFETY: the caller's promise.
    unsafe { global().add_late(Frame::containing(first), Frame::containing(end)) };
}

/// A frame for the kernel, with whatever content. `None`: out of memory.
#[inline]
pub fn alloc() -> Option<Frame> {
    global().alloc()
}

/// A frame of zeros for the kernel.
#[inline]
pub fn alloc_zeroed() -> Option<Frame> {
    Kernel.zeroed()
}

/// A frame for a program's page or a file's, with whatever content; leaves the kernel its reserve.
#[inline]
pub fn alloc_user() -> Option<Frame> {
    global().alloc_user()
}

/// A frame of zeros for a program's page or a file's; leaves the kernel its reserve.
#[inline]
pub fn alloc_user_zeroed() -> Option<Frame> {
    Kernel.zeroed_user()
}

/// `count` contiguous frames below 1 GiB, the first a multiple of `align` frames (a power of two).
pub fn alloc_run(count: usize, align: usize) -> Option<Frame> {
    global().alloc_run(count, align)
}

/// Gives back a run; it may be a part of what [`alloc_run`] gave.
pub fn free_run(first: Frame, count: usize) {
    global().free_run(first, count);
}

/// Adds an owner to a frame that the caller owns a share of.
#[inline]
pub fn share(frame: Frame) {
    global().share(frame);
}

/// Gives back one share; the last one frees the frame.
#[inline]
pub fn release(frame: Frame) {
    global().release(frame);
}

/// How many owners the frame has besides the caller.
#[inline]
pub fn others(frame: Frame) -> u32 {
    global().others(frame)
}

/// Is there room for `count` more frames of a program beyond what is kept? Ask before starting something
/// whose small kernel allocations cannot fail softly (a process, a pipe, an open file).
#[inline]
pub fn admits(count: usize) -> bool {
    global().admits(count)
}

/// As [`admits`], but never refused on purpose ([`fault_injection`]).
pub fn has_room(count: usize) -> bool {
    global().has_room(count)
}

/// Keeps `count` more frames for the kernel's own small allocations until [`withdraw`]; `false` if there is
/// no room for them.
pub fn promise(count: usize) -> bool {
    global().promise(count)
}

/// Takes a promise back.
pub fn withdraw(count: usize) {
    global().withdraw(count);
}

/// Zeroes one frame for the stock of zeroed frames; `false` when the stock is full. For idle CPUs
/// (dissertation, 7.3.2: idle time maintains a pool of zeroed pages).
pub fn idle_zero() -> bool {
    // SAFETY: the allocator lends a free frame.
    global().restock(|frame| unsafe { Kernel.zero(frame) })
}

/// Frames that the allocator was given, as [`stats`] tells too, without counting the others.
#[inline]
pub fn total() -> usize {
    global().total()
}

/// Counts of frames.
pub fn stats() -> Stats {
    global().stats()
}

/// Free blocks of 2^n frames in a row, aligned to their size and in no larger one, each n its own element.
pub fn blocks() -> [usize; ORDERS] {
    global().blocks()
}
