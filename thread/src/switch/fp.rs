//! Floating point: switch code with vector registers for the threads that use them, made at the first use.
//!
//! *Interface*: [`no_fpu`] is the #NM exception; `inherited` copies the running thread's state for a new
//! thread; [`forget`] removes it (exec); [`save`] and [`load`] are for signal frames.
//!
//! A thread starts without vector registers. While it runs CR0.TS is set, so it cannot read another thread's
//! registers (CVE-2018-3665). On processors that leak them even then (`machine::mitigate`), every program's
//! thread has them from the start. After a thread's first use its switch code saves them at each switch-out
//! and loads them at a switch-in, unless the CPU's registers are still this thread's. Kernel threads and the
//! kernel itself never touch them.
//! Source: dissertation, section 3.3.2.

use crate::running::local::here;
use crate::switch::{Keys, Kind, SwitchCode};
use crate::tte::{NoMemory, Tte, current};
use alloc::alloc::{Layout, alloc_zeroed, dealloc};
use core::ptr::NonNull;
use core::sync::atomic::Ordering;
use machine::cpu::{Cpu, irq_disable, irq_enable, irq_restore, irq_save};
use machine::fpu;

/// Offsets in the legacy part of the area.
const FCW: usize = 0;
const MXCSR: usize = 24;
const MXCSR_MASK: usize = 28;
const HEADER: usize = 512;
const FCW_INIT: u16 = 0x037f;
const MXCSR_INIT: u32 = 0x1f80;
const MXCSR_DEFAULT_MASK: u32 = 0xffbf;

/// The treatment of the save area by new switch code.
pub(crate) enum FpChange {
    /// It stays as it is, if there is one.
    Keep,
    /// This one from now on, with its content in the registers.
    Take(FpArea),
    /// None any more.
    Drop,
}

/// A save area.
pub(crate) struct FpArea {
    area: NonNull<u8>,
}

// SAFETY: plain memory with one owner.
unsafe impl Send for FpArea {}

fn layout() -> Option<Layout> {
    Layout::from_size_align(fpu::area_size(), fpu::ALIGN).ok()
}

impl FpArea {
    /// An area in the state of a program's start.
    fn new() -> Result<FpArea, NoMemory> {
        let layout = layout().ok_or(NoMemory)?;
        // SAFETY: the size is at least 512.
        let area = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(NoMemory)?;
        let area = FpArea { area };
        area.set(FCW, FCW_INIT);
        area.set(MXCSR, MXCSR_INIT);
        Ok(area)
    }

    pub(crate) fn copy(&self) -> Result<FpArea, NoMemory> {
        let copy = FpArea::new()?;
        // SAFETY: two areas of this size, and no other thread uses the target.
        unsafe {
            let (from, to) = (self.area.as_ptr(), copy.area.as_ptr());
            to.copy_from_nonoverlapping(from, fpu::area_size());
        }
        Ok(copy)
    }

    pub(crate) fn address(&self) -> usize {
        self.area.as_ptr() as usize
    }

