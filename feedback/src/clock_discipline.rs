//! The discipline of a clock: its rate and its time follow those of a better one.
//!
//! *Interface*: [`Discipline::measured`] takes the offset between the better clock and this one, whenever it
//! was measured; [`Discipline::second`] is called once a second while [`Discipline::is_moving`], and says how
//! much the clock has to gain in the next one. Time is in nanoseconds.
//!
//! The clock is the derived frame of section 6.4.1, the better one the reference. Two loops set the
//! frequency. The frequency-locked loop compares intervals: an offset that has grown in a long interval is a
//! wrong rate, of which a quarter is corrected. The phase-locked loop adds up offsets, and suits short
//! intervals, where an offset is mostly noise. Both make up a part of the offset in each second, so that it
//! decays.
//! Source: dissertation, section 6.4.1; Mills 1994 (RFC 1589), which Linux follows.

/// The most that a frequency deviates, parts in a million with 16 fraction bits.
pub const MOST: i64 = 500 << FRACTION;
/// The largest offset that is made up by the rate, nanoseconds.
pub const FARTHEST_NS: i64 = 500_000_000;
/// Fraction bits of a frequency.
const FRACTION: u32 = 16;
/// The most of an adjustment by hand that is made in a second, nanoseconds.
const SLEW_NS: i64 = 500_000;
/// Intervals between measurements of the two loops, seconds: below the first only phases are compared, from
/// the second on only frequencies.
const SHORT_S: u64 = 256;
const LONG_S: u64 = 2048;
/// Shift of the phase-locked loop's gain, and of the other's.
const PHASE: u32 = 2;
const FREQUENCY: u32 = 2;
/// Fraction bits of an offset that is left.
const OFFSET: u32 = 16;
/// The longest time constant.
const SLOWEST: i64 = 10;
/// Microseconds of a tick, a hundredth of a second, by the clock's own rate.
pub const TICK_US: i64 = 10_000;

/// The loop that has set the frequency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The phase-locked one.
    Phase,
    /// The frequency-locked one.
    Frequency,
}

/// The state of the loops.
#[derive(Clone, Copy, Debug)]
pub struct Discipline {
    /// Parts in a million, with `FRACTION` fraction bits.
    frequency: i64,
    tick_us: i64,
    /// The offset that is left, nanoseconds with `OFFSET` fraction bits.
    offset: i64,
    /// The rest of an adjustment by hand, nanoseconds.
    slew_ns: i64,
    constant: i64,
    /// When the last offset was measured, seconds.
    measured_s: Option<u64>,
}

impl Discipline {
    /// A clock that goes as it goes.
    pub const fn new() -> Discipline {
        Discipline {
            frequency: 0,
            tick_us: TICK_US,
            offset: 0,
            slew_ns: 0,
            constant: 2,
            measured_s: None,
        }
    }

    /// The better clock is `offset_ns` ahead, at second `now_s` of any clock. `frequencies`: the
    /// frequency-locked loop is asked for. `hold`: the frequency stays.
    pub fn measured(
        &mut self,
        offset_ns: i64,
        now_s: u64,
        frequencies: bool,
        hold: bool,
    ) -> Option<By> {
        let offset = offset_ns.clamp(-FARTHEST_NS, FARTHEST_NS);
        let last = self.measured_s.replace(now_s);
        self.offset = offset << OFFSET;
        let seconds = match last {
            Some(last) if !hold => now_s.saturating_sub(last),
            _ => return None,
        };
        let mut change = 0;
        let by_frequency = seconds >= SHORT_S && (frequencies || seconds > LONG_S);
        if by_frequency {
            // Nanoseconds a second are thousandths of parts in a million.
            let rate = i128::from(offset) * (1 << FRACTION) / (i128::from(seconds) * 1000);
            change += rate >> FREQUENCY;
        }
        let constant = PHASE + self.constant as u32;
        let seconds = seconds.min(1 << (constant + 1));
        let sum = ((i128::from(offset) * i128::from(seconds)) << FRACTION) / 1000;
        change += sum >> (2 * constant + 4);
        self.set_frequency((i128::from(self.frequency) + change).clamp(-1 << 40, 1 << 40) as i64);
        Some(match by_frequency {
            true => By::Frequency,
            false => By::Phase,
        })
    }

    /// Measurements begin anew: the next one sets no frequency.
    pub fn forget(&mut self) {
        self.measured_s = None;
    }

    /// The offset that is left stays.
    pub fn drop_offset(&mut self) {
        self.offset = 0;
    }

    /// The clock has to gain `ns` more, by at most half a thousandth of its rate; the rest of the last such
    /// adjustment is returned.
    pub fn adjust(&mut self, ns: i64) -> i64 {
        core::mem::replace(&mut self.slew_ns, ns)
    }

    /// A second begins: the nanoseconds that the clock has to gain in it.
    pub fn second(&mut self) -> i64 {
        let part = self.offset >> (PHASE + self.constant as u32);
        // The last nanoseconds come together.
        let part = match self.offset >> OFFSET {
            -1..=0 => self.offset,
            _ => part,
        };
        self.offset -= part;
        let slew = self.slew_ns.clamp(-SLEW_NS, SLEW_NS);
        self.slew_ns -= slew;
        (part >> OFFSET) + slew + self.rate()
    }

