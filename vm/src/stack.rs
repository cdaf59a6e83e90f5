//! Kernel stacks: slots of 32 KiB in `STACKS`, the upper half mapped, the lower half a guard.
//!
//! *Interface*: [`alloc()`], [`free`]; [`trim`] when memory is short. A slot that once had a stack is never
//! unmapped again, so a stale reference into one reads old bytes or zeros and never faults. The last 64 bytes
//! are `StackBase`'s and the owner's to fill.
//!
//! Freed stacks are cached. The cache is a stack of slots, linked through the lowest word of each; the head's
//! tag keeps a stale link out (dissertation, 5.2.1). A slot whose frames were given back shows one page of
//! zeros everywhere, which cannot be written, and waits in a set of bits.
//!
//! With its stack each thread gets a promise ([`frame::promise`]): so many frames stay free that each can
//! make a call's small allocations at the same time.
//! Progress: lock-free, but `trim` waits until all CPUs have forgotten the pages.

use crate::frame;
use crate::frame::Frame;
use crate::kernel;
use crate::table::{KERNEL_DATA, PRESENT, frame_of, no_execute};
use crate::tlb;
use abi::layout::{MACHINE_STACK_SLOTS, PAGE, STACK_SIZE, STACK_SLOT, STACKS, STACKS_LEN};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use machine::paging::stack_slot;

/// A kernel stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KStack {
    /// First address of the mapped part.
    pub base: usize,
    /// First address after it; a multiple of `STACK_SLOT`.
    pub top: usize,
}

/// Counts of stacks, those of the machine room left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Stacks that exist.
    pub total: usize,
    /// Unused stacks.
    pub cached: usize,
}

impl Stats {
    /// Frames that the cached stacks hold.
    pub fn cached_frames(&self) -> usize {
        self.cached * PAGES
    }
}

const SLOTS: usize = STACKS_LEN / STACK_SLOT;

/// Tag in the upper 32 bits; slot number plus one in the lower, zero when nothing is cached.
static CACHE: AtomicU64 = AtomicU64::new(0);
static CACHED: AtomicUsize = AtomicUsize::new(0);
/// Stacks that have existed or are being made, those of the machine room included: the slots follow them.
static NEXT: AtomicUsize = AtomicUsize::new(MACHINE_STACK_SLOTS);
/// Unused slots without frames.
static BARE: [AtomicU64; SLOTS / 64] = [const { AtomicU64::new(0) }; SLOTS / 64];
static BARE_COUNT: AtomicUsize = AtomicUsize::new(0);
/// The address of the frame of zeros that bare slots and sparse tables show; 0 before there is one.
static ZEROS: AtomicU64 = AtomicU64::new(0);

/// Pages of a stack.
const PAGES: usize = STACK_SIZE / PAGE;
/// Frames promised with each stack: the small fixed allocations of one call fit.
const PROMISE: usize = 4;
/// Cached stacks that [`trim`] leaves.
const KEPT: usize = 4;
/// Stacks that [`trim`] gives back at a time.
const BATCH: usize = 16;

fn stack_of(slot: usize) -> KStack {
    let top = STACKS + (slot + 1) * STACK_SLOT;
    KStack {
        base: top - STACK_SIZE,
        top,
    }
}

/// The word of a cached stack that links it to the next.
fn link(slot: usize) -> &'static AtomicU64 {
    // SAFETY: the stack of a slot that was ever cached stays mapped; racing readers of a stack in use throw
    // away what they read.
    unsafe { &*(stack_of(slot).base as *const AtomicU64) }
}

/// A stack with whatever content. `None`: out of memory or slots.
pub fn alloc() -> Option<KStack> {
    if !frame::promise(PROMISE) {
        return None;
    }
    let stack = cached().map(stack_of).or_else(make);
    if stack.is_none() {
        frame::withdraw(PROMISE);
    }
    stack
}

/// Takes a slot from the cache.
fn cached() -> Option<usize> {
    let mut head = CACHE.load(Ordering::Acquire);
    while let Some(slot) = (head as u32).checked_sub(1) {
        let next = tagged(head, link(slot as usize).load(Ordering::Relaxed));
        match CACHE.compare_exchange_weak(head, next, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                CACHED.fetch_sub(1, Ordering::Relaxed);
                return Some(slot as usize);
            }
            Err(now) => head = now,
        }
    }
    None
}

/// Gives a stack back. No thread runs on it any more.
pub fn free(stack: KStack) {
    frame::withdraw(PROMISE);
    let slot = (stack.base - STACKS) / STACK_SLOT;
    CACHED.fetch_add(1, Ordering::Relaxed);
    let mut head = CACHE.load(Ordering::Relaxed);
    loop {
        link(slot).store(head & u64::from(u32::MAX), Ordering::Relaxed);
        let next = tagged(head, slot as u64 + 1);
        match CACHE.compare_exchange_weak(head, next, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return,
            Err(now) => head = now,
        }
    }
}

