//! The kernel's heap: lock-free size classes in frames below 1 GiB; the global allocator.
//!
//! *Interface*: Rust's `alloc`; [`stats`] for leak checks, [`trim`] to give empty pages back. Objects up to
//! 2048 bytes live in slabs of one page, larger ones in runs of frames. Everything lies in the window, so
//! generated code reaches every object with a sign-extended 32-bit address.

mod slab;
#[cfg(test)]
mod tests;

pub(crate) use slab::Heap;
pub use slab::Stats;

use crate::frame::Kernel;
use core::sync::atomic::{AtomicPtr, Ordering};

/// The procedure for a thread that finds even the reserve used up: a `fn()`.
static STARVED: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// From now on a thread that finds not even the reserve calls `starved`, which lets others go on, and tries
/// again. Without, it gets nothing.
pub fn link_starved(starved: fn()) {
    STARVED.store(starved as *mut (), Ordering::Release);
}

#[cfg(target_os = "none")]
fn starved() -> Option<fn()> {
    let starved = STARVED.load(Ordering::Acquire);
    // SAFETY: the word is null, or was made from a `fn()` by `link_starved`.
    (!starved.is_null()).then(|| unsafe { core::mem::transmute::<*mut (), fn()>(starved) })
}

static HEAP: Heap<Kernel> = Heap::new(Kernel);

/// Bytes of metadata for `frames` frames below 1 GiB.
#[cfg(target_os = "none")]
pub(crate) fn metadata_bytes(frames: usize) -> usize {
    Heap::<Kernel>::metadata_bytes(frames)
}

/// # Safety
/// As [`Heap::install`].
#[cfg(target_os = "none")]
pub(crate) unsafe fn install(metadata: *mut u8, frames: usize) {
    // SAFETY: the caller's promise.
    unsafe { HEAP.install(metadata, frames, crate::sparse::back) };
}

#[cfg(target_os = "none")]
mod global {
    use super::HEAP;
    use abi::layout::PAGE;
    use core::alloc::{GlobalAlloc, Layout};

    struct Global;

    /// How long an allocation that must not fail waits for others to give memory back, nanoseconds.
    const PATIENCE_NS: u64 = 5_000_000_000;

    /// Memory is short: tries once more with what can be won back. Small allocations, which cannot be
    /// refused, wait where that is possible.
    #[cold]
    fn again(layout: Layout) -> *mut u8 {
        if super::trim() > 0
            && let Some(object) = HEAP.alloc(layout)
        {
            return object;
        }
        if layout.size() > PAGE || !machine::cpu::irq_enabled() {
            return core::ptr::null_mut();
        }
        let Some(starved) = super::starved() else {
            return core::ptr::null_mut();
        };
        let until = machine::clock::now_ns() + PATIENCE_NS;
        loop {
            starved();
            super::trim();
            if let Some(object) = HEAP.alloc(layout) {
                return object;
            }
            if machine::clock::now_ns() > until {
                return core::ptr::null_mut();
            }
        }
    }

    #[global_allocator]
    static GLOBAL: Global = Global;

    // SAFETY: `Heap` gives each object out once, of at least the size and alignment asked for, until it is
    // given back.
    unsafe impl GlobalAlloc for Global {
        #[inline]
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            match HEAP.alloc(layout) {
                Some(object) => object,
                None => again(layout),
            }
        }

        #[inline]
        unsafe fn dealloc(&self, object: *mut u8, layout: Layout) {
            // SAFETY: the caller's promise.
            unsafe { HEAP.free(object, layout) };
        }

        unsafe fn realloc(&self, object: *mut u8, layout: Layout, size: usize) -> *mut u8 {
            // SAFETY: `size` with this alignment is a valid layout by the caller's promise.
            let new = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
            if HEAP.resize_in_place(layout, new) {
                return object;
            }
            // SAFETY: as the default method does: a new object, the common part copied, the old one given
            // back.
            unsafe {
                let copy = self.alloc(new);
                if !copy.is_null() {
                    core::ptr::copy_nonoverlapping(object, copy, layout.size().min(size));
                    self.dealloc(object, layout);
                }
                copy
            }
        }
    }
}

/// Counts of bytes.
pub fn stats() -> Stats {
    HEAP.stats()
}

/// A thirty-second of memory may be empty places in the heap's pages before [`tidy`] looks for empty pages.
const SLACK: usize = 32;

/// As [`trim`], if it looks worth while: after something large has ended.
pub fn tidy() {
    if HEAP.slack() > crate::frame::total() * abi::layout::PAGE / SLACK {
        trim();
    }
}

/// Gives pages without objects back to the frame allocator. Answers how many.
pub fn trim() -> usize {
    HEAP.trim()
}
