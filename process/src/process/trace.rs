//! Tracing: a process's access to another's thread, and the thread's stops.
//!
//! *Interface*: [`Trace`] is a task's part. The tracer's side is [`begin`] and [`begun`], [`detach`],
//! [`resume`], [`listen`], [`interrupt`], [`halted`]; the traced thread's is [`stop`], [`join_stop`],
//! [`event`], [`at_call`], [`leaving`], [`made`], [`tell`], [`executed`]; [`end_tracer`], [`end_traced`] and
//! [`ended`] are for the end of either.
//!
//! A traced thread waits by the native stop, which it requests for itself, and continues by the native
//! resume. While it waits, its registers are in its [`Trace`], where the tracer reads and changes them: no
//! thread ever touches another thread's kernel stack. A traced thread's dispatcher answers no call itself, so
//! every call can be seen.
//! Source: dissertation, sections 4.3.2 (stop and step for debuggers) and 5.3.2.

use alloc::boxed::Box;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU32, Ordering};

use abi::errno::{Errno, Result};
use abi::layout::USER_END;
use abi::linux::*;
use machine::trap::{RFLAGS_IF, RFLAGS_USER, TrapFrame, USER_CS, USER_SS};
use sync::Monitor;

use super::debug::Registers;
use super::{Process, Task, exit, tree};
use crate::signal;
use account::Capability;
use account::caller;
use account::quota;
use account::user::Charge;
use vm::fallible::{try_box, try_push, try_reserve};

const RFLAGS_TF: u64 = 1 << 8;
/// The bit added to SIGTRAP at a call, with `PTRACE_O_TRACESYSGOOD`.
const CALL_MARK: i32 = 0x80;

/// The tasks that a process traces, and those whose end must still be reported to it. None: it is ending and
/// traces no more, or is the first process, which never traces.
pub type Tracees = Monitor<Option<Vec<Tracee>>>;

/// A traced task.
pub struct Tracee {
    /// Its number.
    pub tid: i32,
    /// Gone when it has ended.
    pub task: Weak<Task>,
    /// The report of its end to its tracer.
    pub end: End,
    /// An end that the tracer does not wait for stays, charged to the tracer's user.
    _charge: Charge,
}

/// The report of a traced task's end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// It lives, or its tracer is its parent, which gets the report as parent.
    Untold,
    /// It was the first thread of a process that has others.
    Leads,
    /// The process has ended with this status, of this user.
    Process(i32, u32),
    /// The thread has.
    Thread(i32, u32),
}

impl Tracee {
    fn is(&self, task: &Arc<Task>) -> bool {
        core::ptr::eq(self.task.as_ptr(), Arc::as_ptr(task))
    }
}

/// How a traced thread continues.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum How {
    /// Until a signal.
    #[default]
    Freely,
    /// Until the next beginning or end of a call.
    ToCall,
    /// For one instruction.
    OneStep,
    /// Until the next call, which is not made.
    PastCall,
    /// The same, or for one instruction.
    OneStepPastCall,
}

impl How {
    fn sees_calls(self) -> bool {
        matches!(self, How::ToCall | How::PastCall | How::OneStepPastCall)
    }

    fn steps(self) -> bool {
        matches!(self, How::OneStep | How::OneStepPastCall)
    }
}

/// The shared state of tracer and traced thread.
#[derive(Default)]
pub struct State {
    /// Waits for the tracer, which may use the other fields.
    pub halted: bool,
    /// The registers, as Linux's debuggers see them.
    pub registers: UserRegs,
    /// Why it waits.
    pub info: Siginfo,
    /// `PTRACE_O_…`.
    pub options: u64,
    /// The tracer had `CAP_SYS_PTRACE` when it attached: the thread may get rights that its tracer lacks.
    pub able: bool,
    /// News for the tracer's `wait`.
    status: Option<i32>,
    /// The signal with which it continues.
    signal: i32,
    how: How,
    event: Option<(i32, u64)>,
    /// The message of the last event, for `PTRACE_GETEVENTMSG`.
    pub message: u64,
    /// `SYSCALL_INFO_…` of where it waits.
    pub call: u8,
    /// There is no signal that it waits because of: it has joined a stop of its process.
    pub joins: bool,
    /// The mask of blocked signals.
    pub blocked: u64,
    /// The mask is the tracer's.
    pub mask_is_new: bool,
    /// The vector registers, in the form that the processor has.
    pub vectors: Vectors,
    /// The vector registers are the tracer's.
    pub vectors_are_new: bool,
    /// The debug registers.
    pub debug: Registers,
    /// They are the tracer's.
    pub debug_is_new: bool,
}

