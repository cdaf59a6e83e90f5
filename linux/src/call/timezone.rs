//! The time zone of `settimeofday` and `gettimeofday`, which is stored and nothing else.
//!
//! *Interface*: [`get`], [`set`].

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use abi::errno::{Errno, Result};
use abi::linux::Timezone;

/// Minutes west of Greenwich in the low half, the kind of summer time in the high one.
static ZONE: AtomicU64 = AtomicU64::new(0);
/// Whether a zone was ever set.
static SET: AtomicBool = AtomicBool::new(false);

/// Zones lie within fifteen hours of Greenwich.
const MOST: i32 = 15 * 60;

/// The zone.
pub fn get() -> Timezone {
    let word = ZONE.load(Ordering::Relaxed);
    Timezone {
        minuteswest: word as i32,
        dsttime: (word >> 32) as i32,
    }
}

/// Keeps `zone`. The first one, when no time comes with it, says that the clock shows local time so far: by
/// how many nanoseconds it is to be put right, else 0. EINVAL.
pub fn set(zone: Timezone, with_time: bool) -> Result<i64> {
    if !(-MOST..=MOST).contains(&zone.minuteswest) {
        return Err(Errno::EINVAL);
    }
    let low = u64::from(zone.minuteswest as u32);
    ZONE.store(
        low | u64::from(zone.dsttime as u32) << 32,
        Ordering::Relaxed,
    );
    if !SET.swap(true, Ordering::Relaxed) && !with_time {
        return Ok(i64::from(zone.minuteswest) * 60_000_000_000);
    }
    Ok(0)
}
