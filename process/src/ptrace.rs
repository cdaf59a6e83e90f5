//! ptrace: a tracer's requests, which reach into another process's thread.
//!
//! *Interface*: the tracer's side is [`begin`] and [`begun`], [`detach`], [`resume`], [`listen`],
//! [`interrupt`], [`halted`]; the traced thread's is [`at_call`], [`leaving`], [`made`], [`tell`],
//! [`executed`]; [`end_tracer`], [`end_traced`] and [`ended`] are for the end of either. Both share the
//! [`PtraceState`] in the task (`process/tracee.rs`).
//!
//! A traced thread waits by the native stop, which it requests for itself, and continues by the native resume
//! (`signal/ptrace_stop.rs`). While it waits, its registers are in its [`PtraceState`], where the tracer
//! reads and changes them: no thread ever touches another thread's kernel stack. A traced thread's dispatcher
//! answers no call itself, so every call can be seen.
//! Source: dissertation, sections 4.3.2 (stop and step for debuggers) and 5.3.2.

use alloc::sync::{Arc, Weak};
use core::sync::atomic::Ordering;

use abi::errno::{Errno, Result};
use abi::linux::*;
use account::Capability;
use account::caller;
use account::quota;
use machine::trap::TrapFrame;
use vm::fallible::{try_box, try_push, try_reserve};

use crate::process::signals::valid;
use crate::process::tracee::{PtraceState, ResumeMode, Tracee, TraceeEnd, heed, prod};
use crate::process::{Process, Task, how_ended, tree};
use crate::signal;
use crate::signal::ptrace_stop::{event, event_of_call, stop_at, stop_for};

/// The bit added to SIGTRAP at a call, with `PTRACE_O_TRACESYSGOOD`.
const CALL_MARK: i32 = 0x80;

/// Makes `tracer`, which has the right, trace `task`; [`begun`] comes next. EPERM: it already has a tracer,
/// or it ends. ESRCH: `tracer` ends. ENOMEM.
pub fn begin(tracer: &Process, task: &Arc<Task>, seized: bool, options: u64) -> Result<()> {
    let able = caller::cred().has(Capability::SysPtrace);
    begin_as(tracer, task, seized, options, able)
}

/// As [`begin`]; the tracer is `able` to trace every process.
fn begin_as(
    tracer: &Process,
    task: &Arc<Task>,
    seized: bool,
    options: u64,
    able: bool,
) -> Result<()> {
    let charge = quota::tracee(tracer.cred.get())?;
    // Bound: **linear**: the threads that one process traces.
    let mut tracees = tracer.tracees.lock();
    // Bound: copying one set of registers; at the end of tracing a look through the tracer’s list.
    let mut held = task.trace.state.lock();
    if task.trace.is_traced() || task.trace.ended.load(Ordering::Relaxed) {
        return Err(Errno::EPERM);
    }
    let list = tracees.as_mut().ok_or(Errno::ESRCH)?;
    list.retain(|tracee| tracee.task.strong_count() != 0 || tracee.end != TraceeEnd::Untold);
    try_reserve(list, 1)?;
    // A task that its last tracer has released may not have restored its registers yet: they stay.
    let state = match held.as_mut() {
        Some(state) => state,
        None => held.insert(try_box(PtraceState::default())?),
    };
    state.options = options;
    state.able = able;
    state.status = None;
    state.event = None;
    for (flag, value) in [(&task.trace.seized, seized), (&task.trace.prodded, false)] {
        flag.store(value, Ordering::Relaxed);
    }
    task.trace.joined.store(0, Ordering::Relaxed);
    task.trace.tracer.store(tracer.pid, Ordering::Release);
    if task.tid == task.process.pid {
        let by = &task.process.traced_by;
        by.store(tracer.pid, Ordering::Release);
    }
    try_push(list, Tracee::new(task, charge))
}

/// `task`, which `tracer` has begun to trace, no longer answers calls itself. With no monitor held, since a
/// growing table locks the threads of processes meanwhile. ENOMEM: it is not traced.
pub fn begun(tracer: &Process, task: &Arc<Task>) -> Result<()> {
    crate::dispatch::renew(task).inspect_err(|_| forget(task, tracer.pid, None))?;
    // A task that has stopped with its process waits for its tracer from now on. With the signals held it is
    // in that stop, or will find that it is traced.
    if task.process.signals.stands(task) {
        task.process.signals.tell_stopped();
        let passed = || !task.trace.stands.load(Ordering::SeqCst) || caller::is_dying();
        tracer.child_wait.wait_until(|| passed().then_some(()));
    }
    Ok(())
}

