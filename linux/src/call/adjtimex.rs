//! `adjtimex` and `clock_adjtime`: the time of day follows a better clock.
//!
//! *Interface*: see [`super::FAMILIES`]. The loops are those of [`process::time::discipline`]; this file is
//! their form as Linux has it.

use abi::errno::{Errno, Result};
use abi::linux::*;
use abi::nr;
use core::sync::atomic::{AtomicI64, Ordering};
use sync::Monitor;
use vm::user;

use super::Handler;
use account::Capability;
use machine::clock::real_ns;
use process::time::TimerClock;
use process::time::discipline::{self, By, ERROR_MOST_US, FREQUENCY_MOST, LeapSecond, LeapStage};

/// See [`super::FAMILIES`].
pub const CALLS: &[(usize, Handler)] = &[
    (nr::ADJTIMEX, |a| adjust(a.word(0))),
    (nr::CLOCK_ADJTIME, |a| {
        match (a.int(0), TimerClock::from_id(a.int(0))?) {
            (CLOCK_REALTIME, _) => adjust(a.word(1)),
            _ => Err(Errno::EOPNOTSUPP),
        }
    }),
];

/// The settings that steer nothing.
struct Told {
    status: i32,
    est_error_us: i64,
}

static TOLD: Monitor<Told> = Monitor::new(Told {
    status: STA_UNSYNC,
    est_error_us: ERROR_MOST_US,
});

/// A frequency beyond is nonsense: Linux multiplies it by this divisor.
const FREQUENCY_SENSE: i64 = i64::MAX / (1000 << 16);
/// Answers of `adjtimex`: a leap second is to come, is there, or was made; the clock follows none that is
/// better.
const TIME_INS: usize = 1;
const TIME_DEL: usize = 2;
const TIME_OOP: usize = 3;
const TIME_WAIT: usize = 4;
const TIME_ERROR: usize = 5;
/// Bits of the status that are told and never set.
const STA_READ_ONLY: i32 = 0xff00;

fn adjust(at: usize) -> Result<usize> {
    let new: Timex = user::get(at)?;
    let modes = new.modes;
    // The old form, which looks at one thing or sets one.
    let single = modes & ADJ_SINGLESHOT != 0;
    let reads = modes == 0 || single && modes & ADJ_READ != 0;
    if single && modes & ADJ_OFFSET == 0 {
        return Err(Errno::EINVAL);
    }
    if !reads {
        account::caller::cred().need(Capability::SysTime)?;
    }
    let tick = modes & ADJ_TICK != 0 && !single;
    if tick && !(9_000..=11_000).contains(&new.tick) {
        return Err(Errno::EINVAL);
    }
    if modes & ADJ_FREQUENCY != 0 && !(-FREQUENCY_SENSE..=FREQUENCY_SENSE).contains(&new.freq) {
        return Err(Errno::EINVAL);
    }
    if modes & ADJ_SETOFFSET != 0 && !single {
        let part = if modes & ADJ_NANO != 0 { 1 } else { 1000 };
        let most = 1_000_000_000 / part;
        let nanoseconds = (0..most).contains(&new.usec).then(|| new.usec * part);
        let by = nanoseconds
            .zip(new.sec.checked_mul(1_000_000_000))
            .and_then(|(part, seconds)| seconds.checked_add(part))
            .ok_or(Errno::EINVAL)?;
        super::time::step_clock(by)?;
    }
    if !reads {
        set(&new, single)?;
    }
    let keeper = discipline::keeper();
    let (mut status, est_error_us) = {
        // Bound: two words.
        let told = TOLD.lock();
        (told.status, told.est_error_us)
    };
    if keeper.max_error_us() >= ERROR_MOST_US {
        status |= STA_UNSYNC;
    }
    let part = if status & STA_NANO != 0 { 1 } else { 1000 };
    let loops = keeper.discipline;
    let now = real_ns() as i64;
    let answer = Timex {
        modes,
        offset: match (single, reads) {
            (true, true) => loops.slew_ns() / 1000,
            (true, false) => LEFT.load(Ordering::Relaxed) / 1000,
            (false, _) => loops.offset_ns() / part,
        },
        freq: loops.frequency(),
        maxerror: keeper.max_error_us(),
        esterror: est_error_us,
        status,
        constant: loops.constant(),
        precision: 1,
        tolerance: FREQUENCY_MOST,
        sec: now.div_euclid(1_000_000_000),
        usec: now.rem_euclid(1_000_000_000) / part,
        tick: loops.tick_us(),
        tai: discipline::tai_s(),
        ..Timex::NONE
    };
    user::put(at, &answer)?;
    Ok(match (keeper.leap, keeper.stage) {
        _ if status & STA_UNSYNC != 0 => TIME_ERROR,
        (LeapSecond::Insert, LeapStage::Ahead) => TIME_INS,
        (LeapSecond::Delete, LeapStage::Ahead) => TIME_DEL,
        (LeapSecond::Insert, LeapStage::Inserted) => TIME_OOP,
        (LeapSecond::Never, _) => 0,
        (_, LeapStage::Done | LeapStage::Inserted) => TIME_WAIT,
    })
}

