//! Calls about time.

#![deny(clippy::arithmetic_side_effects)]

use abi::errno::{Errno, Result};
use abi::linux::*;
use abi::nr;
use alloc::sync::Arc;
use machine::clock::{now_ns, real_ns};
use machine::irqs_off::IrqsOff;
use vm::user;

use super::{Args, Handler, timezone};
use account::Capability;
use process::signals::valid;
use process::time::{
    CpuClock, FIXED, Notify, TimerClock, WaitEnded, set_real_ns, sleep_until, sleep_until_atomic,
    sleep_until_real,
};
use process::{Process, Task, tree};
use thread::frameless::call_handler;
use vm::fallible::try_box;

/// See [`super::FAMILIES`].
pub const CALLS: &[(usize, Handler)] = &[
    (nr::NANOSLEEP, |a| {
        sleep_for(TimerClock::Monotonic, false, a.word(0), a.word(1))
    }),
    (nr::CLOCK_NANOSLEEP, |a| {
        let clock = ticking(a.int(0), CLOCK_THREAD_CPUTIME_ID)?;
        // The right is asked for behind what is wrong with the time.
        user::get::<Timespec>(a.word(2))?
            .to_ns()
            .ok_or(Errno::EINVAL)?;
        may_wake(a.int(0))?;
        let absolute = a.int(1) & TIMER_ABSTIME != 0;
        sleep_for(clock, absolute, a.word(2), a.word(3))
    }),
    (nr::CLOCK_GETTIME, |a| clock_gettime(a.int(0), a.word(1))),
    (nr::CLOCK_GETRES, |a| {
        let grain = match TimerClock::from_id(a.int(0))? {
            TimerClock::Cpu(account) => account.grain_ns(),
            _ => 1,
        };
        put_time(a.word(1), Timespec::from_ns(grain))
    }),
    (nr::CLOCK_SETTIME, |a| {
        match (a.int(0), TimerClock::from_id(a.int(0))?) {
            (CLOCK_REALTIME, _) => {}
            (..0, _) => return Err(Errno::EPERM),
            _ => return Err(Errno::EINVAL),
        }
        set_clock(user::get::<Timespec>(a.word(1))?.to_ns())
    }),
    (nr::GETTIMEOFDAY, gettimeofday),
    (nr::SETTIMEOFDAY, settimeofday),
    (nr::TIME, |a| {
        let seconds = real_ns() / NSEC_PER_SEC;
        if a.word(0) != 0 {
            user::put(a.word(0), &seconds)?;
        }
        Ok(seconds as usize)
    }),
    (nr::ALARM, alarm),
    (nr::SETITIMER, setitimer),
    (nr::GETITIMER, |a| {
        let which = itimer(a.int(0))?;
        let process = Process::current();
        let left = process.settled_timers().get(which)?;
        user::put(a.word(1), &itimerval(left)).map(|()| 0)
    }),
    (nr::TIMER_CREATE, timer_create),
    (nr::TIMER_SETTIME, |a| {
        timer_settime(a.int(0), a.int(1), a.word(2), a.word(3))
    }),
    (nr::TIMER_GETTIME, |a| {
        let process = Process::current();
        let left = process.settled_timers().get(created(a.int(0))?)?;
        user::put(a.word(1), &itimerspec(left)).map(|()| 0)
    }),
    (nr::TIMER_GETOVERRUN, |a| {
        let overrun = Process::current().timers.overrun(created(a.int(0))?)?;
        Ok(overrun.min(i32::MAX as u64) as usize)
    }),
    (nr::TIMER_DELETE, |a| {
        let process = Process::current();
        process
            .settled_timers()
            .delete(created(a.int(0))?)
            .map(|()| 0)
    }),
];

fn put_time(at: usize, time: Timespec) -> Result<usize> {
    if at != 0 {
        user::put(at, &time)?;
    }
    Ok(0)
}

/// The latest time to which the real-time clock can be set, so it does not overflow while the machine runs:
/// thirty years before the last representable time.
const LATEST_NS: u64 = 8_277_292_036 * NSEC_PER_SEC;

/// Moves the clock of the day by so many nanoseconds. EINVAL, EPERM.
pub(super) fn step_clock(by: i64) -> Result<()> {
    set_clock(real_ns().checked_add_signed(by)).map(drop)
}

/// EPERM unless the caller may set the clock.
fn may_set() -> Result<()> {
    account::caller::cred().need(Capability::SysTime)?;
    Ok(())
}

fn set_clock(ns: Option<u64>) -> Result<usize> {
    let ns = ns.filter(|&ns| ns < LATEST_NS).ok_or(Errno::EINVAL)?;
    may_set()?;
    set_real_ns(ns);
    Ok(0)
}

/// Clock `id` if one can sleep by it and have timers: not what is coarse or raw, which have an own number for
/// that, nor `not`. EINVAL, EOPNOTSUPP.
fn ticking(id: i32, not: i32) -> Result<TimerClock> {
    const NEVER: [i32; 3] = [
        CLOCK_MONOTONIC_RAW,
        CLOCK_REALTIME_COARSE,
        CLOCK_MONOTONIC_COARSE,
    ];
    if id == not || NEVER.contains(&id) {
        return Err(Errno::EOPNOTSUPP);
    }
    TimerClock::from_id(id)
}

