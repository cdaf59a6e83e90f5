//! `/dev/rtc0`: the battery clock as a file.
//!
//! *Interface*: [`register`] gives the device number its behaviour.
//!
//! The chip is read when the file is opened and written when the clock is set; in between its time goes on
//! with the machine's clock, so that dates, updates and alarms agree with each other. The events (periodic
//! ones, one each second, an alarm) come from alarms of the machine's clock that raise one counter; a `read`
//! asks each of them how often it has come.

use abi::errno::{Errno, Result};
use abi::linux::*;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use machine::clock::now_ns;
use machine::date::Date;
use machine::rtc;
use quaject::counter::CounterCore;
use sync::Monitor;

use super::TimerClock;
use super::timerfd::TimerFd;
use account::Capability;
use account::caller::cred;
use file::fs::{OpenRequest, dev};
use file::io::IoBuf;
use file::poll::{self, PollTable};
use file::{File, OpenFile};
use vm::fallible::try_arc;
use vm::user::{get, put};

const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 86_400;
/// Periodic events in a second: at first, at most without a right, and at most.
const USUAL: u64 = 1024;
const FREE: u64 = 64;
const MOST: u64 = 8192;

/// Somebody has it open.
static TAKEN: AtomicBool = AtomicBool::new(false);
/// Nanoseconds by which the battery clock is ahead of the machine's; 0 before it was read.
static AHEAD: AtomicU64 = AtomicU64::new(0);

/// Gives the device number its behaviour.
pub fn register() {
    dev::register(dev::RTC, 0..=0, |_, how: OpenRequest| {
        let rtc = try_arc(Rtc::new(how.flags & O_NONBLOCK == 0)?)?;
        Ok(how.finish(rtc))
    });
}

/// The right to be the only one.
struct Turn;

impl Turn {
    /// EBUSY.
    fn take() -> Result<Turn> {
        if TAKEN.swap(true, Ordering::Acquire) {
            return Err(Errno::EBUSY);
        }
        Ok(Turn)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        TAKEN.store(false, Ordering::Release);
    }
}

/// The file.
struct Rtc {
    /// Not 0 when an event has come.
    counter: Arc<CounterCore>,
    periodic: TimerFd,
    updates: TimerFd,
    alarm: TimerFd,
    events: Monitor<Bells>,
    _turn: Turn,
}

/// The events that are to come.
#[derive(Clone, Copy)]
struct Wanted {
    /// Periodic events in a second.
    rate: u64,
    periodic: bool,
    updates: bool,
    /// When it is to ring or was, seconds since 1970.
    alarm: u64,
    rings: bool,
}

/// The events that are to come, and those that came.
struct Bells {
    wanted: Wanted,
    /// Events that nobody has read: how many, and of what kinds.
    events: u64,
    kinds: u32,
}

/// Nanoseconds since 1970.
fn now() -> u64 {
    now_ns().wrapping_add(AHEAD.load(Ordering::Relaxed))
}

/// Compares with the chip, which tells whole seconds: a difference of more than one is a difference. By who
/// has the turn. ENXIO: there is no chip.
fn look() -> Result<()> {
    let seconds = rtc::read().ok_or(Errno::ENXIO)?;
    if (now() / SECOND).abs_diff(seconds) > 1 {
        begin_at(seconds);
    }
    Ok(())
}

/// It is at the beginning of this second.
fn begin_at(seconds: u64) {
    let ahead = (seconds * SECOND).wrapping_sub(now_ns());
    AHEAD.store(ahead, Ordering::Relaxed);
}

fn shown(seconds: u64) -> Result<RtcTime> {
    let date = Date::at(seconds).ok_or(Errno::EINVAL)?;
    Ok(RtcTime {
        sec: date.second as i32,
        min: date.minute as i32,
        hour: date.hour as i32,
        mday: date.day as i32,
        mon: date.month as i32 - 1,
        year: date.year as i32 - 1900,
        wday: date.weekday() as i32,
        yday: date.day_of_year() as i32,
        isdst: 0,
    })
}

/// Seconds since 1970. EINVAL.
fn given(time: &RtcTime) -> Result<u64> {
    let number = |field: i32| u32::try_from(field).map_err(|_| Errno::EINVAL);
    let date = Date {
        year: number(time.year)?.saturating_add(1900),
        month: number(time.mon)?.saturating_add(1),
        day: number(time.mday)?,
        hour: number(time.hour)?,
        minute: number(time.min)?,
        second: number(time.sec)?,
    };
    date.seconds().ok_or(Errno::EINVAL)
}

