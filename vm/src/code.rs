//! The kernel's code space: pages at `CODE`, readable and executable there, and no other address leads to
//! them but while one CPU writes.
//!
//! *Interface*: `link` at boot lends it to `codegen`, which decides what lies where. A frame of code is taken
//! out of `PHYS_MAP` and `WINDOW` (`kernel::hide`) before it is executable, and comes back when it is not any
//! more. It is written through a window of one page, which one CPU opens for itself at a place that changes
//! each time (`machine::paging::open_patch`). After a page was taken back a stale TLB entry may remain;
//! before memory is put behind any page again, all TLBs are flushed.
//!
//! Progress: lock-free, but adding memory for a page sleeps until the other CPUs have flushed their TLBs.

use crate::frame;
use crate::kernel;
use crate::table::{ADDRESS, ENTRIES, KERNEL_TEXT, PRESENT, SPAN, frame_of, index};
use crate::tlb;
use abi::layout::{CODE, CODE_LEN, PAGE};
use codegen::{CodeSpace, Opened};
use core::ops::Range;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use machine::paging::{self, OpenPatch};

pub(crate) struct Space;

/// The one code space.
pub(crate) static SPACE: Space = Space;

static PAGES: AtomicUsize = AtomicUsize::new(0);

/// The leaf tables of the region, each known when the first page that it maps has got memory. They stay for
/// ever.
static LEAVES: [AtomicPtr<[AtomicU64; ENTRIES]>; CODE_LEN / SPAN] =
    [const { AtomicPtr::new(ptr::null_mut()) }; CODE_LEN / SPAN];

/// The word that maps the page of `exec`, if there has been memory for it.
#[inline]
fn leaf(exec: usize) -> Option<&'static AtomicU64> {
    let table = LEAVES
        .get(exec.wrapping_sub(CODE) / SPAN)?
        .load(Ordering::Acquire);
    // SAFETY: null, or a table of the kernel's, which stays.
    let table = unsafe { table.as_ref() }?;
    Some(&table[index(exec, 1)])
}

/// Where in the region code begins, in bytes: drawn by lot, in the first quarter.
static FIRST: AtomicUsize = AtomicUsize::new(0);

/// Lends the code space.
pub(crate) fn link() {
    if machine::paging::randomized() {
        let lot = machine::random::u64() as usize;
        FIRST.store(lot % (CODE_LEN / 4 / PAGE) * PAGE, Ordering::Relaxed);
    }
    codegen::link(&SPACE);
}

/// The first address that code may have.
pub fn first() -> usize {
    CODE + FIRST.load(Ordering::Relaxed)
}

/// Bytes of memory behind the code space.
pub fn committed() -> usize {
    PAGES.load(Ordering::Relaxed) * PAGE
}

// SAFETY: the window is constant; a committed page owns its frame until it is decommitted, is mapped without
// the right to write, and its frame is mapped nowhere else but by `open`, which shows it while it is
// written; `retire` is the grace period of `sync::epoch`, whose quiescent points are serializing instructions
// outside images.
unsafe impl CodeSpace for Space {
    fn window(&self) -> Range<usize> {
        first()..CODE + CODE_LEN
    }

    fn commit(&self, exec: usize) -> bool {
        let Ok((table, index)) = kernel::tables()
            .change_leaf(exec)
            .map(|(table, index)| (ptr::from_ref(table), index))
        else {
            return false;
        };
        LEAVES[(exec - CODE) / SPAN].store(table.cast_mut(), Ordering::Release);
        // SAFETY: kernel tables stay for ever.
        let word = unsafe { &(*table)[index] };
        if !frame::admits(1) {
            return false;
        }
        // From the bottom, where other code is: few large pages become small ones.
        let Some(frame) = frame::alloc_run(1, 1).or_else(frame::alloc) else {
            return false;
        };
        if !kernel::hide(frame) {
            frame::release(frame);
            return false;
        }
        // The writable mappings of this frame, and executable ones of pages taken back before.
        tlb::forget_kernel();
        if word
            .compare_exchange(
                0,
                frame.address() | KERNEL_TEXT,
                Ordering::AcqRel,
                Ordering::Relaxed,
            )
            .is_err()
        {
            kernel::show(frame);
            frame::release(frame);
            return false;
        }
        PAGES.fetch_add(1, Ordering::Relaxed);
        true
    }

    fn decommit(&self, exec: usize) -> bool {
        let Some(word) = leaf(exec) else {
            return false;
        };
        let entry = word.swap(0, Ordering::AcqRel);
        if entry & PRESENT == 0 {
            return false;
        }
        PAGES.fetch_sub(1, Ordering::Relaxed);
        // No code jumps there any more, so an old translation is still readable, but unused.
        kernel::show(frame_of(entry));
        frame::release(frame_of(entry));
        true
    }

    unsafe fn open(&self, exec: usize, len: usize) -> Opened {
        let entry = leaf(exec).map_or(0, |word| word.load(Ordering::Acquire));
        let offset = exec % PAGE;
        assert!(
            entry & PRESENT != 0 && len <= PAGE - offset,
            "code is written where there is none"
        );
        // SAFETY: the page stays committed, and the caller writes what is its own there, shortly.
        let open = unsafe { paging::open_patch((entry & ADDRESS) as usize) };
        Opened {
            at: open.at.wrapping_add(offset),
            keys: [open.word as usize, open.interrupts],
        }
    }

    unsafe fn close(&self, opened: Opened) {
        let [word, interrupts] = opened.keys;
        let word = word as *const AtomicU64;
        // SAFETY: `open` made it of these, and the caller is done. Any address in a page stands for it.
        unsafe {
            paging::close_patch(OpenPatch {
                at: opened.at,
                word,
                interrupts,
            });
        }
    }

    fn serialize(&self) {
        tlb::serialize();
    }

    fn retire(&self, f: fn(usize), arg: usize) {
        sync::epoch::retire(f, arg);
    }
}
