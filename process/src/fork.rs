//! Making processes and threads (`fork`, `vfork`, `clone`, `clone3`).
//!
//! *Interface*: [`CloneSpec`], [`make`]. Steps that can fail are done before the child is visible, so that a
//! failure leaves nothing behind.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

use abi::errno::{Errno, Result};
use abi::layout::USER_END;
use abi::linux::*;
use machine::trap::{TrapFrame, VECTOR_TAIL};
use sync::{Monitor, Once, WaitList};
use vm::AddressSpace;

use crate::cgroup;
use crate::dispatch;
use crate::memory;
use crate::pidfd;
use crate::process::access::CredGuard;
use crate::process::login::Login;
use crate::process::rseq::Rseq;
use crate::process::signals::core_state::{CoreState, FILTER};
use crate::process::signals::{ProcessSignals, SignalActions};
use crate::process::timers::ProcessTimers;
use crate::process::tree::{self, INIT};
use crate::process::usage::EndedUsage;
use crate::process::{
    ArcSwap, OnceGate, POISON_DEFAULT, Process, Program, RlimitTable, Session, Task, TaskRights,
};
use crate::ptrace;
use crate::signal::rlimit_cpu;
use account::caller;
use account::quota;
use account::user::Charge;
use account::{Capability, Cred};
use file::fdtable::FdTable;
use file::fs::FsContext;

/// The order to `clone`.
#[derive(Clone, Copy, Debug, Default)]
pub struct CloneSpec {
    /// `CLONE_…`, without the exit signal.
    pub flags: u64,
    /// Sent to the parent at the end; 0, or no signal's number, for none.
    pub exit_signal: i32,
    /// The child's stack pointer; 0 leaves the parent's.
    pub stack: u64,
    /// The child's FS base, with `CLONE_SETTLS`.
    pub tls: u64,
    /// Where `CLONE_PARENT_SETTID` stores.
    pub parent_tid: usize,
    /// Where `CLONE_CHILD_SETTID` and `CLONE_CHILD_CLEARTID` store.
    pub child_tid: usize,
    /// Where `CLONE_PIDFD` stores.
    pub pidfd: usize,
    /// The child calls this procedure, given its argument, and starts without the parent's vector registers;
    /// otherwise it goes on where its parent is.
    pub procedure: Option<(u64, u64)>,
    /// The number of the control group that the child begins in, with `CLONE_INTO_CGROUP`.
    pub group: u32,
}

/// So often `fork` copies a table as if the process kept it meanwhile, which costs nothing.
const GUESSES: usize = 2;

/// The flags that ask for a namespace of its own.
pub const NAMESPACES: u64 = CLONE_NEWNS
    | CLONE_NEWCGROUP
    | CLONE_NEWUTS
    | CLONE_NEWIPC
    | CLONE_NEWUSER
    | CLONE_NEWPID
    | CLONE_NEWNET;

/// As a kernel built without them: EINVAL for who may ask, EPERM for others; who has no right may make users'
/// ones where there are such.
#[inline]
pub fn no_namespaces(flags: u64) -> Result<()> {
    if flags & NAMESPACES != 0 {
        may_ask(flags)?;
    }
    // In this form for the table of calls, which reads what is refused.
    if flags & NAMESPACES != 0 {
        return Err(Errno::EINVAL);
    }
    Ok(())
}

#[cold]
fn may_ask(flags: u64) -> Result<()> {
    if flags & CLONE_NEWUSER == 0 {
        caller::cred().need(Capability::SysAdmin)?;
    }
    Ok(())
}

/// Makes a child of the running thread that goes on from `frame` with 0 as result; returns its number. With
/// `CLONE_VFORK` not before the child has executed a program or ended. EINVAL, EAGAIN, ENOMEM.
pub fn make(frame: &mut TrapFrame, spec: CloneSpec) -> Result<i32> {
    let child = insist(|| prepare(frame, &spec))?;
    let number = child.tid;
    let vforked = (spec.flags & CLONE_VFORK != 0).then(|| child.process.clone());
    let event = ptrace::made(&child, spec.flags, spec.exit_signal);
    thread::start(&child.thread);
    drop(child);
    if let Some((event, option)) = event {
        ptrace::tell(frame, event, option, number);
    }
    if let Some(process) = vforked {
        let parent = Process::current();
        process.vfork_gate.pass(|| parent.signals.is_ending());
        let done = (PTRACE_EVENT_VFORK_DONE, PTRACE_O_TRACEVFORKDONE);
        ptrace::tell(frame, done.0, done.1, number);
    }
    Ok(number)
}

