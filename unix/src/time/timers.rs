//! Timers that send signals: the three of `setitimer` and those of `timer_create`.
//!
//! *Interface*: [`Timers`]. Each armed timer has one alarm; the alarm's interrupt notes the timer, and the signal thread
//! looks at it ([`fired`]), so that no lock is taken by the interrupt.

use alloc::vec::Vec;

use abi::errno::{Errno, Result};
use abi::linux::*;
use machine::clock::now_ns;
use sync::Monitor;

use super::Clock;
use crate::dispatch::Alarm;
use crate::process::{Process, tree};
use crate::signal::{self, Target};

/// How a timer tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notify {
    /// The signal, 0 for none.
    pub signo: i32,
    /// What `si_value` carries.
    pub value: u64,
    /// The thread that gets it, 0 for the process.
    pub tid: i32,
}

struct Timer {
    clock: Clock,
    notify: Notify,
    /// When it expires next, on its clock; 0: disarmed.
    expires: u64,
    interval: u64,
    overrun: u64,
    posix: bool,
    alarm: Option<Alarm>,
}

/// The fixed ones: `ITIMER_REAL`, `ITIMER_VIRTUAL`, `ITIMER_PROF`.
const FIXED: usize = 3;
/// The most timers of one process.
const TIMERS_MAX: usize = FIXED + 32;

/// The timers of one process.
#[derive(Default)]
pub struct Timers(Monitor<Vec<Option<Timer>>>);

fn fixed(which: usize) -> Timer {
    let (clock, signo) = match which {
        0 => (Clock::Monotonic, SIGALRM),
        1 => (Clock::Process, SIGVTALRM),
        _ => (Clock::Process, SIGPROF),
    };
    let notify = Notify {
        signo,
        value: 0,
        tid: 0,
    };
    Timer {
        clock,
        notify,
        expires: 0,
        interval: 0,
        overrun: 0,
        posix: false,
        alarm: None,
    }
}

/// Time of `clock` for `process`, which need not be the caller's.
fn now_of(clock: Clock, process: &Process) -> u64 {
    match clock {
        Clock::Process | Clock::Thread => process.usage().cpu_ns,
        other => other.now(),
    }
}

impl Timer {
    fn remaining(&self, now: u64) -> u64 {
        if self.expires == 0 {
            0
        } else {
            self.expires.saturating_sub(now).max(1)
        }
    }

    fn arm(&mut self, process: &Process, index: usize, now: u64) {
        // A repeating timer rings at most every 50 µs, so that it cannot starve the machine; the rest are overruns.
        let least = if self.interval == 0 { 0 } else { 50_000 };
        let at = now_ns().saturating_add(self.expires.saturating_sub(now).max(least));
        self.alarm = Alarm::timer(at, process.pid, index);
    }
}

impl Timers {
    /// Sets a timer: `value` and `interval` in nanoseconds, 0 to disarm. Returns what was left, and the old interval.
    /// EINVAL when there is no such timer.
    pub fn set(
        &self,
        process: &Process,
        index: usize,
        value: u64,
        interval: u64,
        absolute: bool,
    ) -> Result<(u64, u64)> {
        let mut timers = self.0.lock();
        fill_fixed(&mut timers);
        let timer = timers
            .get_mut(index)
            .and_then(Option::as_mut)
            .ok_or(Errno::EINVAL)?;
        let now = now_of(timer.clock, process);
        let old = (timer.remaining(now), timer.interval);
        timer.alarm = None;
        timer.overrun = 0;
        timer.interval = interval;
        timer.expires = match (value, absolute) {
            (0, _) => 0,
            (at, true) => at,
            (after, false) => now.saturating_add(after),
        };
        if timer.expires != 0 {
            timer.arm(process, index, now);
        }
        Ok(old)
    }

