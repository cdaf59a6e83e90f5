//! Interrupts that are off, as a value: what may be used only while they are off is borrowed from it.
//!
//! *Interface*: [`irqs_off`] does something with interrupts off; [`IrqsOff`] is what a function has that is
//! called with interrupts off. [`IrqsOff::with_interrupts`] and [`IrqsOff::window`] let interrupts come in
//! between.
//!
//! With interrupts off on one processor no grace period ends (`sync::epoch`), so what is taken out of its
//! place meanwhile stays in memory, and need not be counted. A reference to such a thing has the lifetime of
//! an `&IrqsOff`. Everything that lets interrupts come takes an `&mut IrqsOff`, so the compiler refuses a
//! reference that would be used behind it.
//!
//! *Unsafe*: the value of a processor whose interrupts are off already.

use core::marker::PhantomData;

use crate::cpu::{irq_disable, irq_enable, irq_restore, irq_save, irq_window};

/// Interrupts are off on the running processor. It has no size; a routine that calls a function with
/// interrupts off passes nothing for it.
///
/// A reference that is borrowed from it is not used any more when interrupts have come:
/// ```compile_fail
/// use machine::irqs_off::IrqsOff;
/// fn peek<'a>(word: &'a u8, _off: &'a IrqsOff) -> &'a u8 { word }
/// fn call(word: &u8, mut off: IrqsOff) -> u8 {
///     let seen = peek(word, &off);
///     off.with_interrupts(|| ());
///     *seen
/// }
/// ```
/// but may be used before:
/// ```
/// use machine::irqs_off::IrqsOff;
/// fn peek<'a>(word: &'a u8, _off: &'a IrqsOff) -> &'a u8 { word }
/// fn call(word: &u8, mut off: IrqsOff) -> u8 {
///     let seen = *peek(word, &off);
///     off.with_interrupts(|| ());
///     seen
/// }
/// ```
// As in C, so that it may stand among the parameters of such a function.
#[repr(C)]
pub struct IrqsOff {
    nothing: [u8; 0],
    /// It stays on its processor.
    here: PhantomData<*const ()>,
}

impl IrqsOff {
    /// For a function whose caller says in another way that interrupts are off.
    ///
    /// # Safety
    /// Interrupts are off, and only this value lets them come, as long as it lives. Nothing that is borrowed
    /// from another is used then.
    #[inline(always)]
    pub unsafe fn assume() -> IrqsOff {
        IrqsOff {
            nothing: [],
            here: PhantomData,
        }
    }

    /// Lets interrupts come while it does `step`, which may wait. The thread may be on another processor
    /// afterwards.
    #[inline]
    pub fn with_interrupts<R>(&mut self, step: impl FnOnce() -> R) -> R {
        irq_enable();
        let result = step();
        // Bound: nothing: what may wait is done with interrupts on.
        irq_disable();
        result
    }

    /// Lets those interrupts come that wait. The thread may be on another processor afterwards.
    #[inline]
    pub fn window(&mut self) {
        irq_window();
    }
}

/// Does `step` with interrupts off. It is short.
#[inline]
pub fn irqs_off<R>(step: impl FnOnce(&IrqsOff) -> R) -> R {
    // Bound: that of `step`, which each caller names.
    let state = irq_save();
    // SAFETY: they are off until `step` has returned, which cannot let them come.
    let off = unsafe { IrqsOff::assume() };
    let result = step(&off);
    irq_restore(state);
    result
}
