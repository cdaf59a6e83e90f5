//! Delivering signals: the last step before user code runs.
//!
//! *Interface*: [`run`], in thread context with interrupts on. It decides whether an interrupted call is
//! restarted, runs default actions, and builds the frames of handlers. [`raise`] is for a thread that sends
//! itself a handled signal, which is then never queued. [`has_pending`] tells an interrupted wait whether it
//! must return: another thread may have taken the signal.

use alloc::sync::Arc;
use core::sync::atomic::Ordering;

use abi::errno::Errno;
use abi::linux::*;
use machine::trap::TrapFrame;
use thread::flags::ATTENTION;

use super::timer_signals::at_once;
use super::{coredump, ptrace_stop, rseq, send};
use crate::process::signals::ChildChange;
use crate::process::signals::pending::SignalOrigin;
use crate::process::signals::set::{DefaultAction, STOPPERS, UNBLOCKABLE, bit, default_action};
use crate::process::{Process, Task, tree};
use crate::sigframe::{self, writer};

/// Length of the `syscall` instruction.
const SYSCALL_BYTES: u64 = 2;

/// Delivers all signals that `task`, the running task, does not block. A returned status means that the
/// thread must end: the caller drops what it holds and ends it.
#[must_use]
pub fn run(trap: &mut TrapFrame, task: &Arc<Task>) -> Option<i32> {
    let process = &task.process;
    loop {
        task.thread.clear_alert();
        if let Some(status) = process.signals.ending() {
            coredump::join(task, trap);
            return Some(status);
        }
        if join_stop(trap, process, task) || freeze(process) {
            continue;
        }
        if task.trace.is_traced() && ptrace_stop::event(task, trap) {
            continue;
        }
        if process.timers.have_rung() && !task.trace.is_traced() && ring(trap, task) {
            continue;
        }
        let wanted = !task.blocked() | UNBLOCKABLE;
        if task.pending_here() & wanted == 0 {
            break;
        }
        let mut info = Siginfo::default();
        if !process.signals.take(task, wanted, &mut info) {
            break;
        }
        if task.trace.is_traced() && info.signo != SIGKILL {
            // The tracer sees it first, and may want another one or none.
            let status = status_stopped(info.signo);
            let signo = ptrace_stop::stop(task, trap, status, &mut info);
            if signo == 0 {
                continue;
            }
            if signo != info.signo {
                info = Siginfo::sent(signo, SI_USER, task.trace.tracer(), 0);
            }
        }
        let signo = info.signo;
        let action = process.signals.actions.get().get(signo);
        if action.handler == SIG_IGN && bit(signo) & UNBLOCKABLE == 0 {
            continue;
        }
        if action.handler > SIG_IGN && bit(signo) & UNBLOCKABLE == 0 {
            handle(trap, task, &info, &action);
            continue;
        }
        match default_action(signo) {
            DefaultAction::Ignore => {}
            DefaultAction::Stop => stop(task, signo),
            DefaultAction::Terminate => {
                return Some(coredump::end(process, task, trap, &info));
            }
        }
    }
    restart(trap, task, None);
    if task.mask_is_saved.swap(false, Ordering::Relaxed) {
        set_blocked(task, task.saved_mask.load(Ordering::Relaxed));
    }
    None
}

/// The handler of a timer's signal that `task`, the running task, takes at once runs next, if there is one.
fn ring(trap: &mut TrapFrame, task: &Arc<Task>) -> bool {
    let mut info = Siginfo::default();
    let action = at_once(task, &mut info);
    if let Some(action) = &action {
        handle(trap, task, &info, action);
    }
    action.is_some()
}

/// `task`, the running task, sends itself `info` by the call of `trap`. If this would be the first and only
/// signal that it takes at the end of the call, and it has a handler, the call succeeds and the handler runs
/// next. False: nothing has been done.
///
/// Any other request to the thread (an end, a stop, a signal or a timer's) is either seen here or comes after
/// this signal. Other waiters for signals of the process find it taken.
#[must_use]
pub fn raise(trap: &mut TrapFrame, task: &Arc<Task>, info: &Siginfo) -> bool {
    let this = bit(info.signo);
    let special = UNBLOCKABLE | STOPPERS | bit(SIGCONT);
    if (special | task.blocked()) & this != 0
        || task.thread.flags() & ATTENTION != 0
        || task.trace.is_traced()
        || task.pending_here() != 0
        || !trap.is_syscall()
    {
        return false;
    }
    let action = task
        .process
        .signals
        .actions
        .with(|actions| actions.get(info.signo));
    if action.handler <= SIG_IGN {
        return false;
    }
    trap.rax = 0;
    handle(trap, task, info, &action);
    true
}

/// The program of `task`, the running one, has caused page fault `trap` at `address`, which its space
/// refuses: if nothing else is asked of the thread, and `signo` has a handler and is not blocked, the handler
/// runs next. False: nothing has been done. With interrupts on.
#[inline]
pub fn strike(trap: &mut TrapFrame, task: &Task, signo: i32, code: i32, address: usize) -> bool {
    let written = writer::strike(trap, task, signo, code, address);
    if written == Some(true) {
        // Its sender may have found this thread willing, which does not take it any more.
        blocks_instead(task, 0, task.blocked());
    }
    written.is_some()
}