/// The thread with number `tid`, which the calling process traces. ESRCH.
pub fn traced(tid: i32) -> Result<Arc<Task>> {
    let task = tree::find_task(tid).ok_or(Errno::ESRCH)?;
    if task.trace.is_ours() {
        Ok(task)
    } else {
        Err(Errno::ESRCH)
    }
}

/// Lets the calling process look at and change what `task` shows while it waits. ESRCH: it does not, or
/// another traces it by now.
pub fn halted<R>(task: &Task, look: impl FnOnce(&mut PtraceState) -> R) -> Result<R> {
    let mut state = task.trace.state.lock();
    // The tracer changes with the state held.
    match state.as_mut().filter(|_| task.trace.is_ours()) {
        Some(state) if state.halted && task.trace.ear.is_shut() => Ok(look(state)),
        _ => Err(Errno::ESRCH),
    }
}

/// A waiting `task`, which was seized and stopped by `PTRACE_EVENT_STOP`, waits on until something happens.
/// EIO: it stopped otherwise. ESRCH.
pub fn listen(task: &Task) -> Result<()> {
    halted(task, |state| {
        if !task.trace.seized.load(Ordering::Relaxed) || state.info.code >> 8 != PTRACE_EVENT_STOP {
            return Err(Errno::EIO);
        }
        state.status = None;
        task.trace.ear.open();
        Ok(())
    })??;
    if task.trace.prodded.load(Ordering::SeqCst) {
        heed(task);
    }
    Ok(())
}

/// Lets a waiting `task` go on with `signal`, 0 for none. ESRCH: it does not wait for the calling process.
pub fn resume(task: &Task, how: ResumeMode, signal: i32) -> Result<()> {
    halted(task, |state| let_go(task, state, how, signal))
}

/// Continues `task`, which waits and has this `state`. The state's monitor is held until the thread is
/// released: otherwise the thread might wait for another tracer by then.
fn let_go(task: &Task, state: &mut PtraceState, how: ResumeMode, signal: i32) {
    state.halted = false;
    state.status = None;
    state.signal = signal;
    state.how = how;
    let emulates = matches!(how, ResumeMode::PastCall | ResumeMode::OneStepPastCall);
    task.trace.calls.store(how.sees_calls(), Ordering::Relaxed);
    task.trace.emulates.store(emulates, Ordering::Relaxed);
    if task.trace.ear.shut() {
        task.thread.release();
    }
}

/// Ends the tracing of `task`, which continues with `signal`. ESRCH: it does not wait for the calling
/// process.
pub fn detach(task: &Arc<Task>, signal: i32) -> Result<()> {
    halted(task, |_| ())?;
    forget(task, Process::current().pid, Some(signal));
    Ok(())
}

/// The process with number `pid` no longer traces `task`, which continues with `signal` if it waits; without
/// `signal`, with the signal that it stopped for, unless that was reported to the tracer. Nothing happens if
/// it has another tracer by now.
fn forget(task: &Arc<Task>, pid: i32, signal: Option<i32>) {
    let tracer = tree::find(pid);
    // The tracer's list, the traced mark and the wait change together: a new tracer may begin at once.
    let mut tracees = tracer.as_ref().map(|tracer| tracer.tracees.lock());
    let mut held = task.trace.state.lock();
    let (set, fetch) = (Ordering::AcqRel, Ordering::Relaxed);
    let ended = task.trace.tracer.compare_exchange(pid, 0, set, fetch);
    if ended.is_ok() {
        for flag in [&task.trace.calls, &task.trace.emulates, &task.trace.prodded] {
            flag.store(false, Ordering::Relaxed);
        }
        // The end of a task is first reported to the tracer.
        if task.tid == task.process.pid && !task.trace.ended.load(Ordering::Relaxed) {
            task.process.traced_by.store(0, Ordering::Release);
        }
        if let Some(state) = held.as_mut().filter(|state| state.halted) {
            let untold = state.status.map_or(0, |_| state.info.signo);
            let_go(task, state, ResumeMode::Freely, signal.unwrap_or(untold));
        }
        if let Some(tracees) = tracees.as_mut().and_then(|list| list.as_mut()) {
            tracees.retain(|other| !other.is(task));
        }
    }
    drop(held);
    drop(tracees);
    // Without memory the thread keeps the dispatcher that answers nothing itself.
    let _ = crate::dispatch::renew(task);
}