    /// Writes the state of a program's start. No other thread uses the area.
    fn clear(&self) {
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

    fn set<T: Copy>(&self, offset: usize, value: T) {
        debug_assert!(offset + size_of::<T>() <= HEADER);
        // SAFETY: inside the area, aligned by the callers' constants.
        unsafe { self.area.as_ptr().add(offset).cast::<T>().write(value) }
    }

    fn get<T: Copy>(&self, offset: usize) -> T {
        debug_assert!(offset + size_of::<T>() <= HEADER + 64);
        // SAFETY: as above.
        unsafe { self.area.as_ptr().add(offset).cast::<T>().read() }
    }
}

impl Drop for FpArea {
    fn drop(&mut self) {
        if let Some(layout) = layout() {
            // SAFETY: allocated by `new` with this layout.
            unsafe { dealloc(self.area.as_ptr(), layout) }
        }
    }
}

/// The state of a program's start, in `spare` if there is one: for a thread that has vector registers from
/// the beginning.
///
/// # Errors
/// No memory.
pub(crate) fn fresh(spare: Option<FpArea>) -> Result<FpArea, NoMemory> {
    let Some(area) = spare else {
        return FpArea::new();
    };
    area.clear();
    Ok(area)
}

/// The #NM exception, from user mode, interrupts off before and after. It comes only from a thread without: a
/// thread with vector registers runs with the trap off.
///
/// # Errors
/// No memory for the area or the code: the thread cannot go on.
pub fn no_fpu() -> Result<(), NoMemory> {
    let me = current();
    irq_enable();
    let made = FpArea::new().and_then(|area| take(me, area));
    // Bound: saving, loading or filling one save area (512 to 2696 bytes); plugging switch code.
    irq_disable();
    made
}

/// Installs switch code with vector registers, whose state is in `area`, in the running thread, and loads the
/// registers.
fn take(me: &Tte, area: FpArea) -> Result<(), NoMemory> {
    me.replug(me.kind().with(Kind::FP), FpChange::Take(area))
}

/// Loads the running thread's area into the registers. With interrupts off.
fn make_live(cpu: &Cpu, me: &Tte) {
    // SAFETY: the thread itself with interrupts off.
    let Some(area) = (unsafe { &me.parts().fp }) else {
        return;
    };
    fpu::clear_trap();
    // SAFETY: the area holds a valid state, and traps are off.
    unsafe { restore(area) };
    cpu.fp_owner.store(me.address(), Ordering::Relaxed);
}

/// Brings the running thread's area up to date with the registers. With interrupts off. The state of a
/// running thread with an area is in the registers, whatever `Cpu::fp_owner` says.
fn settle(me: &Tte) {
    // SAFETY: the thread itself with interrupts off.
    if let Some(area) = unsafe { &me.parts().fp } {
        // SAFETY: the registers are this thread's, and traps are off.
        unsafe { store(area) };
    }
}

/// A copy of the floating-point state of `me`, the running thread, for its child, in `spare` if there is one;
/// `None` when it has none.
///
/// # Errors
/// No memory.
pub(crate) fn inherited(me: &Tte, spare: Option<FpArea>) -> Result<Option<FpArea>, NoMemory> {
    // SAFETY: the thread itself; no other gives it an area or removes it.
    if unsafe { &me.parts().fp }.is_none() {
        return Ok(None);
    }
    let area = match spare {
        Some(spare) => spare,
        None => FpArea::new()?,
    };
    // Bound: saving, loading or filling one save area (512 to 2696 bytes); plugging switch code.
    let irq = irq_save();
    // SAFETY: the state of a running thread with an area is in the registers, and traps are off. The whole
    // area is written, by an instruction that does not depend on its old contents.
    unsafe { store(&area) };
    irq_restore(irq);
    Ok(Some(area))
}

/// Takes the running thread's floating-point state away: it starts over without, as after exec.
pub fn forget() {
    let me = current();
    if !me.uses_fp() {
        return;
    }
    if machine::mitigate::measures().eager_vectors() {
        return start_over();
    }
    if me
        .replug(me.kind().without(Kind::FP), FpChange::Drop)
        .is_err()
    {
        // No memory for smaller code: keep the code, and start over in it.
        start_over();
    }
}

/// Puts the running thread's floating-point state back to that of a program's start, if it has one; it keeps
/// its switch code.
pub fn start_over() {
    let irq = irq_save();
    let (cpu, _, me) = here();
    // SAFETY: the thread itself with interrupts off.
    if let Some(area) = unsafe { &me.parts().fp } {
        area.clear();
        make_live(cpu, me);
    }
    irq_restore(irq);
}

/// Puts back the running thread's state as [`inherited`] gave it.
pub(crate) fn reinstate(saved: Option<FpArea>) {
    let Some(saved) = saved else {
        // The thread had no area then.
        return start_over();
    };
    let irq = irq_save();
    let (cpu, _, me) = here();
    // SAFETY: the thread itself with interrupts off.
    if let Some(area) = unsafe { &me.parts().fp } {
        // SAFETY: both are areas of this size.
        unsafe {
            area.area
                .as_ptr()
                .copy_from_nonoverlapping(saved.area.as_ptr(), fpu::area_size());
        }
        make_live(cpu, me);
    }
    irq_restore(irq);
}

/// With interrupts off, after the running thread lost its state: the next floating-point instruction traps
/// again.
pub(crate) fn disown(cpu: &Cpu) {
    fpu::set_trap();
    cpu.fp_owner.store(Cpu::FP_TRAPPED, Ordering::Relaxed);
}

/// Copies the running thread's state (XSAVE's standard format, or FXSAVE's) into `buffer`, as much as fits.
/// `None`: it has none.
pub fn save(buffer: &mut [u8]) -> Option<usize> {
    let irq = irq_save();
    let (_, _, me) = here();
    settle(me);
    irq_restore(irq);
    // SAFETY: the thread itself; see `inherited`.
    let area = unsafe { &me.parts().fp }.as_ref()?;
    let len = buffer.len().min(fpu::area_size());
    // SAFETY: inside the area.
    buffer[..len].copy_from_slice(unsafe { core::slice::from_raw_parts(area.area.as_ptr(), len) });
    Some(len)
}

/// Shows the running thread's state where it lies (XSAVE's standard format, or FXSAVE's), up to date; `None`:
/// it has none. `look` may sleep, and must not use floating point.
pub fn look<R>(look: impl FnOnce(Option<&[u8]>) -> R) -> R {
    let irq = irq_save();
    let (_, _, me) = here();
    settle(me);
    irq_restore(irq);
    // SAFETY: the thread itself; see `inherited`.
    let area = unsafe { &me.parts().fp }.as_ref();
    // SAFETY: the whole area.
    let bytes =
        |a: &FpArea| unsafe { core::slice::from_raw_parts(a.area.as_ptr(), fpu::area_size()) };
    look(area.map(bytes))
}

/// Makes `state`, which a user may have written, the running thread's state, in the format of [`save`]. Parts
/// that the processor would refuse are cleared first.
///
/// # Errors
/// No memory.
pub fn load(state: &[u8]) -> Result<(), NoMemory> {
    let me = current();
    if !me.uses_fp() {
        let area = FpArea::new()?;
        // SAFETY: no other thread uses the area.
        unsafe { area.fill(state, mxcsr_mask(me)) };
        return take(me, area);
    }
    let irq = irq_save();
    let (cpu, _, me) = here();
    // SAFETY: the thread itself with interrupts off.
    if let Some(area) = unsafe { &me.parts().fp } {
        // SAFETY: as above; no other thread reads it before it is complete.
        unsafe { area.fill(state, mxcsr_mask(me)) };
        make_live(cpu, me);
    }
    irq_restore(irq);
    Ok(())
}

impl FpArea {
    /// Copies `state` in and clears the parts that the processor would refuse.
    ///
    /// # Safety
    /// No other thread uses the area meanwhile.
    unsafe fn fill(&self, state: &[u8], mxcsr_mask: u32) {
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
}

/// The bits that MXCSR may have, from an area that the processor saved before; 0 without such an area.
fn mxcsr_mask(me: &Tte) -> u32 {
    // SAFETY: the thread itself; the word is constant once saved.
    match unsafe { &me.parts().fp } {
        Some(area) => area.get(MXCSR_MASK),
        None => 0,
    }
}

/// # Safety
/// Floating-point instructions do not trap, and the registers are the area's thread's.
unsafe fn store(area: &FpArea) {
    let at = area.area.as_ptr();
    // SAFETY: aligned and large enough for the enabled components.
    unsafe {
        if machine::features::get().xsave() {
            core::arch::asm!("xsave64 [{}]", in(reg) at, in("eax") -1, in("edx") -1, options(nostack));
        } else {
            core::arch::asm!("fxsave64 [{}]", in(reg) at, options(nostack));
        }
    }
}

/// # Safety
/// Floating-point instructions do not trap; the area holds a state that the processor accepts.
unsafe fn restore(area: &FpArea) {
    let at = area.area.as_ptr();
    // SAFETY: as promised. The kernel itself uses none of these registers.
    unsafe {
        if machine::features::get().xsave() {
            core::arch::asm!("xrstor64 [{}]", in(reg) at, in("eax") -1, in("edx") -1, options(nostack));
        } else {
            core::arch::asm!("fxrstor64 [{}]", in(reg) at, options(nostack));
        }
    }
}

impl Tte {
    /// Makes switch code of `kind` for the running thread and plugs it in. Interrupts on.
    ///
    /// # Errors
    /// No memory: nothing has changed.
    pub(crate) fn replug(&self, kind: Kind, change: FpChange) -> Result<(), NoMemory> {
        let fp_area = match &change {
            // SAFETY: the thread itself; no other changes its area.
            FpChange::Keep => unsafe { &self.parts().fp }
                .as_ref()
                .map_or(0, FpArea::address),
            FpChange::Take(area) => area.address(),
            FpChange::Drop => 0,
        };
        let keys = Keys {
            tte: self.address(),
            stack_top: self.stack_top(),
            fp_area,
        };
        let code = SwitchCode::synthesize(kind, &keys, self.serial())?;
        let irq = irq_save();
        let (cpu, local, me) = here();
        me.publish(kind, &code);
        local.ring.replug(me, me);
        // SAFETY: the thread itself with interrupts off.
        let parts = unsafe { me.parts() };
        let former = parts.switch.replace(code);
        let former_area = match change {
            FpChange::Keep => None,
            FpChange::Take(area) => {
                let former = parts.fp.replace(area);
                make_live(cpu, me);
                former
            }
            FpChange::Drop => {
                disown(cpu);
                parts.fp.take()
            }
        };
        irq_restore(irq);
        drop((former, former_area));
        Ok(())
    }
}
