//! Frameless calls: one Rust function does the whole call, directly from the dispatcher, without a trap
//! frame; it may sleep.
//!
//! *Interface*: [`entry`] is the code address for calls by a [`FramelessFn`]; it is entered by a jump from a
//! routine at any depth of the kernel stack, with interrupts off, the user's registers as at the routine's
//! entry, and rax = [`call_word`] of the call's number and function. The function gets the call's arguments
//! and the [`IrqsOff`] that is true of it, and returns with interrupts off and the result, or
//! [`NOT_HANDLED`]: then the call starts again on the slow path. [`framed_entry`], [`FramedFn`] and
//! [`framed_call_word`] are the same for calls that need all of the user's registers. Inside such a function
//! [`sleep`] waits for the thread's token, [`IrqsOff::with_interrupts`] runs a step with interrupts on, and
//! [`call_handler`] runs the call's ordinary handler so. Requests to the thread that arrive meanwhile are
//! handled on the slow path, which gets the result with [`take_result`].
//!
//! It is kernel text and not generated code, because a thread sleeps in it. The calling dispatcher may be
//! freed meanwhile, so the function does not return there: the way to user mode is the same code for all
//! threads.
//! Source: dissertation, section 3.3.2 (a thread that blocks has saved what it needs already).

use abi::errno::Result;
use core::sync::atomic::Ordering;
use machine::cpu::StackBase;
use machine::irqs_off::IrqsOff;
use machine::trap::TrapFrame;

use crate::running::block::nap;
use crate::running::procedures::woken;
use crate::tte::Tte;
use crate::tte::flags::POKED;

/// A call's work, with its arguments.
pub type FramelessFn =
    extern "sysv64" fn(usize, usize, usize, usize, usize, usize, IrqsOff) -> isize;

/// The same for a call that needs all of the user's registers, which are in the frame. Changes to the frame
/// have no effect.
pub type FramedFn = extern "sysv64" fn(&TrapFrame, IrqsOff) -> isize;

/// Not a result: the call is made again on the slow path.
pub const NOT_HANDLED: isize = i32::MIN as isize;

/// In a call's number, on the slow path: there may be a result already.
pub const HAS_RESULT: u64 = 1 << 30;

/// The word that leads to `function` for call `number`. The kernel's text is in the top two gigabytes, so
/// half a word holds its address.
pub fn call_word(number: usize, function: FramelessFn) -> i64 {
    word_of(number, function as *const ())
}

/// The same for [`framed_entry`].
pub fn framed_call_word(number: usize, function: FramedFn) -> i64 {
    word_of(number, function as *const ())
}

fn word_of(number: usize, function: *const ()) -> i64 {
    (number as i64) << 32 | i64::from(function as u32)
}

/// The number and the result of the running thread's call, if a frameless function has made it. Once.
#[cold]
pub fn take_result() -> Option<(u64, isize)> {
    let base = crate::current().stack_top();
    // SAFETY: the running thread's stack ends in its base, and stays.
    let [call, answer, is_there, ..] = unsafe { &(*(base as *const StackBase)).scratch };
    let there = is_there.swap(0, Ordering::Relaxed) != 0;
    let answered = || {
        (
            call.load(Ordering::Relaxed) >> 32,
            answer.load(Ordering::Relaxed) as isize,
        )
    };
    there.then(answered)
}

/// The number of the running thread's call, for the frameless function that makes it.
#[inline]
pub fn number() -> usize {
    #[cfg(target_os = "none")]
    {
        (StackBase::here().scratch[0].load(Ordering::Relaxed) >> 32) as usize
    }
    #[cfg(not(target_os = "none"))]
    0
}

/// The running thread, `me`, consumes its token, or sleeps in its call until it gets one. May return
/// spuriously: test the condition again. Interrupts are off before and after, and come meanwhile.
#[inline]
pub fn sleep(me: &Tte, _off: &mut IrqsOff) {
    nap(me);
    if me.state.load(Ordering::Relaxed) & POKED != 0 {
        woken(me);
    }
}

/// The answer of a call that ordinary Rust makes. An interrupted call starts again on the slow path, which
/// knows how it continues.
#[inline]
pub fn call_handler(off: &mut IrqsOff, step: impl FnOnce() -> Result<usize>) -> isize {
    match off.with_interrupts(step) {
        Ok(value) => value as isize,
        Err(error) if error.is_restart() => NOT_HANDLED,
        Err(error) => error.to_rax() as isize,
    }
}

/// The code address.
pub fn entry() -> usize {
    #[cfg(target_os = "none")]
    {
        bare::call as *const () as usize
    }
    #[cfg(not(target_os = "none"))]
    0
}