/// Makes a further thread of the process of `task`, the running one, which is not traced and whose space this
/// is; as [`make`] otherwise. A tracer that attaches meanwhile gets no event for it.
#[inline(always)]
pub fn make_thread(
    task: &Task,
    space: &AddressSpace,
    frame: &TrapFrame,
    spec: &CloneSpec,
) -> Result<i32> {
    check(spec)?;
    let child = insist(|| persist(task, || attempt_thread(task, space, frame, spec)))?;
    thread::start(&child.thread);
    Ok(child.tid)
}

/// Attempts again after memory that was being freed.
#[inline(always)]
fn insist(mut attempt: impl FnMut() -> Result<Arc<Task>>) -> Result<Arc<Task>> {
    loop {
        match attempt() {
            Err(Errno::ENOMEM) if memory::coming() => {}
            made => return made,
        }
    }
}

/// The child that [`make`] starts. The caller starts it. EINVAL, EAGAIN, ENOMEM.
pub fn prepare(frame: &TrapFrame, spec: &CloneSpec) -> Result<Arc<Task>> {
    check(spec)?;
    let made = Task::with_space(|task, space| {
        persist(task, || match spec.flags & CLONE_THREAD {
            0 => attempt_process(task, frame, spec),
            _ => attempt_thread(task, space, frame, spec),
        })
    });
    made.unwrap_or(Err(Errno::ESRCH))
}

/// Attempts again where `task`, the running one, has only gone to another group meanwhile.
#[inline(always)]
fn persist(task: &Task, mut attempt: impl FnMut() -> Result<Arc<Task>>) -> Result<Arc<Task>> {
    loop {
        match attempt() {
            Err(Errno::ERESTARTNOINTR) if !has_to_look(task) => {}
            made => return made,
        }
    }
}

/// Whether the thread has a signal to take, or its end, before it goes on.
fn has_to_look(task: &Task) -> bool {
    task.thread.flags() & thread::flags::INTERRUPTS != 0 || task.process.signals.is_ending()
}

/// One attempt to make a process. ERESTARTNOINTR: a signal came, which if it was to many has missed the
/// child; or the parent has gone to another group or session.
#[inline(never)]
fn attempt_process(task: &Task, frame: &TrapFrame, spec: &CloneSpec) -> Result<Arc<Task>> {
    let (number, charge) = admitted(task)?;
    add_process(task, frame, spec, number, charge).inspect_err(|_| tree::release(number))
}

/// One attempt to make a thread.
#[inline(always)]
fn attempt_thread(
    task: &Task,
    space: &AddressSpace,
    frame: &TrapFrame,
    spec: &CloneSpec,
) -> Result<Arc<Task>> {
    let (number, charge) = admitted(task)?;
    add_thread(task, space, frame, spec, number, charge).inspect_err(|_| tree::release(number))
}

/// A number for a child of `task`, and the charge for it. EAGAIN.
#[inline(always)]
fn admitted(task: &Task) -> Result<(i32, Charge)> {
    if task.sched.refuses_children() {
        return Err(Errno::EAGAIN);
    }
    // Bound: one limit.
    let limit = task.process.limits.lock().cur(RLIMIT_NPROC);
    let (charge, exempt) = quota::task(&task.cred.get(), limit)?;
    Ok((tree::reserve(exempt)?, charge))
}

#[inline(always)]
fn check(spec: &CloneSpec) -> Result<()> {
    let has = |flags| spec.flags & flags == flags;
    let alone = |flag, needs| has(flag) && !has(needs);
    if alone(CLONE_SIGHAND, CLONE_VM)
        || alone(CLONE_THREAD, CLONE_SIGHAND | CLONE_FILES | CLONE_FS)
        || (has(CLONE_SIGHAND) && has(CLONE_CLEAR_SIGHAND))
        || (has(CLONE_PIDFD) && (has(CLONE_THREAD) || has(CLONE_DETACHED)))
    {
        return Err(Errno::EINVAL);
    }
    no_namespaces(spec.flags)?;
    // The threads of a process are in one group.
    if has(CLONE_INTO_CGROUP | CLONE_THREAD) {
        return Err(Errno::EOPNOTSUPP);
    }
    // A base that is no user address would fault in the switch.
    if has(CLONE_SETTLS) && spec.tls >= USER_END as u64 {
        return Err(Errno::EPERM);
    }
    Ok(())
}

