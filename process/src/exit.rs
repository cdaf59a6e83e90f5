//! The end of threads and processes.
//!
//! *Interface*: [`exit_thread`], [`exit_group`] end the caller; [`Process::end`] makes all threads of a
//! process end soon. The last thread gives back descriptors and memory, hands children to the first process,
//! and leaves a zombie.

use alloc::sync::Arc;
use core::sync::atomic::Ordering;

use abi::linux::*;
use machine::irqs_off::IrqsOff;
use machine::trap::TrapFrame;
use sync::epoch;
use thread::frameless::NOT_HANDLED;

use crate::cgroup;
use crate::dispatch;
use crate::futex::{self, robust};
use crate::ipc::semaphore;
use crate::memory;
use crate::process::parent_thread::tell_of_end;
use crate::process::signals::pending::SignalOrigin;
use crate::process::tree::{self, INIT};
use crate::process::{Process, Task, how_ended, init_process};
use crate::ptrace;
use crate::signal;

/// Ends the calling thread; with the last one, the process ends with `status` (as `wait` encodes it).
pub fn exit_thread(status: i32) -> ! {
    Task::here(|task| leave_process(task, status));
    Task::forget();
    thread::exit()
}

/// The running thread, which is `task`, takes its leave of its process.
#[inline(always)]
fn leave_process(task: &Arc<Task>, status: i32) {
    let process = &task.process;
    ptrace::end_traced(task, status);
    if task.tid == process.pid {
        process.keep_sched(task);
    }
    robust::release(task, false);
    // Others may have the time as soon as the end is known.
    task.thread.promise_nothing();
    let cleared = task.clear_child_tid.load(Ordering::Relaxed);
    if cleared != 0 && vm::user::put(cleared, &0u32).is_ok() {
        futex::wake_user(cleared);
    }
    // Before the others can see that this thread is gone: the last one frees the page table.
    dispatch::leave_space();
    let (last, files) = {
        // One after the other with the account held: nobody counts it twice.
        // Bound: a few words.
        let mut account = process.usage.lock();
        account.thread_ends(task);
        process.dismiss(task)
    };
    cgroup::leave(task);
    if last {
        drop(files);
        forget_signals(task);
        process.signals.forget_all();
        end_process(process, status);
    } else {
        files.leave();
        drop(files);
        task.leave_children(tell_child);
        process.signals.thread_gone(process);
        process.core_state.left();
        out_of_sight(process);
        // The news from an interrupt, or from a sender of a signal, to this thread is for the others now.
        let waiting = process.pending();
        process.signals.leave_to_others(process, waiting);
        forget_signals(task);
        // `exec` waits here for the others to go.
        process.child_wait.wake_all();
    }
    if task.tid != process.pid {
        tree::release(task.tid);
    }
}

/// Nobody will take signals that wait for the thread alone; their payers have it back before its end can be
/// seen.
fn forget_signals(task: &Task) {
    if task.waiting.get() != 0 {
        // Bound: at most 1024 signals are given up, at a thread's end.
        task.pending.lock().remove(&task.waiting, u64::MAX);
    }
}

/// The same of a thread that leaves user mode by `trap` for the last time: its tracer may see that.
pub fn leave(trap: &mut TrapFrame, status: i32) -> ! {
    ptrace::leaving(trap, status);
    exit_thread(status)
}

/// `exit` without a trap frame, which a tracer would want to see: [`NOT_HANDLED`] for a traced thread, else
/// it does not return.
pub extern "sysv64" fn exit_frameless(
    status: usize,
    _address: usize,
    _length: usize,
    _more: usize,
    _other: usize,
    _last: usize,
    mut off: IrqsOff,
) -> isize {
    if Task::here(|task| task.trace.is_traced()) != Some(false) {
        return NOT_HANDLED;
    }
    off.with_interrupts(|| exit_thread(status_exited(status as i32)))
}

/// Ends the whole process with `status`, unless something else has ended it already.
pub fn exit_group(trap: &mut TrapFrame, status: i32) -> ! {
    let process = Process::current();
    let status = process.end(status);
    drop(process);
    leave(trap, status)
}