/// The rest of the last adjustment by hand when another took its place, nanoseconds.
static LEFT: AtomicI64 = AtomicI64::new(0);

/// Sets what the modes of `new` name. ENOMEM.
fn set(new: &Timex, single: bool) -> Result<()> {
    let asked = |mode: u32| new.modes & mode != 0;
    if single {
        return discipline::keep(|keeper| {
            let by = new.offset.saturating_mul(1000);
            LEFT.store(keeper.discipline.adjust(by), Ordering::Relaxed);
        });
    }
    let status = {
        let mut told = TOLD.lock();
        if asked(ADJ_STATUS) {
            told.status = told.status & STA_READ_ONLY | new.status & !STA_READ_ONLY;
        }
        if asked(ADJ_NANO) {
            told.status |= STA_NANO;
        }
        if asked(ADJ_MICRO) {
            told.status &= !STA_NANO;
        }
        if asked(ADJ_ESTERROR) {
            told.est_error_us = new.esterror.clamp(0, ERROR_MOST_US);
        }
        told.status
    };
    if asked(ADJ_TAI) && (0..=4096).contains(&new.constant) {
        discipline::set_tai_s(new.constant as i32);
    }
    let by = discipline::keep(|keeper| {
        if asked(ADJ_STATUS) {
            keeper.ask(match status {
                _ if status & STA_INS != 0 => LeapSecond::Insert,
                _ if status & STA_DEL != 0 => LeapSecond::Delete,
                _ => LeapSecond::Never,
            });
            if status & STA_PLL == 0 {
                keeper.discipline.drop_offset();
                keeper.discipline.forget();
            }
        }
        if asked(ADJ_MAXERROR) {
            keeper.set_max_error_us(new.maxerror);
        }
        let loops = &mut keeper.discipline;
        if asked(ADJ_FREQUENCY) {
            loops.set_frequency(new.freq);
        }
        if asked(ADJ_TICK) {
            loops.set_tick_us(new.tick);
        }
        if asked(ADJ_TIMECONST) {
            // Microseconds are measured less often than nanoseconds.
            let less = if status & STA_NANO != 0 { 0 } else { 4 };
            loops.set_constant(new.constant.saturating_add(less));
        }
        if !asked(ADJ_OFFSET) || status & STA_PLL == 0 {
            return None;
        }
        let part = if status & STA_NANO != 0 { 1 } else { 1000 };
        let now_s = machine::clock::now_ns() / 1_000_000_000;
        let [fll, hold] = [STA_FLL, STA_FREQHOLD].map(|bit| status & bit != 0);
        loops.measured(new.offset.saturating_mul(part), now_s, fll, hold)
    })?;
    if let Some(by) = by {
        let mut told = TOLD.lock();
        match by {
            By::Frequency => told.status |= STA_MODE,
            By::Phase => told.status &= !STA_MODE,
        }
    }
    Ok(())
}
