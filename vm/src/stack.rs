//! Kernel stacks: slots of 32 KiB in `STACKS`, the upper half mapped, the lower half a guard.
//!
//! *Interface*: [`alloc()`], [`free`]. A slot that once had a stack keeps it: freed ones are cached and never unmapped,
//! so a stale reference into one reads old bytes and never faults. The last 64 bytes are `StackBase`'s
//! and the owner's to fill.
//!
//! The cache is a stack of slots, linked through the lowest word of each; the head's tag keeps a stale link out
//! (dissertation, 5.2.1). Progress: lock-free.

use crate::frame;
use crate::kernel;
use crate::table::{KERNEL_DATA, no_execute};
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
    /// Stacks that nobody uses.
    pub cached: usize,
}

impl Stats {
    /// Frames that the cached stacks hold.
    pub fn cached_frames(&self) -> usize {
        self.cached * (STACK_SIZE / PAGE)
    }
}

const SLOTS: usize = STACKS_LEN / STACK_SLOT;

/// Tag in the upper 32 bits; slot number plus one in the lower, zero when nothing is cached.
static CACHE: AtomicU64 = AtomicU64::new(0);
static CACHED: AtomicUsize = AtomicUsize::new(0);
/// Stacks that exist or are being made, those of the machine room included: the slots follow them.
static NEXT: AtomicUsize = AtomicUsize::new(MACHINE_STACK_SLOTS);

fn stack_of(slot: usize) -> KStack {
    let top = STACKS + (slot + 1) * STACK_SLOT;
    KStack {
        base: top - STACK_SIZE,
        top,
    }
}

/// The word of a cached stack that links it to the next.
fn link(slot: usize) -> &'static AtomicU64 {
    // SAFETY: the stack of a slot that was ever cached stays mapped; racing readers of a stack in use throw away what they read.
    unsafe { &*(stack_of(slot).base as *const AtomicU64) }
}

/// A stack with whatever content. `None`: out of memory or slots.
pub fn alloc() -> Option<KStack> {
    let mut head = CACHE.load(Ordering::Acquire);
    while let Some(slot) = (head as u32).checked_sub(1) {
        let next = tagged(head, link(slot as usize).load(Ordering::Relaxed));
        match CACHE.compare_exchange_weak(head, next, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                CACHED.fetch_sub(1, Ordering::Relaxed);
                return Some(stack_of(slot as usize));
            }
            Err(now) => head = now,
        }
    }
    make()
}

/// Gives a stack back. Nobody runs on it any more.
pub fn free(stack: KStack) {
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

/// A stack in a new slot. When memory runs out half-way the slot is left for good, with what it got.
#[cold]
fn make() -> Option<KStack> {
    if !frame::admits(STACK_SIZE / PAGE) {
        return None;
    }
    let number = NEXT
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |number| {
            (number < SLOTS).then_some(number + 1)
        })
        .ok()?;
    let stack = stack_of((stack_slot(number) - STACKS) / STACK_SLOT);
    let tables = kernel::tables();
    for address in (stack.base..stack.top).step_by(PAGE) {
        let word = tables.leaf_or_make(address)?;
        let frame = frame::alloc()?;
        word.store(
            frame.address() | KERNEL_DATA | no_execute(),
            Ordering::Release,
        );
    }
    Some(stack)
}

/// Counts of stacks.
pub fn stats() -> Stats {
    Stats {
        total: NEXT.load(Ordering::Relaxed) - MACHINE_STACK_SLOTS,
        cached: CACHED.load(Ordering::Relaxed),
    }
}