/// `low` with the tag of `head`, incremented.
fn tagged(head: u64, low: u64) -> u64 {
    ((head >> 32).wrapping_add(1) << 32) | (low & u64::from(u32::MAX))
}

/// A stack in a bare slot, or a new one.
#[cold]
fn make() -> Option<KStack> {
    if !frame::admits(PAGES) {
        return None;
    }
    let used = clothe();
    let slot = used.or_else(|| {
        let number = NEXT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |number| {
            (number < SLOTS).then_some(number + 1)
        });
        Some((stack_slot(number.ok()?) - STACKS) / STACK_SLOT)
    })?;
    if fit_out(slot).is_none() {
        bare(slot);
        return None;
    }
    if used.is_some() {
        // The page of zeros may still be known somewhere.
        tlb::forget_kernel();
    }
    Some(stack_of(slot))
}

/// Puts frames behind the pages of `slot`; all or none.
fn fit_out(slot: usize) -> Option<()> {
    let mut frames: [Option<Frame>; PAGES] = [None; PAGES];
    let tables = kernel::tables();
    let stack = stack_of(slot);
    let pages = || (stack.base..stack.top).step_by(PAGE);
    let mut found = pages().all(|address| tables.leaf_or_make(address).is_some());
    for place in &mut frames {
        *place = found.then(frame::alloc).flatten();
        found &= place.is_some();
    }
    if !found {
        frames.into_iter().flatten().for_each(frame::release);
        return None;
    }
    for (address, frame) in pages().zip(frames.into_iter().flatten()) {
        if let Some(word) = tables.leaf(address) {
            let entry = frame.address() | KERNEL_DATA | no_execute();
            word.store(entry, Ordering::Release);
        }
    }
    Some(())
}

/// Takes a bare slot: the inverse of [`bare`].
fn clothe() -> Option<usize> {
    for (index, word) in BARE.iter().enumerate() {
        let mut seen = word.load(Ordering::Relaxed);
        while seen != 0 {
            let lowest = seen & seen.wrapping_neg();
            if word.fetch_and(!lowest, Ordering::Acquire) & lowest != 0 {
                BARE_COUNT.fetch_sub(1, Ordering::Relaxed);
                return Some(index * 64 + lowest.trailing_zeros() as usize);
            }
            seen = word.load(Ordering::Relaxed);
        }
    }
    None
}

/// `slot`, which is the caller's, has no frames.
fn bare(slot: usize) {
    BARE_COUNT.fetch_add(1, Ordering::Relaxed);
    BARE[slot / 64].fetch_or(1 << (slot % 64), Ordering::Release);
}

/// Gives back the frames of cached stacks but for a few; answers how many frames. May sleep.
pub fn trim() -> usize {
    let Some(zeros) = zeros() else { return 0 };
    let entry = zeros | PRESENT | no_execute();
    let tables = kernel::tables();
    let mut given = 0;
    while CACHED.load(Ordering::Relaxed) > KEPT {
        let mut slots = [0; BATCH];
        let mut frames = [[None; PAGES]; BATCH];
        let mut count = 0;
        while count < BATCH
            && CACHED.load(Ordering::Relaxed) > KEPT
            && let Some(slot) = cached()
        {
            let stack = stack_of(slot);
            let pages = (stack.base..stack.top).step_by(PAGE);
            for (address, frame) in pages.zip(&mut frames[count]) {
                if let Some(word) = tables.leaf(address) {
                    *frame = Some(frame_of(word.swap(entry, Ordering::AcqRel)));
                }
            }
            slots[count] = slot;
            count += 1;
        }
        tlb::forget_kernel();
        for frame in frames.into_iter().flatten().flatten() {
            frame::release(frame);
            given += 1;
        }
        slots[..count].iter().for_each(|&slot| bare(slot));
        if count == 0 {
            break;
        }
    }
    given
}

/// The address of the frame of zeros that is shown where nothing is.
pub(crate) fn zeros() -> Option<u64> {
    let known = ZEROS.load(Ordering::Acquire);
    if known != 0 {
        return Some(known);
    }
    let frame = frame::alloc_zeroed()?;
    match ZEROS.compare_exchange(0, frame.address(), Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Some(frame.address()),
        Err(known) => {
            frame::release(frame);
            Some(known)
        }
    }
}

/// Counts of stacks.
pub fn stats() -> Stats {
    Stats {
        total: (NEXT.load(Ordering::Relaxed) - MACHINE_STACK_SLOTS)
            .saturating_sub(BARE_COUNT.load(Ordering::Relaxed)),
        cached: CACHED.load(Ordering::Relaxed),
    }
}