/// The code address for a [`FramedFn`]: as [`entry`], but for the [`framed_call_word`] in rax.
pub fn framed_entry() -> usize {
    #[cfg(target_os = "none")]
    {
        bare::framed as *const () as usize
    }
    #[cfg(not(target_os = "none"))]
    0
}

#[cfg(target_os = "none")]
pub(crate) mod bare {
    use super::{HAS_RESULT, NOT_HANDLED};
    use crate::dispatch::OUT;
    use crate::switch::caller_saved::{SAVED, pop_scratch, push_scratch};
    use crate::switch::yielding::slow;
    use crate::tte::Tte;
    use crate::tte::flags::ATTENTION;
    use core::mem::offset_of;
    use machine::cpu::StackBase;
    use machine::trap::{TrapFrame, USER_CS, USER_SS, VECTOR_SYSCALL};
    use machine::{restore, save};

    /// Bytes of a frame above the registers that [`save!`] pushes.
    const ABOVE: usize = size_of::<TrapFrame>() - offset_of!(TrapFrame, vector);

    #[unsafe(naked)]
    pub(super) unsafe extern "C" fn framed() {
        core::arch::naked_asm!(
            "or rsp, {mask}",
            "sub rsp, {less}",
            "mov [rsp + {call}], rax",
            "push {ss}",
            "push qword ptr [rsp + 8 + {user_rsp}]",
            "push r11",
            "push {cs}",
            "push rcx",
            "shr rax, 32",
            "push rax",
            "push {vector}",
            save!(),
            "mov rdi, rsp",
            "movsxd rax, dword ptr [rsp + {frame} + {call}]",
            "call rax",
            "mov rcx, [rsp + {frame} + {tte}]",
            "test dword ptr [rcx + {state}], {attention}",
            "jnz 3f",
            "cmp rax, {left}",
            "je 2f",
            "mov [rsp + {rax}], rax",
            restore!(),
            "add rsp, {above}",
            "jmp qword ptr [{out}]",
            "3:",
            "cmp rax, {left}",
            "je 2f",
            "mov [rsp + {frame} + {call} + 8], rax",
            "mov dword ptr [rsp + {frame} + {call} + 16], 1",
            restore!(),
            "or eax, {answered}",
            "jmp {slow}",
            "2:",
            restore!(),
            "jmp {slow}",
            mask = const StackBase::SLOT - 1,
            less = const StackBase::SIZE - 1,
            call = const offset_of!(StackBase, scratch),
            user_rsp = const StackBase::USER_RSP,
            ss = const USER_SS,
            cs = const USER_CS,
            vector = const VECTOR_SYSCALL,
            frame = const size_of::<TrapFrame>(),
            above = const ABOVE,
            rax = const offset_of!(TrapFrame, rax),
            tte = const StackBase::TTE,
            state = const offset_of!(Tte, state),
            attention = const ATTENTION,
            left = const NOT_HANDLED,
            answered = const HAS_RESULT,
            out = sym OUT,
            slow = sym slow,
        )
    }

    #[unsafe(naked)]
    pub(crate) unsafe extern "C" fn call() {
        core::arch::naked_asm!(
            "or rsp, {mask}",
            "sub rsp, {less}",
            "mov [rsp + {call}], rax",
            push_scratch!(),
            "mov rcx, r10",
            "movsxd rax, eax",
            "call rax",
            "mov rcx, [rsp + {saved} + {tte}]",
            "test dword ptr [rcx + {state}], {attention}",
            "jnz 3f",
            "cmp rax, {left}",
            pop_scratch!(),
            "je 2f",
            "jmp qword ptr [{out}]",
            "2:",
            "mov eax, [rsp + {call} + 4]",
            "jmp {slow}",
            "3:",
            "cmp rax, {left}",
            "mov [rsp + {saved} + {call} + 8], rax",
            pop_scratch!(),
            "je 2b",
            "mov dword ptr [rsp + {call} + 16], 1",
            "mov eax, [rsp + {call} + 4]",
            "or eax, {answered}",
            "jmp {slow}",
            mask = const StackBase::SLOT - 1,
            less = const StackBase::SIZE - 1,
            saved = const SAVED,
            tte = const StackBase::TTE,
            call = const offset_of!(StackBase, scratch),
            state = const offset_of!(Tte, state),
            attention = const ATTENTION,
            left = const NOT_HANDLED,
            answered = const HAS_RESULT,
            out = sym OUT,
            slow = sym slow,
        )
    }
}
