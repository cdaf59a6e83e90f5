//! The clock of the day follows a better clock: what `adjtimex` sets and tells.
//!
//! *Interface*: [`keep`] looks at the keeper of the clock and changes it; [`tai_s`] is how far atomic time is
//! ahead. A thread, made at the first need, begins each second while seconds differ from one another, and
//! makes the day's end a second earlier or later when that was asked for.
//!
//! The loops are pure arithmetic ([`feedback::clock_discipline`]); their answer is a rate, which the
//! machine's clock takes as one record ([`machine::clock::steer`]). Only the clock of the day is steered:
//! intervals by the monotonic clock are the machine's own. Source: dissertation, section 6.4.1.

use abi::errno::{Errno, Result};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicI32, Ordering};
use feedback::Discipline;
pub use feedback::clock_discipline::{By, MOST as FREQUENCY_MOST};
use machine::clock::{begin_steering, is_steered, now_ns, real_ns, steer};
use sync::seqlock_ring::Place;
use sync::{Monitor, SeqlockRing};
use thread::OnDemand;
use vm::fallible::try_push;

use super::set_real_ns;

const SECOND_NS: u64 = 1_000_000_000;
const DAY_NS: u64 = 86_400 * SECOND_NS;
/// The growth of the largest error while nothing is measured, microseconds in a second.
const DRIFT_US: i64 = 500;
/// The largest error that is told, microseconds; beyond, the clock counts as one that follows none.
pub const ERROR_MOST_US: i64 = 16_000_000;

/// A second more or less at the end of the day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LeapSecond {
    /// None.
    #[default]
    Never,
    /// The last second comes twice.
    Insert,
    /// It is left out.
    Delete,
}

/// How far a leap has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LeapStage {
    /// It is to come, if one was asked for.
    #[default]
    Ahead,
    /// The last second comes for the second time.
    Inserted,
    /// It has been made, and is still asked for.
    Done,
}

/// The keeper of the clock.
#[derive(Clone, Copy, Debug)]
pub struct ClockDiscipline {
    /// Rate and offset.
    pub discipline: Discipline,
    /// The leap that was asked for.
    pub leap: LeapSecond,
    /// How far that has come.
    pub stage: LeapStage,
    /// The part of the present second's gain that is not the rate's, nanoseconds.
    extra_ns: i64,
    /// The end of the day at which it is made, nanoseconds of the clock.
    day_end: u64,
    /// The largest error, microseconds, when it was last set.
    max_error_us: i64,
    /// When that was, nanoseconds since boot.
    set_ns: u64,
}

static KEEPER: Monitor<ClockDiscipline> = Monitor::new(ClockDiscipline {
    discipline: Discipline::new(),
    leap: LeapSecond::Never,
    stage: LeapStage::Ahead,
    extra_ns: 0,
    day_end: 0,
    max_error_us: ERROR_MOST_US,
    set_ns: 0,
});

/// Seconds by which atomic time is ahead of the clock of the day.
static TAI_S: AtomicI32 = AtomicI32::new(0);
/// The thread for what comes with time.
static THREAD: OnDemand = OnDemand::new(b"clock", run);

/// Seconds by which atomic time is ahead.
pub fn tai_s() -> i32 {
    TAI_S.load(Ordering::Relaxed)
}

/// Sets that.
pub fn set_tai_s(seconds: i32) {
    TAI_S.store(seconds, Ordering::Relaxed);
}

impl ClockDiscipline {
    /// Asks for another leap, or none.
    pub fn ask(&mut self, leap: LeapSecond) {
        if leap != self.leap {
            (self.leap, self.stage) = (leap, LeapStage::Ahead);
            self.day_end = real_ns().next_multiple_of(DAY_NS);
        }
    }

    /// The largest error, microseconds: it grows while nothing is measured.
    pub fn max_error_us(&self) -> i64 {
        let seconds = now_ns().saturating_sub(self.set_ns) / SECOND_NS;
        let grown = (seconds as i64).saturating_mul(DRIFT_US);
        self.max_error_us.saturating_add(grown).min(ERROR_MOST_US)
    }

    /// Sets it.
    pub fn set_max_error_us(&mut self, error: i64) {
        self.max_error_us = error.clamp(0, ERROR_MOST_US);
        self.set_ns = now_ns();
    }

    /// When the leap is made next, nanoseconds of the clock.
    fn due(&self) -> Option<u64> {
        match (self.leap, self.stage) {
            (LeapSecond::Insert, LeapStage::Ahead | LeapStage::Inserted) => Some(self.day_end),
            (LeapSecond::Delete, LeapStage::Ahead) => Some(self.day_end - SECOND_NS),
            _ => None,
        }
    }

    /// Makes as much of the leap as is due; how far the clock is to be set.
    fn leap(&mut self) -> Option<i64> {
        let due = self.due()?;
        if real_ns() < due {
            return None;
        }
        match (self.leap, self.stage) {
            (LeapSecond::Insert, LeapStage::Ahead) => {
                self.stage = LeapStage::Inserted;
                TAI_S.fetch_add(1, Ordering::Relaxed);
                Some(-(SECOND_NS as i64))
            }
            (LeapSecond::Delete, _) => {
                self.stage = LeapStage::Done;
                TAI_S.fetch_sub(1, Ordering::Relaxed);
                Some(SECOND_NS as i64)
            }
            _ => {
                self.stage = LeapStage::Done;
                None
            }
        }
    }

    fn begin_second(&mut self) {
        let gain = self.discipline.second();
        self.extra_ns = gain - self.discipline.rate();
        steer(gain);
    }

    fn has_work(&self) -> bool {
        self.discipline.is_moving() || self.due().is_some()
    }
}

/// Courses that are kept for their readers.
const COURSES: usize = 8;

/// The keeper as it is.
pub fn keeper() -> ClockDiscipline {
    // Bound: a dozen words and a few dozen operations on them; once eight small places are made.
    *KEEPER.lock()
}

/// Changes the keeper; the clock goes on as it says then. ENOMEM: nothing has changed.
pub fn keep<T>(change: impl FnOnce(&mut ClockDiscipline) -> T) -> Result<T> {
    let mut keeper = KEEPER.lock();
    if !is_steered() {
        let mut places = Vec::new();
        for _ in 0..COURSES {
            try_push(&mut places, Place::default())?;
        }
        begin_steering(SeqlockRing::new(places));
    }
    // It looks when the keeper is free again.
    THREAD.rouse().map_err(|_| Errno::ENOMEM)?;
    let before = keeper.discipline.rate();
    let answer = change(&mut keeper);
    let rate = keeper.discipline.rate();
    if rate != before {
        steer(rate + keeper.extra_ns);
    }
    Ok(answer)
}

fn run(_: usize) {
    loop {
        THREAD.wait(|| KEEPER.lock().has_work().then_some(()));
        let (wake, step) = {
            let mut keeper = KEEPER.lock();
            let step = keeper.leap();
            keeper.begin_second();
            let second = now_ns().saturating_add(SECOND_NS);
            let due = keeper.due().map(|due| due.saturating_sub(real_ns()));
            let leap = due.map_or(u64::MAX, |left| {
                now_ns().saturating_add(left).saturating_add(1)
            });
            (second.min(leap), step)
        };
        if let Some(step) = step {
            set_real_ns(real_ns().saturating_add_signed(step));
            continue;
        }
        while thread::clock::sleep_until(wake).is_err() {
            thread::yield_now();
        }
        let mut keeper = KEEPER.lock();
        if !keeper.has_work() {
            keeper.begin_second();
        }
    }
}