/// An image of vector registers.
pub struct Vectors(pub [u8; crate::fp::IMAGE_MAX]);

impl Default for Vectors {
    fn default() -> Self {
        Vectors([0; crate::fp::IMAGE_MAX])
    }
}

/// Whether the tracer of a waiting thread wants to hear of what happens (`PTRACE_LISTEN`): not, or it does,
/// or something has, and the thread is on its way to tell. In the last two it answers no requests.
#[derive(Default)]
struct Ear(AtomicU8);

impl Ear {
    const SHUT: u8 = 0;
    const OPEN: u8 = 1;
    const ROUSED: u8 = 2;

    fn is_shut(&self) -> bool {
        self.0.load(Ordering::Acquire) == Self::SHUT
    }

    fn open(&self) {
        self.0.store(Self::OPEN, Ordering::SeqCst);
    }

    /// Something has happened. Whether the caller, alone, has to release the thread.
    fn rouse(&self) -> bool {
        let (set, fetch) = (Ordering::SeqCst, Ordering::SeqCst);
        self.0
            .compare_exchange(Self::OPEN, Self::ROUSED, set, fetch)
            .is_ok()
    }

    /// The thread no longer waits. False: another party releases it.
    fn shut(&self) -> bool {
        self.0.swap(Self::SHUT, Ordering::SeqCst) != Self::ROUSED
    }
}

/// A task's part in being traced.
#[derive(Default)]
pub struct Trace {
    tracer: AtomicI32,
    calls: AtomicBool,
    /// Calls are not made.
    emulates: AtomicBool,
    /// It was seized, and does not wait for its tracer as a child that asked for it. Changes with the state
    /// held.
    seized: AtomicBool,
    /// It is to stop for `PTRACE_EVENT_STOP`.
    prodded: AtomicBool,
    /// Whether its tracer listens to it, while it waits.
    ear: Ear,
    /// The last stop of its process that it has joined while it was traced; 0 for none.
    joined: AtomicU32,
    /// It is in a stop of its process, not yet for its tracer. Set with the process's signals held.
    stands: AtomicBool,
    /// No process may begin to trace it. Changes with the state held.
    ended: AtomicBool,
    /// None before the first tracer.
    state: Monitor<Option<Box<State>>>,
}

/// Offset of the tracer's process, 0 for none, for generated code.
pub(crate) const TRACER: usize = core::mem::offset_of!(Trace, tracer);

impl Trace {
    /// Does it have a tracer?
    pub fn is_traced(&self) -> bool {
        self.tracer() != 0
    }

    /// The tracer's process, 0 for none.
    pub fn tracer(&self) -> i32 {
        self.tracer.load(Ordering::Acquire)
    }

    /// Does the calling process trace it?
    fn is_ours(&self) -> bool {
        self.tracer() == Process::current().pid
    }

    /// Is it to stop at calls?
    pub fn wants_calls(&self) -> bool {
        self.calls.load(Ordering::Relaxed)
    }

    /// Are calls not made?
    pub fn emulates(&self) -> bool {
        self.emulates.load(Ordering::Relaxed)
    }

    /// It joins a stop of its process, whose signals are held, and this is reported to its tracer: earlier
    /// reasons to stop are part of it. A SIGCONT from here on is not.
    pub fn joins(&self) {
        self.prodded.store(false, Ordering::SeqCst);
    }

