//! Traps: system calls, faults and the return to user mode.
//!
//! *Interface*: [`link`], once, at boot. A system call goes through the table, a fault to the address space
//! or becomes a signal, and before user code runs again signals are delivered.
//!
//! A fault inside a generated routine resumes at the routine's fix-up, which takes the slow path; a fault
//! inside the kernel's copies is first offered to the address space (docs/architecture.md).

use alloc::sync::Arc;

use abi::Errno;
use abi::layout::PROTECTED_RETURN;
use abi::linux::*;
use core::sync::atomic::Ordering;
use machine::debug_registers::STEP;
use machine::trap::{Callouts, RFLAGS_IF, TrapFrame, exception, fault_address};
use machine::{cpu, panic_report};
use thread::{Return, frameless};
use vm::space::{Begun, FaultError};

use crate::call::{self, Args};
use process::dispatch;
use process::memory;
use process::memory::fault::{FaultRest, PRESENT, access, resolve};
use process::signal::{self, deliver, rseq};
use process::{Task, exit, flows, ptrace};

static CALLOUTS: Callouts = Callouts {
    exception: on_exception,
    fault: on_fault,
    syscall: on_syscall,
    return_to_user,
    irq_exit: thread::irq_exit,
};

/// Links the machine's traps to this room, and what is asked about the process that runs.
pub fn link() {
    machine::trap::link(&CALLOUTS);
    process::callouts::link();
}

/// A call that no generated code has answered.
fn on_syscall(frame: &mut TrapFrame) {
    if Task::here(|task| answer(frame, task)).is_none() {
        frame.rax = Errno::ENOSYS.to_rax();
    }
}

#[inline]
fn answer(frame: &mut TrapFrame, task: &Arc<Task>) {
    if frame.error >= frameless::HAS_RESULT && has_result(frame) {
        return;
    }
    dispatch::settle(task, frame.error as usize);
    if task.trace.wants_calls() {
        // However the thread goes on from there.
        let emulates = task.trace.emulates();
        frame.rax = Errno::ENOSYS.to_rax();
        ptrace::at_call(frame, false);
        if emulates {
            return;
        }
    }
    let result = call::dispatch(&mut Args::new(frame), frame);
    frame.rax = match result {
        Ok(value) => value as u64,
        Err(error) => error.to_rax(),
    };
    // Also after a stop within the call whose beginning was not seen.
    if task.trace.is_traced() {
        ptrace::at_end(frame);
    }
    if task.mask_is_saved.load(Ordering::Relaxed) {
        task.attend();
    }
}

/// Whether the call was made without a trap frame and is here for what else is asked of the thread.
#[cold]
fn has_result(frame: &mut TrapFrame) -> bool {
    let result = frameless::take_result();
    if let Some((number, answer)) = result {
        (frame.error, frame.rax) = (number, answer as u64);
    }
    result.is_some()
}

/// The last thing before user code runs. Interrupts are off, and are off again afterwards.
fn return_to_user(frame: &mut TrapFrame) {
    loop {
        let marks = thread::before_user(frame);
        if marks == 0 {
            break;
        }
        cpu::irq_enable();
        let end = Task::here(|task| {
            if marks == thread::flags::SEQUENCE {
                rseq::look(frame, task, 0);
                flows::update(task);
                if thread::apply_policy() {
                    task.overran();
                }
                return None;
            }
            deliver::run(frame, task)
        })
        .flatten();
        let killed = marks & thread::flags::KILLED != 0;
        if let Some(status) = end.or(killed.then_some(status_signaled(SIGKILL))) {
            exit::leave(frame, status);
        }
        // Bound: a look at the thread’s flags; what handles the trap runs with interrupts on.
        cpu::irq_disable();
    }
    if frame.is_syscall() {
        forget_restart(frame);
    }
}

/// An interrupted call whose signal vanished before it was looked at (another thread took it) is simply made
/// again.
fn forget_restart(frame: &mut TrapFrame) {
    let error = (frame.rax as i64).wrapping_neg();
    if (512..=516).contains(&error) {
        deliver::restart_quietly(frame);
    }
}

fn on_exception(frame: &mut TrapFrame) {
    if frame.vector == exception::PAGE_FAULT {
        page_fault(frame, Begun::Nothing);
    } else {
        on_other_exception(frame);
    }
}

/// Nothing that a program causes often.
#[cold]
fn on_other_exception(frame: &mut TrapFrame) {
    if frame.vector == exception::NO_FPU && frame.from_user() {
        if thread::no_fpu().is_err() {
            cpu::irq_enable();
            memory::short();
            cpu::irq_disable();
        }
    } else if frame.vector == exception::DEBUG && frame.from_user() {
        debugged(frame);
    } else if frame.from_user() {
        cpu::irq_enable();
        if !old_call(frame) {
            signal::force(fault_signal(frame));
        }
    } else if !fix_up(frame) {
        panic_report::fatal_exception(frame);
    }
}

/// A debug exception in user mode: the end of a step, or what the thread's debug registers watch.
fn debugged(frame: &mut TrapFrame) {
    /// The next instruction is not watched.
    const RESUME: u64 = 1 << 16;
    let cause = frame.error as u32;
    let hits = thread::current().take_dr6(cause);
    // Where an instruction is watched, it has not been done, and is to be done when the thread goes on; for
    // the rest the flag means nothing.
    frame.rflags |= if hits != 0 { RESUME } else { 0 };
    // The end of a native step: the thread stops at the crossing.
    let stepped = cause & STEP != 0 && thread::debug_trap(frame);
    if stepped && hits == 0 {
        return;
    }
    let code = match (cause & STEP != 0 && !stepped, hits) {
        (true, _) => TRAP_TRACE,
        (false, 0) => TRAP_BRKPT,
        (false, _) => TRAP_HWBKPT,
    };
    let info = Siginfo::fault(SIGTRAP, code, frame.rip);
    cpu::irq_enable();
    signal::force(info);
}