/// EACCES.
fn need(right: Capability) -> Result<()> {
    cred().need(right).map_err(|_| Errno::EACCES)
}

impl Rtc {
    /// EBUSY, ENXIO, ENFILE, ENOMEM.
    fn new(patient: bool) -> Result<Rtc> {
        let turn = Turn::take()?;
        look()?;
        let counter = try_arc(CounterCore::new(0, false))?;
        counter.set_patient(patient);
        let timer = || TimerFd::onto(TimerClock::Monotonic, counter.clone());
        Ok(Rtc {
            periodic: timer()?,
            updates: timer()?,
            alarm: timer()?,
            counter,
            events: Monitor::new(Bells {
                wanted: Wanted {
                    rate: USUAL,
                    periodic: false,
                    updates: false,
                    alarm: 0,
                    rings: false,
                },
                events: 0,
                kinds: 0,
            }),
            _turn: turn,
        })
    }

    /// Takes over which events have come. ENOMEM.
    fn collect(&self, state: &mut Bells) -> Result<()> {
        let all = [
            (&self.periodic, RTC_PF),
            (&self.updates, RTC_UF),
            (&self.alarm, RTC_AF),
        ];
        for (timer, kind) in all {
            let times = timer.passed()?;
            if times > 0 {
                state.events = state.events.saturating_add(times);
                state.kinds |= RTC_IRQF | kind;
                state.wanted.rings &= kind != RTC_AF;
            }
        }
        Ok(())
    }

    /// The events since the last time, as a `read` has them: their number above a byte with their kinds.
    fn take(&self) -> Result<Option<u64>> {
        // Bound: a few words, three alarms, and a few dozen accesses to the chip.
        let mut state = self.events.lock();
        // Before the look: an event behind it raises the counter again.
        self.counter.replace(0);
        self.collect(&mut state)?;
        let kinds = core::mem::take(&mut state.kinds);
        let events = core::mem::take(&mut state.events);
        Ok((events > 0).then_some(events << 8 | u64::from(kinds)))
    }

    /// Has `change` change which events are to come. ENOMEM, and its own errors.
    fn change(&self, change: impl FnOnce(&mut Wanted) -> Result<()>) -> Result<()> {
        let mut state = self.events.lock();
        self.collect(&mut state)?;
        let (before, ahead) = (state.wanted, AHEAD.load(Ordering::Relaxed));
        let changed = change(&mut state.wanted);
        let clock_set = AHEAD.load(Ordering::Relaxed) != ahead;
        let armed = self.arm(&before, &state.wanted, clock_set);
        // A timer that is set lowers the counter, also for what the others have added since.
        let collected = self.collect(&mut state);
        if state.events > 0 {
            self.counter.add(1);
        }
        changed.and(armed).and(collected)
    }

    /// Sets those alarms anew that are others now; the phase of the rest stays. ENOMEM.
    fn arm(&self, before: &Wanted, wanted: &Wanted, clock_set: bool) -> Result<()> {
        let moment = |comes: bool, interval| if comes { interval } else { 0 };
        let Wanted {
            rate,
            periodic,
            updates,
            alarm,
            rings,
        } = *wanted;
        if (periodic, rate) != (before.periodic, before.rate) {
            let period = SECOND / rate;
            let first = moment(periodic, period);
            self.periodic.set(first, period, false, false)?;
        }
        if clock_set || updates != before.updates {
            let next = moment(updates, SECOND - now() % SECOND);
            self.updates.set(next, SECOND, false, false)?;
        }
        if clock_set || (alarm, rings) != (before.alarm, before.rings) {
            let left = alarm.saturating_mul(SECOND).saturating_sub(now());
            let left = moment(rings, left.max(1));
            self.alarm.set(left, 0, false, false)?;
        }
        Ok(())
    }

    /// Sets the clock, and the alarms that follow it. EACCES, EINVAL, ENOMEM.
    fn set_time(&self, time: &RtcTime) -> Result<()> {
        need(Capability::SysTime)?;
        let seconds = given(time)?;
        self.change(|_| {
            if !rtc::write(seconds) {
                return Err(Errno::EINVAL);
            }
            begin_at(seconds);
            Ok(())
        })
    }

    /// Sets the time of the alarm, within a day; it does not ring yet. EINVAL, ENOMEM.
    fn set_alarm(&self, time: &RtcTime) -> Result<()> {
        let now = now() / SECOND;
        let today = shown(now)?;
        let (mday, mon, year) = (today.mday, today.mon, today.year);
        let at = given(&RtcTime {
            mday,
            mon,
            year,
            ..*time
        })?;
        let alarm = if at < now { at + DAY } else { at };
        self.change(|wanted| {
            (wanted.alarm, wanted.rings) = (alarm, false);
            Ok(())
        })
    }

