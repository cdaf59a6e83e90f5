//! Where physical memory is seen from: the seam between the algorithms here and the machine.
//!
//! *Interface*: [`Memory`] is what the page tables, spaces and heap need of physical memory; [`Kernel`] is
//! the machine's own (all memory, at `phys_to_virt`). Host tests bring their own fake memory.

#[cfg(test)]
pub(crate) mod fake;
pub(crate) mod raw;

use crate::frame::{Frame, Frames};
use crate::space::Bounds;
use abi::errno::Result;

/// Physical memory: its frames, and where the kernel sees a physical address.
pub trait Memory: Copy + Send + Sync + 'static {
    /// The allocator of this memory's frames.
    fn frames(self) -> &'static Frames;

    /// The address at which the kernel reads and writes physical address `physical`.
    fn virt(self, physical: u64) -> *mut u8;

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
    fn bounds(self) -> Bounds {
        Bounds::NONE
    }

    /// The kernel's view of `frame`.
    #[inline]
    fn at(self, frame: Frame) -> *mut u8 {
        self.virt(frame.address())
    }

    /// The heap's view of `frame`, which lies below 1 GiB.
    #[inline]
    fn window(self, frame: Frame) -> *mut u8 {
        self.at(frame)
    }

    /// The frame that the heap sees at `address`.
    fn frame_at(self, address: *mut u8) -> Frame;

    /// Fills `frame` with zeros. The caller owns it.
    #[inline]
    fn zero(self, frame: Frame) {
        // SAFETY: the caller owns the frame, and `at` maps all of it.
        unsafe { raw::zero_page(self.at(frame)) }
    }

    /// Makes `to`, which the caller owns, a copy of `from`, of which the caller has a share. Others may write
    /// `from` meanwhile: the bytes are then whatever they are, to no type.
    #[inline]
    fn copy(self, from: Frame, to: Frame) {
        // SAFETY: both are whole frames that their owners keep.
        unsafe { raw::copy_page(self.at(from), self.at(to)) }
    }

    /// Reads bytes of `frame`, which has an owner. `EIO`: they do not all lie inside it.
    fn read(self, frame: Frame, at: usize, into: &mut [u8]) -> Result<()> {
        let from = raw::inside(self.at(frame), at, into.len())?;
        // SAFETY: `inside` has looked; no Rust slice lies in a frame that programs see.
        unsafe { into.as_mut_ptr().copy_from_nonoverlapping(from, into.len()) };
        Ok(())
    }

    /// Writes bytes of `frame`, which has an owner. `EIO`: they do not all lie inside it.
    fn write(self, frame: Frame, at: usize, from: &[u8]) -> Result<()> {
        let to = raw::inside(self.at(frame), at, from.len())?;
        // SAFETY: as in `read`.
        unsafe { to.copy_from_nonoverlapping(from.as_ptr(), from.len()) };
        Ok(())
    }

    /// A frame of zeros for the kernel's own use, from the stock if it has one.
    #[inline]
    fn zeroed(self) -> Option<Frame> {
        let (frame, clean) = self.frames().alloc_clean()?;
        if !clean {
            self.zero(frame);
        }
        Some(frame)
    }

    /// A frame of zeros for a program; leaves the kernel its reserve.
    #[inline]
    fn zeroed_user(self) -> Option<Frame> {
        if !self.frames().admits(1) {
            return None;
        }
        self.zeroed()
    }
}

/// The machine's memory. On the host: an arena that stands for it.
#[derive(Clone, Copy, Default)]
pub struct Kernel;

#[cfg(target_os = "none")]
impl Memory for Kernel {
    #[inline]
    fn frames(self) -> &'static Frames {
        crate::frame::global()
    }

    #[inline]
    fn virt(self, physical: u64) -> *mut u8 {
        machine::paging::phys_to_virt(physical as usize) as *mut u8
    }

    #[inline]
    fn window(self, frame: Frame) -> *mut u8 {
        machine::paging::window(frame.address() as usize) as *mut u8
    }

    #[inline]
    fn frame_at(self, address: *mut u8) -> Frame {
        Frame::containing((address as usize - machine::paging::window(0)) as u64)
    }

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

    fn bounds(self) -> Bounds {
        crate::space::bounds_of_caller()
    }
}

#[cfg(not(target_os = "none"))]
impl Memory for Kernel {
    fn frames(self) -> &'static Frames {
        crate::frame::global()
    }

    fn virt(self, physical: u64) -> *mut u8 {
        crate::host::arena().virt(physical)
    }

    fn frame_at(self, address: *mut u8) -> Frame {
        Frame::containing((address as usize - self.virt(0) as usize) as u64)
    }

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
