//! `timerfd`: a timer as a file.
//!
//! *Interface*: [`open`] makes a description, [`of`] finds the timer behind one; [`TimerFd::set`] and
//! [`TimerFd::get`]; [`clock_was_set`] when the time of day has jumped.
//!
//! The expirations are a counter's count, which an alarm's interrupt raises, and `read` is the counter's
//! routine. A periodic timer sets its alarm once. When it rings, it sets the count's top bit, for which the
//! routine takes the plain call; that call counts the intervals since and sets the next alarm. So a timer
//! that is not read costs nothing.
//!
//! *Unsafe*: a timer in an alarm's interrupt, and its count given up a grace period later.

use abi::errno::{Errno, Result};
use abi::linux::*;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use machine::clock::now_ns;
use quaject::counter::{self, CounterCore};
use quaject::readiness::ReadinessCheck;
use quaject::{RoutineEnv, Sharing};
use sync::{Monitor, epoch};
use thread::clock::{self, AlarmId};

use super::TimerClock;
use account::quota;
use account::user::Charge;
use file::event::{put_number, room_for_number};
use file::io::IoBuf;
use file::poll::{self, PollTable, READS};
use file::routine_env;
use file::{DescRoutines, File, OpenFile, ReadinessRoutine};
use vm::fallible::{try_arc, try_push, try_string};

/// Count of a timer that repeats, and has rung.
const AGAIN: u64 = 1 << 63;

/// A timer that is open.
pub struct TimerFd {
    clock: TimerClock,
    state: Arc<TimerState>,
    setting: Monitor<Setting>,
    /// The creator's charge.
    _charge: Charge,
}

/// The data of an alarm's interrupt.
struct TimerState {
    counter: Arc<CounterCore>,
    /// When it is to ring, nanoseconds since the start of the machine; 0: not at all.
    due: AtomicU64,
    /// It will ring more than once.
    repeats: AtomicBool,
    /// The real-time clock has jumped, and the reader must get ECANCELED.
    cancelled: AtomicBool,
}

/// How it was set, in its own clock.
#[derive(Default)]
struct Setting {
    /// The next expiration, or the last one if it was not read yet; 0: none.
    expires: u64,
    interval: u64,
    /// It was given as a moment, so it follows when its clock is set.
    absolute: bool,
    /// The reader wants to know when the clock is set.
    watches_clock: bool,
    alarm: Option<AlarmId>,
}

/// Timers on the time of day that are to know when that jumps.
static OF_THE_DAY: Monitor<Vec<Weak<OpenFile>>> = Monitor::new(Vec::new());

/// A description of a new timer on `clock`, with status flags `flags` (O_NONBLOCK). ENFILE, ENOMEM.
pub fn open(clock: TimerClock, flags: u32) -> Result<Arc<OpenFile>> {
    let counter = try_arc(CounterCore::new(0, false))?;
    counter.set_patient(flags & O_NONBLOCK == 0);
    let timer = TimerFd::onto(clock, counter)?;
    let of = OpenFile::new(try_arc(timer)?, O_RDWR | flags);
    if clock == TimerClock::Real {
        // Bound: **linear**: timers on the time of day, when one is made or the clock is set.
        let mut others = OF_THE_DAY.lock();
        others.retain(|other| other.strong_count() != 0);
        try_push(&mut others, Arc::downgrade(&of))?;
    }
    Ok(of)
}

/// The timer behind a description. EINVAL.
pub fn of(of: &OpenFile) -> Result<&TimerFd> {
    of.file_as::<TimerFd>().ok_or(Errno::EINVAL)
}

/// The time of day was set.
pub fn clock_was_set() {
    let timers = OF_THE_DAY.lock();
    for of in timers.iter().filter_map(Weak::upgrade) {
        if let Some(timer) = of.file_as::<TimerFd>() {
            timer.follow();
        }
    }
}

/// An alarm's interrupt. `state` is the address of a [`TimerState`].
fn rang(state: usize) {
    // A wake-up may be work for many: at the end of the interrupt.
    if thread::chain::chain(ring, state).is_err() {
        ring(state);
    }
}

