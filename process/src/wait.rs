//! Waiting for children (`wait4`, `waitid`).
//!
//! *Interface*: [`wait`].

use alloc::sync::Arc;
use core::sync::atomic::Ordering;

use abi::errno::{Errno, Result};
use abi::linux::*;

use crate::exit;
use crate::process::signals::ChildChange;
use crate::process::tracee::TraceeEnd;
use crate::process::{Process, Task, Usage, tree};

/// Which children.
#[derive(Clone, Copy)]
pub enum WaitFor<'a> {
    /// All.
    Any,
    /// The one with this number.
    Pid(i32),
    /// This child, whatever its number.
    This(&'a Process),
    /// Those in this process group.
    Group(i32),
}

/// The event of a child.
pub struct ChildReport {
    /// Its number.
    pub pid: i32,
    /// Its real user.
    pub uid: u32,
    /// The status as `wait` encodes it.
    pub status: i32,
    /// Its usage, including its children's.
    pub usage: Usage,
}

/// Waits until a child of `parent`, the running process, that `which` names changes in a way that `options`
/// (`WEXITED`, `WSTOPPED`, `WCONTINUED`, `WNOHANG`, `WNOWAIT`, `WNOTHREAD`, `WCLONE`, `WALL`) asks for.
/// `None` with `WNOHANG` when none has. ECHILD; interrupted: ERESTARTSYS.
pub fn wait(
    parent: &Arc<Process>,
    which: WaitFor<'_>,
    options: u32,
) -> Result<Option<ChildReport>> {
    let look = || match scan(parent, which, options) {
        Ok(None) if options & WNOHANG == 0 => None,
        outcome => Some(outcome),
    };
    match parent.child_wait.wait_interruptible(look) {
        Ok(outcome) => outcome,
        Err(sync::Interrupted) => Err(Errno::ERESTARTSYS),
    }
}

/// Looks once. ECHILD when no child could ever answer.
fn scan(parent: &Arc<Process>, which: WaitFor<'_>, options: u32) -> Result<Option<ChildReport>> {
    // Bound: **linear**: the caller’s children.
    let mut children = parent.children.lock();
    let mut exists = false;
    let mut found = None;
    let own_thread = match options & WNOTHREAD {
        0 => None,
        _ => Task::here(|task| task.tid),
    };
    for child in children.iter() {
        let named = match which {
            WaitFor::Any => true,
            WaitFor::Pid(pid) => child.pid == pid,
            WaitFor::Group(pgrp) => child.pgrp() == pgrp,
            WaitFor::This(one) => core::ptr::eq(&**child, one),
        };
        if !named || !is_of_kind(child, own_thread, options) {
            continue;
        }
        let tracer = child.traced_by.load(Ordering::Acquire);
        if child.is_zombie() {
            // A tracer has still to hear of that.
            exists |= tracer != 0;
            if tracer == 0 && options & WEXITED != 0 {
                found = Some((child.clone(), child.wait_status.load(Ordering::Relaxed)));
                break;
            }
            // It does nothing any more for which one could wait.
            continue;
        }
        exists = true;
        if let Some(status) = changed(child, options, tracer == parent.pid) {
            found = Some((child.clone(), status));
            break;
        }
    }
    match found {
        Some((child, status)) => {
            let reaped = child.is_zombie() && options & WNOWAIT == 0;
            if reaped {
                children.retain(|other| other.pid != child.pid);
            }
            drop(children);
            let report = report(&child, status);
            if reaped {
                tree::forget(&child);
                // Bound: a few words.
                parent.usage.lock().children.add(&report.usage);
            }
            Ok(Some(report))
        }
        None => {
            drop(children);
            match traced(parent, which, options) {
                (_, Some(report)) => Ok(Some(report)),
                (false, None) if !exists => Err(Errno::ECHILD),
                _ => Ok(None),
            }
        }
    }
}

/// Whether the wait is for children as `child` is: of this thread of the parent, if one is given, and by how
/// their end is told.
fn is_of_kind(child: &Process, own_thread: Option<i32>, options: u32) -> bool {
    let another = own_thread.is_some_and(|tid| child.parent_tid.load(Ordering::Relaxed) != tid);
    let told_otherwise = child.exit_signal.load(Ordering::Relaxed) != SIGCHLD;
    !another && (options & WALL != 0 || told_otherwise == (options & WCLONE != 0))
}

/// Whether `parent` traces a thread that `which` names, and the news of one.
fn traced(parent: &Process, which: WaitFor<'_>, options: u32) -> (bool, Option<ChildReport>) {
    let mut exists = false;
    // Bound: **linear**: the threads that one process traces.
    let mut tracees = parent.tracees.lock();
    let Some(list) = tracees.as_mut() else {
        return (false, None);
    };
    let mut gone = None;
    for (at, tracee) in list.iter().enumerate() {
        let Some(task) = tracee.task.upgrade() else {
            let meant = match which {
                WaitFor::Any => true,
                WaitFor::Pid(tid) => tracee.tid == tid,
                WaitFor::This(_) | WaitFor::Group(_) => false,
            };
            let end = match tracee.end {
                TraceeEnd::Process(status, uid) | TraceeEnd::Thread(status, uid) => {
                    Some((status, uid))
                }
                _ => None,
            };
            exists |= meant && (tracee.end == TraceeEnd::Leads || end.is_some());
            if let Some((status, uid)) = end.filter(|_| meant && options & WEXITED != 0) {
                gone = Some((at, tracee.tid, status, uid));
                break;
            }
            continue;
        };
        let meant = match which {
            WaitFor::Any => true,
            WaitFor::Pid(tid) => task.tid == tid,
            WaitFor::This(one) => core::ptr::eq(&*task.process, one) && task.tid == one.pid,
            WaitFor::Group(pgrp) => task.process.pgrp() == pgrp,
        };
        if !meant || task.process.is_zombie() {
            continue;
        }
        exists = true;
        if let Some(status) = task.trace.status(options & WNOWAIT == 0) {
            drop(tracees);
            let report = ChildReport {
                pid: task.tid,
                uid: task.cred.get().uid,
                status,
                usage: task.process.usage(),
            };
            return (true, Some(report));
        }
    }
    let Some((at, pid, status, uid)) = gone else {
        return (exists, None);
    };
    if options & WNOWAIT == 0 {
        let tracee = list.remove(at);
        drop(tracees);
        if let TraceeEnd::Process(..) = tracee.end {
            exit::heard(pid);
        }
    }
    let report = ChildReport {
        pid,
        uid,
        status,
        usage: Usage::default(),
    };
    (true, Some(report))
}

/// The stop or continuation of a living child that `options` asks for; taken unless `WNOWAIT`. Stops are
/// reported to a tracer by the stopping threads.
fn changed(child: &Process, options: u32, traces: bool) -> Option<i32> {
    let wanted = |change: ChildChange| match change {
        ChildChange::Stopped(_) => options & WSTOPPED != 0 && !traces,
        ChildChange::Continued => options & WCONTINUED != 0,
    };
    let change = child.signals.change(wanted, options & WNOWAIT == 0)?;
    Some(match change {
        ChildChange::Stopped(signo) => status_stopped(signo),
        ChildChange::Continued => STATUS_CONTINUED,
    })
}

fn report(child: &Process, status: i32) -> ChildReport {
    let mut usage = child.usage();
    usage.add(&child.children_usage());
    ChildReport {
        pid: child.pid,
        uid: child.cred.get().uid,
        status,
        usage,
    }
}
