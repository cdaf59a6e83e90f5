//! A task: one thread of a process, as UNIX sees it.
//!
//! *Interface*: [`Task::current`]; the fields that belong to a thread alone.
//!
//! *Unsafe*: the owner word of a thread.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};

use abi::errno::Errno;
use abi::linux::{SCHED_DEADLINE, SS_DISABLE, Sigaltstack};
use sync::{Monitor, Once};
use thread::{Busy, Thread, Tte};
use vm::AddressSpace;

use super::Process;
use super::sched_params::{SchedParams, SchedPolicy};
use super::signals::pending::{PendingMask, PendingSignals};
use super::signals::set::UNBLOCKABLE;
use account::Cred;
use account::user::Charge;
use file::arc_swap::ArcSwap;

/// The continuation of an interrupted call with state (`nanosleep` until the same time): left in the task
/// before returning `ERESTART_RESTARTBLOCK`.
pub type Restart = Box<dyn FnOnce() -> abi::Result<usize> + Send>;

/// One thread of a process.
pub struct Task {
    /// Its number; that of the first thread is the process's.
    pub tid: i32,
    /// The process it belongs to.
    pub process: Arc<Process>,
    /// The thread that runs it.
    pub thread: Thread,
    /// Blocked signals. Written by the thread itself only.
    pub blocked: AtomicU64,
    /// The mask to put back when the running call ends without a handler (`sigsuspend`, `ppoll`).
    pub saved_mask: AtomicU64,
    /// There is such a mask.
    pub mask_is_saved: AtomicBool,
    /// No SIGCONT has come since it took its last signal: if that stops, it still does. With the process's
    /// signals held.
    pub(crate) may_stop: AtomicBool,
    /// Signals it waits for in `sigtimedwait`.
    pub awaited: AtomicU64,
    /// Signals for this thread alone.
    pub pending: Monitor<PendingSignals>,
    /// The signals that wait in there.
    pub(crate) waiting: PendingMask,
    /// The stack for handlers that ask for another.
    pub altstack: Monitor<Sigaltstack>,
    /// Cleared, and its futex woken, at the end.
    pub clear_child_tid: AtomicUsize,
    /// Address of its list of robust locks.
    pub robust_list: AtomicUsize,
    /// Its restartable sequences.
    pub rseq: super::rseq::Rseq,
    /// Its part in locks whose owners the kernel knows.
    pub(crate) pi: super::pi_state::PiPart,
    /// For its plain waits, once it has waited.
    pub(crate) waiter: Once<Arc<super::waiter::Waiter>>,
    /// Its position among its process's threads: its index, under their monitor, and its place on the
    /// thread_list.
    pub(super) seat: AtomicUsize,
    link: super::thread_list::ThreadLink<Task>,
    /// Address of the process group's number, in the process: for generated code.
    pub group_at: usize,
    /// Its part in being traced.
    pub trace: super::tracee::PtraceLink,
    /// How to go on with an interrupted call that keeps state.
    pub restart: Monitor<Option<Restart>>,
    /// Its identity. Changed by the thread itself alone.
    pub cred: ArcSwap<Cred>,
    /// Where generated code finds the word that leads to its identity; 0 before it starts.
    cred_place: AtomicUsize,
    /// No program gives it rights any more.
    pub no_new_privileges: AtomicBool,
    /// How it is to be scheduled.
    pub sched: SchedParams,
    /// The signal that it gets when the thread of its parent ends whose child its process is; 0: none.
    pub death_signal: AtomicI32,
    /// It may have children. Set before it has one, and for an heir with the process's threads held.
    pub(crate) has_children: AtomicBool,
    /// CPU time for which a timer of the process's has rung, nanoseconds. With the process's threads held.
    pub(super) sampled_ns: AtomicU64,
    /// The channels that its data goes through.
    pub flows: super::flows::Flows,
    /// Page faults. Written by the thread itself only.
    pub faults: AtomicU64,
    /// How its CPU time was divided last.
    pub(super) told: super::usage::ReportedTimes,
    /// The creator's charge.
    _charge: Option<Charge>,
}

/// The rights that a thread begins with.
pub struct TaskRights {
    /// Its identity.
    pub cred: Arc<Cred>,
    /// No program gives it more.
    pub no_new_privileges: bool,
}

