//! Taking signals: which of those that wait a thread gets.
//!
//! *Interface*: [`Process::pending`] and [`Task::pending_here`] are those that wait; [`ProcessSignals::take`]
//! takes the next, [`ProcessSignals::forget`] gives signals up.

use abi::linux::{SIGKILL, Siginfo};
use alloc::sync::Arc;
use core::sync::atomic::Ordering;

use super::timer_signals::settle;
use crate::process::signals::pending::SignalOrigin;
use crate::process::signals::{ProcessSignals, bit};
use crate::process::{Process, Task};

impl Process {
    /// The signals that wait for the process, and not for one of its threads alone.
    pub fn pending(self: &Arc<Process>) -> u64 {
        settle(self);
        self.signals.waiting.get()
    }
}

impl Task {
    /// The signals that wait for the thread or its process.
    pub fn pending_here(&self) -> u64 {
        self.process.pending() | self.waiting.get()
    }
}

/// Forgets signals of `set` that wait for one of `threads` alone; the timers among them, a bit each. With the
/// process's signals held, under which they were added.
pub(super) fn remove_from(threads: &[Arc<Task>], set: u64) -> u64 {
    let threads = threads.iter().filter(|task| task.waiting.get() & set != 0);
    threads.fold(0, |timers, task| {
        // Bound: the waiting signals of one thread, at most 1024.
        timers | task.pending.lock().remove(&task.waiting, set)
    })
}

impl ProcessSignals {
    /// Takes the next signal of `set` that is pending for `task` or for its process; `false`: there is none.
    pub fn take(&self, task: &Task, set: u64, into: &mut Siginfo) -> bool {
        if task.pending_here() & set == 0 {
            return false;
        }
        let taken = {
            // Bound: the threads and the waiting signals of one process.
            let mut state = self.state.lock();
            let mut own = task.pending.lock();
            let shared = &self.waiting;
            // It means nothing unless the signal stops; a tracer may yet make it one that does.
            task.may_stop.store(true, Ordering::Relaxed);
            if shared.get() & set & bit(SIGKILL) != 0 {
                state.pending.take(shared, bit(SIGKILL), into)
            } else {
                let taken = own.take(&task.waiting, set, into);
                taken.or_else(|| state.pending.take(shared, set, into))
            }
        };
        if let Some(SignalOrigin::Timer(expiry)) = taken {
            let overrun = task.process.timers.taken(&task.process, expiry);
            if expiry.apart {
                into.set_overrun(overrun);
            }
        }
        taken.is_some()
    }

    /// Forgets pending signals of `set`, everywhere in `process`.
    pub fn forget(&self, process: &Process, set: u64) {
        let timers = {
            let mut state = self.state.lock();
            let timers = state.pending.remove(&self.waiting, set);
            // Bound: **linear**: the threads of one process; nothing sleeps inside.
            timers | remove_from(&process.threads.lock(), set)
        };
        process.timers.passed_over(process, timers);
    }

    /// Forgets the pending signals of timers with numbers from `first` on, for `process` and for `task`, its
    /// only thread.
    pub(crate) fn forget_timers(&self, task: &Task, first: u8) {
        // Bound: the waiting signals of one process.
        let mut state = self.state.lock();
        state.pending.remove_timers(&self.waiting, first);
        task.pending.lock().remove_timers(&task.waiting, first);
    }

    /// A thread has ended, and is no longer among the process's: a stop may be complete now that the others
    /// have joined it. A stop that is not seen here begins later, and finds the thread gone: both look at the
    /// threads under their monitor, this one before it looks for a stop, and that one after it has shown
    /// itself.
    #[inline]
    pub(crate) fn thread_gone(&self, process: &Arc<Process>) {
        if self.is_stopping() {
            super::deliver::stop_if_complete(process);
        }
    }
}
