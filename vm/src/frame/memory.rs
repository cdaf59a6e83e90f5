//! Where physical memory is seen from.
//!
//! *Interface*: [`PhysMemory`] is what the page tables, spaces and heap need of physical memory; [`Kernel`]
//! is the machine's own (all memory, at `phys_to_virt`), on the host an arena. This room's tests bring their
//! own fake memory.

use super::{Frame, Frames, raw};
use abi::errno::Result;

/// Physical memory: its frames, and where the kernel sees a physical address.
pub trait PhysMemory: Copy + Send + Sync + 'static {
    /// The allocator of this memory's frames.
    fn frames(self) -> &'static Frames;

    /// The address at which the kernel reads and writes physical address `physical`.
    fn virt(self, physical: u64) -> *mut u8;

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

    /// Fills `frame` with zeros.
    ///
    /// # Safety
    /// The caller owns it.
    #[inline]
    unsafe fn zero(self, frame: Frame) {
        // SAFETY: the caller owns the frame, and `at` maps all of it.
        unsafe { raw::zero_page(self.at(frame)) }
    }

    /// Makes `to` a copy of `from`. Others may write `from` meanwhile: the bytes are then whatever they are,
    /// to no type.
    ///
    /// # Safety
    /// The caller owns `to`, and has a share of `from`.
    #[inline]
    unsafe fn copy(self, from: Frame, to: Frame) {
        // SAFETY: both are whole frames that their owners keep.
        unsafe { raw::copy_page(self.at(from), self.at(to)) }
    }

    /// Reads bytes of `frame`. `EIO`: they do not all lie inside it.
    ///
    /// # Safety
    /// It is a program's, and stays so meanwhile.
    unsafe fn read(self, frame: Frame, at: usize, into: &mut [u8]) -> Result<()> {
        let from = raw::inside(self.at(frame), at, into.len())?;
        // SAFETY: `inside` has looked; no Rust slice lies in a frame that programs see.
        unsafe { into.as_mut_ptr().copy_from_nonoverlapping(from, into.len()) };
        Ok(())
    }

    /// Writes bytes of `frame`. `EIO`: they do not all lie inside it.
    ///
    /// # Safety
    /// As for [`PhysMemory::read`].
    unsafe fn write(self, frame: Frame, at: usize, from: &[u8]) -> Result<()> {
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
            // SAFETY: just allocated.
            unsafe { self.zero(frame) };
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
impl PhysMemory for Kernel {
    #[inline]
    fn frames(self) -> &'static Frames {
        super::global()
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
}

#[cfg(not(target_os = "none"))]
impl PhysMemory for Kernel {
    fn frames(self) -> &'static Frames {
        super::global()
    }

    fn virt(self, physical: u64) -> *mut u8 {
        super::arena::arena().virt(physical)
    }

    fn frame_at(self, address: *mut u8) -> Frame {
        Frame::containing((address as usize - self.virt(0) as usize) as u64)
    }
}