    /// Has it joined the stop with this number, and been let go on?
    pub fn has_joined(&self, stop: u32) -> bool {
        self.joined.load(Ordering::Relaxed) == stop
    }

    /// It is in a stop of its process, whose signals are held.
    pub fn stands(&self) {
        self.stands.store(true, Ordering::SeqCst);
    }

    /// Does it? With these held.
    pub fn is_standing(&self) -> bool {
        self.stands.load(Ordering::SeqCst)
    }

    /// It is no longer in that stop, or now stops for its tracer: a new tracer may wait for that.
    pub fn passes(&self) {
        if self.stands.swap(false, Ordering::SeqCst)
            && let Some(tracer) = tree::find(self.tracer())
        {
            tracer.child_wait.wake_all();
        }
    }

    /// Whether its tracer may not trace every process.
    pub fn is_in_doubt(&self) -> bool {
        // Bound: one word.
        let state = self.state.lock();
        self.is_traced() && !state.as_ref().is_some_and(|state| state.able)
    }

    /// Does it wait for its tracer?
    pub fn is_halted(&self) -> bool {
        self.is_traced() && self.state.lock().as_ref().is_some_and(|state| state.halted)
    }

    /// `PTRACE_O_…`.
    fn options(&self) -> u64 {
        self.state.lock().as_ref().map_or(0, |state| state.options)
    }

    /// The news for the tracer's `wait`; forgotten when `take`.
    pub fn status(&self, take: bool) -> Option<i32> {
        let mut state = self.state.lock();
        let state = state.as_mut()?;
        if take {
            state.status.take()
        } else {
            state.status
        }
    }
}

