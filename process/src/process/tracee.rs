//! The tracee's side of ptrace: what a traced thread and its tracer share.
//!
//! *Interface*: [`PtraceLink`] is a task's part, with [`PtraceState`] once it has had a tracer; [`Tracees`]
//! are a process's. [`continued`] tells a seized thread of a SIGCONT, `prod` stops it. The requests of
//! tracers are in `ptrace.rs`, the stops of the thread in `signal/ptrace_stop.rs`.

use alloc::boxed::Box;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU32, Ordering};

use abi::linux::{Siginfo, UserRegs};
use account::user::Charge;
use sync::Monitor;

use super::debug::DebugRegisters;
use super::{Process, Task, tree};

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
    pub end: TraceeEnd,
    /// An end that the tracer does not wait for stays, charged to the tracer's user.
    _charge: Charge,
}

/// The report of a traced task's end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TraceeEnd {
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
    /// `task` is traced, at the expense of `charge`.
    pub(crate) fn new(task: &Arc<Task>, charge: Charge) -> Tracee {
        Tracee {
            tid: task.tid,
            task: Arc::downgrade(task),
            end: TraceeEnd::Untold,
            _charge: charge,
        }
    }

    pub(crate) fn is(&self, task: &Arc<Task>) -> bool {
        core::ptr::eq(self.task.as_ptr(), Arc::as_ptr(task))
    }
}

/// How a traced thread continues.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ResumeMode {
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

impl ResumeMode {
    pub(crate) fn sees_calls(self) -> bool {
        matches!(
            self,
            ResumeMode::ToCall | ResumeMode::PastCall | ResumeMode::OneStepPastCall
        )
    }

    pub(crate) fn steps(self) -> bool {
        matches!(self, ResumeMode::OneStep | ResumeMode::OneStepPastCall)
    }
}

/// The shared state of tracer and traced thread.
#[derive(Default)]
pub struct PtraceState {
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
    pub(crate) status: Option<i32>,
    /// The signal with which it continues.
    pub(crate) signal: i32,
    pub(crate) how: ResumeMode,
    pub(crate) event: Option<(i32, u64)>,
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
    pub vectors: VectorImage,
    /// The vector registers are the tracer's.
    pub vectors_are_new: bool,
    /// The debug registers.
    pub debug: DebugRegisters,
    /// They are the tracer's.
    pub debug_is_new: bool,
}

/// An image of vector registers.
pub struct VectorImage(pub [u8; crate::fp::IMAGE_MAX]);

impl Default for VectorImage {
    fn default() -> Self {
        VectorImage([0; crate::fp::IMAGE_MAX])
    }
}

/// Whether the tracer of a waiting thread wants to hear of what happens (`PTRACE_LISTEN`): not, or it does,
/// or something has, and the thread is on its way to tell. In the last two it answers no requests.
#[derive(Default)]
pub(crate) struct ListenState(AtomicU8);

impl ListenState {
    const SHUT: u8 = 0;
    const OPEN: u8 = 1;
    const ROUSED: u8 = 2;

    pub(crate) fn is_shut(&self) -> bool {
        self.0.load(Ordering::Acquire) == Self::SHUT
    }

    pub(crate) fn open(&self) {
        self.0.store(Self::OPEN, Ordering::SeqCst);
    }

    /// Something has happened. Whether the caller, alone, has to release the thread.
    pub(crate) fn rouse(&self) -> bool {
        let (set, fetch) = (Ordering::SeqCst, Ordering::SeqCst);
        self.0
            .compare_exchange(Self::OPEN, Self::ROUSED, set, fetch)
            .is_ok()
    }

    /// The thread no longer waits. False: another party releases it.
    pub(crate) fn shut(&self) -> bool {
        self.0.swap(Self::SHUT, Ordering::SeqCst) != Self::ROUSED
    }
}

/// A task's part in being traced.
#[derive(Default)]
pub struct PtraceLink {
    pub(crate) tracer: AtomicI32,
    pub(crate) calls: AtomicBool,
    /// Calls are not made.
    pub(crate) emulates: AtomicBool,
    /// It was seized, and does not wait for its tracer as a child that asked for it. Changes with the state
    /// held.
    pub(crate) seized: AtomicBool,
    /// It is to stop for `PTRACE_EVENT_STOP`.
    pub(crate) prodded: AtomicBool,
    /// Whether its tracer listens to it, while it waits.
    pub(crate) ear: ListenState,
    /// The last stop of its process that it has joined while it was traced; 0 for none.
    pub(crate) joined: AtomicU32,
    /// It is in a stop of its process, not yet for its tracer. Set with the process's signals held.
    pub(crate) stands: AtomicBool,
    /// No process may begin to trace it. Changes with the state held.
    pub(crate) ended: AtomicBool,
    /// None before the first tracer.
    pub(crate) state: Monitor<Option<Box<PtraceState>>>,
}

/// Offset of the tracer's process, 0 for none, for generated code.
pub(crate) const TRACER: usize = core::mem::offset_of!(PtraceLink, tracer);

impl PtraceLink {
    /// Does it have a tracer?
    pub fn is_traced(&self) -> bool {
        self.tracer() != 0
    }

    /// The tracer's process, 0 for none.
    pub fn tracer(&self) -> i32 {
        self.tracer.load(Ordering::Acquire)
    }

    /// Does the calling process trace it?
    pub(crate) fn is_ours(&self) -> bool {
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
    pub(crate) fn options(&self) -> u64 {
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

/// Lets a `task` in `PTRACE_LISTEN` check what has happened.
pub(crate) fn heed(task: &Task) {
    if task.trace.ear.rouse() {
        task.thread.release();
    }
}

/// A seized `task` is to stop for `PTRACE_EVENT_STOP`.
pub(crate) fn prod(task: &Task) {
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
