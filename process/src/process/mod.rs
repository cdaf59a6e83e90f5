//! The process: what all its threads share.
//!
//! *Interface*: [`Process::current`] and [`Task::current`]; the tree of processes and its groups in [`tree`];
//! [`Session`] for terminals. A process is alive until its last thread has ended, then a zombie until its
//! parent has waited.
//!
//! Monitors are taken in the order of docs/locks.md: one process's (children before signals before threads),
//! then files.

pub mod access;
pub mod cached_operations;
mod cpu_samples;
pub mod debug;
pub mod flows;
pub mod hostname;
mod identity;
pub mod init_process;
pub mod limits;
pub mod login;
pub(crate) mod parent_thread;
pub(crate) mod pi_state;
pub mod remote_write;
pub mod rseq;
pub mod sched_params;
pub mod sched_target;
pub mod session;
pub mod signals;
mod space_ref;
pub mod task;
mod thread_list;
pub mod timers;
pub mod tracee;
pub mod tree;
pub mod usage;
pub(crate) mod waiter;

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

use abi::errno::Result;
use abi::linux::{CLD_DUMPED, CLD_EXITED, CLD_KILLED, STATUS_CORE};
use account::Cred;
use sync::{Monitor, Once, WaitList};
use vm::AddressSpace;

pub use cached_operations::CachedOperations;
pub use file::arc_swap::{self, ArcSwap};
pub use limits::RlimitTable;
pub use session::{Session, Terminal};
pub use signals::ProcessSignals;
pub(crate) use task::{CRED_PLACE, NEXT_THREAD};
pub use task::{Task, TaskRights};
pub(crate) use thread_list::FIRST as FIRST_THREAD;
pub(crate) use thread_list::FoundThread;
pub use timers::ProcessTimers;
pub(crate) use tracee::TRACER;
pub use usage::Usage;

use file::fdtable::FdTable;
use file::fs::FsContext;
use login::Login;
use vm::fallible::{try_arc, try_reserve, try_string};

/// The result of `PR_MCE_KILL_GET` when nothing was set.
pub const POISON_DEFAULT: i32 = 2;
/// The number of threads that a walk holds at a time.
const PIECE: usize = 16;

/// Entries of a program's auxiliary vector, the last one included.
pub const AUX: usize = 20;

/// The running program.
#[derive(Clone, Default)]
pub struct Program {
    /// Place of the executable file.
    pub place: Option<file::fs::VfsPath>,
    /// Its first thread's initial stack pointer.
    pub stack: usize,
    /// Address range of the arguments, each ended by a NUL byte.
    pub arguments: Range<usize>,
    /// Address range of the initial environment, each string ended by a NUL byte.
    pub environment: Range<usize>,
    /// Address range of the initial auxiliary vector.
    pub aux: Range<usize>,
    /// The short name, at most 15 bytes.
    pub comm: String,
    /// The operations that it calls by numbers of its own.
    pub cached: Option<Arc<CachedOperations>>,
}

/// `CLD_*` of an end with `status`, and what stands beside it: the number, or the signal.
pub fn how_ended(status: i32) -> (i32, i32) {
    match status & 0x7f {
        0 => (CLD_EXITED, status >> 8 & 0xff),
        signo if status & STATUS_CORE != 0 => (CLD_DUMPED, signo),
        signo => (CLD_KILLED, signo),
    }
}

