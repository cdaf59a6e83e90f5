//! `adjtimex` and `clock_adjtime`: what is known of how the clock of the day goes.
//!
//! *Interface*: see [`super::FAMILIES`]. The clock is the machine's. Settings are kept and told, and steer
//! nothing; a step (`ADJ_SETOFFSET`) is made.

use abi::errno::{Errno, Result};
use abi::linux::*;
use abi::nr;
use sync::Monitor;
use vm::user;

use super::Handler;
use account::Capability;
use machine::clock::real_ns;
use process::Process;
use process::time::Clock;

/// See [`super::FAMILIES`].
pub const CALLS: &[(usize, Handler)] = &[
    (nr::ADJTIMEX, |a| adjust(a.word(0))),
    (nr::CLOCK_ADJTIME, |a| {
        match (a.int(0), Clock::from_id(a.int(0))?) {
            (CLOCK_REALTIME, _) => adjust(a.word(1)),
            _ => Err(Errno::EOPNOTSUPP),
        }
    }),
];

/// The settings: only these fields count.
static SET: Monitor<Timex> = Monitor::new(Timex {
    maxerror: 16_000_000,
    esterror: 16_000_000,
    status: STA_UNSYNC,
    constant: 2,
    tick: 10_000,
    ..Timex::NONE
});

/// Frequencies are kept within 500 parts in a million, of which there are 65536 for each.
const FREQUENCY_MOST: i64 = 500 << 16;
/// A frequency beyond is nonsense: Linux multiplies it by this divisor.
const FREQUENCY_SENSE: i64 = i64::MAX / (1000 << 16);
/// The answer of `adjtimex` while the clock follows none that is better.
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
        Process::current().cred.get().need(Capability::SysTime)?;
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
    let told = {
        let mut set = SET.lock();
        if !single {
            let asked = |mode: u32| modes & mode != 0;
            if asked(ADJ_STATUS) {
                set.status = set.status & STA_READ_ONLY | new.status & !STA_READ_ONLY;
            }
            if asked(ADJ_FREQUENCY) {
                set.freq = new.freq.clamp(-FREQUENCY_MOST, FREQUENCY_MOST);
            }
            if asked(ADJ_MAXERROR) {
                set.maxerror = new.maxerror.clamp(0, 16_000_000);
            }
            if asked(ADJ_ESTERROR) {
                set.esterror = new.esterror.clamp(0, 16_000_000);
            }
            if asked(ADJ_TIMECONST) {
                set.constant = new.constant.clamp(0, 10);
            }
            if asked(ADJ_TAI) && (0..=4096).contains(&new.constant) {
                set.tai = new.constant as i32;
            }
            if tick {
                set.tick = new.tick;
            }
            if asked(ADJ_NANO) {
                set.status |= STA_NANO;
            }
            if asked(ADJ_MICRO) {
                set.status &= !STA_NANO;
            }
        }
        *set
    };
    let now = real_ns() as i64;
    let part = if told.status & STA_NANO != 0 { 1 } else { 1000 };
    let answer = Timex {
        modes,
        tolerance: FREQUENCY_MOST,
        precision: 1,
        sec: now / 1_000_000_000,
        usec: now % 1_000_000_000 / part,
        ..told
    };
    user::put(at, &answer)?;
    Ok(if told.status & STA_UNSYNC != 0 {
        TIME_ERROR
    } else {
        0
    })
}
