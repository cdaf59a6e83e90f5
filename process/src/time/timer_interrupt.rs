//! The work of a timer's interrupt, when the timer's time has come.
//!
//! *Interface*: [`TimerId`] identifies the timer of an alarm; [`on_alarm`] is the alarm's procedure.
//!
//! The interrupt sends no signal, which takes monitors. It notes the timer by one bit of its process and
//! alerts a thread that would take the signal, as a sender does. The next thread that checks the process's
//! signals, usually that thread on its way to user mode, first turns each bit into a signal
//! (`signal/timer_signals.rs`). If all threads block the signal, none is woken, and nothing is lost: a thread
//! that unblocks the signal or waits for it checks the bits. A thread that blocks, unblocks or begins to wait
//! records that first and then checks the bits; the interrupt sets the bit first and then checks the threads;
//! so one of the two sees the other.
//!
//! The work is chained to the end of the interrupt (`thread::chain`). It is bounded: a check of at most
//! [`LOOKS`] threads. Three kinds of timers leave the rest to the thread that sends for interrupt handlers
//! (`deferred_timers.rs`): those on CPU time, for the account is under a monitor; those whose signal has
//! immediate effects (SIGKILL, SIGCONT, stopping signals); and those of processes with more than [`LOOKS`]
//! threads, none of whose first [`LOOKS`] threads wants the signal.
//!
//! *Unsafe*: looking at a process and its threads in an interrupt.

use core::sync::atomic::{Ordering, fence};

use abi::linux::SIGCONT;
use alloc::sync::Arc;
use machine::irqs_off::IrqsOff;
use thread::clock::{self, Interrupted};

use crate::deferred_timers::defer_expiry;
use crate::process::signals::set::{STOPPERS, UNBLOCKABLE, bit};
use crate::process::timers::{Notify, TIMERS_MAX, TimerClock};
use crate::process::tree::{NUMBERS_MAX, index};
use crate::process::{FoundThread, Process, Task};

/// The most threads of a process that an interrupt looks at.
const LOOKS: usize = 16;

/// The timer of an alarm: all the data that its interrupt needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimerId {
    pid: i32,
    /// The thread that gets the signal, 0 for the process.
    tid: i32,
    pub(super) index: usize,
    signo: i32,
    /// A kernel thread sees to it.
    by_thread: bool,
}

const TID: u32 = 16;
const INDEX: u32 = 32;
const SIGNO: u32 = 40;
const BY_THREAD: u32 = 48;
const _: () = assert!(NUMBERS_MAX <= 1 << 16 && TIMERS_MAX <= u64::BITS as usize);

impl TimerId {
    /// For timer `index` of process `pid`.
    pub(crate) fn new(pid: i32, index: usize, clock: TimerClock, notify: &Notify) -> TimerId {
        let more_than_waits = UNBLOCKABLE | STOPPERS | bit(SIGCONT);
        TimerId {
            pid,
            tid: notify.tid,
            index,
            signo: notify.signo,
            by_thread: matches!(clock, TimerClock::Cpu(_))
                || bit(notify.signo) & more_than_waits != 0,
        }
    }

    /// In one word.
    pub(crate) fn word(&self) -> usize {
        self.pid as usize
            | (self.tid as usize) << TID
            | self.index << INDEX
            | (self.signo as usize) << SIGNO
            | usize::from(self.by_thread) << BY_THREAD
    }

    pub(super) fn from_word(word: usize) -> TimerId {
        TimerId {
            pid: i32::from(word as u16),
            tid: i32::from((word >> TID) as u16),
            index: word >> INDEX & 0xff,
            signo: (word >> SIGNO & 0xff) as i32,
            by_thread: word >> BY_THREAD != 0,
        }
    }
}

/// The alarm's procedure. `word` is [`TimerId::word`].
pub(crate) fn on_alarm(word: usize) {
    if clock::interrupted(|program| taken_at_once(program, word)) == Some(true) {
        return;
    }
    if thread::chain::chain(ring, word).is_err() {
        ring(word);
    }
}

/// If the timer is that of the interrupted program, and its thread is the only one, for which no signal waits
/// and which has a handler for this one, the handler runs next. False: nothing has been done. Interrupts are
/// off.
#[inline(always)]
fn taken_at_once(program: Interrupted, word: usize) -> bool {
    let id = TimerId::from_word(word);
    let take = |task: &Arc<Task>| {
        let process = &*task.process;
        id.pid == process.pid
            && !id.by_thread
            && process.thread_list.has_only(task)
            && process
                .timers
                .hand_over(id.index, program.at_ns, program.frame, task)
    };
    Task::of(program.thread, take) == Some(true)
}

/// At the end of the interrupt, interrupts off.
fn ring(word: usize) {
    let id = TimerId::from_word(word);
    // SAFETY: an alarm rings with interrupts off, which nothing here lets come.
    let off = &unsafe { IrqsOff::assume() };
    let note = |process: &Process| {
        process.timers.note(id.index);
        fence(Ordering::SeqCst);
        process.signals.arrived();
        id.by_thread || !tell(process, &id, off)
    };
    // SAFETY: a process whose alarm rings has threads, the last of which waits for a
    // grace period after it has cancelled all alarms (`process::exit`); this interrupt began before that
    // ended.
    let rest = unsafe { index::with(id.pid, note, off) };
    if rest == Some(true) {
        defer_expiry(id.pid);
    }
}

/// Alerts a thread that would take the signal. Returns whether there is one, or none needs to be alerted.
fn tell(process: &Process, id: &TimerId, off: &IrqsOff) -> bool {
    let this = bit(id.signo);
    let ignored = process.signals.actions.peek(off).ignored() & this != 0;
    let look = |task: &Task| {
        if id.tid != 0 && task.tid != id.tid {
            return None;
        }
        let wants = task.takes(this) && (!ignored || task.holds(this));
        if wants {
            task.attend();
        }
        (wants || id.tid != 0).then_some(())
    };
    // SAFETY: the process has armed a timer, so its threads wait before they go.
    unsafe { process.thread_list.find(LOOKS, look, off) != FoundThread::Perhaps }
}

#[cfg(test)]
mod tests {
    use super::super::CpuClock;
    use super::*;
    use abi::linux::{SIGALRM, SIGKILL, SIGMAX};

    #[test]
    fn a_bell_fits_a_word() {
        let notify = |signo, tid| Notify {
            signo,
            value: 7,
            tid,
        };
        for (pid, tid, index, signo) in [
            (NUMBERS_MAX - 1, NUMBERS_MAX - 1, TIMERS_MAX - 1, SIGMAX),
            (2, 0, 0, SIGALRM),
            (3, 4, 5, SIGKILL),
        ] {
            for clock in [
                TimerClock::Real,
                TimerClock::Cpu(CpuClock::process(2, true)),
            ] {
                let id = TimerId::new(pid, index, clock, &notify(signo, tid));
                assert_eq!(TimerId::from_word(id.word()), id);
                let rare = clock != TimerClock::Real || signo == SIGKILL;
                assert_eq!(id.by_thread, rare);
            }
        }
    }
}
