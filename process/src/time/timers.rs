//! Timers that send signals: the three of `setitimer` and those of `timer_create`.
//!
//! *Interface*: the methods of [`ProcessTimers`]. Each armed timer has one alarm, whose interrupt takes no
//! lock (`timer_interrupt.rs`). `signal/timer_signals.rs` turns the expirations that interrupts have noted
//! into signals, before every check of a process's signals, and before a timer is asked or set.
//!
//! A timer has at most one pending signal. Until the signal is taken the timer sets no alarm; the expirations
//! meanwhile are the signal's overrun, counted when it is taken, and then the next alarm is set. So a signal
//! that all threads block costs nothing, however short the interval. A signal that will not be seen (an
//! ignored one) is skipped: the next alarm is set at once.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering};

use abi::errno::{Errno, Result};
use abi::linux::*;
use machine::clock::now_ns;
use machine::trap::TrapFrame;

use super::timer_interrupt::TimerId;
use crate::process::signals::pending::{LIFE_BITS, SignalOrigin, TimerExpiry};
use crate::process::timers::{
    ArmedAlarm, CpuClock, FIXED, LIMIT, Notify, PosixTimer, ProcessTimers, TIMERS_MAX, Timer,
    TimerClock,
};
use crate::process::{Process, Task};
use crate::sigframe::writer;
use account::user::Resource;
use vm::fallible::try_push;

/// A repeating timer rings at most this often, nanoseconds, so that it cannot starve the machine; the rest
/// are overruns.
const LEAST_NS: u64 = 50_000;
/// Delay before a timer whose signal found no room rings again, nanoseconds.
const AGAIN_NS: u64 = 1_000_000;

fn fixed(pid: i32, which: usize) -> Timer {
    let of_program = |user| TimerClock::Cpu(CpuClock::process(pid, user));
    let (clock, signo) = match which {
        0 => (TimerClock::Monotonic, SIGALRM),
        1 => (of_program(true), SIGVTALRM),
        LIMIT => (of_program(false), SIGXCPU),
        _ => (of_program(false), SIGPROF),
    };
    let notify = Notify {
        signo,
        value: 0,
        tid: 0,
    };
    Timer {
        timer_id: TimerId::new(pid, which, clock, &notify).word(),
        clock,
        named: 0,
        base: clock,
        notify,
        expires: 0,
        interval: 0,
        overrun: 0,
        posix: false,
        plain: false,
        life: new_life(),
        waiting: false,
        alarm: None,
        _charge: None,
    }
}

fn new_life() -> u32 {
    static LIVES: AtomicU32 = AtomicU32::new(0);
    LIVES.fetch_add(1, Ordering::Relaxed) & ((1 << LIFE_BITS) - 1)
}

impl Timer {
    /// Time until it expires, 0 when it will not. At least 1 for an armed timer.
    fn remaining(&self, now: u64) -> u64 {
        if now < self.expires {
            self.expires - now
        } else if self.expires == 0 || self.waiting && self.interval == 0 {
            0
        } else if self.interval == 0 {
            u64::from(self.notify.signo != 0)
        } else {
            self.interval - (now - self.expires) % self.interval
        }
    }

    /// Whether it is on the CPU time of `process`, whose timer it is.
    pub(crate) fn samples(&self, process: &Process) -> bool {
        matches!(self.clock, TimerClock::Cpu(clock) if !clock.of_thread && clock.who == process.pid)
    }

    /// The code of its signal, as timer number `index`, and the first two words of its information.
    #[inline]
    fn told(&self, index: usize, overrun: i32) -> (i32, [u64; 2]) {
        if self.posix {
            let words = Siginfo::timer_words(index as i32, overrun, self.notify.value);
            return (SI_TIMER, words);
        }
        (SI_KERNEL, [0, 0])
    }

    /// The information of its signal, as timer number `index`.
    pub(crate) fn info(&self, index: usize, overrun: i32) -> Siginfo {
        let (code, words) = self.told(index, overrun);
        let mut info = Siginfo {
            signo: self.notify.signo,
            code,
            ..Siginfo::default()
        };
        info.fields[..2].copy_from_slice(&words);
        info
    }

    /// Whether there was no memory for its alarm.
    fn lacks_alarm(&self) -> bool {
        self.expires != 0 && self.notify.signo != 0 && self.alarm.is_none()
    }

    /// Sets the alarm for when it expires next; the monotonic clock is at `now`.
    #[inline(always)]
    fn arm(&mut self, process: &Process, now: u64) {
        let left = self.expires.saturating_sub(self.base.at(now));
        let after = match self.clock {
            // The clock may stand still, and is then checked repeatedly.
            TimerClock::Cpu(account) => account.soonest(left),
            _ if self.interval == 0 => left,
            _ => left.max(LEAST_NS),
        };
        self.ring_in(process, now, after);
    }

