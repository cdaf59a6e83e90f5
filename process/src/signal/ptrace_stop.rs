//! ptrace stops: where a traced thread waits for its tracer.
//!
//! *Interface*: [`stop`] for a signal, [`join_stop`] with its process, [`event`] and [`stop_for`] where the
//! tracer wants to see it, [`stop_at`] a call's beginning or end; [`shown`] are its registers. The requests
//! of tracers are in `ptrace.rs`.

use abi::linux::*;
use core::sync::atomic::Ordering;
use machine::trap::{RFLAGS_IF, RFLAGS_USER, TrapFrame, USER_CS, USER_SS};
use thread::UserBase;

use super::{deliver, send};
use crate::fp;
use crate::process::{Task, tree};

const RFLAGS_TF: u64 = 1 << 8;

/// The running task, traced, has joined a stop of its process because of `signo`, the one with the number
/// `stop`.
pub fn join_stop(task: &Task, trap: &mut TrapFrame, signo: i32, stop: u32) {
    task.trace.joined.store(stop, Ordering::Relaxed);
    if task.trace.seized.load(Ordering::Relaxed) {
        stop_by(task, trap, signo, PTRACE_EVENT_STOP);
    } else {
        let mut info = Siginfo::default();
        stop_at(
            task,
            trap,
            status_stopped(signo),
            &mut info,
            SYSCALL_INFO_NONE,
        );
    }
}

/// The running task, traced, waits for its tracer because of `info`, and tells it `status`. Returns the
/// signal that it is to go on with.
pub fn stop(task: &Task, trap: &mut TrapFrame, status: i32, info: &mut Siginfo) -> i32 {
    stop_at(task, trap, status, info, SYSCALL_INFO_NONE)
}

/// As [`stop`], at the place given by `call`. Afterwards `info` is the tracer's replacement.
pub fn stop_at(
    task: &Task,
    trap: &mut TrapFrame,
    status: i32,
    info: &mut Siginfo,
    call: u8,
) -> i32 {
    {
        // Bound: copying one set of registers.
        let mut state = task.trace.state.lock();
        let Some(state) = state.as_mut().filter(|_| task.trace.is_traced()) else {
            return info.signo;
        };
        trap.rflags &= !RFLAGS_TF;
        state.registers = shown(task, trap);
        state.info = *info;
        state.call = call;
        state.joins = info.signo == 0;
        state.blocked = task.blocked();
        fp::snapshot(&mut state.vectors.0);
        (state.mask_is_new, state.vectors_are_new) = (false, false);
        state.debug.see(task);
        state.status = Some(status);
        state.halted = true;
        state.signal = 0;
        // Before it can be released.
        task.thread.stop();
    }
    task.trace.passes();
    notify(task, status);
    thread::safe_point();
    let mut held = task.trace.state.lock();
    let Some(state) = &mut *held else {
        return info.signo;
    };
    // SIGKILL does not stop for the tracer.
    state.halted = false;
    state.status = None;
    task.trace.ear.shut();
    take(task, trap, &state.registers);
    if state.how.steps() && task.trace.is_traced() {
        trap.rflags |= RFLAGS_TF;
    }
    if state.vectors_are_new {
        fp::replace(&mut state.vectors.0);
    }
    if core::mem::take(&mut state.debug_is_new) {
        state.debug.give(task);
    }
    *info = state.info;
    let (signo, mask) = (state.signal, state.blocked);
    let masked = state.mask_is_new;
    drop(held);
    if masked {
        deliver::set_blocked(task, mask);
    }
    signo
}

/// If there is something that the running task has to stop for, other than a signal, it does. Whether it did.
pub fn event(task: &Task, trap: &mut TrapFrame) -> bool {
    if task.trace.prodded.swap(false, Ordering::SeqCst) {
        let signo = task.process.signals.stopping().unwrap_or(SIGTRAP);
        stop_by(task, trap, signo, PTRACE_EVENT_STOP);
        return true;
    }
    event_of_call(task, trap)
}

