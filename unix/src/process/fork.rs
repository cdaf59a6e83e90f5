//! Making processes and threads (`fork`, `vfork`, `clone`, `clone3`).
//!
//! *Interface*: [`Spec`], [`make`]. What can fail is done before the child is visible, so that a failure leaves nothing behind.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use abi::errno::{Errno, Result};
use abi::linux::*;
use machine::trap::TrapFrame;
use sync::{Monitor, WaitList};

use super::tree::{INIT, TREE};
use super::{Gate, Process, Shared, Task, usage};
use crate::signal::ProcessSignals;
use crate::time::Timers;

/// What `clone` was asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spec {
    /// `CLONE_…`, without the exit signal.
    pub flags: u64,
    /// Sent to the parent at the end; 0 for none.
    pub exit_signal: i32,
    /// The child's stack pointer; 0 leaves the parent's.
    pub stack: u64,
    /// The child's FS base, with `CLONE_SETTLS`.
    pub tls: u64,
    /// Where `CLONE_PARENT_SETTID` stores.
    pub parent_tid: usize,
    /// Where `CLONE_CHILD_SETTID` and `CLONE_CHILD_CLEARTID` store.
    pub child_tid: usize,
}

const UNSUPPORTED: u64 = CLONE_NEWNS
    | CLONE_NEWCGROUP
    | CLONE_NEWUTS
    | CLONE_NEWIPC
    | CLONE_NEWUSER
    | CLONE_NEWPID
    | CLONE_NEWNET
    | CLONE_PIDFD
    | CLONE_INTO_CGROUP;

/// Makes a child of the running thread that goes on from `frame` with 0 as result; returns its number. With
/// `CLONE_VFORK` not before the child has executed a program or ended. EINVAL, EAGAIN, ENOMEM.
pub fn make(frame: &TrapFrame, spec: Spec) -> Result<i32> {
    check(&spec)?;
    let task = Task::current();
    let parent = &task.process;
    let number = TREE.lock().reserve()?;
    let made = child_thread(frame, &spec, parent, number).and_then(|(thread, space)| {
        if spec.flags & CLONE_THREAD != 0 {
            add_thread(&task, &spec, number, thread)
        } else {
            add_process(&task, &spec, number, thread, space)
        }
    });
    let child = match made {
        Ok(child) => child,
        Err(error) => {
            TREE.lock().release(number);
            return Err(error);
        }
    };
    let process = child.process.clone();
    thread::start(&child.thread);
    drop(child);
    if spec.flags & CLONE_VFORK != 0 {
        process.vfork_gate.pass(|| parent.signals.is_ending());
    }
    Ok(number)
}

fn check(spec: &Spec) -> Result<()> {
    let has = |flags| spec.flags & flags == flags;
    let alone = |flag, needs| has(flag) && !has(needs);
    if alone(CLONE_SIGHAND, CLONE_VM)
        || alone(CLONE_THREAD, CLONE_SIGHAND | CLONE_FILES | CLONE_FS)
        || spec.flags & UNSUPPORTED != 0
        || (has(CLONE_SIGHAND) && has(CLONE_CLEAR_SIGHAND))
        || !(0..=SIGMAX).contains(&spec.exit_signal)
    {
        return Err(Errno::EINVAL);
    }
    Ok(())
}

type Space = Arc<vm::AddressSpace>;

/// The child's thread, not started, and the memory it runs in.
fn child_thread(
    frame: &TrapFrame,
    spec: &Spec,
    parent: &Process,
    number: i32,
) -> Result<(thread::Thread, Space)> {
    let own = parent.space().ok_or(Errno::ESRCH)?;
    let space = if spec.flags & CLONE_VM != 0 { own } else { own.fork()? };
    if spec.flags & CLONE_PARENT_SETTID != 0 {
        vm::user::put(spec.parent_tid, &number)?;
    }
    if spec.flags & CLONE_CHILD_SETTID != 0 {
        // As Linux does, a bad address here is the child's own affair.
        let _ = space.write_at(spec.child_tid, &number.to_ne_bytes());
    }
    let mut frame = *frame;
    frame.rax = 0;
    if spec.stack != 0 {
        frame.rsp = spec.stack;
    }
    let pid = if spec.flags & CLONE_THREAD != 0 { parent.pid } else { number };
    let thread = crate::dispatch::user_thread(&frame, pid, &space)?;
    if spec.flags & CLONE_SETTLS != 0 {
        thread::set_fs_base_of(&thread, spec.tls);
    }
    Ok((thread, space))
}

fn add_thread(task: &Arc<Task>, spec: &Spec, tid: i32, thread: thread::Thread) -> Result<Arc<Task>> {
    let process = &task.process;
    let child = new_task(tid, process.clone(), task, spec, thread);
    process.files.get().share();
    crate::dispatch::link_files(&child.thread, process.pid, &process.files.get())?;
    TREE.lock().add_thread(&child);
    process.threads.lock().push(child.clone());
    if process.signals.is_ending() {
        child.attend();
    }
    Ok(child)
}