/// The calling process, its tracer, asks a seized thread to stop where it is (`PTRACE_INTERRUPT`). EIO: it
/// was not seized. Nothing happens if another traces it by now.
pub fn interrupt(task: &Task) -> Result<()> {
    let state = task.trace.state.lock();
    if !task.trace.seized.load(Ordering::Relaxed) {
        return Err(Errno::EIO);
    }
    let ours = task.trace.is_ours();
    drop(state);
    if ours {
        prod(task);
    }
    Ok(())
}

/// The running task is about to end with `status`: its tracer, if it wants to know, sees it once more.
pub fn leaving(trap: &mut TrapFrame, status: i32) {
    Task::here(|task| {
        if task.trace.is_traced() {
            tell_of(
                task,
                trap,
                PTRACE_EVENT_EXIT,
                PTRACE_O_TRACEEXIT,
                status as u64,
            );
        }
    });
}

/// The running task stops for `event` about the child `number`, if its tracer wants to know of such
/// (`option`).
pub fn tell(trap: &mut TrapFrame, event: i32, option: u64, number: i32) {
    tell_of(&Task::current(), trap, event, option, number as u64);
}

fn tell_of(task: &Task, trap: &mut TrapFrame, event: i32, option: u64, message: u64) {
    let wanted = {
        let mut held = task.trace.state.lock();
        let state = held.as_mut().filter(|_| task.trace.is_traced());
        state.is_some_and(|state| {
            let wanted = state.options & option != 0;
            if wanted {
                state.message = message;
            }
            wanted
        })
    };
    if wanted {
        stop_for(task, trap, event);
    }
}

/// The running task has made `child`, which has not begun: its tracer traces that too, if it wants to. Which
/// event that is, with its option.
pub fn made(child: &Arc<Task>, flags: u64, exit_signal: i32) -> Option<(i32, u64)> {
    let task = Task::current();
    if !task.trace.is_traced() || flags & CLONE_UNTRACED != 0 {
        return None;
    }
    let (event, option) = if flags & CLONE_VFORK != 0 {
        (PTRACE_EVENT_VFORK, PTRACE_O_TRACEVFORK)
    } else if exit_signal == SIGCHLD {
        (PTRACE_EVENT_FORK, PTRACE_O_TRACEFORK)
    } else {
        (PTRACE_EVENT_CLONE, PTRACE_O_TRACECLONE)
    };
    let (options, seized, able) = {
        let held = task.trace.state.lock();
        let state = held.as_ref()?;
        let seized = task.trace.seized.load(Ordering::Relaxed);
        (state.options, seized, state.able)
    };
    if options & option == 0 && flags & CLONE_PTRACE == 0 {
        return None;
    }
    let tracer = tree::find(task.trace.tracer())?;
    // Without memory, or with an ending tracer, the child is not traced.
    begin_as(&tracer, child, seized, options, able).ok()?;
    begun(&tracer, child).ok()?;
    if seized {
        prod(child);
    } else {
        let info = Siginfo::sent(SIGSTOP, SI_USER, tracer.pid, 0);
        // A standard signal: adding it cannot fail.
        let _ = signal::send(&child.process, Some(child), info);
    }
    Some((event, option))
}

/// The end of a call of the running task, which is traced. Events during the call come before its end.
pub fn at_end(trap: &mut TrapFrame) {
    let task = Task::current();
    event_of_call(&task, trap);
    if task.trace.wants_calls() && !task.trace.emulates() {
        event(&task, trap);
        at_call(trap, true);
    }
}

/// The beginning of a call, or its `end`.
pub fn at_call(trap: &mut TrapFrame, end: bool) {
    let task = Task::current();
    let mark = match task.trace.options() & PTRACE_O_TRACESYSGOOD {
        0 => 0,
        _ => CALL_MARK,
    };
    let mut info = Siginfo {
        signo: SIGTRAP,
        code: SIGTRAP | mark,
        ..Siginfo::default()
    };
    let call = match end {
        false => SYSCALL_INFO_ENTRY,
        true => SYSCALL_INFO_EXIT,
    };
    let status = status_stopped(SIGTRAP | mark);
    let signo = stop_at(&task, trap, status, &mut info, call);
    if signo != 0 && signo != SIGTRAP && valid(signo) {
        let info = Siginfo::sent(signo, SI_USER, task.trace.tracer(), 0);
        // A full queue loses the tracer's signal.
        let _ = signal::send(&task.process, Some(&task), info);
    }
}

