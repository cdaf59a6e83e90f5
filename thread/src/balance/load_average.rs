//! Load averages: the number of threads that wanted a CPU in the last minutes, with less weight for older
//! moments.
//!
//! *Interface*: the sampling code calls [`look`]; [`now`] returns the averages.
//!
//! As on Linux: every five seconds the threads that are ready are mixed into the averages. When no CPU takes
//! samples at such a moment, no thread was ready; the next caller makes up for the moment, so no interrupt is
//! needed for it.

use core::sync::atomic::{AtomicU64, Ordering};

/// From one moment to the next, nanoseconds.
const EVERY_NS: u64 = 5_000_000_000;
/// A sample so long after a moment, or longer, says nothing about it, nanoseconds.
const STALE_NS: u64 = 20_000_000;
/// One thread.
const ONE: u64 = 1 << 11;
/// The part of the averages over one, five and fifteen minutes that is left after five seconds, in units of
/// 1/2048.
const KEPT: [u64; 3] = [1884, 2014, 2037];

static AVERAGES: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];
/// The next moment. The CPU that advances it changes the averages; no other CPU does for five seconds.
static NEXT_NS: AtomicU64 = AtomicU64::new(EVERY_NS);

/// `ready` says how many threads are ready now, at `now_ns`; it is asked at the moments only. With interrupts
/// off.
#[inline]
pub(crate) fn look(now_ns: u64, ready: impl FnOnce() -> u32) {
    if now_ns >= NEXT_NS.load(Ordering::Relaxed) {
        settle(now_ns, ready());
    }
}

/// The averages.
pub(crate) fn now(now_ns: u64) -> [u64; 3] {
    // Bound: a few words; a power of two for each of three averages, after a long idle time.
    let irq = machine::cpu::irq_save();
    // The calling thread was not ready at the moments that have passed without a sample.
    look(now_ns, || 0);
    machine::cpu::irq_restore(irq);
    AVERAGES
        .each_ref()
        .map(|average| average.load(Ordering::Relaxed))
}

#[cold]
#[inline(never)]
fn settle(now_ns: u64, ready: u32) {
    let next = NEXT_NS.load(Ordering::Relaxed);
    let Some(late) = now_ns.checked_sub(next) else {
        return;
    };
    let more = late / EVERY_NS;
    let after = next + (more + 1) * EVERY_NS;
    let turn = NEXT_NS.compare_exchange(next, after, Ordering::Relaxed, Ordering::Relaxed);
    if turn.is_err() {
        return;
    }
    let fresh = late % EVERY_NS < STALE_NS;
    let ready = if fresh { u64::from(ready) * ONE } else { 0 };
    for (average, kept) in AVERAGES.iter().zip(KEPT) {
        let then = average.load(Ordering::Relaxed) * power(kept, more) / ONE;
        average.store(mixed(then, kept, ready), Ordering::Relaxed);
    }
}

/// The average after `kept` of it is kept and `ready` is added; it is rounded towards `ready`.
fn mixed(average: u64, kept: u64, ready: u64) -> u64 {
    let sum = average * kept + ready * (ONE - kept);
    let up = if ready >= average { ONE - 1 } else { 0 };
    (sum + up) / ONE
}

/// `base` to the power of `exponent`, both as parts of [`ONE`].
fn power(mut base: u64, mut exponent: u64) -> u64 {
    let mut product = ONE;
    while exponent != 0 {
        if exponent & 1 != 0 {
            product = product * base / ONE;
        }
        base = base * base / ONE;
        exponent >>= 1;
    }
    product
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_of_one_thread_is_two_thirds() {
        let after = |ready: u64| (0..12).fold(0, |a, _| mixed(a, KEPT[0], ready * ONE));
        assert!((after(1) * 100 / ONE).abs_diff(63) <= 2, "{}", after(1));
        assert!((after(4) * 100 / ONE).abs_diff(253) <= 4);
    }

    #[test]
    fn what_is_idle_for_long_comes_to_nothing() {
        assert_eq!(power(KEPT[2], 0), ONE);
        assert_eq!(power(KEPT[2], 1), KEPT[2]);
        assert_eq!(power(KEPT[0], 1000), 0);
        assert_eq!(mixed(0, KEPT[0], 0), 0);
    }

    /// A minute in which no CPU takes a sample; the first average falls to a third, and on.
    #[test]
    fn idle_time_lowers_the_averages() {
        let mut moment = NEXT_NS.load(Ordering::Relaxed);
        for _ in 0..200 {
            look(moment, || 4);
            moment += EVERY_NS;
        }
        let averages = || AVERAGES.each_ref().map(|a| a.load(Ordering::Relaxed));
        let before = averages();
        look(moment + 11 * EVERY_NS, || 0);
        for ((after, before), left) in averages().iter().zip(before).zip([37, 82, 94]) {
            let is_left = after * 100 / before;
            assert!(is_left.abs_diff(left) <= 2, "{is_left} of {left}");
        }
    }

    #[test]
    fn a_load_that_stays_is_reached() {
        for kept in KEPT {
            let end = (0..3000).fold(0, |a, _| mixed(a, kept, 3 * ONE));
            assert_eq!(end, 3 * ONE);
        }
    }
}
