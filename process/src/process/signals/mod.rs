//! The signals of a process: actions, pending signals, stop, end.
//!
//! *Interface*: [`ProcessSignals`]. One monitor holds the state; the masks that hot paths read are atomics.
//! Sets of signals are in [`set`], a queue of those that wait is [`pending`](pending::PendingSignals).
//! Sending and taking them are the room's part `signal`.

pub mod action;
pub mod core_state;
pub mod pending;
pub mod set;

use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use abi::linux::{SIGKILL, Siginfo};
use sync::{Monitor, WaitList};

pub use action::SignalActions;
pub use set::{bit, valid};

use super::{ArcSwap, Process, Task};
use pending::{PendingMask, PendingSignals};

/// A change of a living child that its parent can wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChildChange {
    /// Stopped by this signal.
    Stopped(i32),
    /// Continued.
    Continued,
}

/// The part under the monitor.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) pending: PendingSignals,
    /// The status the process ends with, once that is decided.
    pub(crate) ending: Option<i32>,
    /// Counts the stops.
    pub(crate) stops: u32,
    /// Threads that have joined it.
    pub(crate) stopped: usize,
    /// Threads that are frozen.
    pub(crate) frozen: usize,
    /// News for the parent.
    pub(crate) change: Option<ChildChange>,
}

/// A process's signals.
pub struct ProcessSignals {
    /// The actions.
    pub actions: ArcSwap<SignalActions>,
    pub(crate) state: Monitor<State>,
    /// The signals that wait in there.
    pub(crate) waiting: PendingMask,
    pub(crate) continued: WaitList,
    /// Woken when one comes to wait, here or at a thread, or when a timer is noted.
    arrivals: WaitList,
    ending: AtomicBool,
    /// The signal of the stop that threads are to join; 0: none. Changed with the state held.
    stopping: AtomicI32,
    /// Its control group is to be frozen.
    freezing: AtomicBool,
}

/// Offset of the actions, for generated code.
pub(crate) const ACTIONS: usize = core::mem::offset_of!(ProcessSignals, actions);
/// Offset of the mask of what waits, for generated code.
pub(crate) const WAITING: usize = core::mem::offset_of!(ProcessSignals, waiting);

impl Task {
    /// Whether any signal waits for it or its process, but for those of timers that have only rung.
    pub(crate) fn any_waits(&self) -> bool {
        self.process.signals.waiting.get() | self.waiting.get() != 0
    }
}

impl ProcessSignals {
    /// Nothing pending.
    pub(crate) fn new(actions: Arc<SignalActions>) -> ProcessSignals {
        ProcessSignals {
            actions: ArcSwap::new(actions),
            state: Monitor::new(State::default()),
            waiting: PendingMask::default(),
            continued: WaitList::new(),
            arrivals: WaitList::new(),
            ending: AtomicBool::new(false),
            stopping: AtomicI32::new(0),
            freezing: AtomicBool::new(false),
        }
    }

    /// Woken when a signal comes to wait for the process or for one of its threads.
    pub fn arrivals(&self) -> &WaitList {
        &self.arrivals
    }

    /// Wakes the waiters for each signal. Also from interrupt handlers.
    #[inline]
    pub(crate) fn arrived(&self) {
        if self.arrivals.has_waiters() {
            self.arrivals.wake_all();
        }
    }

    /// Drops the pending signals of the process, whose last thread is about to end.
    pub(crate) fn forget_all(&self) {
        // Bound: the threads and the waiting signals of one process.
        self.state.lock().pending.remove(&self.waiting, u64::MAX);
    }

    /// Whether a first thread has to look before it begins.
    pub(crate) fn has_news(&self) -> bool {
        self.waiting.get() != 0 || self.is_ending()
    }

    /// Pending signals of the process in `set` may have been left to a thread that no longer takes them:
    /// alerts the other threads.
    #[inline]
    pub fn leave_to_others(&self, process: &Process, set: u64) {
        if set != 0 {
            self.find_another(process, set);
        }
    }