/// The running task, perhaps traced, runs another program.
pub fn executed(task: &Arc<Task>) {
    if let Some(state) = task.trace.state.lock().as_mut() {
        state.debug.forget(task);
    }
    if !task.trace.is_traced() {
        return;
    }
    let mut held = task.trace.state.lock();
    let Some(state) = &mut *held else {
        return;
    };
    if state.options & PTRACE_O_TRACEEXEC != 0 {
        state.event = Some((PTRACE_EVENT_EXEC, task.tid as u64));
        drop(held);
        task.attend();
    } else if !task.trace.seized.load(Ordering::Relaxed) {
        drop(held);
        let info = Siginfo::sent(SIGTRAP, SI_USER, task.process.pid, 0);
        // A standard signal: adding it cannot fail.
        let _ = signal::send(&task.process, Some(task), info);
    }
}

/// `process` ends: the tasks that it traces continue untraced, or end if it requested that; `untold` gets the
/// number of each process whose end was not reported to it.
pub fn end_tracer(process: &Process, untold: impl Fn(i32)) {
    // Bound: exchanging one list.
    let tracees = process.tracees.lock().take();
    for tracee in tracees.iter().flatten() {
        if let TraceeEnd::Process(..) = tracee.end {
            untold(tracee.tid);
        }
    }
    let living = |tracee: &Tracee| tracee.task.upgrade();
    for task in tracees.iter().flatten().filter_map(living) {
        if task.trace.tracer() != process.pid {
            continue;
        }
        // Before it continues: it does nothing more.
        if task.trace.options() & PTRACE_O_EXITKILL != 0 {
            let info = Siginfo::sent(SIGKILL, SI_KERNEL, 0, 0);
            let _ = signal::send(&task.process, None, info);
        }
        forget(&task, process.pid, None);
    }
}

/// The running task ends with `status`: this is reported to its tracer, and it gets no new tracer.
pub fn end_traced(task: &Arc<Task>, status: i32) {
    let tracer = {
        let _held = task.trace.state.lock();
        task.trace.ended.store(true, Ordering::Relaxed);
        task.trace.tracer()
    };
    if tracer == 0 {
        return;
    }
    let process = &task.process;
    let end = if task.tid != process.pid {
        TraceeEnd::Thread(status, task.cred.get().uid)
    } else if process.ppid() != tracer {
        TraceeEnd::Leads
    } else {
        process.traced_by.store(0, Ordering::Release);
        TraceeEnd::Untold
    };
    let tracer_process = tree::find(tracer);
    if let Some(tracer) = tracer_process.as_ref().filter(|_| end != TraceeEnd::Untold)
        && let Some(list) = tracer.tracees.lock().as_mut()
        && let Some(tracee) = list.iter_mut().find(|tracee| tracee.is(task))
    {
        tracee.task = Weak::new();
        tracee.end = end;
    }
    forget(task, tracer, None);
    if let Some(tracer) = tracer_process {
        if let TraceeEnd::Thread(status, uid) = end {
            let (code, value) = how_ended(status);
            let info = Siginfo::child(code, task.tid, uid, value, 0, 0);
            // A standard signal: adding it cannot fail.
            let _ = signal::send(&tracer, None, info);
        }
        tracer.child_wait.wake_all();
    }
}

/// `process`, a zombie, has ended with `status`: this is first reported to a tracer that is not its parent.
/// False: there is no such tracer any more.
pub fn ended(process: &Process, status: i32) -> bool {
    let Some(tracer) = tree::find(process.traced_by.load(Ordering::Acquire)) else {
        return false;
    };
    let uid = process.cred.get().uid;
    let told = tracer.tracees.lock().as_mut().is_some_and(|list| {
        let first =
            |tracee: &&mut Tracee| tracee.tid == process.pid && tracee.end == TraceeEnd::Leads;
        let tracee = list.iter_mut().find(first);
        tracee
            .map(|tracee| tracee.end = TraceeEnd::Process(status, uid))
            .is_some()
    });
    if told {
        let (code, value) = how_ended(status);
        let info = Siginfo::child(code, process.pid, uid, value, 0, 0);
        // A standard signal: adding it cannot fail.
        let _ = signal::send(&tracer, None, info);
        tracer.child_wait.wake_all();
    }
    told
}