/// EPERM unless the caller may wait by clock `id`. One that would wake the machine is for who has the right
/// to that, though it never sleeps.
pub(super) fn may_wake(id: i32) -> Result<()> {
    match id {
        CLOCK_REALTIME_ALARM | CLOCK_BOOTTIME_ALARM => {
            account::caller::cred().need(Capability::WakeAlarm)
        }
        _ => Ok(()),
    }
}

fn sleep_for(clock: TimerClock, absolute: bool, at: usize, left: usize) -> Result<usize> {
    let time = user::get::<Timespec>(at)?.to_ns().ok_or(Errno::EINVAL)?;
    if let TimerClock::Cpu(account) = clock {
        if account.is_of_caller_alone() {
            return Err(Errno::EINVAL);
        }
        return match absolute {
            true => sleep_by_account(account, time, None),
            false => {
                let until = account.now().saturating_add(time);
                sleep_by_account(account, until, Some(left))
            }
        };
    }
    if absolute {
        let ended = match clock {
            TimerClock::Real => sleep_until_real(time),
            TimerClock::Atomic => sleep_until_atomic(time),
            _ => sleep_until(clock.deadline(time)?),
        };
        return match ended {
            WaitEnded::TimedOut => Ok(0),
            WaitEnded::Interrupted => Err(Errno::ERESTARTNOHAND),
        };
    }
    sleep_restartable(now_ns().saturating_add(time), left)
}

/// Sleeps until `deadline`; interrupted, stores what is left at `left`, and goes on when restarted.
fn sleep_restartable(deadline: u64, left: usize) -> Result<usize> {
    if sleep_until(deadline) == WaitEnded::TimedOut {
        return Ok(0);
    }
    put_time(left, Timespec::from_ns(deadline.saturating_sub(now_ns())))?;
    let go_on = move || sleep_restartable(deadline, left);
    let go_on = try_box(go_on).map_err(|_| Errno::EINTR)?;
    // Bound: a few words of the thread’s own.
    *Task::current().restart.lock() = Some(go_on);
    Err(Errno::ERESTART_RESTARTBLOCK)
}

/// Sleeps until `account` says `until`. Interrupted, a sleep for so long stores what is left at `left`, and
/// goes on when restarted; one until then begins again.
fn sleep_by_account(account: CpuClock, until: u64, left: Option<usize>) -> Result<usize> {
    while let Some(look) = account.look_at(until) {
        if sleep_until(look) == WaitEnded::TimedOut {
            continue;
        }
        let Some(at) = left else {
            return Err(Errno::ERESTARTNOHAND);
        };
        let rest = until.saturating_sub(account.now());
        put_time(at, Timespec::from_ns(rest))?;
        let go_on = move || sleep_by_account(account, until, left);
        let go_on = try_box(go_on).map_err(|_| Errno::EINTR)?;
        *Task::current().restart.lock() = Some(go_on);
        return Err(Errno::ERESTART_RESTARTBLOCK);
    }
    Ok(0)
}

fn gettimeofday(a: &mut Args) -> Result<usize> {
    if a.word(0) != 0 {
        user::put(a.word(0), &Timeval::from_ns(real_ns()))?;
    }
    if a.word(1) != 0 {
        user::put(a.word(1), &timezone::get())?;
    }
    Ok(0)
}

fn settimeofday(a: &mut Args) -> Result<usize> {
    let time = match a.word(0) {
        0 => None,
        at => Some(user::get::<Timeval>(at)?.to_ns().ok_or(Errno::EINVAL)?),
    };
    let zone = match a.word(1) {
        0 => None,
        at => Some(user::get::<Timezone>(at)?),
    };
    if time.is_some_and(|ns| ns >= LATEST_NS) {
        return Err(Errno::EINVAL);
    }
    may_set()?;
    if let Some(zone) = zone {
        match timezone::set(zone, time.is_some())? {
            0 => {}
            by => step_clock(by)?,
        }
    }
    if let Some(ns) = time {
        set_real_ns(ns);
    }
    Ok(0)
}

/// Seconds left of the old alarm, rounded up as Linux does: an alarm that is set never reads as none.
fn alarm(a: &mut Args) -> Result<usize> {
    let process = Process::current();
    let value = u64::from(a.uint(0)) * NSEC_PER_SEC;
    let (left, _) =
        process
            .settled_timers()
            .set(&process, ITIMER_REAL as usize, value, 0, false)?;
    Ok(left.div_ceil(NSEC_PER_SEC) as usize)
}

fn itimer(which: i32) -> Result<usize> {
    match which {
        ITIMER_REAL | ITIMER_VIRTUAL | ITIMER_PROF => Ok(which as usize),
        _ => Err(Errno::EINVAL),
    }
}

fn itimerval((value, interval): (u64, u64)) -> Itimerval {
    Itimerval {
        interval: Timeval::from_ns(interval),
        value: Timeval::from_ns(value),
    }
}