/// `int 0x80`, the way to the calls of 32-bit programs: none of them is there.
fn old_call(frame: &mut TrapFrame) -> bool {
    /// The instruction.
    const INT_80: [u8; 2] = [0xcd, 0x80];
    /// In the error code: what is refused is an entry of the interrupt table.
    const INTERRUPT: u64 = 1 << 1;
    if frame.vector != exception::PROTECTION || frame.error & INTERRUPT == 0 {
        return false;
    }
    let asked = vm::user::get::<[u8; 2]>(frame.rip as usize) == Ok(INT_80);
    if asked {
        frame.rip += INT_80.len() as u64;
        frame.rax = Errno::ENOSYS.to_rax();
    }
    asked
}

/// Resumes kernel code that expected the fault.
fn fix_up(frame: &mut TrapFrame) -> bool {
    let rip = frame.rip as usize;
    let to = codegen::fixup(rip).or_else(|| machine::user::fixup(rip));
    if let Some(to) = to {
        frame.rip = to as u64;
    }
    to.is_some()
}

/// A page fault of a program that its thread's vector has left.
fn on_fault(frame: &mut TrapFrame, answer: usize) {
    match FaultRest::of(answer) {
        FaultRest::Done | FaultRest::Seen => {}
        FaultRest::More(begun) => page_fault(frame, begun),
        FaultRest::Refused => {
            let address = fault_address();
            cpu::irq_enable();
            signal_for(frame, FaultError::Protection, address);
        }
    }
}

fn page_fault(frame: &mut TrapFrame, begun: Begun) {
    let address = fault_address();
    let access = access(frame.error);
    if frame.from_user() {
        cpu::irq_enable();
        if address >= abi::layout::USER_END {
            // As on Linux: a signal's frame shows the error code, which is not to say where the kernel has
            // pages.
            frame.error |= PRESENT;
        }
        if address == PROTECTED_RETURN && returned(frame) {
            return;
        }
        if let Err(error) = resolve(address, access, begun) {
            signal_for(frame, error, address);
        }
        return;
    }
    // Only the kernel's own copies, with interrupts on, may wait for a page.
    let patient = frame.rflags & RFLAGS_IF != 0
        && address < abi::layout::USER_END
        && machine::user::fixup(frame.rip as usize).is_some();
    if patient {
        cpu::irq_enable();
        let again = match resolve(address, access, begun) {
            Ok(()) => true,
            Err(FaultError::OutOfMemory) => memory::short(),
            Err(_) => false,
        };
        cpu::irq_disable();
        if again {
            return;
        }
    }
    if !fix_up(frame) {
        panic_report::fatal_exception(frame);
    }
}

/// The return of a procedure that the kernel had called, if it is one.
#[cold]
fn returned(frame: &mut TrapFrame) -> bool {
    if frame.rip as usize != PROTECTED_RETURN {
        return false;
    }
    match thread::protected_return(frame) {
        Return::Resumed => true,
        Return::Ended => exit::leave(frame, status_exited(0)),
        Return::Stray => false,
    }
}

/// The signal for an access that the address space refuses.
fn signal_for(frame: &mut TrapFrame, error: FaultError, address: usize) {
    let (signo, code) = match error {
        FaultError::NotMapped => (SIGSEGV, SEGV_MAPERR),
        FaultError::Protection => (SIGSEGV, SEGV_ACCERR),
        FaultError::BeyondEnd => (SIGBUS, BUS_ADRERR),
        FaultError::OutOfMemory => {
            // Whichever process was ended, the access is repeated if this process continues.
            memory::short();
            return;
        }
    };
    if Task::here(|task| deliver::strike(frame, task, signo, code, address)) != Some(true) {
        signal::force(Siginfo::fault(signo, code, address as u64));
    }
}

/// The signal for any other fault of user code.
fn fault_signal(frame: &TrapFrame) -> Siginfo {
    let rip = frame.rip;
    match frame.vector {
        exception::DIVIDE => Siginfo::fault(SIGFPE, FPE_INTDIV, rip),
        exception::BREAKPOINT => Siginfo {
            signo: SIGTRAP,
            code: SI_KERNEL,
            ..Siginfo::default()
        },
        exception::INVALID_OPCODE => Siginfo::fault(SIGILL, ILL_ILLOPN, rip),
        exception::FPU | exception::SIMD => Siginfo::fault(SIGFPE, fp_code(frame), rip),
        exception::ALIGNMENT => Siginfo::fault(SIGBUS, BUS_ADRALN, 0),
        _ => Siginfo {
            signo: SIGSEGV,
            code: SI_KERNEL,
            ..Siginfo::default()
        },
    }
}

/// The `FPE_…` code of a floating-point exception, from the unmasked exceptions that are noted.
fn fp_code(frame: &TrapFrame) -> i32 {
    let noted = process::fp::exceptions(frame.vector == exception::SIMD);
    match noted.trailing_zeros() {
        1 | 4 => FPE_FLTUND,
        2 => FPE_FLTDIV,
        3 => FPE_FLTOVF,
        5 => FPE_FLTRES,
        _ => FPE_FLTINV,
    }
}
