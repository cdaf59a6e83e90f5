//! The owner of a lock, identified by an address in its stack, which it has without a call, a load or a
//! store.
//!
//! *Interface*: [`mark`] gives it with two spare bits, [`thread`] the thread. On a processor that takes 5 ns
//! for a locked instruction, two of which make a lock, every additional store of a lock is visible in its
//! cost: the next locked instruction waits until the store is in the cache.
//!
//! Running threads have separate stacks, so a mark distinguishes them; more is needed only when a thread has
//! to wait. Then the callout [`thread_of_stack`](crate::callout::Callouts::thread_of_stack) finds the thread
//! of the stack.

/// The bits of a mark that are the lock's own.
pub const OWN: u64 = 0b11;

/// A mark of the running thread, with the given bits. It depends on the position in the stack, so a caller
/// that needs it again must keep it.
#[cfg(not(any(loom, miri)))]
#[inline(always)]
pub fn mark<const BITS: u64>() -> u64 {
    let mark: u64;
    // SAFETY: reads a register, which is a multiple of 8.
    unsafe {
        core::arch::asm!("lea {}, [rsp + {}]", out(reg) mark, const BITS & OWN,
            options(nomem, nostack, preserves_flags));
    }
    mark
}

/// The checkers have no stacks of ours: the handle.
#[cfg(any(loom, miri))]
pub fn mark<const BITS: u64>() -> u64 {
    (crate::callout::get().current)() as u64 * (OWN + 1) | BITS & OWN
}

/// Handle of the thread that made a mark, or 0.
#[cfg(not(any(loom, miri)))]
pub fn thread(mark: u64) -> usize {
    (crate::callout::get().thread_of_stack)((mark & !OWN) as usize)
}

/// The handle again. An address keeps its upper bits: they repeat the last one that counts.
#[cfg(any(loom, miri))]
pub fn thread(mark: u64) -> usize {
    (mark as i64 >> OWN.count_ones()) as usize
}