/// Time left and interval, as a program sees them.
pub(super) fn itimerspec((value, interval): (u64, u64)) -> Itimerspec {
    Itimerspec {
        interval: Timespec::from_ns(interval),
        value: Timespec::from_ns(value),
    }
}

fn setitimer(a: &mut Args) -> Result<usize> {
    let which = itimer(a.int(0))?;
    let process = Process::current();
    let new = match a.word(1) {
        0 => Itimerval::default(),
        at => user::get::<Itimerval>(at)?,
    };
    let value = new.value.to_ns().ok_or(Errno::EINVAL)?;
    let interval = new.interval.to_ns().ok_or(Errno::EINVAL)?;
    let old = process
        .settled_timers()
        .set(&process, which, value, interval, false)?;
    if a.word(2) != 0 {
        user::put(a.word(2), &itimerval(old))?;
    }
    Ok(0)
}

/// Timers of `timer_create` are numbered after those that every process has.
fn created(id: i32) -> Result<usize> {
    usize::try_from(id)
        .ok()
        .filter(|id| *id >= FIXED)
        .ok_or(Errno::EINVAL)
}

fn timer_create(a: &mut Args) -> Result<usize> {
    let clock = ticking(a.int(0), i32::MAX)?;
    let process = Process::current();
    let event = match a.word(1) {
        0 => Sigevent {
            signo: SIGALRM,
            notify: SIGEV_SIGNAL,
            ..Sigevent::default()
        },
        at => user::get(at)?,
    };
    let signo = if event.notify == SIGEV_NONE {
        0
    } else {
        event.signo
    };
    let tid = match event.notify {
        // To call a thread is the library's; it is a signal here.
        SIGEV_SIGNAL | SIGEV_THREAD | SIGEV_NONE => 0,
        kind if kind == SIGEV_THREAD_ID => {
            let task = tree::find_task(event.tid).ok_or(Errno::EINVAL)?;
            if task.process.pid != process.pid {
                return Err(Errno::EINVAL);
            }
            event.tid
        }
        _ => return Err(Errno::EINVAL),
    };
    if event.notify != SIGEV_NONE && !valid(signo) {
        return Err(Errno::EINVAL);
    }
    let notify = Notify {
        signo,
        value: event.value,
        tid,
    };
    may_wake(a.int(0))?;
    // Bound: one limit.
    let most = process.limits.lock().cur(RLIMIT_SIGPENDING);
    let id = process
        .timers
        .create(&process, (clock, a.int(0)), notify, most)?;
    if let Err(error) = user::put(a.word(2), &(id as i32)) {
        process.settled_timers().delete(id)?;
        return Err(error);
    }
    Ok(0)
}

fn timer_settime(timer: i32, flags: i32, new: usize, old: usize) -> Result<usize> {
    if new == 0 {
        return Err(Errno::EINVAL);
    }
    let new: Itimerspec = user::get(new)?;
    let value = new.value.to_ns().ok_or(Errno::EINVAL)?;
    let interval = new.interval.to_ns().ok_or(Errno::EINVAL)?;
    let absolute = flags & TIMER_ABSTIME != 0;
    let timer = created(timer)?;
    let set = |task: &Arc<Task>| {
        let process = &task.process;
        process
            .settled_timers()
            .set(process, timer, value, interval, absolute)
    };
    let before = Task::here(set).unwrap_or(Err(Errno::EINVAL))?;
    if old != 0 {
        user::put(old, &itimerspec(before))?;
    }
    Ok(0)
}

/// The same, if the timer's time is relative, without waiting, interrupts off. `None`: nothing has been done.
fn set_at_once(timer: i32, new: usize) -> Option<()> {
    let new: Itimerspec = user::get(new).ok()?;
    let (value, interval) = (new.value.to_ns()?, new.interval.to_ns()?);
    let timer = created(timer).ok()?;
    let set = |task: &Arc<Task>| {
        let process = &task.process;
        process.timers.set_at_once(process, timer, value, interval)
    };
    Task::here(set)?.then_some(())
}

/// `timer_settime` without a trap frame.
pub(super) extern "sysv64" fn timer_settime_frameless(
    timer: usize,
    flags: usize,
    new: usize,
    old: usize,
    _more: usize,
    _last: usize,
    mut off: IrqsOff,
) -> isize {
    if old == 0 && flags as i32 & TIMER_ABSTIME == 0 && set_at_once(timer as i32, new).is_some() {
        return 0;
    }
    call_handler(&mut off, || {
        timer_settime(timer as i32, flags as i32, new, old)
    })
}

fn clock_gettime(clock: i32, to: usize) -> Result<usize> {
    let now = TimerClock::from_id(clock)?.now();
    user::put(to, &Timespec::from_ns(now)).map(|()| 0)
}

/// `clock_gettime` without a trap frame.
pub(super) extern "sysv64" fn clock_gettime_frameless(
    clock: usize,
    to: usize,
    _third: usize,
    _fourth: usize,
    _more: usize,
    _last: usize,
    mut off: IrqsOff,
) -> isize {
    call_handler(&mut off, || clock_gettime(clock as i32, to))
}
