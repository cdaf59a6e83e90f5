//! The CPU time of a thread, read while the thread may be switched; nanoseconds in counts of the time-stamp
//! counter.
//!
//! *Interface*: [`used`]; [`ns_to_ticks`], whose other way is [`machine::clock::span_ns`].
//!
//! One word holds the time. While the thread runs, the time stamp at its switch-in is subtracted from it, and
//! is always the larger part, so the word is negative; the switch adds the stamp at its end. A reader that is
//! interrupted between the word and the time stamp would count the time for which it waited, and would see
//! its time go back afterwards.

use machine::clock::tsc_khz;

/// Nanoseconds in counts of the time-stamp counter.
pub(crate) fn ns_to_ticks(ns: u64) -> u64 {
    match ns.checked_mul(tsc_khz()) {
        Some(product) => product / 1_000_000,
        None => (u128::from(ns) * u128::from(tsc_khz()) / 1_000_000) as u64,
    }
}

/// The CPU time that `time` and the time stamp `now` say, in counts of the time-stamp counter. Both are read
/// again if the thread was switched meanwhile.
#[inline]
pub(crate) fn used(time: impl Fn() -> u64, now: impl Fn() -> u64) -> u64 {
    loop {
        let before = time();
        if before as i64 >= 0 {
            return before;
        }
        let stamp = now();
        if time() == before {
            // A processor may take its stamp before a load that stands before it, and another's clock may be
            // a little behind: a thread that has just begun would have a time below zero.
            return (before.wrapping_add(stamp) as i64).max(0) as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::used;
    use core::cell::Cell;

    #[test]
    fn of_a_thread_that_waits_and_of_one_that_runs() {
        assert_eq!(used(|| 700, || unreachable!("it does not run")), 700);
        // It has used 700, and runs since 10,000.
        let time = 700_u64.wrapping_sub(10_000);
        assert_eq!(used(|| time, || 10_250), 950);
    }

    #[test]
    fn a_stamp_before_the_switch_in_is_no_time() {
        let first = 0_u64.wrapping_sub(10_000);
        assert_eq!(used(|| first, || 9_990), 0);
        assert_eq!(used(|| first, || 10_003), 3);
    }

    #[test]
    fn a_switch_in_the_middle_is_not_counted() {
        // It is switched out at 10,100, before the time stamp is read, and in again at 50,000.
        let time = Cell::new(700_u64.wrapping_sub(10_000));
        let now = Cell::new(10_100);
        let switched = || {
            let switch = now.get() == 10_100;
            if switch {
                time.set(time.get().wrapping_add(10_100).wrapping_sub(50_000));
                now.set(50_000);
            }
            now.get()
        };
        assert_eq!(used(|| time.get(), switched), 800);
    }

    #[test]
    fn one_that_is_switched_out_in_the_middle() {
        let time = Cell::new(700_u64.wrapping_sub(10_000));
        let out = || {
            time.set(800);
            50_000
        };
        assert_eq!(used(|| time.get(), out), 800);
    }
}