fn add_process(
    task: &Arc<Task>,
    spec: &Spec,
    pid: i32,
    thread: thread::Thread,
    space: Space,
) -> Result<Arc<Task>> {
    let parent = &task.process;
    let files = parent.files.get();
    let files = if spec.flags & CLONE_FILES != 0 {
        files.share();
        files
    } else {
        files.fork_copy()?
    };
    crate::dispatch::link_files(&thread, pid, &files)?;
    let fs = parent.fs.get();
    let fs = if spec.flags & CLONE_FS != 0 { fs } else { fs.fork_copy() };
    let actions = parent.signals.actions.get();
    let actions = if spec.flags & CLONE_SIGHAND != 0 {
        actions
    } else if spec.flags & CLONE_CLEAR_SIGHAND != 0 {
        actions.exec_copy()
    } else {
        actions.fork_copy()
    };
    let ppid = if spec.flags & CLONE_PARENT != 0 { parent.ppid() } else { parent.pid };
    let process = Arc::new(Process {
        pid,
        files: Shared::new(files),
        fs: Shared::new(fs),
        cred: Shared::new(parent.cred.get()),
        limits: Monitor::new(parent.limits.lock().clone()),
        program: Monitor::new(parent.program()),
        session: Shared::new(parent.session.get()),
        signals: ProcessSignals::new(actions),
        start_ns: machine::clock::now_ns(),
        space: Monitor::new(Some(space)),
        threads: Monitor::new(alloc::vec::Vec::new()),
        timers: Timers::default(),
        usage: Monitor::new(usage::Account::default()),
        child_wait: WaitList::new(),
        vfork_gate: Gate::default(),
        ppid: AtomicI32::new(ppid),
        pgrp: AtomicI32::new(parent.pgrp()),
        exit_signal: AtomicI32::new(spec.exit_signal),
        wait_status: AtomicI32::new(0),
        zombie: AtomicBool::new(false),
        executed: AtomicBool::new(false),
        nice: AtomicI32::new(parent.nice()),
        death_signal: AtomicI32::new(0),
        dumpable: AtomicBool::new(true),
        no_new_privileges: AtomicBool::new(parent.no_new_privileges.load(Ordering::Relaxed)),
        subreaper: AtomicBool::new(false),
    });
    let child = new_task(pid, process.clone(), task, spec, thread);
    process.threads.lock().push(child.clone());
    TREE.lock().add(&process);
    Ok(child)
}

fn new_task(
    tid: i32,
    process: Arc<Process>,
    parent: &Task,
    spec: &Spec,
    thread: thread::Thread,
) -> Arc<Task> {
    let child = Task::new(tid, process, parent.blocked(), thread);
    if spec.flags & CLONE_CHILD_CLEARTID != 0 {
        child.clear_child_tid.store(spec.child_tid, Ordering::Relaxed);
    }
    if spec.flags & (CLONE_VM | CLONE_VFORK) != CLONE_VM {
        *child.altstack.lock() = *parent.altstack.lock();
    }
    child
}

/// The process without code that adopts orphans, number [`INIT`]. Called once, at boot.
pub(crate) fn make_init(root: crate::fs::FsContext) -> Result<Arc<Process>> {
    let process = Arc::new(Process {
        pid: INIT,
        files: Shared::new(crate::files::Files::none()),
        fs: Shared::new(Arc::new(root)),
        cred: Shared::new(Arc::new(super::Cred::root())),
        limits: Monitor::new(super::Limits::initial()),
        program: Monitor::new(Arc::new(super::Program {
            comm: "init".into(),
            ..super::Program::default()
        })),
        session: Shared::new(super::Session::new(INIT)),
        signals: ProcessSignals::new(Arc::default()),
        start_ns: machine::clock::now_ns(),
        space: Monitor::new(None),
        threads: Monitor::new(alloc::vec::Vec::new()),
        timers: Timers::default(),
        usage: Monitor::new(usage::Account::default()),
        child_wait: WaitList::new(),
        vfork_gate: Gate::default(),
        ppid: AtomicI32::new(0),
        pgrp: AtomicI32::new(INIT),
        exit_signal: AtomicI32::new(0),
        wait_status: AtomicI32::new(0),
        zombie: AtomicBool::new(false),
        executed: AtomicBool::new(true),
        nice: AtomicI32::new(0),
        death_signal: AtomicI32::new(0),
        dumpable: AtomicBool::new(false),
        no_new_privileges: AtomicBool::new(false),
        subreaper: AtomicBool::new(false),
    });
    let mut tree = TREE.lock();
    let number = tree.reserve()?;
    debug_assert_eq!(number, INIT);
    tree.add(&process);
    Ok(process)
}