    /// Sets the alarm; the monotonic clock is at `now`.
    #[inline(always)]
    fn ring_in(&mut self, process: &Process, now: u64, after_ns: u64) {
        if self.notify.signo == 0 {
            // The reader asks for it.
            return;
        }
        process.thread_list.watch();
        // First of all the old one goes.
        self.alarm = None;
        self.alarm = ArmedAlarm::timer(now, now.saturating_add(after_ns), self.timer_id);
        if self.alarm.is_none() {
            self.look_again(process);
        }
    }

    /// There is no memory for the alarm: the process looks at the timer when it next enters user mode.
    #[cold]
    fn look_again(&self, process: &Process) {
        process.timers.note(TimerId::from_word(self.timer_id).index);
        process.signals.arrived();
    }

    /// [`Timer::begin`] for a time from now on, of a timer of `create` on the monotonic clock whose signal
    /// does not wait. False: there is no memory for the alarm, and the timer is to begin the other way. With
    /// interrupts off.
    #[inline(always)]
    fn begin_at_once(&mut self, process: &Process, value: u64, interval: u64) -> bool {
        self.alarm = None;
        self.overrun = 0;
        self.interval = interval;
        if value == 0 {
            self.expires = 0;
            return true;
        }
        let now = now_ns();
        let expires = now.saturating_add(value);
        self.expires = expires;
        if self.notify.signo != 0 {
            process.thread_list.watch();
            let at = match interval {
                0 => expires,
                _ => expires.max(now + LEAST_NS),
            };
            // There is none before it that would have to be cancelled.
            let new = ArmedAlarm::timer_still(now, at, self.timer_id);
            let is_set = new.is_some();
            core::mem::forget(core::mem::replace(&mut self.alarm, new));
            return is_set;
        }
        true
    }

    /// Begins anew: `value` and `interval` in nanoseconds, 0 to disarm; the monotonic clock is at `now`.
    #[inline(always)]
    fn begin(&mut self, process: &Process, now: u64, value: u64, interval: u64, absolute: bool) {
        self.alarm = None;
        self.overrun = 0;
        self.waiting = false;
        self.interval = interval;
        self.expires = match (value, absolute) {
            (0, _) => 0,
            (at, true) => at,
            (after, false) => self.base.at(now).saturating_add(after),
        };
        if self.expires != 0 {
            self.arm(process, now);
        }
    }

    /// After an expiration that was signalled, or need not be: continues to the next. Returns how many others
    /// were missed.
    pub(crate) fn advance(&mut self, process: &Process) -> u64 {
        let now = now_ns();
        let missed = self.missed(self.base.at(now));
        self.go_on(process, now, missed);
        missed
    }

    /// The expirations after the one that is due, up to `at` on its base.
    #[inline(always)]
    fn missed(&self, at: u64) -> u64 {
        match self.interval {
            0 => 0,
            interval => at.saturating_sub(self.expires) / interval,
        }
    }

    /// Continues behind those that were `missed`, if it repeats. The monotonic clock is at `now`.
    #[inline(always)]
    fn go_on(&mut self, process: &Process, now: u64, missed: u64) {
        self.waiting = false;
        if self.interval == 0 {
            self.expires = 0;
        } else {
            self.go_behind(process, now, missed);
        }
    }

    #[inline(never)]
    fn go_behind(&mut self, process: &Process, now: u64, missed: u64) {
        let passed = missed.saturating_add(1).saturating_mul(self.interval);
        self.expires = self.expires.saturating_add(passed);
        self.arm(process, now);
    }
}

impl ProcessTimers {
    /// Sets a timer: `value` and `interval` in nanoseconds, 0 to disarm. Returns the time that was left, and
    /// the old interval. EINVAL when there is no such timer; ENOMEM for seconds, and then it is disarmed.
    pub fn set(
        &self,
        process: &Process,
        index: usize,
        value: u64,
        interval: u64,
        absolute: bool,
    ) -> Result<(u64, u64)> {
        // Bound: at most 36 timers of one process.
        let mut timers = self.table.lock();
        fill_fixed(process.pid, &mut timers);
        let timer = timers
            .get_mut(index)
            .and_then(Option::as_mut)
            .ok_or(Errno::EINVAL)?;
        let now = now_ns();
        let old = (timer.remaining(timer.base.at(now)), timer.interval);
        timer.base = match timer.clock {
            clock if clock.is_of_day() && !absolute => TimerClock::Monotonic,
            clock => clock,
        };
        timer.life = new_life();
        if timer.samples(process) {
            process.begin_samples();
        }
        timer.begin(process, now, value, interval, absolute);
        if timer.lacks_alarm() {
            timer.expires = 0;
            return Err(Errno::ENOMEM);
        }
        Ok(old)
    }

