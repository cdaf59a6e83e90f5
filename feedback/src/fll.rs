//! The frequency locked loop: derived events at a multiple of a reference's rate (dissertation, figure 6.3).
//!
//! *Interface*: call [`Fll::reference`] at each reference event (`i1`), [`Fll::derived`] at each derived one
//! (`i2`); the latter says after how long the next is due. It keeps the *number* of events right; intervals
//! between them may vary while it settles.
//!
//! As in the figure, `residue` counts derived events that are owed and plays the phase comparator. The
//! frequency follows through two paths: the sum of filtered residues (an integrator, so that a constant rate
//! is tracked without error) and the residue itself, which damps it; without the second path the loop of the
//! figure swings for ever. Everything is relative to the present frequency, so the same gains serve one event
//! per second and a million.

use crate::filter::LowPass;

/// Gains, as right shifts, per reference event: the loop's own frequency is √(2^-6) = 1/8 per event, its
/// damping (2^-2)/(2·1/8) = 1.
const PROPORTIONAL: u32 = 2;
const INTEGRAL: u32 = 6;
/// Fraction bits of a residue relative to `ratio`.
const FRACTION: u32 = 16;
/// An error larger than this many reference events is treated as this many: a burst moves the frequency by
/// half at most.
const LIMIT: i64 = 2 << FRACTION;

/// Nanoseconds in a second, times the frequency's unit.
const SECOND: i64 = 1_000_000_000_000;

/// Derives `ratio` events from each reference event.
#[derive(Clone, Copy, Debug)]
pub struct Fll {
    ratio: i64,
    /// Derived events owed.
    residue: i64,
    filter: LowPass<1>,
    /// Frequency of derived events in thousandths of a hertz.
    millihertz: i64,
    lowest: i64,
    highest: i64,
}

impl Fll {
    /// A loop that starts at `millihertz` derived events per 1000 seconds and stays between `lowest` and
    /// `highest` (both in the same unit, positive, at most 10¹²).
    pub const fn new(ratio: u32, millihertz: u64, lowest: u64, highest: u64) -> Fll {
        assert!(ratio > 0 && lowest > 0 && lowest <= highest && highest <= 1_000_000_000_000);
        let mut fll = Fll {
            ratio: ratio as i64,
            residue: 0,
            filter: LowPass::new(0),
            millihertz: millihertz as i64,
            lowest: lowest as i64,
            highest: highest as i64,
        };
        fll.bound();
        fll
    }

    const fn bound(&mut self) {
        if self.millihertz < self.lowest {
            self.millihertz = self.lowest;
        } else if self.millihertz > self.highest {
            self.millihertz = self.highest;
        }
    }

    /// The residue in reference events, with `FRACTION` fraction bits.
    const fn error(&self) -> i64 {
        let error = self.residue * (1 << FRACTION) / self.ratio;
        if error > LIMIT {
            LIMIT
        } else if error < -LIMIT {
            -LIMIT
        } else {
            error
        }
    }

    /// A reference event happened.
    pub const fn reference(&mut self) {
        // The debt before this event counts as the error: right after it, the debt is a whole ratio.
        let error = self.filter.next(self.error());
        self.residue = self.residue.saturating_add(self.ratio);
        // At least one unit, so that the lowest frequencies can move.
        let mut change =
            ((self.millihertz as i128 * error as i128) >> (FRACTION + INTEGRAL)) as i64;
        if change == 0 {
            change = error.signum();
        }
        self.millihertz += change;
        self.bound();
        // Debts beyond a thousand events are not made up: the reference stopped or jumped.
        let most = 1000 * self.ratio;
        if self.residue > most {
            self.residue = most;
        }
    }

    /// A derived event happened; nanoseconds until the next.
    pub const fn derived(&mut self) -> u64 {
        self.residue -= 1;
        let least = -1000 * self.ratio;
        if self.residue < least {
            self.residue = least;
        }
        // Of `ratio` derived events, all but one, all but two, … none are owed in turn: on average half of
        // all but one.
        let error = self.error() - ((self.ratio - 1) << FRACTION) / (2 * self.ratio);
        let push = ((self.millihertz as i128 * error as i128) >> (FRACTION + PROPORTIONAL)) as i64;
        let mut now = self.millihertz + push;
        if now < self.lowest {
            now = self.lowest;
        } else if now > self.highest {
            now = self.highest;
        }
        (SECOND / now) as u64
    }

