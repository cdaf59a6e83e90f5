//! `FpuSaveArea`: the FPU save area of a thread's vector registers.
//!
//! *Interface*: [`FpuSaveArea::new`]; [`FpuSaveArea::store`] and [`FpuSaveArea::restore`] move the
//! processor's registers, [`FpuSaveArea::fill`] takes a state that a user may have written.
//! `switch::lazy_fpu` says when.

use super::NoMemory;
use alloc::alloc::{Layout, alloc_zeroed, dealloc};
use core::ptr::NonNull;
use machine::fpu;

/// Offsets in the legacy part of the area.
const FCW: usize = 0;
const MXCSR: usize = 24;
const MXCSR_MASK: usize = 28;
const HEADER: usize = 512;
const FCW_INIT: u16 = 0x037f;
const MXCSR_INIT: u32 = 0x1f80;
const MXCSR_DEFAULT_MASK: u32 = 0xffbf;

/// A save area.
pub(crate) struct FpuSaveArea {
    area: NonNull<u8>,
}

// SAFETY: plain memory with one owner.
unsafe impl Send for FpuSaveArea {}

fn layout() -> Option<Layout> {
    Layout::from_size_align(fpu::area_size(), fpu::ALIGN).ok()
}

impl FpuSaveArea {
    /// An area in the state of a program's start.
    pub(crate) fn new() -> Result<FpuSaveArea, NoMemory> {
        let layout = layout().ok_or(NoMemory)?;
        // SAFETY: the size is at least 512.
        let area = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(NoMemory)?;
        let mut area = FpuSaveArea { area };
        area.set(FCW, FCW_INIT);
        area.set(MXCSR, MXCSR_INIT);
        Ok(area)
    }

    pub(crate) fn copy(&self) -> Result<FpuSaveArea, NoMemory> {
        let mut copy = FpuSaveArea::new()?;
        copy.take_over(self);
        Ok(copy)
    }

    /// Takes the state that is in `other`.
    pub(crate) fn take_over(&mut self, other: &FpuSaveArea) {
        // SAFETY: two areas of this size, one of which is borrowed exclusively.
        unsafe {
            let (from, to) = (other.area.as_ptr(), self.area.as_ptr());
            to.copy_from_nonoverlapping(from, fpu::area_size());
        }
    }

    /// The whole area.
    ///
    /// # Safety
    /// The area is the running thread's, whose registers do not change while the bytes are borrowed, or no
    /// thread's: switch code of another thread writes there at any time.
    pub(crate) unsafe fn bytes(&self) -> &[u8] {
        // SAFETY: memory of this size, which does not change by the caller's promise.
        unsafe { core::slice::from_raw_parts(self.area.as_ptr(), fpu::area_size()) }
    }

    pub(crate) fn address(&self) -> usize {
        self.area.as_ptr() as usize
    }

    /// Writes the state of a program's start.
    pub(crate) fn clear(&mut self) {
        // With XSAVE's header, an empty list of components is the initial state, whatever the other bytes
        // are; without it, the initial state is all zeros except for the two control words.
        let (from, count) = match fpu::area_size() {
            size if size > HEADER => (HEADER, 64),
            size => (0, size),
        };
        // SAFETY: inside the area.
        unsafe { self.area.as_ptr().add(from).write_bytes(0, count) };
        self.set(FCW, FCW_INIT);
        self.set(MXCSR, MXCSR_INIT);
    }

    fn set<T: Copy>(&mut self, offset: usize, value: T) {
        debug_assert!(offset + size_of::<T>() <= HEADER);
        // SAFETY: inside the area, aligned by the callers' constants.
        unsafe { self.area.as_ptr().add(offset).cast::<T>().write(value) }
    }

    fn get<T: Copy>(&self, offset: usize) -> T {
        debug_assert!(offset + size_of::<T>() <= HEADER + 64);
        // SAFETY: as above.
        unsafe { self.area.as_ptr().add(offset).cast::<T>().read() }
    }

    /// Copies `state` in and clears the parts that the processor would refuse.
    pub(crate) fn fill(&mut self, state: &[u8], mxcsr_mask: u32) {
        let len = state.len().min(fpu::area_size());
        let mask = match mxcsr_mask {
            0 => MXCSR_DEFAULT_MASK,
            mask => mask,
        };
        // SAFETY: inside the area.
        unsafe {
            self.area
                .as_ptr()
                .copy_from_nonoverlapping(state.as_ptr(), len);
        }
        self.set(MXCSR, self.get::<u32>(MXCSR) & mask);
        if fpu::area_size() > HEADER {
            // SAFETY: the 64-byte header lies inside an XSAVE area. Unknown components, the compacted format
            // and reserved words would fault.
            unsafe {
                let header = self.area.as_ptr().add(HEADER).cast::<u64>();
                let present = if len > HEADER + 8 { header.read() } else { 3 };
                header.write_bytes(0, 8);
                header.write(present & fpu::components());
            }
        }
    }

    /// The bits that MXCSR may have, if the processor has saved the registers here; 0 otherwise.
    pub(crate) fn mxcsr_mask(&self) -> u32 {
        self.get(MXCSR_MASK)
    }

    /// Saves the registers here.
    ///
    /// # Safety
    /// Floating-point instructions do not trap, and the registers are the area's thread's.
    pub(crate) unsafe fn store(&self) {
        let at = self.area.as_ptr();
        // SAFETY: aligned and large enough for the enabled components.
        unsafe {
            if machine::features::get().xsave() {
                core::arch::asm!("xsave64 [{}]", in(reg) at, in("eax") -1, in("edx") -1, options(nostack));
            } else {
                core::arch::asm!("fxsave64 [{}]", in(reg) at, options(nostack));
            }
        }
    }

    /// Loads the registers from here.
    ///
    /// # Safety
    /// Floating-point instructions do not trap; the area holds a state that the processor accepts.
    pub(crate) unsafe fn restore(&self) {
        let at = self.area.as_ptr();
        // SAFETY: as promised. The kernel itself uses none of these registers.
        unsafe {
            if machine::features::get().xsave() {
                core::arch::asm!("xrstor64 [{}]", in(reg) at, in("eax") -1, in("edx") -1, options(nostack));
            } else {
                core::arch::asm!("fxrstor64 [{}]", in(reg) at, options(nostack));
            }
        }
    }
}

impl Drop for FpuSaveArea {
    fn drop(&mut self) {
        if let Some(layout) = layout() {
            // SAFETY: allocated by `new` with this layout.
            unsafe { dealloc(self.area.as_ptr(), layout) }
        }
    }
}
