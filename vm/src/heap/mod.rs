//! The kernel's heap: lock-free size classes in frames below 1 GiB; the global allocator.
//!
//! *Interface*: Rust's `alloc`; [`stats`] for leak checks, [`trim`] to give empty pages back.
//! Objects up to 2048 bytes live in slabs of one page, larger ones in runs of frames. Everything lies in the window, so
//! generated code reaches every object with a sign-extended 32-bit address.

mod slab;
#[cfg(test)]
mod tests;

pub(crate) use slab::Heap;
pub use slab::Stats;

use crate::memory::Kernel;

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
    unsafe { HEAP.install(metadata, frames) };
}

#[cfg(target_os = "none")]
mod global {
    use super::HEAP;
    use crate::memory::{Kernel, Memory};
    use core::alloc::{GlobalAlloc, Layout};

    struct Global;

    /// Memory is short: tries once more with what can be won back.
    #[cold]
    fn again(layout: Layout) -> *mut u8 {
        let won = if Kernel.reclaim() {
            HEAP.alloc(layout)
        } else {
            None
        };
        won.unwrap_or(core::ptr::null_mut())
    }

    #[global_allocator]
    static GLOBAL: Global = Global;

    // SAFETY: `Heap` gives each object out once, of at least the size and alignment asked for, until it is given back.
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
            // SAFETY: as the default method does: a new object, the common part copied, the old one given back.
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

/// Gives pages without objects back to the frame allocator. Answers how many.
pub fn trim() -> usize {
    HEAP.trim()
}
