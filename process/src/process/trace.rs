//! Tracing: what one process sees of another's thread, and how the thread waits for it.
//!
//! *Interface*: [`Trace`] is a task's part. The tracer's side is [`begin`] and [`begun`], [`detach`],
//! [`resume`], [`listen`], [`interrupt`], [`halted`]; the traced thread's is [`stop`], [`join_stop`],
//! [`event`], [`at_call`], [`leaving`], [`made`], [`tell`], [`executed`]; [`end_tracer`], [`end_traced`] and
//! [`ended`] are for the end of either.
//!
//! A traced thread waits by the native stop, which it asks of itself, and goes on by the native resume. While
//! it waits, its registers are in its [`Trace`], where the tracer reads and changes them: nobody ever touches
//! another thread's kernel stack. A traced thread's dispatcher answers nothing itself, so that every call can
//! be seen.
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
/// What is added to SIGTRAP at a call, with `PTRACE_O_TRACESYSGOOD`.
const CALL_MARK: i32 = 0x80;

/// Tasks that a process traces, and those of whose end it has still to hear. None: it ends, and traces nobody
/// more, or is the first process, which never does.
pub type Tracees = Monitor<Option<Vec<Tracee>>>;

/// One that a process traces.
pub struct Tracee {
    /// Its number.
    pub tid: i32,
    /// Gone when it has ended.
    pub task: Weak<Task>,
    /// What its tracer is to hear of its end.
    pub end: End,
    /// An end that nobody asks for stays: the tracer's user pays for it.
    _charge: Charge,
}

/// What a tracer is to hear of the end of one whom it traced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// It lives, or its parent is the tracer, who hears of it as that.
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

/// How a traced thread goes on.
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

/// What tracer and traced thread share.
#[derive(Default)]
pub struct State {
    /// Waits for the tracer, who may use the rest.
    pub halted: bool,
    /// The registers, as Linux's debuggers see them.
    pub registers: UserRegs,
    /// Why it waits.
    pub info: Siginfo,
    /// `PTRACE_O_…`.
    pub options: u64,
    /// Whoever began this had `CAP_SYS_PTRACE`: the thread may get rights that its tracer has not.
    pub able: bool,
    /// News for the tracer's `wait`.
    status: Option<i32>,
    /// The signal that it goes on with.
    signal: i32,
    how: How,
    event: Option<(i32, u64)>,
    /// What `PTRACE_GETEVENTMSG` tells of the last event.
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

    /// The thread does not wait any more. False: somebody else releases it.
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
    /// It stands in a stop of its process, not yet for its tracer. Set with the process's signals held.
    stands: AtomicBool,
    /// Nobody may begin to trace it. Changes with the state held.
    ended: AtomicBool,
    /// None before the first tracer.
    state: Monitor<Option<Box<State>>>,
}

impl Trace {
    /// Does anybody trace it?
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

    /// It joins a stop of its process, whose signals are held, and its tracer hears of that: what it was to
    /// stop for before is part of this. A SIGCONT from here on is not.
    pub fn joins(&self) {
        self.prodded.store(false, Ordering::SeqCst);
    }

    /// Has it joined the stop with this number, and been let go on?
    pub fn has_joined(&self, stop: u32) -> bool {
        self.joined.load(Ordering::Relaxed) == stop
    }

    /// It stands in a stop of its process, whose signals are held.
    pub fn stands(&self) {
        self.stands.store(true, Ordering::SeqCst);
    }

    /// Does it? With these held.
    pub fn is_standing(&self) -> bool {
        self.stands.load(Ordering::SeqCst)
    }

    /// It stands there no more, or for its tracer: who has begun to trace it may wait for that.
    pub fn passes(&self) {
        if self.stands.swap(false, Ordering::SeqCst)
            && let Some(tracer) = tree::find(self.tracer())
        {
            tracer.child_wait.wake_all();
        }
    }