/// Makes `tracer`, which has the right, trace `task`; [`begun`] comes next. EPERM: it already has a tracer,
/// or it ends. ESRCH: `tracer` ends. ENOMEM.
pub fn begin(tracer: &Process, task: &Arc<Task>, seized: bool, options: u64) -> Result<()> {
    let able = Process::current().cred.get().has(Capability::SysPtrace);
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
    list.retain(|tracee| tracee.task.strong_count() != 0 || tracee.end != End::Untold);
    try_reserve(list, 1)?;
    // A task that its last tracer has released may not have restored its registers yet: they stay.
    let state = match held.as_mut() {
        Some(state) => state,
        None => held.insert(try_box(State::default())?),
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
    let tracee = Tracee {
        tid: task.tid,
        task: Arc::downgrade(task),
        end: End::Untold,
        _charge: charge,
    };
    try_push(list, tracee)
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
pub fn halted<R>(task: &Task, look: impl FnOnce(&mut State) -> R) -> Result<R> {
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

/// Lets a `task` in `PTRACE_LISTEN` check what has happened.
fn heed(task: &Task) {
    if task.trace.ear.rouse() {
        task.thread.release();
    }
}

/// A seized `task` is to stop for `PTRACE_EVENT_STOP`.
fn prod(task: &Task) {
    task.trace.prodded.store(true, Ordering::SeqCst);
    heed(task);
    task.attend();
}

/// SIGCONT came for the process of `task`.
pub fn continued(task: &Task) {
    if task.trace.is_traced() && task.trace.seized.load(Ordering::Relaxed) {
        prod(task);
    }
}

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

/// Lets a waiting `task` go on with `signal`, 0 for none. ESRCH: it does not wait for the calling process.
pub fn resume(task: &Task, how: How, signal: i32) -> Result<()> {
    halted(task, |state| let_go(task, state, how, signal))
}

/// Continues `task`, which waits and has this `state`. The state's monitor is held until the thread is
/// released: otherwise the thread might wait for another tracer by then.
fn let_go(task: &Task, state: &mut State, how: How, signal: i32) {
    state.halted = false;
    state.status = None;
    state.signal = signal;
    state.how = how;
    let emulates = matches!(how, How::PastCall | How::OneStepPastCall);
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
            let_go(task, state, How::Freely, signal.unwrap_or(untold));
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

/// The running task, traced, waits for its tracer because of `info`, and tells it `status`. Returns the
/// signal that it is to go on with.
pub fn stop(task: &Task, trap: &mut TrapFrame, status: i32, info: &mut Siginfo) -> i32 {
    stop_at(task, trap, status, info, SYSCALL_INFO_NONE)
}

/// As [`stop`], at the place given by `call`. Afterwards `info` is the tracer's replacement.
fn stop_at(task: &Task, trap: &mut TrapFrame, status: i32, info: &mut Siginfo, call: u8) -> i32 {
    {
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
        crate::fp::snapshot(&mut state.vectors.0);
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
        crate::fp::replace(&mut state.vectors.0);
    }
    if core::mem::take(&mut state.debug_is_new) {
        state.debug.give(task);
    }
    *info = state.info;
    let (signo, mask) = (state.signal, state.blocked);
    let masked = state.mask_is_new;
    drop(held);
    if masked {
        signal::deliver::set_blocked(task, mask);
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

fn stop_for(task: &Task, trap: &mut TrapFrame, event: i32) {
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

/// The beginning of a call, or its `end`. Events during the call come before its end.
pub fn at_call(trap: &mut TrapFrame, end: bool) {
    let task = Task::current();
    if end {
        event(&task, trap);
    }
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
    if signo != 0 && signo != SIGTRAP && signal::valid(signo) {
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

/// `process` ends: the tasks that it traces continue untraced, or end if it requested that; ends that were
/// not reported to it are reported to the parents.
pub fn end_tracer(process: &Process) {
    // Bound: exchanging one list.
    let tracees = process.tracees.lock().take();
    for tracee in tracees.iter().flatten() {
        if let End::Process(..) = tracee.end {
            exit::heard(tracee.tid);
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
        End::Thread(status, process.cred.get().uid)
    } else if process.ppid() != tracer {
        End::Leads
    } else {
        process.traced_by.store(0, Ordering::Release);
        End::Untold
    };
    let tracer_process = tree::find(tracer);
    if let Some(tracer) = tracer_process.as_ref().filter(|_| end != End::Untold)
        && let Some(list) = tracer.tracees.lock().as_mut()
        && let Some(tracee) = list.iter_mut().find(|tracee| tracee.is(task))
    {
        tracee.task = Weak::new();
        tracee.end = end;
    }
    forget(task, tracer, None);
    if let Some(tracer) = tracer_process {
        if let End::Thread(status, uid) = end {
            let (code, value) = exit::how_ended(status);
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
        let first = |tracee: &&mut Tracee| tracee.tid == process.pid && tracee.end == End::Leads;
        let tracee = list.iter_mut().find(first);
        tracee
            .map(|tracee| tracee.end = End::Process(status, uid))
            .is_some()
    });
    if told {
        let (code, value) = exit::how_ended(status);
        let info = Siginfo::child(code, process.pid, uid, value, 0, 0);
        // A standard signal: adding it cannot fail.
        let _ = signal::send(&tracer, None, info);
        tracer.child_wait.wake_all();
    }
    told
}

fn notify(task: &Task, status: i32) {
    let Some(tracer) = tree::find(task.trace.tracer()) else {
        return;
    };
    let uid = task.process.cred.get().uid;
    let info = Siginfo::child(CLD_TRAPPED, task.tid, uid, status >> 8 & 0xff, 0, 0);
    // A standard signal: adding it cannot fail.
    let _ = signal::send(&tracer, None, info);
    tracer.child_wait.wake_all();
}

/// The registers of `trap` as debuggers see them.
pub(crate) fn shown(task: &Task, trap: &TrapFrame) -> UserRegs {
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
    if r.fs_base < USER_END as u64 {
        task.thread.set_fs_base(r.fs_base);
    }
    if r.gs_base < USER_END as u64 && r.gs_base != task.thread.gs_base() {
        // Without memory for the switch code it stays unchanged.
        let _ = task.thread.set_gs_base(r.gs_base);
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
