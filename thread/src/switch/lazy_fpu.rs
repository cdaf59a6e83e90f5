//! Lazy FPU: switch code with vector registers for the threads that use them, made at the first use.
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

use crate::ring::per_cpu::here;
use crate::switch::Keys;
use crate::tte::code::{SwitchCode, SwitchKind};
use crate::tte::fpu_save_area::FpuSaveArea;
use crate::tte::{NoMemory, Tte, current};
use core::sync::atomic::Ordering;
use machine::cpu::{Cpu, irq_disable, irq_enable, irq_restore, irq_save};
use machine::fpu;

/// The treatment of the save area by new switch code.
pub(crate) enum FpuChange {
    /// It stays as it is, if there is one.
    Keep,
    /// This one from now on, with its content in the registers.
    Take(FpuSaveArea),
    /// None any more.
    Drop,
}

/// The state of a program's start, in `spare` if there is one: for a thread that has vector registers from
/// the beginning.
///
/// # Errors
/// No memory.
pub(crate) fn fresh(spare: Option<FpuSaveArea>) -> Result<FpuSaveArea, NoMemory> {
    let Some(mut area) = spare else {
        return FpuSaveArea::new();
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
    let made = FpuSaveArea::new().and_then(|area| take(me, area));
    // Bound: saving, loading or filling one save area (512 to 2696 bytes); plugging switch code.
    irq_disable();
    made
}

/// Installs switch code with vector registers, whose state is in `area`, in the running thread, and loads the
/// registers.
fn take(me: &Tte, area: FpuSaveArea) -> Result<(), NoMemory> {
    me.replug(me.kind().with(SwitchKind::FP), FpuChange::Take(area))
}

/// Loads the running thread's area into the registers. With interrupts off.
fn make_live(cpu: &Cpu, me: &Tte) {
    // SAFETY: the thread itself with interrupts off.
    let Some(area) = (unsafe { &me.parts().fp }) else {
        return;
    };
    fpu::clear_trap();
    // SAFETY: the area holds a valid state, and traps are off.
    unsafe { area.restore() };
    cpu.fp_owner.store(me.address(), Ordering::Relaxed);
}

/// Brings the running thread's area up to date with the registers. With interrupts off. The state of a
/// running thread with an area is in the registers, whatever `Cpu::fp_owner` says.
fn settle(me: &Tte) {
    // SAFETY: the thread itself with interrupts off.
    if let Some(area) = unsafe { &me.parts().fp } {
        // SAFETY: the registers are this thread's, and traps are off.
        unsafe { area.store() };
    }
}

/// A copy of the floating-point state of `me`, the running thread, for its child, in `spare` if there is one;
/// `None` when it has none.
///
/// # Errors
/// No memory.
pub(crate) fn inherited(
    me: &Tte,
    spare: Option<FpuSaveArea>,
) -> Result<Option<FpuSaveArea>, NoMemory> {
    // SAFETY: the thread itself; no other gives it an area or removes it.
    if unsafe { &me.parts().fp }.is_none() {
        return Ok(None);
    }
    let area = match spare {
        Some(spare) => spare,
        None => FpuSaveArea::new()?,
    };
    // Bound: saving, loading or filling one save area (512 to 2696 bytes); plugging switch code.
    let irq = irq_save();
    // SAFETY: the state of a running thread with an area is in the registers, and traps are off. The whole
    // area is written, by an instruction that does not depend on its old contents.
    unsafe { area.store() };
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
        .replug(me.kind().without(SwitchKind::FP), FpuChange::Drop)
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
    if let Some(area) = unsafe { &mut me.parts().fp } {
        area.clear();
        make_live(cpu, me);
    }
    irq_restore(irq);
}

/// Puts back the running thread's state as [`inherited`] gave it.
pub(crate) fn reinstate(saved: Option<FpuSaveArea>) {
    let Some(saved) = saved else {
        // The thread had no area then.
        return start_over();
    };
    let irq = irq_save();
    let (cpu, _, me) = here();
    // SAFETY: the thread itself with interrupts off.
    if let Some(area) = unsafe { &mut me.parts().fp } {
        area.take_over(&saved);
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
    // SAFETY: the running thread's; the kernel does not change its registers.
    buffer[..len].copy_from_slice(&unsafe { area.bytes() }[..len]);
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
    // SAFETY: the running thread's; nothing in the kernel changes its registers, and `look` must not.
    look(area.map(|area| unsafe { area.bytes() }))
}

/// Makes `state`, which a user may have written, the running thread's state, in the format of [`save`]. Parts
/// that the processor would refuse are cleared first.
///
/// # Errors
/// No memory.
pub fn load(state: &[u8]) -> Result<(), NoMemory> {
    let me = current();
    if !me.uses_fp() {
        let mut area = FpuSaveArea::new()?;
        area.fill(state, mxcsr_mask(me));
        return take(me, area);
    }
    let irq = irq_save();
    let (cpu, _, me) = here();
    let mask = mxcsr_mask(me);
    // SAFETY: the thread itself with interrupts off.
    if let Some(area) = unsafe { &mut me.parts().fp } {
        area.fill(state, mask);
        make_live(cpu, me);
    }
    irq_restore(irq);
    Ok(())
}

/// The bits that MXCSR may have, from an area that the processor saved before; 0 without such an area.
fn mxcsr_mask(me: &Tte) -> u32 {
    // SAFETY: the thread itself; the word is constant once saved.
    match unsafe { &me.parts().fp } {
        Some(area) => area.mxcsr_mask(),
        None => 0,
    }
}

impl Tte {
    /// Makes switch code of `kind` for the running thread and plugs it in. Interrupts on.
    ///
    /// # Errors
    /// No memory: nothing has changed.
    pub(crate) fn replug(&self, kind: SwitchKind, change: FpuChange) -> Result<(), NoMemory> {
        let fpu_area = match &change {
            // SAFETY: the thread itself; no other changes its area.
            FpuChange::Keep => unsafe { &self.parts().fp }
                .as_ref()
                .map_or(0, FpuSaveArea::address),
            FpuChange::Take(area) => area.address(),
            FpuChange::Drop => 0,
        };
        let keys = Keys {
            tte: self.address(),
            stack_top: self.stack_top(),
            fpu_area,
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
            FpuChange::Keep => None,
            FpuChange::Take(area) => {
                let former = parts.fp.replace(area);
                make_live(cpu, me);
                former
            }
            FpuChange::Drop => {
                disown(cpu);
                parts.fp.take()
            }
        };
        irq_restore(irq);
        drop((former, former_area));
        Ok(())
    }
}