/// The memory the child runs in.
fn child_space(spec: &CloneSpec, parent: &Process) -> Result<Arc<AddressSpace>> {
    let own = parent.space().ok_or(Errno::ESRCH)?;
    if spec.flags & CLONE_VM != 0 {
        own.join();
        Ok(own)
    } else {
        own.fork()
    }
}

/// The child's thread, not started, as thread `tid` of `process`.
#[inline(always)]
fn child_thread(
    frame: &TrapFrame,
    spec: &CloneSpec,
    space: &AddressSpace,
    tid: i32,
) -> Result<thread::Thread> {
    if spec.flags & CLONE_PARENT_SETTID != 0 {
        vm::user::put(spec.parent_tid, &tid)?;
    }
    if spec.flags & CLONE_CHILD_SETTID != 0 {
        // As Linux does: a bad address here is the child's own affair.
        let _ = space.write_at(spec.child_tid, &tid.to_ne_bytes());
    }
    let change = |child: &mut TrapFrame| {
        child.rax = 0;
        if spec.stack != 0 {
            child.rsp = spec.stack;
        }
        if let Some((entry, argument)) = spec.procedure {
            child.rip = entry;
            child.rdi = argument;
            child.rbp = 0;
            child.vector = VECTOR_TAIL;
        }
    };
    let fs_base = if spec.flags & CLONE_SETTLS != 0 {
        spec.tls
    } else {
        thread::current().fs_base()
    };
    dispatch::user_thread(frame, &change, space, fs_base, spec.procedure.is_none())
}

#[inline(always)]
fn add_thread(
    task: &Task,
    space: &AddressSpace,
    frame: &TrapFrame,
    spec: &CloneSpec,
    tid: i32,
    charge: Charge,
) -> Result<Arc<Task>> {
    let process = &task.process;
    let files = process.files.get();
    files.share();
    space.join();
    let thread = match child_thread(frame, spec, space, tid) {
        Ok(thread) => thread,
        Err(error) => {
            files.leave();
            return Err(error);
        }
    };
    let child = new_task(tid, process.clone(), task, spec, thread, charge);
    tree::enter_thread(&child);
    let admitted = cgroup::enter(&child, task, None);
    // The creator removes it again if it is not admitted.
    match admitted.and_then(|()| process.admit_further(&child, &files)) {
        Ok(false) => {}
        Ok(true) => files.leave(),
        Err(error) => {
            files.leave();
            cgroup::leave(&child);
            return Err(error);
        }
    }
    cgroup::follow(&child, task);
    // An operation that began earlier does not know of it.
    let signals = &process.signals;
    if signals.is_ending() || signals.is_stopping() || signals.is_freezing() {
        child.attend();
    }
    Ok(child)
}

/// The table of `parent`, which a thread of the child has joined.
fn join_files(parent: &Process) -> Arc<FdTable> {
    loop {
        let files = parent.files.get();
        files.share();
        // Another thread that gave the process another table before may have closed everything in this one.
        if parent.files.is(&files) {
            return files;
        }
        files.leave();
    }
}

/// A copy of the table of `parent`. ENOMEM.
fn copy_files(parent: &Process) -> Result<Arc<FdTable>> {
    for _ in 0..GUESSES {
        let files = parent.files.get();
        let copy = files.fork_copy()?;
        // Else another thread gave the process another table meanwhile, and may have closed everything in
        // this one.
        if parent.files.is(&files) {
            return Ok(copy);
        }
        copy.leave();
    }
    // A table that this thread has joined too stays as it is when the others go.
    let files = join_files(parent);
    let copy = files.fork_copy();
    files.leave();
    copy
}

