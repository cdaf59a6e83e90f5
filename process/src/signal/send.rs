//! Sending a signal.
//!
//! *Interface*: see [`crate::signal`].

use alloc::sync::Arc;
use core::sync::atomic::Ordering::Relaxed;

use abi::errno::{Errno, Result};
use abi::linux::*;

use super::take::remove_from;
use super::timer_signals::settle;
use crate::process::signals::ChildChange;
use crate::process::signals::pending::{AddOutcome, SignalOrigin, has_place};
use crate::process::signals::set::{DefaultAction, STOPPERS, UNBLOCKABLE, bit, default_action};
use crate::process::{Process, Task, tracee, tree};
use account::quota;
use account::user::{Charge, Resource};
use account::{Capability, Cred};

/// Makes `info` pending on `process`, or only on its thread `to`, and wakes a thread that will take it. An
/// ignored signal has no effect. EAGAIN: a real-time signal found the queue full.
pub fn send(process: &Arc<Process>, to: Option<&Arc<Task>>, info: Siginfo) -> Result<()> {
    // Earlier timer expirations come first.
    settle(process);
    match queue(process, to, &info, SignalOrigin::Sent) {
        SendOutcome::Refused => Err(Errno::EAGAIN),
        SendOutcome::Waits | SendOutcome::Dropped => Ok(()),
    }
}

/// The outcome of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendOutcome {
    /// It waits to be taken.
    Waits,
    /// It will not be seen, or a pending signal stands for it.
    Dropped,
    /// There is no room for it.
    Refused,
}

/// [`send`] for a signal from `origin`.
pub(crate) fn queue(
    process: &Arc<Process>,
    to: Option<&Arc<Task>>,
    info: &Siginfo,
    origin: SignalOrigin,
) -> SendOutcome {
    queue_first(process, to, None, info, origin)
}

/// The same; of the threads that would take a signal to all of them, `first` is woken if it is one.
pub(crate) fn queue_first(
    process: &Arc<Process>,
    to: Option<&Arc<Task>>,
    first: Option<&Arc<Task>>,
    info: &Siginfo,
    origin: SignalOrigin,
) -> SendOutcome {
    let signo = info.signo;
    let this = bit(signo);
    // It ends all threads, whichever it was sent to; waiters for the end check only the process.
    let to = to.filter(|_| signo != SIGKILL);
    if process.is_zombie() {
        return SendOutcome::Dropped;
    }
    let charge = match origin {
        SignalOrigin::Sent => place(process, info),
        SignalOrigin::Timer(_) => None,
    };
    let mut continued = false;
    let mut queued = SendOutcome::Dropped;
    let mut fatal = false;
    let mut timers = 0;
    {
        // Bound: the threads and the waiting signals of one process.
        let mut state = process.signals.state.lock();
        // Bound: **linear**: the threads of one process; nothing sleeps inside.
        let threads = process.threads.lock();
        let cancelled = match signo {
            SIGCONT => STOPPERS,
            _ if this & STOPPERS != 0 => bit(SIGCONT),
            _ => 0,
        };
        if cancelled != 0 {
            timers = state.pending.remove(&process.signals.waiting, cancelled)
                | remove_from(&threads, cancelled);
        }
        if signo == SIGCONT {
            // A thread may have taken a signal that stops, and not begun the stop yet.
            for task in threads.iter() {
                task.may_stop.store(false, Relaxed);
            }
            if process.signals.is_stopping() {
                process.signals.set_stopping(None);
                state.change = Some(ChildChange::Continued);
                continued = true;
            }
            for task in threads.iter() {
                tracee::continued(task);
            }
        }
        if !dropped(process, to, &threads, this) {
            let added = match to {
                // Bound: the waiting signals of one thread, at most 1024.
                Some(task) => (task.pending.lock()).add(&task.waiting, info, origin, charge),
                None => (state.pending).add(&process.signals.waiting, info, origin, charge),
            };
            queued = match added {
                AddOutcome::Waits => SendOutcome::Waits,
                AddOutcome::Merged => SendOutcome::Dropped,
                AddOutcome::Refused => SendOutcome::Refused,
            };
            if added != AddOutcome::Refused {
                wake(to, first, &threads, this);
                let can_end =
                    !process.signals.is_stopping() && matches!(origin, SignalOrigin::Sent);
                // A thread that waits for the signal may go on at once: then the status is decided.
                fatal = can_end && is_fatal(process, to, &threads, signo) && {
                    let status = status_signaled(signo);
                    process.signals.decide_end(&mut state, status).1
                };
            }
        }
    }
    if fatal {
        process.signals.continued.wake_all();
        process.end_threads();
    }
    if queued == SendOutcome::Waits {
        process.signals.arrived();
    }
    process.timers.passed_over(process, timers);
    if continued || signo == SIGKILL {
        process.signals.continued.wake_all();
    }
    if continued {
        super::deliver::notify_parent(process, CLD_CONTINUED, SIGCONT);
    }
    queued
}

