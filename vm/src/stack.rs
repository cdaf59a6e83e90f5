//! Kernel stacks: slots of 32 KiB in `STACKS`, the upper half mapped, the lower half a guard.
//!
//! *Interface*: [`alloc`], [`free`]. A slot that once had a stack keeps it: freed ones are cached and never unmapped,
//! so a stale reference into one reads old bytes and never faults. The last 64 bytes are `StackBase`'s
//! and the owner's to fill.

use abi::layout::STACK_SIZE;

/// A kernel stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KStack {
    /// First address of the mapped part.
    pub base: usize,
    /// First address after it; a multiple of `STACK_SLOT`.
    pub top: usize,
}

/// Counts of stacks.
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
        self.cached * (STACK_SIZE / abi::layout::PAGE)
    }
}

/// A stack with whatever content. `None`: out of memory or slots.
pub fn alloc() -> Option<KStack> {
    todo!()
}

/// Gives a stack back. Nobody runs on it any more.
pub fn free(stack: KStack) {
    todo!()
}

/// Counts of stacks.
pub fn stats() -> Stats {
    todo!()
}
