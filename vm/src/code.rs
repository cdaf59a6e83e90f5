//! The kernel's code space: pages at `CODE`, readable and executable there, written through `PHYS_MAP`.
//!
//! *Interface*: `link` at boot lends it to `codegen`, which decides what lies where.
//! A page that was taken back may still be translated by some CPU; before memory is put behind any page again, all
//! CPUs forget.
//!
//! Progress: lock-free, but who puts memory behind a page after another was taken back sleeps until the other CPUs have forgotten. Two who do so at
//! once both see to it: neither relies on what the other has only begun.

use crate::frame;
use crate::kernel;
use crate::table::{ADDRESS, KERNEL_TEXT, PRESENT, frame_of};
use crate::tlb;
use abi::layout::{CODE, CODE_LEN, PAGE};
use codegen::CodeSpace;
use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering};

pub(crate) struct Space;

/// The one code space.
pub(crate) static SPACE: Space = Space;

/// Pages taken back so far, and how many of them all CPUs have certainly forgotten.
static TAKEN_BACK: AtomicUsize = AtomicUsize::new(0);
static FORGOTTEN: AtomicUsize = AtomicUsize::new(0);
static PAGES: AtomicUsize = AtomicUsize::new(0);

/// Lends the code space.
pub(crate) fn link() {
    codegen::link(&SPACE);
}

/// Bytes of memory behind the code space.
pub fn committed() -> usize {
    PAGES.load(Ordering::Relaxed) * PAGE
}

// SAFETY: the window is constant; a committed page owns its frame until it is decommitted, is mapped
// without the right to write, and its frame is reached for writing through `PHYS_MAP`, which maps all memory; `retire`
// is the grace period of `sync::epoch`, whose quiescent points are serializing instructions outside images.
unsafe impl CodeSpace for Space {
    fn window(&self) -> Range<usize> {
        CODE..CODE + CODE_LEN
    }

    fn commit(&self, exec: usize) -> bool {
        let Some(word) = kernel::tables().leaf_or_make(exec).map(core::ptr::from_ref) else {
            return false;
        };
        // SAFETY: kernel tables stay for ever.
        let word = unsafe { &*word };
        let Some(frame) = frame::alloc() else {
            return false;
        };
        let taken_back = TAKEN_BACK.load(Ordering::Acquire);
        if FORGOTTEN.load(Ordering::Acquire) < taken_back {
            tlb::forget_kernel();
            FORGOTTEN.fetch_max(taken_back, Ordering::AcqRel);
        }
        if word
            .compare_exchange(
                0,
                frame.address() | KERNEL_TEXT,
                Ordering::AcqRel,
                Ordering::Relaxed,
            )
            .is_err()
        {
            frame::release(frame);
            return false;
        }
        PAGES.fetch_add(1, Ordering::Relaxed);
        true
    }

    fn decommit(&self, exec: usize) -> bool {
        let tables = kernel::tables();
        let Some(word) = tables.leaf(exec) else {
            return false;
        };
        let entry = word.swap(0, Ordering::AcqRel);
        if entry & PRESENT == 0 {
            return false;
        }
        TAKEN_BACK.fetch_add(1, Ordering::AcqRel);
        PAGES.fetch_sub(1, Ordering::Relaxed);
        // Nobody jumps there any more, so an old translation reads what it must not, but nothing uses it.
        frame::release(frame_of(entry));
        true
    }

    fn alias(&self, exec: usize) -> *mut u8 {
        let entry = kernel::tables()
            .leaf(exec)
            .map_or(0, |word| word.load(Ordering::Acquire));
        debug_assert!(entry & PRESENT != 0, "alias of a page without memory");
        let physical = (entry & ADDRESS) as usize + exec % PAGE;
        (abi::layout::PHYS_MAP + physical) as *mut u8
    }

    fn serialize(&self) {
        tlb::serialize();
    }

    fn retire(&self, f: fn(usize), arg: usize) {
        sync::epoch::retire(f, arg);
    }
}