/// A process (Linux: a thread group).
pub struct Process {
    /// Its number, that of its first thread.
    pub pid: i32,
    /// Its descriptors.
    pub files: ArcSwap<FdTable>,
    /// Its root, working directory and umask.
    pub fs: ArcSwap<FsContext>,
    /// The identity of its first thread, which others see of it. Each thread has its own.
    pub cred: ArcSwap<Cred>,
    /// The number of the thread whose identity that is: the first, or that which has executed a program.
    pub(crate) first_tid: AtomicI32,
    /// Its resource limits.
    pub limits: Monitor<RlimitTable>,
    /// Its program.
    pub program: Monitor<Arc<Program>>,
    /// Its session, with the controlling terminal. Changes with its children held.
    pub session: ArcSwap<Session>,
    /// Its signals: actions, signals pending for all threads, stop and end.
    pub signals: ProcessSignals,
    /// When it was made, nanoseconds since boot.
    pub start_ns: u64,
    /// Its memory.
    pub space: space_ref::SpaceRef,
    pub(crate) threads: Monitor<Vec<Arc<Task>>>,
    /// The same for interrupt handlers.
    pub(crate) thread_list: thread_list::ThreadList<Task>,
    /// Its timers.
    pub timers: ProcessTimers,
    /// The usage of ended threads, and of children that were waited for.
    pub(crate) usage: Monitor<usage::EndedUsage>,
    /// Its children, zombies included; held while it gets another, or goes to another group. Taken after
    /// another process's only if this is the first process.
    pub(crate) children: Monitor<Vec<Arc<Process>>>,
    pub(crate) child_wait: WaitList,
    /// Released by `exec` and by the end: a `vfork` parent waits for it.
    pub(crate) vfork_gate: OnceGate,
    /// The threads that it traces, until it ends.
    pub(crate) tracees: tracee::Tracees,
    /// The tracer of its ended first thread, which is notified of the end without being the parent.
    pub(crate) traced_by: AtomicI32,
    /// The value set by `personality`.
    pub personality: AtomicU32,
    pub(crate) ppid: AtomicI32,
    /// The number of its parent's thread whose child it is; 0 if the parent has no threads.
    pub(crate) parent_tid: AtomicI32,
    /// 0 once it has been forgotten. Changes with its children held, but for that.
    pub(crate) pgrp: AtomicI32,
    /// Its group when its parent ended. The ending parent sets and reads it.
    pub(crate) left_group: AtomicI32,
    /// Sent to the parent at the end, unless the parent has executed another program since
    /// ([`Process::last_signal`]).
    pub(crate) exit_signal: AtomicI32,
    pub(crate) wait_status: AtomicI32,
    pub(crate) zombie: AtomicBool,
    /// It has asked for something to be undone at its end ([`crate::ipc::semaphore`]).
    pub(crate) undoes: AtomicBool,
    /// Woken when it has become a zombie.
    pub(crate) ended: WaitList,
    /// How many programs it has executed.
    pub(crate) images: AtomicU32,
    /// That count of its parent's when the parent chose the exit signal.
    pub(crate) parent_images: u32,
    /// Where its threads wait while a core is written.
    pub core_state: signals::core_state::CoreState,
    /// Orphans below it become its children.
    pub is_reaper: AtomicBool,
    /// Settings of `prctl` without effect: huge pages for its memory, I/O on behalf of memory reclaim, the
    /// time of notification of poisoned memory.
    pub huge_pages: AtomicBool,
    /// See `huge_pages`.
    pub flushes: AtomicBool,
    /// See `huge_pages`.
    pub poison: AtomicI32,
    /// The user who has logged in.
    pub login: Login,
    /// Its `oom_score_adj`, as written.
    pub oom_score_adj: AtomicI32,
    /// The last value that a superuser wrote there: other users cannot set a lower one.
    pub oom_score_adj_least: AtomicI32,
    /// The settings of its first thread, when that has ended.
    pub(crate) ended_leader: Once<sched_target::EndedLeader>,
    /// Which barriers it has said it will ask for (`membarrier`).
    pub barriers: AtomicU32,
    /// Held during a permitted access to it, and while its rights change.
    pub rights: Monitor<access::CredGuard>,
    /// The process that it allows to trace it.
    pub ptracer: Monitor<access::AllowedTracer>,
}