    /// The same by date, and whether it is to ring. EINVAL, ENOMEM; ETIME: it is past.
    fn set_wake(&self, wake: &RtcWkalrm) -> Result<()> {
        let (alarm, rings) = (given(&wake.time)?, wake.enabled != 0);
        if rings && alarm <= now() / SECOND {
            return Err(Errno::ETIME);
        }
        self.change(|wanted| {
            (wanted.alarm, wanted.rings) = (alarm, rings);
            Ok(())
        })
    }

    /// EINVAL; EACCES: so many need a right, now or when they begin.
    fn set_rate(&self, rate: u64) -> Result<()> {
        if !(1..=MOST).contains(&rate) {
            return Err(Errno::EINVAL);
        }
        if rate > FREE {
            need(Capability::SysResource)?;
        }
        self.change(|wanted| {
            wanted.rate = rate;
            Ok(())
        })
    }

    fn switch_periodic(&self, on: bool) -> Result<()> {
        self.change(|wanted| {
            if on && wanted.rate > FREE {
                need(Capability::SysResource)?;
            }
            wanted.periodic = on;
            Ok(())
        })
    }

    fn switch_updates(&self, on: bool) -> Result<()> {
        self.change(|wanted| {
            wanted.updates = on;
            Ok(())
        })
    }

    /// One whose time is past does not ring.
    fn switch_alarm(&self, on: bool) -> Result<()> {
        let now = now() / SECOND;
        self.change(|wanted| {
            wanted.rings = on && wanted.alarm > now;
            Ok(())
        })
    }

    /// The alarm, and whether it is to ring.
    fn wake(&self) -> Result<RtcWkalrm> {
        let (alarm, rings) = {
            let mut state = self.events.lock();
            self.collect(&mut state)?;
            if state.events > 0 {
                self.counter.add(1);
            }
            (state.wanted.alarm, state.wanted.rings)
        };
        Ok(RtcWkalrm {
            enabled: u8::from(rings),
            pending: 0,
            pad: [0; 2],
            time: shown(alarm)?,
        })
    }
}

impl File for Rtc {
    /// Four bytes or eight: events since the last `read`, and their kinds in the lowest byte.
    fn read(&self, of: &OpenFile, buf: &mut IoBuf) -> Result<usize> {
        const SHORT: usize = size_of::<u32>();
        let short = buf.remaining() == SHORT;
        if !short && buf.remaining() < size_of::<u64>() {
            return Err(Errno::EINVAL);
        }
        loop {
            if let Some(events) = self.take()? {
                let bytes = events.to_ne_bytes();
                return buf.put(if short { &bytes[..SHORT] } else { &bytes });
            }
            if of.nonblocking() {
                return Err(Errno::EAGAIN);
            }
            let waited = self.counter.wait_for_count();
            waited.map_err(|_| Errno::ERESTARTSYS)?;
        }
    }

    fn ioctl(&self, _of: &OpenFile, command: u32, arg: usize) -> Result<usize> {
        match command {
            RTC_RD_TIME => put(arg, &shown(now() / SECOND)?),
            RTC_SET_TIME => self.set_time(&get(arg)?),
            RTC_ALM_READ => put(arg, &self.wake()?.time),
            RTC_ALM_SET => self.set_alarm(&get(arg)?),
            RTC_WKALM_RD => put(arg, &self.wake()?),
            RTC_WKALM_SET => self.set_wake(&get(arg)?),
            RTC_IRQP_READ => {
                let rate = self.events.lock().wanted.rate;
                put(arg, &rate)
            }
            RTC_IRQP_SET => self.set_rate(arg as u64),
            RTC_PIE_ON | RTC_PIE_OFF => self.switch_periodic(command == RTC_PIE_ON),
            RTC_UIE_ON | RTC_UIE_OFF => self.switch_updates(command == RTC_UIE_ON),
            RTC_AIE_ON | RTC_AIE_OFF => self.switch_alarm(command == RTC_AIE_ON),
            _ => Err(Errno::ENOTTY),
        }
        .map(|()| 0)
    }

    fn poll<'a>(
        &'a self,
        _of: &'a OpenFile,
        events: u32,
        table: Option<&mut PollTable<'a>>,
    ) -> u32 {
        if let Some(table) = table {
            table.watch(self.counter.expect_count());
        }
        events & poll::events(self.counter.count() > 0, false)
    }

    fn can_be_watched(&self) -> bool {
        true
    }
}