    /// Whether somebody traces it who may not trace everybody.
    pub fn is_in_doubt(&self) -> bool {
        let state = self.state.lock();
        self.is_traced() && !state.as_ref().is_some_and(|state| state.able)
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

/// Makes `tracer`, who may, trace `task`; [`begun`] comes next. EPERM: somebody does already, or it ends.
/// ESRCH: `tracer` ends. ENOMEM.
pub fn begin(tracer: &Process, task: &Arc<Task>, seized: bool, options: u64) -> Result<()> {
    let able = Process::current().cred.get().has(Capability::SysPtrace);
    begin_as(tracer, task, seized, options, able)
}

/// As [`begin`]; the tracer is `able` to trace everybody.
fn begin_as(
    tracer: &Process,
    task: &Arc<Task>,
    seized: bool,
    options: u64,
    able: bool,
) -> Result<()> {
    let charge = quota::tracee(tracer.cred.get())?;
    let mut tracees = tracer.tracees.lock();
    let mut held = task.trace.state.lock();
    if task.trace.is_traced() || task.trace.ended.load(Ordering::Relaxed) {
        return Err(Errno::EPERM);
    }
    let list = tracees.as_mut().ok_or(Errno::ESRCH)?;
    list.retain(|tracee| tracee.task.strong_count() != 0 || tracee.end != End::Untold);
    try_reserve(list, 1)?;
    // One whom the last tracer has let go may not have taken its registers back yet: they stay.
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

/// `task`, which `tracer` has begun to trace, answers nothing itself any more. With no monitor held: whoever
/// lets a table grow looks at the threads of processes meanwhile. ENOMEM: nobody traces it.
pub fn begun(tracer: &Process, task: &Arc<Task>) -> Result<()> {
    crate::dispatch::renew(task).inspect_err(|_| forget(task, tracer.pid, None))?;
    // One that has stopped with its process waits for its tracer from now on. With the signals held it stands
    // there, or will find that it is traced.
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
    // Who traces changes with the state held.
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

/// Lets a `task` that its tracer listens to look what has happened.
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

/// `task`, which waits and whose `state` this is, goes on. Its monitor is held until the thread is released:
/// else it might wait for another tracer by then.
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

/// Ends the tracing of `task`, which goes on with `signal`. ESRCH: it does not wait for the calling process.
pub fn detach(task: &Arc<Task>, signal: i32) -> Result<()> {
    halted(task, |_| ())?;
    forget(task, Process::current().pid, Some(signal));
    Ok(())
}

/// The process with number `pid` traces `task` no more, which goes on with `signal` if it waits; without one
/// with that which it waits because of, unless the tracer has been told of it. Nothing happens if another
/// does by now.
fn forget(task: &Arc<Task>, pid: i32, signal: Option<i32>) {
    let tracer = tree::find(pid);
    // Whom it traces, that it is traced, and that it waits change together: a tracer may begin at once.
    let mut tracees = tracer.as_ref().map(|tracer| tracer.tracees.lock());
    let mut held = task.trace.state.lock();
    let (set, fetch) = (Ordering::AcqRel, Ordering::Relaxed);
    let ended = task.trace.tracer.compare_exchange(pid, 0, set, fetch);
    if ended.is_ok() {
        for flag in [&task.trace.calls, &task.trace.emulates, &task.trace.prodded] {
            flag.store(false, Ordering::Relaxed);
        }
        // Of one that has ended the tracer hears first.
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

/// As [`stop`], where `call` says. What the tracer has put into the place of `info` is there afterwards.
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
        // Before anybody can let it go.
        task.thread.stop();
    }
    task.trace.passes();
    notify(task, status);
    thread::safe_point();
    let mut held = task.trace.state.lock();
    let Some(state) = &mut *held else {
        return info.signo;
    };
    // SIGKILL asks nobody.
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
    // Without memory, or with a tracer that ends, the child is nobody's.
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

/// The beginning of a call, or its `end`. What happened in it comes before that.
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
        // A queue that is full loses what the tracer added.
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

/// `process` ends: those that it traces go on alone, or end if it wanted that; of ends that it has not heard
/// of the parents do.
pub fn end_tracer(process: &Process) {
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
        // Before it goes on: it does nothing more.
        if task.trace.options() & PTRACE_O_EXITKILL != 0 {
            let info = Siginfo::sent(SIGKILL, SI_KERNEL, 0, 0);
            let _ = signal::send(&task.process, None, info);
        }
        forget(&task, process.pid, None);
    }
}

/// The running task ends with `status`: its tracer hears of that, and nobody becomes that any more.
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

/// `process`, a zombie, has ended with `status`: who traced it and is not its parent hears of that first.
/// False: there is nobody any more.
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

/// Makes `trap` what the tracer left, as far as user mode may have it.
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
        // Without memory for the code that carries it it stays what it was.
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