    #[cold]
    #[inline(never)]
    fn find_another(&self, process: &Process, set: u64) {
        let set = self.waiting.get() & set;
        // Bound: **linear**: the threads of one process; nothing sleeps inside.
        for task in process.threads.lock().iter() {
            if task.takes(set) {
                task.attend();
            }
        }
    }

    /// Is `task` in a stop, but not for a tracer?
    pub(crate) fn stands(&self, task: &Task) -> bool {
        let _state = self.state.lock();
        task.trace.is_standing()
    }

    /// Wakes the stopped threads to check the changed state.
    pub(crate) fn tell_stopped(&self) {
        self.continued.wake_all();
    }

    /// Has a stop been completed?
    pub fn is_stopped(&self) -> bool {
        let state = self.state.lock();
        self.is_stopping() && state.stopped > 0
    }

    /// Is a stop under way, or completed?
    #[inline]
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping().is_some()
    }

    /// Are the threads to be frozen?
    #[inline]
    pub(crate) fn is_freezing(&self) -> bool {
        self.freezing.load(Ordering::Acquire)
    }

    /// The threads are to be frozen, or not any more; whether that is new. Those that run are to be attended
    /// to then.
    pub(crate) fn set_freezing(&self, freezing: bool) -> bool {
        let changes = self.freezing.swap(freezing, Ordering::AcqRel) != freezing;
        if changes && !freezing {
            self.tell_stopped();
        }
        changes
    }

    /// Threads that are frozen or stand in a stop, and run no program until they are let.
    pub(crate) fn at_rest(&self) -> usize {
        let state = self.state.lock();
        state.frozen + state.stopped
    }

    /// Is the process, or the rest of it, about to end?
    pub fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Acquire) || self.waiting.get() & bit(SIGKILL) != 0
    }

    /// The information of the pending signal at `place` of the process.
    pub fn peek(&self, place: usize) -> Option<Siginfo> {
        self.state.lock().pending.peek(place)
    }

    /// The signal of the stop that is under way or completed.
    #[inline]
    pub(crate) fn stopping(&self) -> Option<i32> {
        let signo = self.stopping.load(Ordering::Acquire);
        (signo != 0).then_some(signo)
    }

    /// From now on there is this stop, or none. With the state held.
    pub(crate) fn set_stopping(&self, signo: Option<i32>) {
        self.stopping.store(signo.unwrap_or(0), Ordering::Release);
    }

    /// The status to end with, once decided.
    pub(crate) fn ending(&self) -> Option<i32> {
        if !self.ending.load(Ordering::Acquire) {
            return None;
        }
        self.state.lock().ending
    }

    /// Decides the status, if that has not been done; returns it, and whether this call decided.
    pub(crate) fn begin_end(&self, status: i32) -> (i32, bool) {
        let (decided, first) = self.decide_end(&mut self.state.lock(), status);
        if first {
            self.continued.wake_all();
        }
        (decided, first)
    }

    /// The same for the holder of the state, who wakes those that wait to be continued.
    pub(crate) fn decide_end(&self, state: &mut State, status: i32) -> (i32, bool) {
        if let Some(decided) = state.ending {
            return (decided, false);
        }
        state.ending = Some(status);
        self.ending.store(true, Ordering::Release);
        (status, true)
    }

    /// Adds `bits` to the status with which the process ends.
    pub(crate) fn add_to_end(&self, bits: i32) {
        if let Some(status) = &mut self.state.lock().ending {
            *status |= bits;
        }
    }

    /// `exec` has outlived the other threads that it ended: the process continues.
    pub(crate) fn cancel_end(&self) {
        self.state.lock().ending = None;
        self.ending.store(false, Ordering::Release);
    }

    /// The news for the parent if it is `wanted`; forgotten when `take`.
    pub(crate) fn change(
        &self,
        wanted: impl Fn(ChildChange) -> bool,
        take: bool,
    ) -> Option<ChildChange> {
        let mut state = self.state.lock();
        let change = state.change.filter(|&change| wanted(change))?;
        if take {
            state.change = None;
        }
        Some(change)
    }
}