/// Offset of the address of the word that leads to its identity, for generated code.
pub(crate) const CRED_PLACE: usize = core::mem::offset_of!(Task, cred_place);

/// Offset of the next task of the process, for generated code.
pub(crate) const NEXT_THREAD: usize = core::mem::offset_of!(Task, link) + super::thread_list::NEXT;

impl super::thread_list::ListedThread for Task {
    fn link(&self) -> &super::thread_list::ThreadLink<Task> {
        &self.link
    }
}

impl Task {
    /// A task for `thread`, which has not started yet.
    #[inline(always)]
    pub fn new(
        tid: i32,
        process: Arc<Process>,
        blocked: u64,
        thread: Thread,
        charge: Option<Charge>,
        rights: TaskRights,
        sched: impl FnOnce() -> SchedParams,
    ) -> Arc<Task> {
        let task = vm::fallible::placed(|| Task {
            tid,
            group_at: core::ptr::from_ref(&process.pgrp).expose_provenance(),
            process,
            thread,
            blocked: AtomicU64::new(blocked),
            saved_mask: AtomicU64::new(0),
            mask_is_saved: AtomicBool::new(false),
            may_stop: AtomicBool::new(false),
            awaited: AtomicU64::new(0),
            pending: Monitor::new(PendingSignals::new()),
            waiting: PendingMask::default(),
            altstack: Monitor::new(Sigaltstack {
                flags: SS_DISABLE,
                ..Sigaltstack::default()
            }),
            clear_child_tid: AtomicUsize::new(0),
            robust_list: AtomicUsize::new(0),
            rseq: Default::default(),
            pi: Default::default(),
            waiter: Once::new(),
            seat: AtomicUsize::new(0),
            link: Default::default(),
            trace: super::tracee::PtraceLink::default(),
            restart: Monitor::new(None),
            cred: ArcSwap::new(rights.cred),
            cred_place: AtomicUsize::new(0),
            no_new_privileges: AtomicBool::new(rights.no_new_privileges),
            sched: sched(),
            death_signal: AtomicI32::new(0),
            has_children: AtomicBool::new(false),
            sampled_ns: AtomicU64::new(0),
            flows: Default::default(),
            faults: AtomicU64::new(0),
            told: Default::default(),
            _charge: charge,
        });
        if !task.sched.is_usual() {
            task.apply_sched_params();
        }
        task
    }

    /// Its thread, which has not started yet, runs as its scheduling parameters say.
    #[cold]
    fn apply_sched_params(&self) {
        let (thread, sched) = (&self.thread, &self.sched);
        thread.set_nice(sched.nice() > 0);
        thread.set_quantum_ns(sched.quantum_ns());
        thread.set_sched_class(sched.place());
        thread.set_allowed(sched.allowed() as u32);
    }

    /// Its thread, which has not started yet, holds a count on it from now on.
    pub(super) fn own(self: &Arc<Self>) {
        let place = core::ptr::from_ref(&self.cred).expose_provenance();
        self.cred_place.store(place, Ordering::Relaxed);
        let tag = (self.process.pid as u64) << 32 | self.tid as u64;
        self.thread.set_tag(tag);
        self.thread.set_owner(Arc::into_raw(self.clone()) as usize);
    }

    /// Runs `look` with the running task, if the running thread is one, without counting.
    #[inline]
    pub fn here<R>(look: impl FnOnce(&Arc<Task>) -> R) -> Option<R> {
        Self::of(thread::current_opt()?, look)
    }

    /// The same with `running`, the running thread.
    #[inline]
    pub(crate) fn of<R>(running: &Tte, look: impl FnOnce(&Arc<Task>) -> R) -> Option<R> {
        let owner = running.owner();
        if owner == 0 {
            return None;
        }
        // SAFETY: the owner word of a thread holds a count on its task (`own`), which only `forget`, called
        // by the same thread at its end, gives up; that is not before `look` has returned, or never returns.
        let task = unsafe { Arc::from_raw(owner as *const Task) };
        Some(look(&core::mem::ManuallyDrop::new(task)))
    }

