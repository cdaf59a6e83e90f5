//! The signals of expired timers.
//!
//! *Interface*: [`settle`] turns the expirations that interrupts have noted into signals, and is called
//! before every check of a process's signals; [`Process::settled_timers`] before a timer is asked or set;
//! `at_once` is the signal of the only one where nothing else waits.

use abi::linux::{SIG_IGN, SIGCONT, Sigaction, Siginfo};
use alloc::sync::Arc;
use core::sync::atomic::Ordering;

use super::rlimit_cpu;
use super::send::{SendOutcome, queue_first};
use crate::process::signals::set::{STOPPERS, UNBLOCKABLE, bit};
use crate::process::timers::{LIMIT, ProcessTimers, UNSETTLED};
use crate::process::{Process, Task};

impl Process {
    /// Its timers, none of which has rung without a signal.
    pub fn settled_timers(self: &Arc<Process>) -> &ProcessTimers {
        settle(self);
        &self.timers
    }
}

/// The signal of the one timer of the process of `task`, the running one, that has rung, in `info`, and the
/// action for it, if `task` handles it at once: nothing else waits, no other thread could take it, it is not
/// blocked and has a handler. The timer goes on as if the signal had waited and been taken. `None`: nothing
/// has been done.
pub(super) fn at_once(task: &Task, info: &mut Siginfo) -> Option<Sigaction> {
    let process = &task.process;
    let timers = &process.timers;
    let rung = timers.rung.load(Ordering::SeqCst);
    let index = rung.trailing_zeros() as usize;
    if !rung.is_power_of_two() || index == LIMIT || task.any_waits() || process.thread_count() != 1
    {
        return None;
    }
    let signo = timers.with(index, |timer| timer.notify.signo)?;
    let special = UNBLOCKABLE | STOPPERS | bit(SIGCONT);
    if (special | task.blocked()) & bit(signo) != 0 {
        return None;
    }
    let action = process.signals.actions.with(|actions| actions.get(signo));
    if action.handler <= SIG_IGN {
        return None;
    }
    // The process's only thread is here, so the timer is still the same.
    let rings = timers.with(index, |timer| {
        let tid = timer.notify.tid;
        let due = timer.expires != 0 && !timer.waiting && timer.base.now() >= timer.expires;
        if !due || tid != 0 && tid != task.tid {
            return false;
        }
        // It has no alarm, so it rings again only when it is armed below.
        timers.rung.fetch_and(!rung, Ordering::SeqCst);
        timer.alarm = None;
        let missed = timer.advance(process);
        timer.overrun = missed;
        let overrun = missed.min(i32::MAX as u64) as i32;
        *info = timer.info(index, overrun);
        true
    });
    rings?.then_some(action)
}

/// Turns the noted expirations into signals, in the order of expiry. Called before a check of the signals of
/// `process`. Thread context, no monitor held.
#[inline(always)]
pub fn settle(process: &Arc<Process>) {
    if process.timers.have_rung() {
        tell_all(process);
    }
}

#[cold]
#[inline(never)]
fn tell_all(process: &Arc<Process>) {
    let timers = &process.timers;
    let over_limit = {
        // The kernel's sender may have lost the CPU between taking a bit and sending the signal. A thread
        // that checks its signals then waits until they are there, as if the interrupt had sent them.
        // Bound: at most 36 signals of one process.
        let _alone = timers.settling.lock();
        let rung = timers.rung.swap(UNSETTLED, Ordering::SeqCst) & !UNSETTLED;
        tell(process, rung & !(1 << LIMIT));
        timers.rung.fetch_and(!UNSETTLED, Ordering::SeqCst);
        rung & 1 << LIMIT != 0
    };
    if over_limit {
        rlimit_cpu::look(process);
    }
}

/// Makes signals of the timers in `rung`, a bit each.
fn tell(process: &Arc<Process>, mut rung: u64) {
    let timers = &process.timers;
    while let Some(index) = timers.first(&mut rung) {
        let Some((info, tid, origin)) = timers.expired(process, index) else {
            continue;
        };
        let task = process.task(tid);
        let queued = if tid != 0 && task.is_none() {
            // The thread that was to get it has ended.
            SendOutcome::Dropped
        } else {
            let samples =
                tid == 0 && timers.with(index, |timer| timer.samples(process)) == Some(true);
            let first = match samples {
                true => process.sampled(bit(info.signo)),
                false => None,
            };
            queue_first(process, task.as_ref(), first.as_ref(), &info, origin)
        };
        match queued {
            SendOutcome::Waits => {}
            SendOutcome::Dropped => timers.passed_over(process, 1 << index),
            SendOutcome::Refused => timers.ring_again(process, index),
        }
    }
}