fn ring(state: usize) {
    // SAFETY: a timer that was armed is freed a grace period later, and no such period ends before this
    // interrupt.
    let state = unsafe { &*core::ptr::with_exposed_provenance::<TimerState>(state) };
    let due = state.due.load(Ordering::SeqCst);
    // A timer that was set to another time meanwhile has another alarm.
    if due == 0 || now_ns() < due {
        return;
    }
    let count = if state.repeats.load(Ordering::SeqCst) {
        AGAIN
    } else {
        1
    };
    if state
        .due
        .compare_exchange(due, 0, Ordering::SeqCst, Ordering::Relaxed)
        .is_ok()
    {
        state.counter.add(count);
    }
}

impl TimerFd {
    /// A timer on `clock` that raises `counter`. ENFILE, ENOMEM.
    pub(super) fn onto(clock: TimerClock, counter: Arc<CounterCore>) -> Result<TimerFd> {
        let state = TimerState {
            counter,
            due: AtomicU64::new(0),
            repeats: AtomicBool::new(false),
            cancelled: AtomicBool::new(false),
        };
        Ok(TimerFd {
            clock,
            state: try_arc(state)?,
            setting: Monitor::default(),
            _charge: quota::timerfd()?,
        })
    }

    /// Sets it to expire at `value` (a moment if `absolute`, else from now on; 0: not at all) and every
    /// `interval` after that. Returns the former setting: time left, and interval.
    pub fn set(
        &self,
        value: u64,
        interval: u64,
        absolute: bool,
        watches_clock: bool,
    ) -> Result<(u64, u64)> {
        // Bound: a few words and one alarm.
        let mut setting = self.setting.lock();
        let now = self.clock.now();
        let old = (self.left(&setting, now), setting.interval);
        self.silence(&mut setting);
        self.state.counter.replace(0);
        let expires = match (value, absolute) {
            (0, _) => 0,
            (value, true) => value,
            (value, false) => now.saturating_add(value),
        };
        *setting = Setting {
            expires,
            interval,
            absolute,
            watches_clock,
            alarm: None,
        };
        self.arm(&mut setting)?;
        // The timer is set all the same.
        match expires != 0 && self.has_jumped(&setting) {
            true => Err(Errno::ECANCELED),
            false => Ok(old),
        }
    }

    /// Whether the clock was set since this was asked last, of one that watches it.
    fn has_jumped(&self, setting: &Setting) -> bool {
        setting.watches_clock && self.state.cancelled.swap(false, Ordering::SeqCst)
    }

    /// Time left, and interval.
    pub fn get(&self) -> (u64, u64) {
        let setting = self.setting.lock();
        (self.left(&setting, self.clock.now()), setting.interval)
    }

    fn left(&self, setting: &Setting, now: u64) -> u64 {
        match (setting.expires, setting.interval) {
            (0, _) => 0,
            (at, _) if now < at => at - now,
            (_, 0) => 0,
            (at, interval) => interval - (now - at) % interval,
        }
    }

    /// Sets the alarm for the moment in `setting`. ENOMEM.
    fn arm(&self, setting: &mut Setting) -> Result<()> {
        if setting.expires == 0 {
            return Ok(());
        }
        let state = &self.state;
        // Moment 0 of the machine's clock means none.
        let due = self.clock.deadline(setting.expires)?.max(1);
        state.repeats.store(setting.interval != 0, Ordering::SeqCst);
        state.due.store(due, Ordering::SeqCst);
        let address = Arc::as_ptr(state).expose_provenance();
        if now_ns() >= due {
            // A moment that is past has come before the call returns.
            ring(address);
            return Ok(());
        }
        let alarm = clock::alarm(due, rang, address).map_err(|_| Errno::ENOMEM)?;
        setting.alarm = Some(alarm);
        Ok(())
    }

    /// Cancels the former setting.
    fn silence(&self, setting: &mut Setting) {
        self.state.due.store(0, Ordering::SeqCst);
        if let Some(alarm) = setting.alarm.take() {
            clock::cancel(alarm);
        }
    }

    /// The clock was set.
    fn follow(&self) {
        let mut setting = self.setting.lock();
        if setting.watches_clock {
            self.state.cancelled.store(true, Ordering::SeqCst);
            self.state.counter.add(AGAIN);
        }
        if setting.absolute && self.state.due.load(Ordering::SeqCst) != 0 {
            self.silence(&mut setting);
            // Without memory for the alarm it is late.
            let _late = self.arm(&mut setting);
        }
    }