    /// Shows the running thread its process's space, if it has one, without counting.
    #[inline]
    pub fn with_space<R>(look: impl FnOnce(&Task, &AddressSpace) -> R) -> Option<R> {
        Self::here(|task| {
            // SAFETY: the process holds a count on it until its only thread sets another (`exec` and the end
            // wait for the others, which have left the space by then), and this thread, which is one of them,
            // is here.
            unsafe { task.process.space.now().as_ref() }.map(|space| look(task, space))
        })
        .flatten()
    }

    /// The running task. Panics on a kernel thread that is none.
    #[expect(
        clippy::expect_used,
        reason = "system calls are a task's; who may be a kernel thread asks `try_current`"
    )]
    pub fn current() -> Arc<Task> {
        Self::try_current().expect("a kernel thread has no task")
    }

    /// The running task, if the running thread is one.
    pub fn try_current() -> Option<Arc<Task>> {
        Self::here(Arc::clone)
    }

    /// The running thread gives up the count on its task that `new` took.
    pub(crate) fn forget() {
        let thread = thread::current();
        let task = thread.owner() as *const Task;
        thread.set_owner(0);
        if !task.is_null() {
            // SAFETY: this is the count that `new` took; the owner word no longer names it.
            drop(unsafe { Arc::from_raw(task) });
        }
    }

    /// Blocked signals.
    pub fn blocked(&self) -> u64 {
        self.blocked.load(Ordering::SeqCst)
    }

    /// Whether it would take a signal of `set` now: it does not block it, or waits for it.
    #[inline]
    pub(crate) fn takes(&self, set: u64) -> bool {
        (!self.blocked() | UNBLOCKABLE | self.awaited.load(Ordering::SeqCst)) & set != 0
    }

    /// Whether a signal of `set` that the process ignores has to wait for it nevertheless.
    #[inline]
    pub(crate) fn holds(&self, set: u64) -> bool {
        let saved = match self.mask_is_saved.load(Ordering::Relaxed) {
            true => self.saved_mask.load(Ordering::Relaxed),
            false => 0,
        };
        self.trace.is_traced() || (self.blocked() | saved) & set != 0
    }

    /// Does it sleep?
    pub(super) fn sleeping(&self) -> bool {
        self.thread.flags() & thread::flags::ASLEEP != 0
    }

    /// Its state as `/proc` shows it: `R`, `S`, `T` (its process is stopped), `t` (it waits for its tracer)
    /// or `Z`.
    pub fn state(&self) -> char {
        if self.process.is_zombie() {
            'Z'
        } else if self.trace.is_halted() {
            't'
        } else if self.process.signals.is_stopped() {
            'T'
        } else if self.sleeping() {
            'S'
        } else {
            'R'
        }
    }

    /// Makes the thread look at its signals before it next runs user code, and ends its interruptible sleep.
    pub fn attend(&self) {
        self.thread.alert();
    }

    /// Sets its niceness, −20 to 19.
    pub fn set_nice(&self, nice: i32) {
        self.sched.set_nice(nice);
        self.thread.set_nice(nice > 0);
        self.thread.set_quantum_ns(self.sched.quantum_ns());
    }

    /// Sets the processors on which it may run, a bit each. EBUSY: it is promised time on one of `all`, and
    /// stays there.
    pub fn set_allowed(&self, allowed: u64, all: u64) -> abi::Result<()> {
        let stays = self.sched.policy().kind == SCHED_DEADLINE;
        if stays && allowed & all != all {
            return Err(Errno::EBUSY);
        }
        self.sched.set_allowed(allowed);
        if !stays {
            self.thread.set_allowed(allowed as u32);
        }
        Ok(())
    }

    /// Sets its policy. EBUSY: no processor can promise so much.
    pub fn set_policy(&self, policy: SchedPolicy) -> abi::Result<()> {
        let terms = (policy.kind == SCHED_DEADLINE).then_some(policy.terms);
        let promised = self.thread.promise(terms).map_err(|Busy| Errno::EBUSY)?;
        self.sched.set_policy(policy);
        self.thread.set_quantum_ns(self.sched.quantum_ns());
        self.thread.set_allowed(match promised {
            Some(cpu) => 1 << cpu,
            None => self.sched.allowed() as u32,
        });
        self.thread.set_sched_class(self.sched.place());
        Ok(())
    }

    /// CPU time so far, nanoseconds.
    pub fn cpu_ns(&self) -> u64 {
        self.thread.cpu_ns()
    }
}
