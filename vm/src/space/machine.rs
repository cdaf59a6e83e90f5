//! The machine as spaces see it: its processors, the kernel's half, and who runs.
//!
//! *Interface*: [`Machine`], beyond the memory that it has ([`PhysMemory`]); [`Kernel`] is the real one. On
//! the host no processor has a space loaded; tests bring a machine of their own.

use super::limits::SpaceLimits;
use crate::frame::{Kernel, PhysMemory};

/// The parts of the machine that a space deals with, beside its memory.
pub trait Machine: PhysMemory {
    /// Makes every CPU on which the address space `root` is active forget its translation of the `pages`
    /// pages from `address` on; the table entries have been changed before. `pages` of `usize::MAX`: all of
    /// them.
    fn forget(self, root: u64, address: usize, pages: usize);

    /// As [`forget`](Self::forget), for the one page of each of `addresses`, which are few.
    fn forget_each(self, root: u64, addresses: &[usize]);

    /// Makes sure that no CPU still has `root` loaded; its user half is empty and it will not be loaded
    /// again.
    fn leave(self, root: u64);

    /// Runs `part` with this CPU pinned (interrupts off; `part` is given its number), if it has `root`
    /// loaded.
    fn pinned<R>(self, root: u64, part: impl FnOnce(usize) -> R) -> Option<R>;

    /// Does another CPU have `root` loaded? Looks after all stores before. A later load sees them.
    fn is_elsewhere(self, root: u64) -> bool;

    /// Returns when every [`pinned`](Self::pinned) part that was going on with `root` on another CPU has
    /// ended.
    fn await_pinned(self, root: u64);

    /// This CPU forgets the page of `address`, if it has `root` loaded; more rights than it knows were given.
    fn forget_here(self, root: u64, address: usize);

    /// The entries of the kernel's half that a new space copies, as (index, entry) pairs. They never change.
    fn kernel_entries(self) -> &'static [(usize, u64)];

    /// Where tables are isolated: all that a space's second root, which programs run on, has of the kernel's
    /// half (index and entry), and the index at which the first root keeps the second one's address.
    fn second_entries(self) -> Option<((usize, u64), usize)> {
        None
    }

    /// Tries to free memory that is held without need; `false` when there was none.
    fn reclaim(self) -> bool {
        false
    }

    /// The limits of a space for faults of the running thread.
    fn bounds(self) -> SpaceLimits {
        SpaceLimits::NONE
    }
}

#[cfg(target_os = "none")]
impl Machine for Kernel {
    fn forget(self, root: u64, address: usize, pages: usize) {
        crate::tlb::forget(root, address, pages);
    }

    fn forget_each(self, root: u64, addresses: &[usize]) {
        crate::tlb::forget_each(root, addresses);
    }

    fn leave(self, root: u64) {
        crate::tlb::leave(root);
    }

    #[inline]
    fn pinned<R>(self, root: u64, part: impl FnOnce(usize) -> R) -> Option<R> {
        crate::tlb::pinned(root, part)
    }

    #[inline]
    fn is_elsewhere(self, root: u64) -> bool {
        crate::tlb::is_elsewhere(root)
    }

    fn await_pinned(self, root: u64) {
        crate::tlb::await_pinned(root);
    }

    #[inline]
    fn forget_here(self, root: u64, address: usize) {
        crate::tlb::forget_here(root, address);
    }

    fn kernel_entries(self) -> &'static [(usize, u64)] {
        crate::kernel::entries()
    }

    fn second_entries(self) -> Option<((usize, u64), usize)> {
        let entry = machine::paging::gate_entry()?;
        Some((entry, machine::paging::second_at() / 8))
    }

    fn reclaim(self) -> bool {
        crate::heap::trim() > 0
    }

    fn bounds(self) -> SpaceLimits {
        super::limits::limits_of_caller()
    }
}

#[cfg(not(target_os = "none"))]
impl Machine for Kernel {
    fn forget(self, _root: u64, _address: usize, _pages: usize) {}

    fn forget_each(self, _root: u64, _addresses: &[usize]) {}

    fn leave(self, _root: u64) {}

    fn pinned<R>(self, _root: u64, _part: impl FnOnce(usize) -> R) -> Option<R> {
        None
    }

    fn is_elsewhere(self, _root: u64) -> bool {
        false
    }

    fn await_pinned(self, _root: u64) {}

    fn forget_here(self, _root: u64, _address: usize) {}

    fn kernel_entries(self) -> &'static [(usize, u64)] {
        &[]
    }
}
