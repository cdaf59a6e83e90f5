//! Single steps through kernel code, so that a suite can look and act between any two of its instructions.
//!
//! *Interface*: [`link`] a hook once; then between [`begin`] and [`end`] the running thread traps after each
//! of its instructions, and the hook is called with the frame, interrupts off. The trap flag is part of the
//! saved flags, so interrupts and preemption do not disturb it; a procedure that switches threads of its own
//! accord ([`crate::cpu`] knows nothing of flags there) ends the stepping.
//!
//! Nothing in the kernel's own work steps: without a hook, a debug exception in kernel mode stays what it
//! was, a fault.

use core::sync::atomic::{AtomicPtr, Ordering};

use crate::trap_frame::{RFLAGS_TF, TrapFrame};

/// The function that is called after each instruction.
pub struct Hook(pub fn(&mut TrapFrame));

static LINKED: AtomicPtr<Hook> = AtomicPtr::new(core::ptr::null_mut());

/// Links the hook.
pub fn link(hook: &'static Hook) {
    LINKED.store(core::ptr::from_ref(hook).cast_mut(), Ordering::Release);
}

/// Offers a debug exception in kernel mode to the hook; false when there is none.
pub(crate) fn taken(frame: &mut TrapFrame) -> bool {
    let hook = LINKED.load(Ordering::Acquire);
    if hook.is_null() {
        return false;
    }
    // SAFETY: only `link` stores here, and it takes a `&'static`.
    (unsafe { &*hook }.0)(frame);
    true
}

/// Ends the stepping of whoever `frame` belongs to.
pub fn cease(frame: &mut TrapFrame) {
    frame.rflags &= !RFLAGS_TF;
}

/// From the next instruction on, the running thread traps after each.
#[inline(always)]
pub fn begin() {
    #[cfg(target_os = "none")]
    // SAFETY: sets one flag of the running thread, whose effect is the hook's call.
    unsafe {
        core::arch::asm!("pushfq", "or qword ptr [rsp], {flag}", "popfq", flag = const RFLAGS_TF)
    };
}

/// The running thread traps no more.
#[inline(always)]
pub fn end() {
    #[cfg(target_os = "none")]
    // SAFETY: clears one flag of the running thread.
    unsafe {
        core::arch::asm!("pushfq", "and qword ptr [rsp], {rest}", "popfq", rest = const !(RFLAGS_TF as i64))
    };
}