    /// What is left of a timer, and its interval. EINVAL.
    pub fn get(&self, process: &Process, index: usize) -> Result<(u64, u64)> {
        let timers = self.0.lock();
        match timers.get(index) {
            Some(Some(timer)) => Ok((
                timer.remaining(now_of(timer.clock, process)),
                timer.interval,
            )),
            _ if index < FIXED => Ok((0, 0)),
            _ => Err(Errno::EINVAL),
        }
    }

    /// Makes a timer; returns its number. EAGAIN.
    pub fn create(&self, clock: Clock, notify: Notify) -> Result<usize> {
        let mut timers = self.0.lock();
        fill_fixed(&mut timers);
        let free = timers.iter().position(Option::is_none);
        let index = match free {
            Some(index) => index,
            None if timers.len() < TIMERS_MAX => {
                timers.push(None);
                timers.len() - 1
            }
            None => return Err(Errno::EAGAIN),
        };
        timers[index] = Some(Timer {
            clock,
            notify,
            posix: true,
            ..fixed(0)
        });
        Ok(index)
    }

    /// Deletes a timer of `create`. EINVAL.
    pub fn delete(&self, index: usize) -> Result<()> {
        let mut timers = self.0.lock();
        if index < FIXED {
            return Err(Errno::EINVAL);
        }
        let slot = timers.get_mut(index).ok_or(Errno::EINVAL)?;
        slot.take().map(drop).ok_or(Errno::EINVAL)
    }

    /// How many expirations the last signal stood for beyond the first. EINVAL.
    pub fn overrun(&self, index: usize) -> Result<u64> {
        match self.0.lock().get(index) {
            Some(Some(timer)) if index >= FIXED => Ok(timer.overrun),
            _ => Err(Errno::EINVAL),
        }
    }

    /// `exec` keeps the fixed ones only.
    pub fn delete_created(&self) {
        self.0.lock().truncate(FIXED);
    }

    /// The end of the process.
    pub fn cancel_all(&self) {
        self.0.lock().clear();
    }
}

fn fill_fixed(timers: &mut Vec<Option<Timer>>) {
    for which in timers.len()..FIXED {
        timers.push(Some(fixed(which)));
    }
}

/// The alarm of timer `index` of process `pid` has gone off. In the signal thread.
pub(crate) fn fired(pid: i32, index: usize) {
    let Some(process) = tree::find(pid) else {
        return;
    };
    if let Some((info, tid)) = expire(&process, index) {
        let task = match tid {
            0 => None,
            tid => process.task(tid),
        };
        // A timer's signal that does not fit in the queue counts as an overrun of the next.
        let _ = signal::send(&process, task.as_ref(), info);
    }
}

/// Moves an expired timer on; the signal to send, if there is one.
fn expire(process: &Process, index: usize) -> Option<(Siginfo, i32)> {
    let mut timers = process.timers.0.lock();
    let timer = timers.get_mut(index)?.as_mut()?;
    if timer.expires == 0 {
        return None;
    }
    let now = now_of(timer.clock, process);
    if now < timer.expires {
        timer.arm(process, index, now);
        return None;
    }
    timer.overrun = 0;
    if let Some(missed) = (now - timer.expires).checked_div(timer.interval) {
        timer.overrun = missed;
        timer.expires += (missed + 1) * timer.interval;
        timer.arm(process, index, now);
    } else {
        timer.expires = 0;
        timer.alarm = None;
    }
    let Notify { signo, value, tid } = timer.notify;
    if signo == 0 {
        return None;
    }
    let info = if timer.posix {
        Siginfo::timer(signo, index as i32, timer.overrun as i32, value)
    } else {
        Siginfo {
            signo,
            code: SI_KERNEL,
            ..Siginfo::default()
        }
    };
    Some((info, tid))
}

/// What an alarm's interrupt does: notes the timer for the signal thread. `word` is made by [`timer_word`].
pub(crate) fn alarm_rang(word: usize) {
    signal::send_later(Target::Timer(word as u32 as i32, word >> 32), 0);
}

/// A timer in one word.
pub(crate) fn timer_word(pid: i32, index: usize) -> usize {
    pid as u32 as usize | index << 32
}