/// A place for a signal to `process`, which its user pays for, up to the process's `RLIMIT_SIGPENDING` if
/// that matters.
fn place(process: &Process, info: &Siginfo) -> Option<Charge> {
    let most = if has_place(info) {
        u64::MAX
    } else {
        // Bound: one limit, before anything is held.
        process.limits.lock().cur(RLIMIT_SIGPENDING)
    };
    let user = &process.cred.get().user;
    quota::retry_after_reclaim(|| user.charge(Resource::Signals, 1, most))
}

/// Is the signal one that will never be seen?
fn dropped(process: &Process, to: Option<&Arc<Task>>, threads: &[Arc<Task>], this: u64) -> bool {
    if this & UNBLOCKABLE != 0 || process.signals.actions.get().ignored() & this == 0 {
        return false;
    }
    let held = |task: &Arc<Task>| task.holds(this);
    match to {
        Some(task) => !held(task),
        None => !threads.iter().any(held),
    }
}

/// Whether the signal ends the process, whichever thread takes it: then this takes effect now, so no other
/// thread makes a child before (Linux: `complete_signal`). A process with one thread makes none. A thread
/// that waits for the signal without blocking it does not get it.
fn is_fatal(process: &Process, to: Option<&Arc<Task>>, threads: &[Arc<Task>], signo: i32) -> bool {
    // A thread that writes a core ends the process itself, with all threads unchanged.
    let waits = |task: &Arc<Task>| task.awaited.load(Relaxed) & bit(signo) != 0;
    if (threads.len() < 2 && !threads.iter().any(waits))
        || default_action(signo) != DefaultAction::Terminate
        || super::coredump::wanted(process, signo)
    {
        return false;
    }
    let free = |task: &Arc<Task>| task.blocked() & bit(signo) == 0;
    process.signals.actions.get().get(signo).handler == SIG_DFL
        && to.map_or_else(|| threads.iter().any(free), free)
        && !threads.iter().any(|task| task.trace.is_traced())
}

/// Alerts a thread that would take the signal, `first` if it would; for SIGKILL all threads.
fn wake(to: Option<&Arc<Task>>, first: Option<&Arc<Task>>, threads: &[Arc<Task>], this: u64) {
    let takes = |task: &&Arc<Task>| task.takes(this);
    if this == bit(SIGKILL) {
        // Those that were stopped or suspended natively end, too.
        threads.iter().for_each(|task| task.thread.kill());
    } else if let Some(task) = to {
        if takes(&task) {
            task.attend();
        }
    } else if let Some(task) = first.into_iter().chain(threads).find(takes) {
        task.attend();
    }
}

/// Sends to every member of process group `pgrp`. ESRCH when there is none.
pub fn send_group(pgrp: i32, info: Siginfo) -> Result<()> {
    let sent = each_of_group(pgrp, |process| {
        // A full queue of one member is no reason to leave out the others.
        let _ = send(process, None, info);
    });
    if sent == 0 { Err(Errno::ESRCH) } else { Ok(()) }
}

/// Calls `f`, which sends, once for every member of process group `pgrp`, those included that members make
/// meanwhile. Returns how many there were.
pub fn each_of_group(pgrp: i32, f: impl FnMut(&Arc<Process>)) -> usize {
    if tree::members(pgrp) == 0 {
        return 0;
    }
    tree::each(|process| process.pgrp() == pgrp, f)
}

/// A fault of the running thread: delivered even if blocked or ignored (then with the default action).
pub fn force(info: Siginfo) {
    let task = Task::current();
    let this = bit(info.signo);
    let actions = task.process.signals.actions.get();
    let mut action = actions.get(info.signo);
    if action.handler == SIG_IGN || task.blocked() & this != 0 {
        action.handler = SIG_DFL;
        actions.set(info.signo, action);
        task.blocked.fetch_and(!this, Relaxed);
    }
    let charge = place(&task.process, &info);
    // Bound: the threads and the waiting signals of one process.
    let _state = task.process.signals.state.lock();
    (task.pending.lock()).add(&task.waiting, &info, SignalOrigin::Sent, charge);
    drop(_state);
    task.attend();
}

/// May the running thread, of process `sender`, send `signo` to `process`, or to its thread, with credentials
/// `to`?
pub fn may_signal(sender: &Process, process: &Process, to: &Cred, signo: i32) -> bool {
    let from = sender.cred_here();
    from.has(Capability::Kill)
        || [from.euid, from.uid]
            .iter()
            .any(|id| *id == to.uid || *id == to.suid)
        || (signo == SIGCONT && sender.sid() == process.sid())
}

/// Whether the running thread blocks `signo` or its process ignores it: then a terminal does not stop it for
/// background access.
pub fn blocked_or_ignored(signo: i32) -> bool {
    let task = Task::current();
    let action = task.process.signals.actions.get().get(signo);
    task.blocked() & bit(signo) != 0
        || action.handler == SIG_IGN
        || (action.handler == SIG_DFL && default_action(signo) == DefaultAction::Ignore)
}