/// Something that is closed once and then open for ever.
#[derive(Default)]
pub(crate) struct OnceGate {
    open: AtomicBool,
    waiters: WaitList,
}

impl OnceGate {
    /// Opens it and wakes the waiters.
    pub(crate) fn open(&self) {
        if !self.open.swap(true, Ordering::SeqCst) {
            self.waiters.wake_all();
        }
    }

    /// Sleeps until it is open, or `give_up` says true after a wake-up.
    pub(crate) fn pass(&self, give_up: impl Fn() -> bool) {
        self.waiters
            .wait_until(|| (self.open.load(Ordering::SeqCst) || give_up()).then_some(()));
    }
}

/// The offset of a field of the process from its group's number, whose address a task has: for generated
/// code.
pub(crate) const fn beside_group(offset: usize) -> i32 {
    offset as i32 - core::mem::offset_of!(Process, pgrp) as i32
}

impl Process {
    /// The process of the running thread. Panics on a kernel thread that belongs to none.
    #[expect(
        clippy::expect_used,
        reason = "system calls are a task's; who may be a kernel thread asks `Task::try_current`"
    )]
    pub fn current() -> Arc<Process> {
        Task::here(|task| task.process.clone()).expect("a kernel thread has no process")
    }

    /// Its parent's number, 0 for the first process.
    pub fn ppid(&self) -> i32 {
        self.ppid.load(Ordering::Relaxed)
    }

    /// Its process group's number; 0 when it has been waited for.
    pub fn pgrp(&self) -> i32 {
        self.pgrp.load(Ordering::Acquire)
    }

    /// Its session's number.
    pub fn sid(&self) -> i32 {
        self.session.get().id
    }

    /// Its memory; `None` for the first process and for a zombie.
    pub fn space(&self) -> Option<Arc<AddressSpace>> {
        self.space.get()
    }

    /// How many threads it has that have not ended.
    pub fn thread_count(&self) -> usize {
        // Bound: **linear**: the threads of one process; nothing sleeps inside.
        self.threads.lock().len()
    }

    /// One of its threads: the first as long as it exists.
    pub fn a_thread(&self) -> Option<Arc<Task>> {
        self.threads.lock().first().cloned()
    }

    /// Calls `f`, which may wait, with its threads in order of their numbers, until that is false: with each
    /// that is there throughout, without a list of them.
    pub fn each_thread(&self, f: impl FnMut(&Arc<Task>) -> bool) {
        self.each_thread_after(0, f);
    }

    /// The same, with those whose numbers are above `last`.
    pub fn each_thread_after(&self, mut last: i32, mut f: impl FnMut(&Arc<Task>) -> bool) {
        loop {
            let mut piece: [Option<Arc<Task>>; PIECE] = [const { None }; PIECE];
            self.threads_after(last, &mut piece);
            for task in piece.iter().flatten() {
                last = task.tid;
                if !f(task) {
                    return;
                }
            }
            if piece.last().is_none_or(Option::is_none) {
                return;
            }
        }
    }

    /// Puts the threads with the lowest numbers above `last` into `piece`, in order.
    fn threads_after(&self, last: i32, piece: &mut [Option<Arc<Task>>]) {
        for task in self.threads.lock().iter().filter(|task| task.tid > last) {
            let lower = |there: &Option<Arc<Task>>| {
                there.as_ref().is_some_and(|there| there.tid < task.tid)
            };
            let place = piece.partition_point(lower);
            if let Some(behind) = piece.get_mut(place..) {
                behind.rotate_right(1.min(behind.len()));
                if let Some(first) = behind.first_mut() {
                    *first = Some(task.clone());
                }
            }
        }
    }

    /// `task`, whose thread has not started yet, is its first thread from now on.
    pub fn admit(&self, task: &Arc<Task>) {
        self.seat(&mut self.threads.lock(), task);
    }

    #[inline(always)]
    fn seat(&self, threads: &mut Vec<Arc<Task>>, task: &Arc<Task>) {
        task.own();
        task.seat.store(threads.len(), Ordering::Relaxed);
        self.thread_list.enter(threads, task.clone());
    }

    /// As [`Process::admit`], for a further thread, which has joined `files`. True: the process has another
    /// table meanwhile, in which the thread is counted now, and the caller leaves `files`. ENOMEM.
    pub(crate) fn admit_further(&self, task: &Arc<Task>, files: &Arc<FdTable>) -> Result<bool> {
        let mut threads = self.threads.lock();
        try_reserve(&mut threads, 1)?;
        // A thread that replaces the process's table counts its threads under this monitor; at least two, so
        // none is alone at the table.
        let moved = !self.files.is(files);
        if moved {
            self.files.get().admit(1);
        }
        self.seat(&mut threads, task);
        Ok(moved)
    }

    /// Removes `task` from its threads; returns whether it was the last, and the descriptor table that it
    /// must leave. If the process has used timers, the task is freed only after a grace period.
    pub(crate) fn dismiss(&self, task: &Task) -> (bool, Arc<FdTable>) {
        let mut threads = self.threads.lock();
        let seat = task.seat.load(Ordering::Relaxed);
        // Not the last handle: the thread that ends has another.
        let _left = self.thread_list.leave(&mut threads, seat);
        if let Some(moved) = threads.get(seat) {
            moved.seat.store(seat, Ordering::Relaxed);
        }
        // A thread that replaces the process's table counts its threads under this monitor.
        (threads.is_empty(), self.files.get())
    }

    /// Its thread number `tid`.
    pub fn task(&self, tid: i32) -> Option<Arc<Task>> {
        let threads = self.threads.lock();
        threads.iter().find(|task| task.tid == tid).cloned()
    }

    /// Has it ended without having been waited for?
    pub fn is_zombie(&self) -> bool {
        self.zombie.load(Ordering::Acquire)
    }

    /// Has it been waited for, so that it can no longer be found?
    pub fn is_gone(&self) -> bool {
        self.is_zombie() && self.pgrp() == 0
    }

    /// The niceness of its first thread, −20 to 19.
    pub fn nice(&self) -> i32 {
        let ended = || self.ended_sched().map_or(0, |sched| sched.nice());
        self.a_thread()
            .map_or_else(ended, |first| first.sched.nice())
    }

    /// Its program.
    pub fn program(&self) -> Arc<Program> {
        // Bound: copying or exchanging one counted handle.
        self.program.lock().clone()
    }

    /// Changes the short name of the process and of the running thread. ENOMEM.
    pub fn set_comm(&self, comm: &[u8]) -> Result<()> {
        let comm = try_string(&comm[..comm.len().min(15)])?;
        let mut program = self.program.lock();
        let mut changed = Program::clone(&program);
        changed.comm = comm;
        *program = try_arc(changed)?;
        Ok(())
    }

    /// Its first thread's state as [`Task::state`] says it.
    pub fn state(&self) -> char {
        if self.is_zombie() {
            return 'Z';
        }
        self.a_thread().map_or('S', |first| first.state())
    }

    /// Makes every thread end at its next return to user mode; the first caller's status counts and is
    /// returned.
    pub(crate) fn end(&self, status: i32) -> i32 {
        self.end_first(status).unwrap_or_else(|decided| decided)
    }

    /// The same; an error is the status of who came first.
    pub(crate) fn end_first(&self, status: i32) -> core::result::Result<i32, i32> {
        let (status, first) = self.signals.begin_end(status);
        if !first {
            return Err(status);
        }
        self.end_threads();
        Ok(status)
    }

    /// The status with which the process ends is decided: all threads are told.
    pub(crate) fn end_threads(&self) {
        // Bound: **linear**: the threads of one process; nothing sleeps inside.
        for task in self.threads.lock().iter() {
            task.attend();
            task.thread.release();
        }
    }
}