impl Process {
    /// The signal that tells `parent` of the end: what it asked for; SIGCHLD when it is another program by
    /// now, which asked for nothing.
    fn last_signal(&self, parent: &Process) -> i32 {
        if parent.images.load(Ordering::Relaxed) == self.parent_images {
            self.exit_signal.load(Ordering::Relaxed)
        } else {
            SIGCHLD
        }
    }
}

/// Waits until no interrupt looks any more at what has left the sight of `process`'s timers: a thread, or
/// with the last one all of it.
fn out_of_sight(process: &Process) {
    if process.thread_list.is_watched() {
        // Bound: the end of a thread whose process has had timers: a grace period; the CPU is given to others
        // meanwhile.
        epoch::synchronize();
    }
}

/// The end of a process, by its last thread.
fn end_process(process: &Arc<Process>, status: i32) {
    let status = process.signals.begin_end(status).0;
    ptrace::end_tracer(process, heard);
    process.timers.cancel_all();
    out_of_sight(process);
    let most = process.most_resident();
    process.usage.lock().memory_goes(most);
    semaphore::undo(process);
    process.files.get().leave();
    process.fs.get().leave();
    drop(process.space.set(None));
    memory::tidy();
    hang_up(process);

    let tree::Orphans {
        all: mut children,
        reaper,
    } = tree::move_children(process, waits_for);
    if let Some(reaper) = reaper {
        // Of those that a tracer has still to hear of it hears later.
        let told = |child: &&Arc<Process>| {
            child.is_zombie() && child.traced_by.load(Ordering::Acquire) == 0
        };
        for child in children.iter().filter(told) {
            let status = child.wait_status.load(Ordering::Relaxed);
            signal_parent(&reaper, child, SIGCHLD, status);
        }
        reaper.child_wait.wake_all();
    }
    // One for each group, and in place: there may be many, and no memory. A new parent that ends meanwhile
    // notes the groups again.
    let group_left = |child: &Arc<Process>| child.left_group.load(Ordering::Relaxed);
    tree::sort::sort(&mut children, group_left);
    let own = process.pgrp();
    let orphans = orphans_itself(process).then_some(own);
    let (parent, late) = become_zombie(process, status);

    // The tracer has heard of it, or there is none any more.
    let parent = match process.traced_by.load(Ordering::Acquire) {
        0 => Some(parent),
        _ if ptrace::ended(process, status) => None,
        _ => {
            tell_parent(process);
            None
        }
    };
    process.ended.wake_all();
    process.vfork_gate.open();
    for child in &children {
        tell_of_end(process, child, tell_child);
    }
    let held = |child: &&Arc<Process>| group_left(child) != own && child.sid() == process.sid();
    let groups = children
        .chunk_by(|one, next| group_left(one) == group_left(next))
        .filter_map(|members| members.iter().find(held).map(group_left));
    for pgrp in orphans.into_iter().chain(groups) {
        if !is_alone(process, pgrp) && tree::is_orphaned(pgrp) {
            wake_stopped_group(pgrp);
        }
    }
    if let Some(parent) = parent {
        inform(&parent, process, late, status);
    }
    init_process::ended(process, status);
}

/// The process number `pid` is a zombie, and its tracer has heard of its end.
pub(crate) fn heard(pid: i32) {
    if let Some(process) = tree::find(pid) {
        tell_parent(&process);
    }
}

/// The zombie's parent is the one that it waits for from now on, after a tracer.
fn tell_parent(process: &Arc<Process>) {
    let status = process.wait_status.load(Ordering::Relaxed);
    let (parent, late) = become_zombie_of(process, status, true);
    inform(&parent, process, late, status);
}

/// The end can be seen: `parent` gets the signal `late`, if any, and looks.
fn inform(parent: &Arc<Process>, process: &Process, late: i32, status: i32) {
    signal_parent(parent, process, late, status);
    parent.child_wait.wake_all();
}

/// The process waits for its parent from now on, or vanishes when that does not want to know; before that for
/// a tracer who is another. Returns the parent, and which signal it still gets.
fn become_zombie(process: &Arc<Process>, status: i32) -> (Arc<Process>, i32) {
    process.wait_status.store(status, Ordering::Relaxed);
    become_zombie_of(process, status, false)
}