/// The slow path of `rt_sigreturn`: `task`, the running one, comes back from a handler, whose frame is at the
/// stack pointer. EFAULT: it cannot be read or is invalid.
pub fn sigreturn_slow(trap: &mut TrapFrame, task: &Task) -> abi::Result<()> {
    let mask = sigframe::pop(trap, task)?;
    set_blocked(task, mask);
    Ok(())
}

/// Whether [`run`] would find something to do for `task`, the running task, which an alert has woken: an end,
/// a stop, a tracer, a signal. If not, the alert is cleared: what it was about has gone to another thread, or
/// another thread is about to make a timer's signal of it, and alerts again.
#[must_use]
pub fn has_pending(task: &Task) -> bool {
    let signals = &task.process.signals;
    task.thread.clear_alert();
    let pending = signals.is_ending()
        || signals.is_stopping()
        || signals.is_freezing()
        || task.trace.is_traced()
        || task.pending_here() & (!task.blocked() | UNBLOCKABLE) != 0;
    if pending {
        task.attend();
    }
    pending
}

/// Blocks exactly `mask`, and looks whether something that was blocked can be delivered now.
pub fn set_blocked(task: &Task, mask: u64) {
    let mask = mask & !UNBLOCKABLE;
    let before = task.blocked.swap(mask, Ordering::SeqCst);
    blocks_instead(task, before, mask);
}

/// The running `task` blocks `mask` instead of `before`: looks for what can be delivered now, and what is
/// left to others.
fn blocks_instead(task: &Task, before: u64, mask: u64) {
    let waiting = task.pending_here();
    if waiting & !mask != 0 {
        task.attend();
    }
    let others = waiting & mask & !before;
    if others != 0 {
        task.process.signals.leave_to_others(&task.process, others);
    }
}

/// The result of an interrupted call: `handler` is the action whose handler runs, if one does.
fn restart(trap: &mut TrapFrame, task: &Task, handler: Option<&Sigaction>) {
    if !trap.is_syscall() {
        return;
    }
    let error = Errno((trap.rax as i64).wrapping_neg() as i32);
    if !error.is_restart() || trap.rax as i64 > 0 {
        return;
    }
    let again = match (error, handler) {
        (Errno::ERESTARTNOINTR, _) => true,
        (_, None) => true,
        (Errno::ERESTARTSYS, Some(action)) => action.flags & SA_RESTART != 0,
        _ => false,
    };
    if again {
        trap.rax = trap.error;
        if error == Errno::ERESTART_RESTARTBLOCK {
            trap.rax = abi::nr::RESTART_SYSCALL as u64;
        }
        trap.rip = trap.rip.wrapping_sub(SYSCALL_BYTES);
    } else {
        trap.rax = Errno::EINTR.to_rax();
        // Bound: a few words of the thread’s own.
        *task.restart.lock() = None;
    }
    // From here on the frame is not the call's any more: rcx and rip differ.
    trap.vector = machine::trap::VECTOR_TAIL;
}

/// Makes an interrupted call again for which nothing was delivered after all.
pub fn restart_quietly(trap: &mut TrapFrame) {
    Task::here(|task| restart(trap, task, None));
}

/// Builds the frame of a handler, so that it runs next.
fn handle(trap: &mut TrapFrame, task: &Arc<Task>, info: &Siginfo, action: &Sigaction) {
    restart(trap, task, Some(action));
    let mut blocked = task.blocked();
    if !writer::write(trap, task, info, action, restored(task, blocked)) {
        if task.rseq.is_registered() {
            rseq::look(trap, task, info.signo);
            blocked = task.blocked();
        }
        let mask = restored(task, blocked);
        if sigframe::push(trap, task, info, action, mask).is_err() {
            return no_room(task, info, action);
        }
    }
    task.mask_is_saved.store(false, Ordering::Relaxed);
    reset(task, info.signo, action);
    set_blocked(task, blocked_in(action, info, blocked));
}

/// The signals that are blocked while the handler of `action` for `info` runs, where `blocked` were before.
#[inline]
fn blocked_in(action: &Sigaction, info: &Siginfo, blocked: u64) -> u64 {
    let mut mask = blocked | action.mask;
    if action.flags & SA_NODEFER == 0 {
        mask |= bit(info.signo);
    }
    mask
}

/// The mask that the return from a handler restores, where `blocked` is now.
fn restored(task: &Task, blocked: u64) -> u64 {
    if task.mask_is_saved.load(Ordering::Relaxed) {
        task.saved_mask.load(Ordering::Relaxed)
    } else {
        blocked
    }
}

/// An action for one time is the default one from now on.
#[inline]
fn reset(task: &Task, signo: i32, action: &Sigaction) {
    if action.flags & SA_RESETHAND != 0 {
        let reset = Sigaction {
            handler: SIG_DFL,
            ..*action
        };
        task.process.signals.actions.get().set(signo, reset);
    }
}

