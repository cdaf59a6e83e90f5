//! Waves and noise.
//!
//! *Interface*: [`Tone`] gives a sample at a time; [`Random`] is the source of noise and chance.

use crate::frame::rounded;
use std::f64::consts::PI;

/// The form of a wave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A pure tone.
    Sine,
    /// All odd harmonics.
    Square,
    /// No tone: white noise.
    Noise,
}

/// A wave that goes on for ever.
pub struct Tone {
    shape: Shape,
    /// The part of a period that has passed, and how much a frame takes.
    phase: u64,
    step: u64,
    loud: f64,
    random: Random,
}

impl Tone {
    /// A wave with this frequency, and a peak of `percent` of the loudest.
    pub fn new(rate: u32, shape: Shape, hertz: f64, percent: f64) -> Self {
        // A period is 2^48.
        let step = libm::round(hertz / f64::from(rate) * (1u64 << 48) as f64);
        Self {
            shape,
            phase: 0,
            step: step as u64,
            loud: percent / 100.0 * f64::from(i16::MAX),
            random: Random::new(1),
        }
    }
}

impl Iterator for Tone {
    type Item = i16;

    fn next(&mut self) -> Option<i16> {
        let phase = (self.phase & ((1 << 48) - 1)) as f64 / (1u64 << 48) as f64;
        self.phase = self.phase.wrapping_add(self.step);
        let value = match self.shape {
            Shape::Sine => libm::sin(2.0 * PI * phase),
            Shape::Square if phase < 0.5 => 1.0,
            Shape::Square => -1.0,
            Shape::Noise => self.random.wave(),
        };
        Some(rounded(value * self.loud))
    }
}

/// Numbers that look random and are always the same.
#[derive(Clone)]
pub struct Random(u64);

impl Random {
    /// A sequence with this number.
    pub const fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678_9abc_def1)
    }

    /// From -1 to 1.
    pub fn wave(&mut self) -> f64 {
        self.part() * 2.0 - 1.0
    }

    /// From 0 to 1, which it does not reach.
    pub fn part(&mut self) -> f64 {
        // Knuth's linear congruence; its upper bits are the better ones.
        let next = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = next.wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as f64 / (1u64 << 31) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::RATE;

    #[test]
    fn waves_have_their_frequency_and_loudness() {
        for shape in [Shape::Sine, Shape::Square] {
            let wave: Vec<i16> = Tone::new(RATE, shape, 441.0, 50.0).take(44_100).collect();
            let rises = wave.windows(2).filter(|two| two[0] < 0 && two[1] >= 0);
            assert_eq!(rises.count(), 440, "{shape:?}");
            assert_eq!(wave.iter().max(), Some(&16_384));
            assert_eq!(wave[..100], wave[44_000..]);
        }
    }

    #[test]
    fn noise_has_no_mean_and_its_power() {
        let wave: Vec<f64> = Tone::new(RATE, Shape::Noise, 1.0, 100.0)
            .take(100_000)
            .map(f64::from)
            .collect();
        let mean = wave.iter().sum::<f64>() / wave.len() as f64;
        let power = wave.iter().map(|x| x * x).sum::<f64>() / wave.len() as f64;
        assert!(mean.abs() < 200.0, "{mean}");
        let expected = 32_767.0 * 32_767.0 / 3.0;
        assert!((power / expected - 1.0).abs() < 0.02, "{power}");
    }
}