    /// The settled frequency of derived events, in thousandths of a hertz.
    pub const fn millihertz(&self) -> u64 {
        self.millihertz as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs both event streams; `rate` gives the reference's millihertz at a time. Returns derived events,
    /// reference events, and the loop.
    fn run(mut fll: Fll, end: u64, rate: impl Fn(u64) -> u64) -> (u64, u64, Fll, Vec<u64>) {
        let mut now = 0;
        let (mut next_reference, mut next_derived) = (0, 0);
        let (mut references, mut derived) = (0, 0);
        let mut trace = Vec::new();
        while now < end {
            if next_reference <= next_derived {
                now = next_reference;
                fll.reference();
                references += 1;
                next_reference = now + SECOND as u64 / rate(now);
                trace.push(fll.millihertz());
            } else {
                now = next_derived;
                derived += 1;
                next_derived = now + fll.derived();
            }
        }
        (derived, references, fll, trace)
    }

    fn near(a: u64, b: u64, percent: u64) -> bool {
        a.abs_diff(b) * 100 <= b * percent
    }

    #[test]
    fn locks_within_fifty_events() {
        // The dissertation's experience: stable to within 10 % after about 50 input events.
        for ratio in [1, 2, 4, 17, 64] {
            for hertz in [1, 30, 1000, 44_100] {
                let goal = hertz * 1000 * u64::from(ratio);
                for factor in [-8, -2, 1, 2, 8i64] {
                    let start = if factor < 0 {
                        goal / factor.unsigned_abs()
                    } else {
                        goal * factor.unsigned_abs()
                    };
                    let fll = Fll::new(ratio, start.max(1), 1, 1_000_000_000_000);
                    let end = 600 * 1_000_000_000 / hertz;
                    let (_, _, fll, trace) = run(fll, end, |_| hertz * 1000);
                    let settled = trace
                        .iter()
                        .rposition(|f| !near(*f, goal, 10))
                        .map_or(0, |n| n + 1);
                    // From twice or half the rate; the further away, the more events there are to make up
                    // for.
                    let bound = if factor.abs() <= 2 { 50 } else { 300 };
                    assert!(
                        settled <= bound,
                        "ratio {ratio}, {hertz} Hz, {factor}: settled after {settled}"
                    );
                    assert!(
                        near(fll.millihertz(), goal, 3),
                        "{ratio} {hertz} {factor}: {}",
                        fll.millihertz()
                    );
                }
            }
        }
    }

    #[test]
    fn the_number_of_events_is_kept() {
        let fll = Fll::new(4, 100_000, 1000, 100_000_000);
        // The reference wanders between 50 and 150 Hz.
        let (derived, references, fll, _) = run(fll, 60_000_000_000, |now| {
            let phase = now / 10_000_000 % 1000;
            50_000 + 200 * phase.min(1000 - phase)
        });
        assert!(
            derived.abs_diff(4 * references) <= 12,
            "{derived} for {references}"
        );
        assert_eq!(fll.residue, 4 * references as i64 - derived as i64);
    }

    #[test]
    fn a_step_is_followed() {
        let fll = Fll::new(4, 400_000, 1000, 100_000_000);
        let (_, _, fll, _) = run(fll, 20_000_000_000, |now| {
            if now < 10_000_000_000 {
                100_000
            } else {
                130_000
            }
        });
        assert!(near(fll.millihertz(), 520_000, 2), "{}", fll.millihertz());
    }

    #[test]
    fn silence_and_bursts_stay_within_bounds() {
        let mut fll = Fll::new(3, 1000, 500, 2_000_000);
        for _ in 0..100_000 {
            assert!((SECOND as u64 / 2_000_000..=SECOND as u64 / 500).contains(&fll.derived()));
        }
        for _ in 0..100_000 {
            fll.reference();
        }
        assert_eq!(fll.millihertz(), 2_000_000);
        assert!((SECOND as u64 / 2_000_000..=SECOND as u64 / 500).contains(&fll.derived()));
    }
}