#[inline(always)]
fn add_process(
    task: &Task,
    frame: &TrapFrame,
    spec: &CloneSpec,
    pid: i32,
    charge: Charge,
) -> Result<Arc<Task>> {
    let parent = &task.process;
    let space = child_space(spec, parent)?;
    let files = if spec.flags & CLONE_FILES != 0 {
        join_files(parent)
    } else {
        copy_files(parent)?
    };
    let fs = parent.fs.get();
    let fs = if spec.flags & CLONE_FS != 0 {
        fs.join();
        fs
    } else {
        fs.fork_copy()
    };
    let actions = parent.signals.actions.get();
    let actions = if spec.flags & CLONE_SIGHAND != 0 {
        actions
    } else if spec.flags & CLONE_CLEAR_SIGHAND != 0 {
        actions.exec_copy()
    } else {
        actions.fork_copy()
    };
    let process = Process::new(parent, pid, spec, files, fs, actions);
    process.space.set(Some(space.clone()));
    let thread = match child_thread(frame, spec, &space, pid) {
        Ok(thread) => thread,
        Err(error) => {
            process.give_up();
            return Err(error);
        }
    };
    let given = match give_pidfd(spec, parent, &process) {
        Ok(given) => given,
        Err(error) => {
            process.give_up();
            return Err(error);
        }
    };
    let child = new_task(pid, process.clone(), task, spec, thread, charge);
    // A signal to the whole group that arrived meanwhile has not seen the child: the parent takes it first
    // and forks again.
    let into = (spec.flags & CLONE_INTO_CGROUP != 0).then_some(spec.group);
    let entered = cgroup::enter(&child, task, into)
        .and_then(|()| tree::enter(&process, &child, task, || has_to_look(task)));
    match entered {
        Ok(()) => {
            process.files.get().catch_up();
            rlimit_cpu::watch(&process);
            cgroup::settle(&child);
            Ok(child)
        }
        Err(error) => {
            if let Some((files, fd)) = given {
                let _ = files.close(fd);
            }
            cgroup::leave(&child);
            process.give_up();
            Err(error)
        }
    }
}

/// A descriptor of `child`, if `spec` asks for one: in which table of the parent's, and its number.
fn give_pidfd(
    spec: &CloneSpec,
    parent: &Process,
    child: &Arc<Process>,
) -> Result<Option<(Arc<FdTable>, i32)>> {
    if spec.flags & CLONE_PIDFD == 0 {
        return Ok(None);
    }
    let files = parent.files.get();
    let fd = files.install(pidfd::open(child, 0)?, true)?;
    if let Err(error) = vm::user::put(spec.pidfd, &fd) {
        let _ = files.close(fd);
        return Err(error);
    }
    Ok(Some((files, fd)))
}

#[inline(always)]
fn new_task(
    tid: i32,
    process: Arc<Process>,
    parent: &Task,
    spec: &CloneSpec,
    thread: thread::Thread,
    charge: Charge,
) -> Arc<Task> {
    let rights = TaskRights {
        cred: parent.cred.get(),
        no_new_privileges: parent.no_new_privileges.load(Ordering::Relaxed),
    };
    let blocked = parent.blocked();
    let child = Task::new(tid, process, blocked, thread, Some(charge), rights, || {
        parent.sched.inherited()
    });
    if spec.flags & CLONE_CHILD_CLEARTID != 0 {
        child
            .clear_child_tid
            .store(spec.child_tid, Ordering::Relaxed);
    }
    if spec.flags & CLONE_VM == 0 {
        Rseq::bequeath(parent, &child);
    }
    if spec.flags & (CLONE_VM | CLONE_VFORK) != CLONE_VM {
        // Bound: three words of the thread’s own.
        *child.altstack.lock() = *parent.altstack.lock();
    }
    child
}

impl Process {
    /// A child of `parent`, or with `CLONE_PARENT` of its parent, in its group and session, with its
    /// identities, limits and program; without memory, threads, or a place in the tree.
    pub(crate) fn new(
        parent: &Process,
        pid: i32,
        spec: &CloneSpec,
        files: Arc<FdTable>,
        fs: Arc<FsContext>,
        actions: Arc<SignalActions>,
    ) -> Arc<Process> {
        // Nobody chooses a signal for a parent that did not ask for the child.
        let (ppid, exit_signal, parent_images) = if spec.flags & CLONE_PARENT != 0 {
            let same = parent.exit_signal.load(Ordering::Relaxed);
            (parent.ppid(), same, parent.parent_images)
        } else {
            let images = parent.images.load(Ordering::Relaxed);
            (parent.pid, spec.exit_signal, images)
        };
        let heritage = Heritage {
            cred: parent.cred_here(),
            program: parent.program(),
            session: parent.session.get(),
            ppid,
            pgrp: parent.pgrp(),
            exit_signal,
            parent_images,
            huge_pages: parent.huge_pages.load(Ordering::Relaxed),
            filter: parent.core_state.filter.load(Ordering::Relaxed),
            login: parent.login.inherited(),
            oom_score_adj: parent.oom_score_adj.load(Ordering::Relaxed),
            oom_score_adj_least: parent.oom_score_adj_least.load(Ordering::Relaxed),
            personality: parent.personality.load(Ordering::Relaxed),
            // Held to the end of this: the last.
            // Bound: a few words of one process.
            limits: parent.limits.lock().clone(),
        };
        Process::with(pid, files, fs, actions, heritage)
    }

    /// It has come to nothing: leaves what it would have shared.
    fn give_up(&self) {
        self.files.get().leave();
        self.fs.get().leave();
    }