fn become_zombie_of(process: &Arc<Process>, status: i32, heard: bool) -> (Arc<Process>, i32) {
    let (parent, keep, signo) = tree::with_parent(process, |parent, children| {
        process.zombie.store(true, Ordering::Release);
        if heard {
            process.traced_by.store(0, Ordering::Release);
        } else if process.traced_by.load(Ordering::Acquire) != 0 {
            return (parent.clone(), true, 0);
        }
        let keep = parent.pid != INIT && waits_for(parent, process);
        if !keep {
            children.retain(|child| child.pid != process.pid);
        }
        // Before anybody can see the zombie: a parent that has waited has had its SIGCHLD, and none comes
        // later out of the blue.
        let mut signo = process.last_signal(parent);
        if signo == SIGCHLD {
            signal_parent(parent, process, signo, status);
            signo = 0;
        }
        (parent.clone(), keep, signo)
    });
    if !keep {
        tree::forget(process);
    }
    (parent, signo)
}

/// The leader of a session gives its terminal up: the foreground group is hung up.
fn hang_up(process: &Process) {
    let session = process.session.get();
    if session.id != process.pid {
        return;
    }
    // Bound: copying or exchanging one counted handle.
    let terminal = session.terminal.lock().take();
    let group = match terminal {
        Some(terminal) => terminal.release(session.id).unwrap_or(0),
        // It hung up before.
        None => session.left_group.swap(0, Ordering::AcqRel),
    };
    if group != 0 {
        for signo in [SIGHUP, SIGCONT] {
            let _ = signal::send_group(group, Siginfo::sent(signo, SI_KERNEL, 0, 0));
        }
    }
}

/// Whether the group of `process` may become orphaned by its end.
fn orphans_itself(process: &Process) -> bool {
    tree::find(process.ppid())
        .is_some_and(|parent| parent.pgrp() != process.pgrp() && parent.sid() == process.sid())
}

/// Whether nobody else than `process`, which is a zombie or gone, is in group `pgrp`.
fn is_alone(process: &Process, pgrp: i32) -> bool {
    match tree::members(pgrp) {
        0 => true,
        // Still in there, so it was one of those that were counted.
        1 => process.pgrp() == pgrp,
        _ => false,
    }
}

/// A newly orphaned group with a stopped member is hung up and continued (POSIX, `_exit`).
fn wake_stopped_group(pgrp: i32) {
    if tree::any(|process| process.pgrp() == pgrp && process.signals.is_stopped()) {
        for signo in [SIGHUP, SIGCONT] {
            let _ = signal::send_group(pgrp, Siginfo::sent(signo, SI_KERNEL, 0, 0));
        }
    }
}

/// Does `parent` want to know how `child` ended? Not when it ignores SIGCHLD.
fn waits_for(parent: &Process, child: &Process) -> bool {
    if parent.is_zombie() {
        return false;
    }
    if child.exit_signal.load(Ordering::Relaxed) != SIGCHLD {
        return true;
    }
    let action = parent.signals.actions.get().get(SIGCHLD);
    action.handler != SIG_IGN && action.flags & SA_NOCLDWAIT == 0
}

/// Sends `child` what it asked for when its parent ends.
fn tell_child(child: &Arc<Process>, info: &Siginfo) {
    let _ = signal::send(child, None, *info);
}

/// Sends the exit signal; nothing for the number of none.
fn signal_parent(parent: &Arc<Process>, process: &Process, signo: i32, status: i32) {
    if (1..=SIGMAX).contains(&signo) {
        let (code, value) = how_ended(status);
        let times = process.times_ns();
        let [user, system] = times.map(|ns| ns / (NSEC_PER_SEC / CLK_TCK));
        let uid = process.cred.get().uid;
        let mut info = Siginfo::child(code, process.pid, uid, value, user, system);
        info.signo = signo;
        // With the parent's children held: what has expired for it waits.
        signal::queue(parent, None, &info, SignalOrigin::Sent);
    }
}