    /// The same for a timer of `create` on the monotonic clock, `value` from now on, if its signal does not
    /// wait. False: nothing has been done. With interrupts off.
    #[inline]
    pub fn set_at_once(&self, process: &Process, index: usize, value: u64, interval: u64) -> bool {
        if self.have_rung() {
            return false;
        }
        // Bound: never waits: in an interrupt of the process’s program, which gets one signal frame; and in a
        // call, which sets one alarm.
        let Some(mut timers) = self.table.try_lock() else {
            return false;
        };
        let Some(Some(timer)) = timers.get_mut(index) else {
            return false;
        };
        if !timer.plain || timer.waiting {
            return false;
        }
        timer.begin_at_once(process, value, interval)
    }

    /// The remaining time of a timer, and its interval. EINVAL.
    pub fn get(&self, index: usize) -> Result<(u64, u64)> {
        let timers = self.table.lock();
        match timers.get(index) {
            Some(Some(timer)) => Ok((timer.remaining(timer.base.now()), timer.interval)),
            _ if index < FIXED => Ok((0, 0)),
            _ => Err(Errno::EINVAL),
        }
    }

    /// The timer of `create` with the lowest number from `index` on.
    pub fn made_from(&self, index: usize) -> Option<(usize, PosixTimer)> {
        let timers = self.table.lock();
        let mut later = timers.iter().enumerate().skip(index.max(FIXED));
        later.find_map(|(index, timer)| {
            let timer = timer.as_ref()?;
            let (notify, clock) = (timer.notify, timer.named);
            Some((index, PosixTimer { notify, clock }))
        })
    }

    /// Makes a timer of `process` on the clock with number `named`, charged to its user as a signal, up to
    /// `most`; returns its number. EAGAIN.
    pub fn create(
        &self,
        process: &Process,
        (clock, named): (TimerClock, i32),
        notify: Notify,
        most: u64,
    ) -> Result<usize> {
        let user = process.cred_here().user.clone();
        let charge = user
            .charge(Resource::Signals, 1, most)
            .ok_or(Errno::EAGAIN)?;
        let mut timers = self.table.lock();
        fill_fixed(process.pid, &mut timers);
        let free = timers.iter().position(Option::is_none);
        let index = match free {
            Some(index) => index,
            None if timers.len() < TIMERS_MAX => {
                try_push(&mut timers, None).map_err(|_| Errno::EAGAIN)?;
                timers.len() - 1
            }
            None => return Err(Errno::EAGAIN),
        };
        timers[index] = Some(Timer {
            timer_id: TimerId::new(process.pid, index, clock, &notify).word(),
            clock,
            named,
            base: clock,
            notify,
            posix: true,
            plain: clock == TimerClock::Monotonic,
            _charge: Some(charge),
            ..fixed(process.pid, 0)
        });
        Ok(index)
    }

    /// Deletes a timer of `create`; a pending signal of it stays pending. EINVAL.
    pub fn delete(&self, index: usize) -> Result<()> {
        let mut timers = self.table.lock();
        if index < FIXED {
            return Err(Errno::EINVAL);
        }
        let slot = timers.get_mut(index).ok_or(Errno::EINVAL)?;
        slot.take().map(drop).ok_or(Errno::EINVAL)
    }

    /// How many expirations the last signal stood for beyond the first. EINVAL.
    pub fn overrun(&self, index: usize) -> Result<u64> {
        match self.table.lock().get(index) {
            Some(Some(timer)) if index >= FIXED => Ok(timer.overrun),
            _ => Err(Errno::EINVAL),
        }
    }

    /// `exec` keeps the fixed ones only of those of `task`'s process, of which it is the only thread, and the
    /// signals of the others that wait go with them.
    pub fn delete_created(&self, task: &Task) {
        self.table.lock().truncate(FIXED);
        task.process.signals.forget_timers(task, FIXED as u8);
    }

    /// The end of the process: from here on none rings that has not begun to.
    pub fn cancel_all(&self) {
        self.table.lock().clear();
    }

    /// The clock of the day was set: alarms for moments of it ring by the new time.
    pub(super) fn follow(&self, process: &Process) {
        for timer in self.table.lock().iter_mut() {
            if let Some(timer) = timer
                && timer.base.is_of_day()
                && timer.expires != 0
                && !timer.waiting
            {
                timer.arm(process, now_ns());
            }
        }
    }

    /// The process gets a limit of CPU time. Not once it ends.
    pub(crate) fn begin_limit(&self, process: &Process) {
        let mut timers = self.table.lock();
        // An ending process announces its end before its timers are removed.
        if !process.signals.is_ending() {
            fill_fixed(process.pid, &mut timers);
        }
    }

