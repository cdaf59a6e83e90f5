//! Who holds a lock: an address in the holder's stack, which it has without a call, a load or a store.
//!
//! *Interface*: [`mark`] gives it with two bits to spare, [`thread`] the thread. On a processor that takes 5
//! ns for a locked instruction, two of which make a lock, everything that a lock stores beside its word is to
//! be seen in its price: the next locked instruction waits until it is in the cache.
//!
//! The running threads' stacks are apart, so a mark tells them from each other; nobody needs more until
//! somebody has to wait. Whose stack it is the callout
//! [`thread_of_stack`](crate::callout::Callouts::thread_of_stack) knows then.

/// The bits of a mark that are the lock's own.
pub(crate) const OWN: u64 = 0b11;

/// A mark of the running thread, with these of its own bits. It is that of a place in the stack: who needs it
/// again keeps it.
#[cfg(not(any(loom, miri)))]
#[inline(always)]
pub(crate) fn mark<const BITS: u64>() -> u64 {
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
pub(crate) fn mark<const BITS: u64>() -> u64 {
    (crate::callout::get().current)() as u64 * (OWN + 1) | BITS & OWN
}

/// Handle of the thread that made a mark, or 0.
#[cfg(not(any(loom, miri)))]
pub(crate) fn thread(mark: u64) -> usize {
    (crate::callout::get().thread_of_stack)((mark & !OWN) as usize)
}

/// The handle again. An address keeps its upper bits: they repeat the last one that counts.
#[cfg(any(loom, miri))]
pub(crate) fn thread(mark: u64) -> usize {
    (mark as i64 >> OWN.count_ones()) as usize
}