    /// The nanoseconds that the clock gains in every second.
    pub fn rate(&self) -> i64 {
        ((self.frequency * 1000) >> FRACTION) + (self.tick_us - TICK_US) * 100_000
    }

    /// Whether seconds differ from one another.
    pub fn is_moving(&self) -> bool {
        self.offset != 0 || self.slew_ns != 0
    }

    /// Sets the frequency, parts in a million with 16 fraction bits.
    pub fn set_frequency(&mut self, frequency: i64) {
        self.frequency = frequency.clamp(-MOST, MOST);
    }

    /// The frequency.
    pub fn frequency(&self) -> i64 {
        self.frequency
    }

    /// Sets the length of a tick, a hundredth of a second of the clock's own, in microseconds of the day.
    pub fn set_tick_us(&mut self, tick_us: i64) {
        self.tick_us = tick_us.clamp(TICK_US * 9 / 10, TICK_US * 11 / 10);
    }

    /// The same, read.
    pub fn tick_us(&self) -> i64 {
        self.tick_us
    }

    /// Sets how slowly offsets are made up: each second a part of 2^−(2 + `constant`).
    pub fn set_constant(&mut self, constant: i64) {
        self.constant = constant.clamp(0, SLOWEST);
    }

    /// The same, read.
    pub fn constant(&self) -> i64 {
        self.constant
    }

    /// Offset left, nanoseconds.
    pub fn offset_ns(&self) -> i64 {
        self.offset >> OFFSET
    }

    /// Left of an adjustment by hand, nanoseconds.
    pub fn slew_ns(&self) -> i64 {
        self.slew_ns
    }
}

impl Default for Discipline {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A clock that is `error_ppb` fast, disciplined every `interval` seconds for `rounds` times by
    /// measurements with a noise of up to `noise` ns. Returns the last offsets.
    fn run(
        mut d: Discipline,
        error_ppb: i64,
        interval: u64,
        rounds: u64,
        frequencies: bool,
        noise: i64,
    ) -> (Discipline, Vec<i64>) {
        let (mut ahead, mut seed) = (0i64, 1u64);
        let mut offsets = Vec::new();
        for round in 0..rounds {
            for _ in 0..interval {
                ahead += error_ppb + d.second();
            }
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let jitter = match noise {
                0 => 0,
                noise => (seed >> 33) as i64 % (2 * noise + 1) - noise,
            };
            offsets.push(ahead);
            d.measured(-ahead + jitter, (round + 1) * interval, frequencies, false);
        }
        (d, offsets)
    }

    #[test]
    fn a_wrong_rate_is_found_by_either_loop() {
        for error in [-100_000, -20_000, 30_000, 250_000] {
            for (interval, rounds, frequencies) in [(16, 400, false), (1024, 60, true)] {
                let mut d = Discipline::new();
                d.set_constant(if frequencies { 6 } else { 2 });
                let (d, offsets) = run(d, error, interval, rounds, frequencies, 0);
                let left = offsets.last().unwrap().abs();
                assert!(left < 100_000, "{error} {interval}: {left} ns");
                assert!(
                    (d.rate() + error).abs() * 50 < error.abs(),
                    "{error} {interval}: {}",
                    d.rate()
                );
            }
        }
    }

    #[test]
    fn noise_is_filtered() {
        let mut d = Discipline::new();
        d.set_constant(4);
        let (d, offsets) = run(d, 40_000, 64, 600, false, 1_000_000);
        let worst = offsets[500..].iter().map(|o| o.abs()).max().unwrap();
        assert!(worst < 1_500_000, "{worst}");
        assert!((d.rate() + 40_000).abs() < 12_000, "{}", d.rate());
    }

    #[test]
    fn an_offset_decays_and_goes() {
        let mut d = Discipline::new();
        d.set_constant(0);
        d.measured(1_000_000, 1, false, false);
        let mut gained = 0;
        for second in 0..200 {
            let now = d.second();
            assert!((0..=250_000).contains(&now), "{second}: {now}");
            gained += now;
        }
        assert!(!d.is_moving());
        assert!((999_900..=1_000_000).contains(&gained), "{gained}");
    }

    #[test]
    fn an_adjustment_by_hand_is_made_at_half_a_thousandth() {
        let mut d = Discipline::new();
        assert_eq!(d.adjust(1_250_000), 0);
        assert_eq!([d.second(), d.second()], [500_000, 500_000]);
        assert_eq!(d.adjust(-3_000), 250_000);
        assert_eq!([d.second(), d.second()], [-3_000, 0]);
        assert!(!d.is_moving());
    }

    #[test]
    fn bounds_hold_whatever_is_measured() {
        let mut d = Discipline::new();
        for (n, offset) in [i64::MAX, i64::MIN, 1, -1, 0, i64::MAX]
            .into_iter()
            .enumerate()
        {
            d.measured(offset, n as u64 * 300, true, false);
            d.set_constant(offset);
            d.set_tick_us(offset);
            assert!(d.frequency().abs() <= MOST);
            let gain = d.second();
            assert!(gain.abs() <= 500_000_000 + 500_000 + 100_000_000, "{gain}");
        }
        d.measured(5, 0, true, false);
        d.measured(5, u64::MAX, true, false);
    }
}