/// The same for what the running call has done (`PTRACE_EVENT_EXEC`).
pub fn event_of_call(task: &Task, trap: &mut TrapFrame) -> bool {
    let mut held = task.trace.state.lock();
    let Some(state) = held.as_mut() else {
        return false;
    };
    let Some((event, message)) = state.event.take() else {
        return false;
    };
    state.message = message;
    drop(held);
    stop_for(task, trap, event);
    true
}

/// The running task, traced, waits for its tracer because of `event`.
pub fn stop_for(task: &Task, trap: &mut TrapFrame, event: i32) {
    stop_by(task, trap, SIGTRAP, event);
}

fn stop_by(task: &Task, trap: &mut TrapFrame, signo: i32, event: i32) {
    let code = signo | event << 8;
    let mut info = Siginfo {
        signo: SIGTRAP,
        code,
        ..Siginfo::default()
    };
    stop(task, trap, status_stopped(code), &mut info);
}

fn notify(task: &Task, status: i32) {
    let Some(tracer) = tree::find(task.trace.tracer()) else {
        return;
    };
    let uid = task.cred.get().uid;
    let info = Siginfo::child(CLD_TRAPPED, task.tid, uid, status >> 8 & 0xff, 0, 0);
    // A standard signal: adding it cannot fail.
    let _ = send::send(&tracer, None, info);
    tracer.child_wait.wake_all();
}

/// The registers of `trap` as debuggers see them.
pub fn shown(task: &Task, trap: &TrapFrame) -> UserRegs {
    UserRegs {
        r15: trap.r15,
        r14: trap.r14,
        r13: trap.r13,
        r12: trap.r12,
        rbp: trap.rbp,
        rbx: trap.rbx,
        r11: trap.r11,
        r10: trap.r10,
        r9: trap.r9,
        r8: trap.r8,
        rax: trap.rax,
        rcx: trap.rcx,
        rdx: trap.rdx,
        rsi: trap.rsi,
        rdi: trap.rdi,
        orig_rax: if trap.is_syscall() {
            trap.error
        } else {
            u64::MAX
        },
        rip: trap.rip,
        cs: trap.cs,
        eflags: trap.rflags,
        rsp: trap.rsp,
        ss: trap.ss,
        fs_base: task.thread.fs_base(),
        gs_base: task.thread.gs_base(),
        ..UserRegs::default()
    }
}

/// Sets `trap` to the tracer's values, as far as user mode may have them.
fn take(task: &Task, trap: &mut TrapFrame, r: &UserRegs) {
    if *r == shown(task, trap) {
        return;
    }
    if trap.is_syscall() {
        trap.error = r.orig_rax;
    }
    *trap = TrapFrame {
        r15: r.r15,
        r14: r.r14,
        r13: r.r13,
        r12: r.r12,
        rbp: r.rbp,
        rbx: r.rbx,
        r11: r.r11,
        r10: r.r10,
        r9: r.r9,
        r8: r.r8,
        rax: r.rax,
        rcx: r.rcx,
        rdx: r.rdx,
        rsi: r.rsi,
        rdi: r.rdi,
        rip: r.rip,
        cs: USER_CS,
        rflags: r.eflags & RFLAGS_USER & !RFLAGS_TF | RFLAGS_IF | 2,
        rsp: r.rsp,
        ss: USER_SS,
        ..*trap
    };
    if let Some(base) = UserBase::new(r.fs_base) {
        task.thread.set_fs_base(base);
    }
    if let Some(base) = UserBase::new(r.gs_base) {
        task.thread.set_gs_base(base);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_registers_are_in_the_order_that_debuggers_expect() {
        assert_eq!(size_of::<UserRegs>(), 27 * 8);
        assert_eq!(core::mem::offset_of!(UserRegs, orig_rax), 15 * 8);
        assert_eq!(core::mem::offset_of!(UserRegs, rip), 16 * 8);
        assert_eq!(core::mem::offset_of!(UserRegs, fs_base), 21 * 8);
    }
}
