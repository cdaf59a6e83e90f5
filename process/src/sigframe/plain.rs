//! The signal frame in Rust, byte for byte Linux's, and the way back from it (`rt_sigreturn`).
//!
//! *Interface*: [`push`] builds it, [`pop`] is `rt_sigreturn`. Data from user memory is not trusted: only
//! flags that user mode may set, only user selectors, only vector state that the processor will accept. A
//! non-canonical address gives a fault at the return (`machine::trap`).
//!
//! Source: System V ABI, AMD64 supplement (red zone, stack alignment); the layout of `rt_sigframe` as
//! published for user programs.

#![deny(clippy::arithmetic_side_effects)]

use core::sync::atomic::Ordering;

use abi::errno::{Errno, Result};
use abi::linux::*;
use core::mem::{offset_of, size_of};
use machine::trap::{RFLAGS_IF, RFLAGS_USER, TrapFrame, USER_CS, USER_SS, VECTOR_TAIL};
use vm::user;

use crate::fp;
use crate::process::Task;
use crate::process::signals::set::UNBLOCKABLE;

/// Bytes below the stack pointer that belong to a leaf function.
pub(crate) const RED_ZONE: u64 = 128;
/// Direction, resume and trap flags: clear when a handler starts.
pub(crate) const RFLAGS_CLEARED: u64 = 1 << 10 | 1 << 16 | 1 << 8;

/// Places in a frame, as seen from its lowest word.
pub(crate) const UC: i32 = offset_of!(RtSigframe, uc) as i32;
pub(crate) const INFO: i32 = offset_of!(RtSigframe, info) as i32;

/// A register in a frame, as seen from the `ucontext`.
macro_rules! saved {
    ($register:ident) => {
        (core::mem::offset_of!(abi::linux::Ucontext, mcontext)
            + core::mem::offset_of!(abi::linux::Sigcontext, $register)) as i32
    };
}

/// The same from the frame's lowest word.
macro_rules! framed {
    ($register:ident) => {
        $crate::sigframe::UC + $crate::sigframe::saved!($register)
    };
}
pub(crate) use {framed, saved};

/// Whether `sp` is on the alternate stack. A stack that disarms itself is not in use while it is armed.
fn on_altstack(stack: &Sigaltstack, sp: u64) -> bool {
    stack.flags & SS_AUTODISARM == 0 && sp > stack.sp && sp.wrapping_sub(stack.sp) <= stack.size
}

/// `SS_ONSTACK` or `SS_DISABLE`, as `sigaltstack` reports.
pub fn altstack_state(stack: &Sigaltstack, sp: u64) -> i32 {
    if stack.size == 0 {
        SS_DISABLE
    } else if on_altstack(stack, sp) {
        SS_ONSTACK
    } else {
        0
    }
}

/// The result of `sigaltstack` for a thread at `sp`.
pub fn altstack_report(stack: &Sigaltstack, sp: u64) -> Sigaltstack {
    Sigaltstack {
        flags: altstack_state(stack, sp) | stack.flags & SS_AUTODISARM,
        pad0: 0,
        ..*stack
    }
}

/// Changes the alternate stack of a thread at `sp`. EPERM: it is on it; EINVAL: unknown flags, or several at
/// once; ENOMEM: too small.
pub fn change(stack: &mut Sigaltstack, new: &Sigaltstack, sp: u64) -> Result<()> {
    if on_altstack(stack, sp) && stack.size != 0 {
        return Err(Errno::EPERM);
    }
    if new.flags & !(SS_ONSTACK | SS_DISABLE | SS_AUTODISARM) != 0
        || new.flags & (SS_ONSTACK | SS_DISABLE) == SS_ONSTACK | SS_DISABLE
    {
        return Err(Errno::EINVAL);
    }
    if new.flags & SS_DISABLE != 0 {
        *stack = Sigaltstack {
            flags: new.flags,
            ..Sigaltstack::default()
        };
        return Ok(());
    }
    if new.size < MINSIGSTKSZ {
        return Err(Errno::ENOMEM);
    }
    *stack = *new;
    Ok(())
}

