//! Time as programs see it: clocks, sleeping with a deadline, timers that send signals.
//!
//! *Interface*: [`TimerClock`]; [`wait_deadline`] is `WaitList::wait_interruptible` with an end;
//! [`ProcessTimers`] a process's timers. All times are nanoseconds; deadlines are on the monotonic clock,
//! which starts with the machine.

mod alarm;
mod cpu_clocks;
pub mod discipline;
pub mod rtc;
mod timer_interrupt;
pub mod timerfd;
mod timers;

pub use crate::process::timers::{CpuClock, FIXED, Notify, ProcessTimers, TimerClock};
use timer_interrupt::on_alarm;

use core::sync::atomic::{AtomicU64, Ordering};

use abi::errno::{Errno, Result};
use abi::linux::*;
use machine::clock::{self, now_ns, real_ns};
use sync::WaitList;

use crate::process::{Task, tree};

/// A sleep until a time of the clock of the day that is longer is looked at again before its end.
const LONG_NS: u64 = 1_000_000_000;

/// How often the clock of the day was set.
static STEPS: AtomicU64 = AtomicU64::new(0);
/// The threads that sleep until a time of that clock.
static SLEEPERS: WaitList = WaitList::new();

impl TimerClock {
    /// From `CLOCK_…`. EINVAL.
    pub fn from_id(id: i32) -> Result<TimerClock> {
        Ok(match id {
            CLOCK_REALTIME | CLOCK_REALTIME_COARSE | CLOCK_REALTIME_ALARM => TimerClock::Real,
            CLOCK_TAI => TimerClock::Atomic,
            CLOCK_MONOTONIC
            | CLOCK_MONOTONIC_RAW
            | CLOCK_MONOTONIC_COARSE
            | CLOCK_BOOTTIME
            | CLOCK_BOOTTIME_ALARM => TimerClock::Monotonic,
            CLOCK_PROCESS_CPUTIME_ID => {
                TimerClock::Cpu(CpuClock::process(Task::current().process.pid, false))
            }
            CLOCK_THREAD_CPUTIME_ID => TimerClock::Cpu(CpuClock::thread(Task::current().tid)),
            id if id < 0 => TimerClock::Cpu(CpuClock::from_id(id)?),
            _ => return Err(Errno::EINVAL),
        })
    }

    /// Whether it is set with the clock of the day.
    #[inline(always)]
    pub fn is_of_day(self) -> bool {
        matches!(self, TimerClock::Real | TimerClock::Atomic)
    }

    /// Its time.
    pub fn now(self) -> u64 {
        self.at(now_ns())
    }

    /// Its time now, where the monotonic clock is at `now`.
    #[inline(always)]
    pub(crate) fn at(self, now: u64) -> u64 {
        match self {
            TimerClock::Monotonic => now,
            _ => self.another_at(now),
        }
    }

    #[inline(never)]
    fn another_at(self, now: u64) -> u64 {
        match self {
            TimerClock::Real => real_ns(),
            TimerClock::Atomic => real_ns().saturating_add_signed(ahead_ns()),
            TimerClock::Monotonic => now,
            TimerClock::Cpu(account) => account.now(),
        }
    }

    /// The moment `at` of this clock as a deadline. The CPU clocks have none.
    pub fn deadline(self, at: u64) -> Result<u64> {
        match self {
            TimerClock::Real => Ok(now_ns().saturating_add(at.saturating_sub(real_ns()))),
            TimerClock::Atomic => TimerClock::Real.deadline(at.saturating_add_signed(-ahead_ns())),
            TimerClock::Monotonic => Ok(at),
            TimerClock::Cpu(_) => Err(Errno::EINVAL),
        }
    }
}

/// Nanoseconds by which atomic time is ahead.
fn ahead_ns() -> i64 {
    i64::from(discipline::tai_s()) * 1_000_000_000
}

/// Sets the clock of the day. Sleepers and timers that have a moment of it follow. Thread context, no monitor
/// held.
pub fn set_real_ns(ns: u64) {
    clock::set_real_ns(ns);
    STEPS.fetch_add(1, Ordering::SeqCst);
    SLEEPERS.wake_all();
    for process in tree::from(0) {
        process.timers.follow(&process);
    }
    timerfd::clock_was_set();
}

/// Why a wait ended without its condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitEnded {
    /// A signal.
    Interrupted,
    /// The deadline.
    TimedOut,
}

/// Sleeps until `condition` yields, a signal arrives, or the monotonic clock reaches `deadline`.
pub fn wait_deadline<T>(
    list: &WaitList,
    deadline: Option<u64>,
    mut condition: impl FnMut() -> Option<T>,
) -> core::result::Result<T, WaitEnded> {
    let Some(at) = deadline else {
        return list
            .wait_interruptible(condition)
            .map_err(|_| WaitEnded::Interrupted);
    };
    let mut look = || match condition() {
        Some(value) => Some(Ok(value)),
        None if now_ns() >= at => Some(Err(WaitEnded::TimedOut)),
        None => None,
    };
    let outcome = match thread::clock::WakeUp::at(at) {
        Ok(alarm) => {
            let outcome = list.wait_interruptible(look);
            drop(alarm);
            outcome
        }
        // No memory for an alarm: look again and again.
        Err(thread::NoMemory) => loop {
            // The signal before the check: an event that came together with it counts.
            let interrupted = (sync::callout::get().interrupted)();
            if let Some(outcome) = look() {
                break Ok(outcome);
            }
            if interrupted {
                break Err(sync::Interrupted);
            }
            thread::yield_now();
        },
    };
    outcome.unwrap_or(Err(WaitEnded::Interrupted))
}

/// Sleeps until atomic time, which may be set meanwhile, reaches `at`, or a signal arrives.
pub fn sleep_until_atomic(at: u64) -> WaitEnded {
    sleep_until_real(at.saturating_add_signed(-ahead_ns()))
}

/// Sleeps until the clock of the day, which may be set meanwhile, reaches `at`, or a signal arrives.
pub fn sleep_until_real(at: u64) -> WaitEnded {
    loop {
        let steps = STEPS.load(Ordering::SeqCst);
        let stepped = || (STEPS.load(Ordering::SeqCst) != steps).then_some(());
        let left = at.saturating_sub(real_ns());
        // A clock that is steered gains or loses a part of a long time: half of it first.
        let part = match left {
            ..=LONG_NS => left,
            _ => left / 2,
        };
        match wait_deadline(&SLEEPERS, Some(now_ns().saturating_add(part)), stepped) {
            Ok(()) => {}
            Err(WaitEnded::TimedOut) if real_ns() < at => {}
            Err(ended) => return ended,
        }
    }
}

/// Sleeps until the monotonic clock reaches `at`, or a signal arrives.
pub fn sleep_until(at: u64) -> WaitEnded {
    let nobody = WaitList::new();
    match wait_deadline(&nobody, Some(at), || None::<core::convert::Infallible>) {
        Err(ended) => ended,
        Ok(never) => match never {},
    }
}
