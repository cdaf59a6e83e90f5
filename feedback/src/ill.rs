//! The interval locked loop: a time interval subdivided (dissertation, sections 6.2.2 and 6.2.4; the disk
//! sector finder).
//!
//! *Interface*: call [`Ill::reference`] with the time of each reference event; [`Ill::next`] gives the time
//! of the next derived event and [`Ill::part`] which of the `parts` it is in now. It keeps the *interval*
//! right, and aligned to the reference, even if that means losing an event.

use crate::filter::LowPass;

/// Fraction bits of the interval.
const FRACTION: u32 = 8;
/// Longest interval between reference events that is believed, in nanoseconds: about five hours.
const LONGEST: u64 = 1 << 44;

/// Divides the interval between reference events into `parts`.
#[derive(Clone, Copy, Debug)]
pub struct Ill {
    parts: u64,
    /// Time of the last reference event; `None` before the first.
    last: Option<u64>,
    /// Filtered interval in nanoseconds with `FRACTION` fraction bits; `None` before the second event.
    interval: Option<LowPass<2>>,
}

impl Ill {
    /// A loop that has seen nothing. `parts` at least 1.
    pub const fn new(parts: u32) -> Ill {
        assert!(parts > 0);
        Ill {
            parts: parts as u64,
            last: None,
            interval: None,
        }
    }

    /// A reference event happened at `now` (nanoseconds, not decreasing).
    pub fn reference(&mut self, now: u64) {
        if let Some(last) = self.last {
            let measured = now.saturating_sub(last).min(LONGEST);
            match &mut self.interval {
                // A missed event shows as a whole multiple: the interval is what it was.
                Some(interval) => {
                    let known = (interval.value() >> FRACTION).max(1) as u64;
                    let times = ((measured + known / 2) / known).max(1);
                    let measured = if times <= 4 {
                        measured / times
                    } else {
                        measured
                    };
                    interval.next((measured << FRACTION) as i64);
                }
                None => self.interval = Some(LowPass::new((measured << FRACTION) as i64)),
            }
        }
        self.last = Some(now);
    }

    /// The filtered interval between reference events in nanoseconds, when two were seen.
    pub fn interval_ns(&self) -> Option<u64> {
        Some((self.interval?.value() >> FRACTION).max(0) as u64)
    }

    /// Which part `now` is in, 0 to `parts` - 1. `None` before the loop is locked.
    pub fn part(&self, now: u64) -> Option<u64> {
        let (last, interval) = (self.last?, self.interval_ns()?.max(1));
        let into = now.saturating_sub(last) % interval;
        Some((u128::from(into) * u128::from(self.parts) / u128::from(interval)) as u64)
    }

    /// Time of the first part's beginning after `now`, by which derived events are scheduled. `None` before
    /// the loop is locked.
    pub fn next(&self, now: u64) -> Option<u64> {
        let (last, interval) = (self.last?, u128::from(self.interval_ns()?.max(1)));
        let parts = u128::from(self.parts);
        let into = u128::from(now.saturating_sub(last));
        let next = into * parts / interval + 1;
        Some(last + (next * interval).div_ceil(parts) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locked_after_two_events() {
        let mut ill = Ill::new(36);
        assert_eq!((ill.next(5), ill.part(5)), (None, None));
        ill.reference(1000);
        assert_eq!(ill.next(1000), None);
        // 3600 revolutions per minute.
        ill.reference(1000 + 16_666_667);
        assert_eq!(ill.interval_ns(), Some(16_666_667));
        let start = 1000 + 16_666_667;
        for part in 0..36u64 {
            let at = start + part * 16_666_667 / 36 + 100;
            assert_eq!(ill.part(at), Some(part));
        }
    }

    #[test]
    fn derived_events_divide_the_interval() {
        let mut ill = Ill::new(7);
        ill.reference(0);
        ill.reference(1_000_000);
        let mut now = 1_000_000;
        let mut times = Vec::new();
        while let Some(next) = ill.next(now) {
            assert!(next > now);
            if next > 2_000_000 {
                break;
            }
            times.push(next - now);
            now = next;
        }
        assert_eq!(times.len(), 7);
        assert_eq!(times.iter().sum::<u64>(), 1_000_000);
        assert!(times.iter().all(|t| (142_857..=142_858).contains(t)));
    }

    #[test]
    fn jitter_is_smoothed_and_drift_followed() {
        let mut ill = Ill::new(4);
        let mut seed = 7u64;
        let mut now = 0;
        for n in 0..2000u64 {
            seed = seed
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let ideal = 1_000_000 + 100 * n;
            now += ideal;
            // The event is seen up to 5 % late.
            ill.reference(now + (seed >> 40) % (ideal / 20));
            if n > 20 {
                let known = ill.interval_ns().unwrap_or(0);
                assert!(
                    known.abs_diff(ideal) < ideal / 20,
                    "{n}: {known} for {ideal}"
                );
            }
        }
    }

    #[test]
    fn a_missed_event_changes_nothing() {
        let mut ill = Ill::new(10);
        let mut now = 0;
        for n in 0..100 {
            now += 500_000;
            if n % 7 != 3 {
                ill.reference(now);
            }
        }
        assert_eq!(ill.interval_ns(), Some(500_000));
        // Within the gap the parts go on.
        assert_eq!(ill.part(now + 500_000 + 225_000), Some(4));
    }

    #[test]
    fn any_times_are_survived() {
        let mut ill = Ill::new(u32::MAX);
        for now in [0, 0, 1, u64::MAX / 2, u64::MAX / 2, 3, 1 << 60] {
            ill.reference(now);
            let _ = (
                ill.part(now),
                ill.next(now),
                ill.part(0),
                ill.next(u64::MAX / 4),
            );
        }
    }
}