    fn with(
        pid: i32,
        files: Arc<FdTable>,
        fs: Arc<FsContext>,
        actions: Arc<SignalActions>,
        heritage: Heritage,
    ) -> Arc<Process> {
        vm::fallible::placed(|| Process {
            pid,
            files: ArcSwap::new(files),
            fs: ArcSwap::new(fs),
            cred: ArcSwap::new(heritage.cred),
            first_tid: AtomicI32::new(pid),
            limits: Monitor::new(heritage.limits),
            program: Monitor::new(heritage.program),
            session: ArcSwap::new(heritage.session),
            signals: ProcessSignals::new(actions),
            start_ns: machine::clock::now_ns(),
            space: Default::default(),
            threads: Monitor::new(Vec::new()),
            thread_list: Default::default(),
            timers: ProcessTimers::default(),
            usage: Monitor::new(EndedUsage::default()),
            children: Monitor::new(Vec::new()),
            child_wait: WaitList::new(),
            vfork_gate: OnceGate::default(),
            // The first process runs no code that could trace.
            tracees: Monitor::new((pid != INIT).then(Vec::new)),
            traced_by: AtomicI32::new(0),
            personality: AtomicU32::new(heritage.personality),
            ppid: AtomicI32::new(heritage.ppid),
            parent_tid: AtomicI32::new(0),
            pgrp: AtomicI32::new(heritage.pgrp),
            left_group: AtomicI32::new(0),
            exit_signal: AtomicI32::new(heritage.exit_signal),
            wait_status: AtomicI32::new(0),
            zombie: AtomicBool::new(false),
            undoes: AtomicBool::new(false),
            ended: WaitList::new(),
            images: AtomicU32::new(0),
            parent_images: heritage.parent_images,
            huge_pages: AtomicBool::new(heritage.huge_pages),
            core_state: CoreState::new(heritage.filter),
            is_reaper: AtomicBool::new(false),
            flushes: AtomicBool::new(false),
            poison: AtomicI32::new(POISON_DEFAULT),
            login: heritage.login,
            oom_score_adj: AtomicI32::new(heritage.oom_score_adj),
            oom_score_adj_least: AtomicI32::new(heritage.oom_score_adj_least),
            ended_leader: Once::new(),
            barriers: AtomicU32::new(0),
            rights: Monitor::new(CredGuard),
            ptracer: Monitor::default(),
        })
    }
}

/// The parts of its parent that a process begins with.
struct Heritage {
    cred: Arc<Cred>,
    limits: RlimitTable,
    program: Arc<Program>,
    session: Arc<Session>,
    ppid: i32,
    pgrp: i32,
    exit_signal: i32,
    parent_images: u32,
    huge_pages: bool,
    filter: u32,
    login: Login,
    oom_score_adj: i32,
    oom_score_adj_least: i32,
    personality: u32,
}

/// The process without code that adopts orphans, number [`INIT`]. Once, at boot. ENOMEM.
pub fn make_init(root: FsContext) -> Result<Arc<Process>> {
    tree::install()?;
    let program = Program {
        comm: "init".into(),
        ..Program::default()
    };
    let heritage = Heritage {
        cred: Cred::root().sealed(),
        limits: RlimitTable::initial(),
        program: Arc::new(program),
        session: Session::new(INIT),
        ppid: 0,
        pgrp: INIT,
        exit_signal: SIGCHLD,
        parent_images: 0,
        huge_pages: true,
        filter: FILTER,
        login: Login::nobody(),
        oom_score_adj: 0,
        oom_score_adj_least: 0,
        personality: 0,
    };
    let root = Arc::new(root);
    let process = Process::with(INIT, FdTable::new(0)?, root, Arc::default(), heritage);
    let number = tree::reserve(true)?;
    debug_assert_eq!(number, INIT);
    tree::found(&process, None);
    // It has no thread and no parent that would keep it.
    core::mem::forget(process.clone());
    Ok(process)
}

/// The first process with code, the leader of a session: number `pid`, not yet in the tree.
pub fn first_process(init: &Process, pid: i32, files: Arc<FdTable>) -> Arc<Process> {
    let fs = init.fs.get().fork_copy();
    let spec = CloneSpec {
        exit_signal: SIGCHLD,
        ..CloneSpec::default()
    };
    let process = Process::new(init, pid, &spec, files, fs, Arc::default());
    process.session.set(Session::new(pid));
    process.pgrp.store(pid, Ordering::Relaxed);
    process
}
