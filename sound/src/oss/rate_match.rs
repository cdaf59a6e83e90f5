//! Rate matching: a program that writes by a clock of its own, against the clock of the card.
//!
//! *Interface*: [`RateMatch::step`] at each write says by how many parts in a million the resampler is to
//! take frames faster. A frequency-locked loop compares the frames that were written with those that were
//! played, from the time on at which the card plays: so the buffer stays as full as it was then, and neither
//! runs dry nor overflows, however long the program plays. A program whose clock is the card's (it waits, or
//! asks for room) is not steered: there is nothing to make up for.
//!
//! An event of the reference is [`SECONDS`] of sound that was written, a derived one a part of it that was
//! played. In the middle between two references the loop's debt is half a reference, whatever the rates are:
//! there its answer is taken.
//!
//! Source: dissertation, section 6.3.3.

use feedback::Fll;

use super::settings::Scale;

/// Sound between two references: so long that the steps of writes and of the card's blocks do not matter, so
/// short that a buffer outlives it at any real clock's error.
const SECONDS: u64 = 8;
/// Derived events for each.
const RATIO: u32 = 1024;
/// Derived events in a second, in thousandths of a hertz, at equal clocks.
const NOMINAL: u64 = RATIO as u64 * 1000 / SECONDS;
/// The loop steers by a hundredth at most.
const LEAST: u64 = NOMINAL - NOMINAL / 100;
const MOST: u64 = NOMINAL + NOMINAL / 100;
/// Nanoseconds in a thousand seconds.
const THOUSAND_SECONDS: u64 = 1_000_000_000_000;

/// The loop of one that plays.
pub struct RateMatch {
    fll: Fll,
    begun: bool,
    /// Frames written since the last reference.
    written: u64,
    /// The card's frames that had been played at the last step.
    played: u64,
    /// Frames of the program since the last derived event, times [`PART`].
    passed: u64,
    /// The next derived event is the one in the middle between two references.
    middle: bool,
    parts: i32,
}

/// Parts of a frame.
const PART: u64 = 1_000_000;

impl Default for RateMatch {
    fn default() -> Self {
        RateMatch {
            fll: Fll::new(RATIO, NOMINAL, LEAST, MOST),
            begun: false,
            written: 0,
            played: 0,
            passed: 0,
            middle: false,
            parts: 0,
        }
    }
}

impl RateMatch {
    /// `frames` more were written, and the card has played `played` of its frames so far.
    pub fn step(&mut self, scale: Scale, frames: u64, played: u64) -> i32 {
        if !self.begun {
            self.begun = played > 0;
            self.played = played;
            if self.begun {
                self.fll.reference();
            }
            return 0;
        }
        let reference = SECONDS * u64::from(scale.program);
        let half = reference / 2;
        self.middle |= self.written < half && self.written.saturating_add(frames) >= half;
        self.written = self.written.saturating_add(frames).min(2 * reference);
        // The card's frames that were played since. The program's are more or fewer, as it is steered.
        let since = played
            .saturating_sub(self.played)
            .min(u64::from(scale.card));
        self.played = played;
        let steered = PART.saturating_add_signed(self.parts.into());
        self.passed += since * u64::from(scale.program) * steered / u64::from(scale.card.max(1));
        let part = reference * PART / u64::from(RATIO);
        while self.passed >= part {
            self.passed -= part;
            self.derive();
        }
        while self.written >= reference {
            self.written -= reference;
            self.fll.reference();
        }
        self.parts
    }

    fn derive(&mut self) {
        let interval = self.fll.derived();
        if core::mem::take(&mut self.middle) {
            let millihertz = (THOUSAND_SECONDS / interval.max(1)).clamp(LEAST, MOST);
            let parts = millihertz as i64 * 1_000_000 / NOMINAL as i64 - 1_000_000;
            self.parts = parts as i32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCALE: Scale = Scale {
        program: 48_000,
        card: 44_100,
    };

    /// Plays for `minutes`, with the program's clock `off` parts in a million fast. The card's frames that
    /// wait: at the beginning, the least, and the most.
    fn run(off: i64, minutes: u64, steers: bool) -> (f64, f64, f64) {
        let mut pace = RateMatch::default();
        let (mut ring, mut played, mut parts) = (6000.0, 0u64, 0);
        let (begin, mut least, mut most) = (ring, ring, ring);
        // A write each hundredth of a second by the program's clock; the card takes blocks of 256.
        let mut time = 0.0;
        let between = 0.01 / (1.0 + off as f64 / 1e6);
        while time < minutes as f64 * 60.0 {
            time += between;
            let due = (time * 44_100.0 / 256.0) as u64 * 256;
            ring -= (due - played) as f64;
            played = due;
            ring += 480.0 * 44_100.0 / 48_000.0 / (1.0 + f64::from(parts) / 1e6);
            parts = pace.step(SCALE, 480, played);
            parts = if steers { parts } else { 0 };
            least = f64::min(least, ring);
            most = f64::max(most, ring);
        }
        (begin, least, most)
    }

    #[test]
    fn a_buffer_stays_as_full_as_it_was_at_clocks_that_differ() {
        for off in [-800, -100, -10, 0, 10, 100, 800] {
            let (begin, least, most) = run(off, 60, true);
            println!("{off:>4}: from {begin} to {least:.0}..{most:.0}");
            assert!(least > begin - 3500.0 && most < begin + 3500.0, "{off}");
        }
        // Without it the buffer overflows, or runs dry, within minutes.
        let (begin, _, most) = run(100, 60, false);
        assert!(most > begin + 12_000.0);
    }

    #[test]
    fn a_program_that_waits_for_room_is_not_steered() {
        let mut pace = RateMatch::default();
        let (mut ring, mut parts) = (6000.0, 0);
        for block in 1..20 * 60 * 172u64 {
            // It fills the buffer again after each block that the card has taken.
            ring -= 256.0;
            let frames = ((6000.0 - ring) * 48_000.0 / 44_100.0) as u64;
            ring += frames as f64 * 44_100.0 / 48_000.0 / (1.0 + f64::from(parts) / 1e6);
            parts = pace.step(SCALE, frames, block * 256);
        }
        assert!(parts.abs() < 300, "{parts}");
    }

    #[test]
    fn no_jump_of_a_clock_steers_it_further_than_allowed() {
        let mut pace = RateMatch::default();
        for (frames, played) in [
            (1, 1),
            (u32::MAX.into(), 2),
            (0, u64::MAX),
            (0, 0),
            (1 << 40, 1),
        ] {
            for _ in 0..50 {
                let parts = pace.step(SCALE, frames, played);
                assert!(parts.abs() <= 10_000);
            }
        }
    }
}