/// Makes `trap` start the handler of `action` for `info`; `mask` is what returning from it will restore.
/// EFAULT.
pub fn push(
    trap: &mut TrapFrame,
    task: &Task,
    info: &Siginfo,
    action: &Sigaction,
    mask: u64,
) -> Result<()> {
    // Bound: three words of the thread’s own.
    let stack = *task.altstack.lock();
    let mut sp = trap.rsp.wrapping_sub(RED_ZONE);
    let mut bound = None;
    if stack.size != 0 && on_altstack(&stack, trap.rsp) {
        bound = Some(stack.sp);
    } else if action.flags & SA_ONSTACK != 0 && stack.size != 0 {
        sp = stack.sp.wrapping_add(stack.size);
        bound = Some(stack.sp);
    }

    let fpstate = sp.wrapping_sub(fp::frame_bytes() as u64) & !63;
    let at = (fpstate.wrapping_sub(size_of::<RtSigframe>() as u64) & !15).wrapping_sub(8);
    if bound.is_some_and(|lowest| at < lowest) {
        return Err(Errno::EFAULT);
    }
    let frame = RtSigframe {
        restorer: action.restorer,
        uc: Ucontext {
            flags: UC_FP_XSTATE | UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS,
            link: 0,
            stack: Sigaltstack { pad0: 0, ..stack },
            mcontext: context(trap, info, mask, fpstate),
            sigmask: mask,
        },
        info: *info,
    };
    fp::save(fpstate as usize)?;
    user::put(at as usize, &frame)?;
    fp::reset();
    if stack.flags & SS_AUTODISARM != 0 {
        // The frame has it, and brings it back.
        *task.altstack.lock() = Sigaltstack {
            flags: SS_DISABLE,
            ..Sigaltstack::default()
        };
    }

    trap.rdi = info.signo as u64;
    trap.rsi = at.wrapping_add(offset_of!(RtSigframe, info) as u64);
    trap.rdx = at.wrapping_add(offset_of!(RtSigframe, uc) as u64);
    trap.rax = 0;
    trap.rip = action.handler;
    trap.rsp = at;
    trap.rflags &= !RFLAGS_CLEARED;
    trap.cs = USER_CS;
    trap.ss = USER_SS;
    trap.vector = VECTOR_TAIL;
    Ok(())
}

fn context(trap: &TrapFrame, info: &Siginfo, mask: u64, fpstate: u64) -> Sigcontext {
    Sigcontext {
        r8: trap.r8,
        r9: trap.r9,
        r10: trap.r10,
        r11: trap.r11,
        r12: trap.r12,
        r13: trap.r13,
        r14: trap.r14,
        r15: trap.r15,
        rdi: trap.rdi,
        rsi: trap.rsi,
        rbp: trap.rbp,
        rbx: trap.rbx,
        rdx: trap.rdx,
        rax: trap.rax,
        rcx: trap.rcx,
        rsp: trap.rsp,
        rip: trap.rip,
        eflags: trap.rflags,
        cs: USER_CS as u16,
        ss: USER_SS as u16,
        err: if trap.vector < 32 { trap.error } else { 0 },
        trapno: if trap.vector < 32 { trap.vector } else { 0 },
        oldmask: mask,
        cr2: if trap.vector == machine::trap::exception::PAGE_FAULT {
            info.fields[0]
        } else {
            0
        },
        fpstate,
        ..Sigcontext::default()
    }
}

/// Restores the state of the frame at the stack pointer, but for the mask of blocked signals, which is
/// returned. EFAULT: it cannot be read or is invalid.
pub(crate) fn pop(trap: &mut TrapFrame, task: &Task) -> Result<u64> {
    let at = trap.rsp.wrapping_sub(8) as usize;
    let uc: Ucontext = user::get(at.wrapping_add(offset_of!(RtSigframe, uc)))?;
    let c = &uc.mcontext;
    fp::restore(c.fpstate as usize)?;
    // A handler may have made nonsense of it, or run on the stack itself: then it changes nothing.
    let _ = change(&mut task.altstack.lock(), &uc.stack, trap.rsp);
    *trap = registers(c, trap);
    task.mask_is_saved.store(false, Ordering::Relaxed);
    Ok(uc.sigmask & !UNBLOCKABLE)
}

/// The registers of `c`, made harmless.
fn registers(c: &Sigcontext, trap: &TrapFrame) -> TrapFrame {
    TrapFrame {
        r15: c.r15,
        r14: c.r14,
        r13: c.r13,
        r12: c.r12,
        rbp: c.rbp,
        rbx: c.rbx,
        r11: c.r11,
        r10: c.r10,
        r9: c.r9,
        r8: c.r8,
        rax: c.rax,
        rcx: c.rcx,
        rdx: c.rdx,
        rsi: c.rsi,
        rdi: c.rdi,
        vector: VECTOR_TAIL,
        error: trap.error,
        rip: c.rip,
        cs: USER_CS,
        rflags: c.eflags & RFLAGS_USER | RFLAGS_IF | 2,
        rsp: c.rsp,
        ss: USER_SS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_registers_are_made_harmless() {
        let c = Sigcontext {
            eflags: u64::MAX,
            cs: 0x10,
            ss: 0x18,
            rip: 5,
            rax: 9,
            ..Sigcontext::default()
        };
        let frame = registers(&c, &TrapFrame::default());
        assert_eq!(
            (frame.cs, frame.ss, frame.rip, frame.rax),
            (USER_CS, USER_SS, 5, 9)
        );
        assert_eq!(frame.rflags & (3 << 12), 0, "I/O privilege");
        assert_eq!(
            frame.rflags & (1 << 14 | 1 << 17),
            0,
            "nested task, virtual 8086"
        );
        assert_ne!(frame.rflags & RFLAGS_IF, 0);
        assert!(!frame.is_syscall());
    }

    #[test]
    fn altstack_states() {
        let stack = Sigaltstack {
            sp: 0x1000,
            size: 0x800,
            ..Sigaltstack::default()
        };
        assert_eq!(altstack_state(&stack, 0x1800), SS_ONSTACK);
        assert_eq!(altstack_state(&stack, 0x1000), 0);
        assert_eq!(altstack_state(&stack, 0x1801), 0);
        assert_eq!(altstack_state(&Sigaltstack::default(), 0x1800), SS_DISABLE);
    }
}