    /// Looks at the limit of CPU time again after so long, nanoseconds.
    pub(crate) fn ring_limit(&self, process: &Process, after_ns: u64) {
        if let Some(Some(timer)) = self.table.lock().get_mut(LIMIT) {
            timer.ring_in(process, now_ns(), after_ns);
        }
    }

    /// Timer `index` rings at `now`, in an interrupt of the program of `task`, the only one of its process,
    /// that has `trap`. If the handler of its signal runs next, the timer goes on as if the signal had waited
    /// and been taken. False: nothing has been done. With interrupts off.
    #[inline(always)]
    pub(super) fn hand_over(
        &self,
        index: usize,
        now: u64,
        trap: &mut TrapFrame,
        task: &Task,
    ) -> bool {
        let Some(mut timers) = self.table.try_lock() else {
            return false;
        };
        let Some(Some(timer)) = timers.get_mut(index) else {
            return false;
        };
        let Notify { signo, tid, .. } = timer.notify;
        let at = timer.base.at(now);
        let due = timer.expires != 0 && !timer.waiting && at >= timer.expires;
        if !due || self.have_rung() || tid != 0 && tid != task.tid {
            return false;
        }
        let missed = timer.missed(at);
        let (code, words) = timer.told(index, missed.min(i32::MAX as u64) as i32);
        if !writer::ring(trap, task, signo, code, words) {
            return false;
        }
        if let Some(alarm) = timer.alarm.take() {
            alarm.forget();
        }
        timer.overrun = missed;
        timer.go_on(&task.process, now, missed);
        true
    }

    /// The signal of `expiry` has been taken: returns its overruns. The timer continues.
    pub(crate) fn taken(&self, process: &Process, expiry: TimerExpiry) -> i32 {
        let mut timers = self.table.lock();
        let index = usize::from(expiry.index);
        let Some(Some(timer)) = timers.get_mut(index) else {
            return 0;
        };
        if !timer.waiting || timer.life != expiry.life {
            return 0;
        }
        timer.overrun = timer.advance(process);
        timer.overrun.min(i32::MAX as u64) as i32
    }

    /// The signals of the timers in `set`, a bit each, were thrown away: these timers go on.
    #[inline(always)]
    pub(crate) fn passed_over(&self, process: &Process, set: u64) {
        if set != 0 {
            self.pass_over(process, set);
        }
    }

    #[cold]
    #[inline(never)]
    fn pass_over(&self, process: &Process, set: u64) {
        for (index, timer) in self.table.lock().iter_mut().enumerate() {
            if let Some(timer) = timer
                && set & 1 << index != 0
                && timer.waiting
            {
                timer.advance(process);
            }
        }
    }

    /// Takes the timer that expired first out of `set`.
    pub(crate) fn first(&self, set: &mut u64) -> Option<usize> {
        if set.is_power_of_two() {
            return Some(core::mem::take(set).trailing_zeros() as usize);
        }
        let timers = self.table.lock();
        let at = |index: &usize| match timers.get(*index) {
            Some(Some(timer)) => timer.alarm.as_ref().map_or(0, ArmedAlarm::at_ns),
            _ => 0,
        };
        let index = (0..TIMERS_MAX)
            .filter(|index| *set & 1 << index != 0)
            .min_by_key(at)?;
        *set &= !(1 << index);
        Some(index)
    }

    /// Shows timer `index`, if there is one.
    pub(crate) fn with<R>(&self, index: usize, look: impl FnOnce(&mut Timer) -> R) -> Option<R> {
        self.table.lock().get_mut(index)?.as_mut().map(look)
    }

    /// The signal of timer `index`, if it has expired.
    pub(crate) fn expired(
        &self,
        process: &Process,
        index: usize,
    ) -> Option<(Siginfo, i32, SignalOrigin)> {
        let mut timers = self.table.lock();
        let timer = timers.get_mut(index)?.as_mut()?;
        if timer.expires == 0 || timer.waiting {
            return None;
        }
        let now = now_ns();
        if timer.base.at(now) < timer.expires {
            timer.arm(process, now);
            return None;
        }
        timer.alarm = None;
        timer.waiting = true;
        let tid = timer.notify.tid;
        let info = timer.info(index, 0);
        let life = timer.life;
        let apart = timer.posix;
        let index = index as u8;
        Some((
            info,
            tid,
            SignalOrigin::Timer(TimerExpiry { index, life, apart }),
        ))
    }

    /// The signal of timer `index` has found no room.
    pub(crate) fn ring_again(&self, process: &Process, index: usize) {
        if let Some(Some(timer)) = self.table.lock().get_mut(index) {
            timer.waiting = false;
            timer.ring_in(process, now_ns(), AGAIN_NS);
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "three, of what each thread was promised"
)]
fn fill_fixed(pid: i32, timers: &mut Vec<Option<Timer>>) {
    for which in timers.len()..FIXED {
        timers.push(Some(fixed(pid, which)));
    }
}