/// No room for the frame. Another handler may know what to do, but not one for this.
#[cold]
fn no_room(task: &Task, info: &Siginfo, action: &Sigaction) {
    task.mask_is_saved.store(false, Ordering::Relaxed);
    reset(task, info.signo, action);
    if info.signo == SIGSEGV {
        let actions = task.process.signals.actions.get();
        actions.set(SIGSEGV, Sigaction::default());
    }
    send::force(Siginfo {
        signo: SIGSEGV,
        code: SI_KERNEL,
        ..Siginfo::default()
    });
}

/// Starts a stop of the whole process of `task`, the running one, which has taken `signo`.
fn stop(task: &Task, signo: i32) {
    let process = &task.process;
    if signo != SIGSTOP && tree::is_orphaned(process.pgrp()) {
        return;
    }
    // Bound: the threads and the waiting signals of one process.
    let mut state = process.signals.state.lock();
    // A SIGCONT since then, or the end, wins.
    let killed = process.signals.waiting.get() & bit(SIGKILL) != 0;
    if !task.may_stop.load(Ordering::Relaxed) || killed || state.ending.is_some() {
        return;
    }
    process.signals.set_stopping(Some(signo));
    state.stops = state.stops.wrapping_add(1);
    drop(state);
    // Bound: **linear**: the threads of one process; nothing sleeps inside.
    for task in process.threads.lock().iter() {
        task.attend();
    }
}

/// If a stop is under way, stops the running thread until it is over, or until its tracer lets it go on;
/// returns whether there was one.
fn join_stop(trap: &mut TrapFrame, process: &Arc<Process>, task: &Task) -> bool {
    let (signo, stops) = {
        let mut state = process.signals.state.lock();
        let stopping = process.signals.stopping();
        let Some(signo) = stopping.filter(|_| state.ending.is_none()) else {
            return false;
        };
        if task.trace.is_traced() && task.trace.has_joined(state.stops) {
            return false;
        }
        task.trace.joins();
        task.trace.stands();
        state.stopped += 1;
        (signo, state.stops)
    };
    stop_if_complete(process);
    let traced = || task.trace.is_traced().then_some(true);
    let asked = || traced().or_else(|| is_over(process).then_some(false));
    if traced().unwrap_or_else(|| process.signals.continued.wait_until(asked)) {
        ptrace_stop::join_stop(task, trap, signo, stops);
    }
    task.trace.passes();
    let mut state = process.signals.state.lock();
    state.stopped -= 1;
    if process.signals.waiting.get() & bit(SIGKILL) != 0 {
        process.signals.set_stopping(None);
    }
    true
}

/// If the control group of `process` is frozen, keeps the running thread of it here until it is not any more;
/// returns whether it was. The process can end meanwhile.
fn freeze(process: &Process) -> bool {
    if !process.signals.is_freezing() {
        return false;
    }
    let is_over = || {
        let state = process.signals.state.lock();
        let killed = process.signals.waiting.get() & bit(SIGKILL) != 0;
        !process.signals.is_freezing() || state.ending.is_some() || killed
    };
    if is_over() {
        return false;
    }
    process.signals.state.lock().frozen += 1;
    let over = || is_over().then_some(());
    process.signals.continued.wait_until(over);
    process.signals.state.lock().frozen -= 1;
    true
}

/// Is there no stop, or not any more?
fn is_over(process: &Process) -> bool {
    let state = process.signals.state.lock();
    let killed = process.signals.waiting.get() & bit(SIGKILL) != 0;
    !process.signals.is_stopping() || state.ending.is_some() || killed
}

/// Tells the parent once all threads have joined a stop.
pub(super) fn stop_if_complete(process: &Arc<Process>) {
    let signo = {
        let mut state = process.signals.state.lock();
        let Some(signo) = process.signals.stopping() else {
            return;
        };
        let threads = process.threads.lock().len();
        let complete = state.stopped == threads && threads != 0;
        if !complete || state.change == Some(ChildChange::Stopped(signo)) {
            return;
        }
        state.change = Some(ChildChange::Stopped(signo));
        signo
    };
    // The stopping thread notifies a parent that is the tracer.
    if process.traced_by.load(Ordering::Acquire) != process.ppid() {
        notify_parent(process, CLD_STOPPED, signo);
    }
}

/// Tells the parent that `process` stopped or went on.
pub(super) fn notify_parent(process: &Process, code: i32, signo: i32) {
    let Some(parent) = tree::find(process.ppid()) else {
        return;
    };
    let action = parent.signals.actions.get().get(SIGCHLD);
    if action.flags & SA_NOCLDSTOP == 0 {
        let uid = process.cred.get().uid;
        let info = Siginfo::child(code, process.pid, uid, signo, 0, 0);
        // SIGCHLD is a standard signal: adding it cannot fail. The parent's expired timers are not processed
        // here: they might continue the parent, and so on up the tree, on one stack.
        send::queue(&parent, None, &info, SignalOrigin::Sent);
    }
    parent.child_wait.wake_all();
}