    /// Takes the number of expirations. ECANCELED when the clock has jumped.
    fn take(&self) -> Result<Option<u64>> {
        let mut setting = self.setting.lock();
        if self.has_jumped(&setting) {
            self.state.counter.replace(0);
            return Err(Errno::ECANCELED);
        }
        let Some(count) = self.state.counter.take() else {
            return Ok(None);
        };
        if count & AGAIN == 0 {
            return Ok(Some(count));
        }
        setting.alarm = None;
        self.advance(&mut setting).map(Some)
    }

    /// Takes the number of expirations by the time alone, whatever the counter says, which others raise, too.
    /// ENOMEM.
    pub(super) fn passed(&self) -> Result<u64> {
        let mut setting = self.setting.lock();
        if setting.expires == 0 || self.clock.now() < setting.expires {
            return Ok(0);
        }
        self.silence(&mut setting);
        if setting.interval == 0 {
            setting.expires = 0;
            return Ok(1);
        }
        self.advance(&mut setting)
    }

    /// Counts the expirations of one that repeats, and sets the alarm for the next. ENOMEM.
    fn advance(&self, setting: &mut Setting) -> Result<u64> {
        let (now, interval) = (self.clock.now(), setting.interval.max(1));
        let passed = now.saturating_sub(setting.expires) / interval;
        let times = passed.saturating_add(1);
        setting.expires = setting
            .expires
            .saturating_add(times.saturating_mul(interval));
        self.arm(setting)?;
        Ok(times)
    }
}

impl File for TimerFd {
    fn read(&self, of: &OpenFile, buf: &mut IoBuf) -> Result<usize> {
        room_for_number(buf)?;
        loop {
            if let Some(times) = self.take()? {
                return put_number(buf, times);
            }
            if of.nonblocking() {
                return Err(Errno::EAGAIN);
            }
            let waited = self.state.counter.wait_for_count();
            waited.map_err(|_| Errno::ERESTARTSYS)?;
        }
    }

    fn moves(&self) -> [bool; 2] {
        [true, false]
    }

    /// It has no offset, and `lseek` reports no error.
    fn lseek(&self, _of: &OpenFile, _offset: i64, _whence: u32) -> Result<u64> {
        Ok(0)
    }

    fn poll<'a>(
        &'a self,
        _of: &'a OpenFile,
        events: u32,
        table: Option<&mut PollTable<'a>>,
    ) -> u32 {
        let counter = &self.state.counter;
        if let Some(table) = table {
            table.watch(counter.expect_count());
        }
        events & poll::events(counter.count() > 0, false)
    }

    fn can_be_watched(&self) -> bool {
        true
    }

    fn flags_changed(&self, of: &OpenFile) {
        self.state.counter.set_patient(!of.nonblocking());
    }

    fn synthesize(&self, of: &OpenFile, sharing: Sharing) -> Result<DescRoutines> {
        Ok(DescRoutines {
            lseek: Some(routine_env::constants()?.nothing.clone()),
            ..self.synthesize_against(of, sharing, routine_env::get()?)?
        })
    }

    fn synthesize_against(
        &self,
        _of: &OpenFile,
        _sharing: Sharing,
        env: &RoutineEnv,
    ) -> Result<DescRoutines> {
        Ok(DescRoutines {
            read: routine_env::made(counter::reader(&self.state.counter, env))?,
            ..DescRoutines::default()
        })
    }

    fn synthesize_ready_check(&self, _of: &OpenFile) -> Result<Option<ReadinessRoutine>> {
        let looker = ReadinessCheck::new(&self.state.counter);
        let looker = looker.differ(CounterCore::something, READS);
        routine_env::made(looker.make())
    }

    fn label(&self, _of: &OpenFile) -> Result<alloc::string::String> {
        try_string(b"anon_inode:[timerfd]")
    }
}

impl Drop for TimerFd {
    fn drop(&mut self) {
        // No other reference to it exists.
        self.state.due.store(0, Ordering::SeqCst);
        if let Some(alarm) = self.setting.get_mut().alarm.take() {
            clock::cancel(alarm);
        }
        let state = Arc::into_raw(self.state.clone()).expose_provenance();
        epoch::retire(
            |state| {
                let state = core::ptr::with_exposed_provenance::<TimerState>(state);
                // SAFETY: the count given up above; the callback runs once, when no interrupt looks at it
                // any more.
                drop(unsafe { Arc::from_raw(state) });
            },
            state,
        );
    }
}
