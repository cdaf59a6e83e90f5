//! Low-pass, high-pass and band-pass filters, made of sections of second order.
//!
//! *Interface*: [`Pass`] is a [`Filter`]; [`Pass::low`] and [`Pass::high`] are Butterworth
//! filters of fourth order (24 dB per octave, −3 dB at the frequency), [`Pass::band`] has 0 dB at its centre.
//!
//! Source: R. Bristow-Johnson, *Cookbook formulae for audio EQ biquad filter coefficients*: the bilinear
//! transform, here in the second transposed direct form.

use super::Filter;
use crate::frame::{Frame, rounded};
use std::f64::consts::PI;

/// The sections of a Butterworth filter of fourth order: 1 / (2 cos(π/8)) and 1 / (2 cos(3π/8)).
const BUTTERWORTH: [f64; 2] = [0.541_196_100_146_197, 1.306_562_964_876_376_5];
/// A state that is nearer to zero, in samples, is zero: a processor computes very small numbers slowly.
const SMALLEST: f64 = 1e-20;

/// A section of second order, and its state for both channels.
#[derive(Clone)]
struct Section {
    /// Of the input: now, one before, two before.
    b: [f64; 3],
    /// Of the output: one before, two before.
    a: [f64; 2],
    state: [[f64; 2]; 2],
}

impl Section {
    fn new(b: [f64; 3], a: [f64; 3]) -> Self {
        Self {
            b: b.map(|b| b / a[0]),
            a: [a[1] / a[0], a[2] / a[0]],
            state: [[0.0; 2]; 2],
        }
    }

    fn next(&mut self, side: usize, x: f64) -> f64 {
        let [one, two] = &mut self.state[side];
        let y = self.b[0] * x + *one;
        *one = kept(self.b[1] * x - self.a[0] * y + *two);
        *two = kept(self.b[2] * x - self.a[1] * y);
        y
    }
}

fn kept(state: f64) -> f64 {
    if state.abs() < SMALLEST { 0.0 } else { state }
}

/// A filter that lets some frequencies pass.
pub struct Pass {
    sections: Vec<Section>,
}

impl Pass {
    /// Lets pass what is lower than `hertz`, which is below half of `rate`.
    pub fn low(rate: u32, hertz: f64) -> Self {
        Self::butterworth(rate, hertz, |cos| {
            [(1.0 - cos) / 2.0, 1.0 - cos, (1.0 - cos) / 2.0]
        })
    }

    /// Lets pass what is higher than `hertz`, which is below half of `rate`.
    pub fn high(rate: u32, hertz: f64) -> Self {
        Self::butterworth(rate, hertz, |cos| {
            [(1.0 + cos) / 2.0, -(1.0 + cos), (1.0 + cos) / 2.0]
        })
    }

    fn butterworth(rate: u32, hertz: f64, b: impl Fn(f64) -> [f64; 3]) -> Self {
        let section = |quality: f64| {
            let (cos, alpha) = angle(rate, hertz, quality);
            Section::new(b(cos), [1.0 + alpha, -2.0 * cos, 1.0 - alpha])
        };
        Self {
            sections: BUTTERWORTH.map(section).to_vec(),
        }
    }

    /// Lets pass what is near `hertz`, which is below half of `rate`: a band of `hertz` / `quality`.
    pub fn band(rate: u32, hertz: f64, quality: f64) -> Self {
        let (cos, alpha) = angle(rate, hertz, quality);
        let section = Section::new([alpha, 0.0, -alpha], [1.0 + alpha, -2.0 * cos, 1.0 - alpha]);
        Self {
            sections: vec![section],
        }
    }
}

fn angle(rate: u32, hertz: f64, quality: f64) -> (f64, f64) {
    let angle = 2.0 * PI * hertz / f64::from(rate);
    (libm::cos(angle), libm::sin(angle) / (2.0 * quality))
}

impl Filter for Pass {
    fn next(&mut self, frame: Frame) -> Frame {
        std::array::from_fn(|side| {
            let x = f64::from(frame[side]);
            let y = self.sections.iter_mut();
            rounded(y.fold(x, |x, section| section.next(side, x)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::RATE;

    /// The loudness of a tone behind the filter, in decibels of what it was before.
    fn response(mut filter: Pass, hertz: f64) -> f64 {
        let tone = |n: u32| libm::sin(2.0 * PI * hertz * f64::from(n) / f64::from(RATE)) * 16_000.0;
        let (mut before, mut after) = (0.0, 0.0);
        for n in 0..RATE {
            let out = filter.next([rounded(tone(n)), 0]);
            if n >= RATE / 2 {
                before += tone(n) * tone(n);
                after += f64::from(out[0]) * f64::from(out[0]);
            }
        }
        10.0 * libm::log10(after.max(1e-9) / before)
    }

    fn near(found: f64, expected: f64, within: f64) {
        assert!((found - expected).abs() < within, "{found}: {expected}");
    }

    #[test]
    fn low_frequencies_pass() {
        let at = |hertz| response(Pass::low(RATE, 1000.0), hertz);
        near(at(50.0), 0.0, 0.05);
        near(at(500.0), 0.0, 0.05);
        near(at(1000.0), -3.01, 0.05);
        near(at(2000.0), -24.2, 0.5);
        near(at(4000.0), -48.8, 1.5);
        assert!(at(15_000.0) < -80.0);
    }

    #[test]
    fn high_frequencies_pass() {
        let at = |hertz| response(Pass::high(RATE, 1000.0), hertz);
        near(at(10_000.0), 0.0, 0.05);
        near(at(1000.0), -3.01, 0.05);
        near(at(500.0), -24.2, 0.5);
        near(at(250.0), -48.2, 0.5);
        assert!(at(30.0) < -80.0);
    }

    #[test]
    fn a_band_passes() {
        let at = |hertz| response(Pass::band(RATE, 2000.0, 5.0), hertz);
        near(at(2000.0), 0.0, 0.05);
        near(at(1810.0), -3.0, 0.2);
        near(at(2210.0), -3.0, 0.2);
        near(at(1000.0), -17.5, 0.5);
        near(at(4000.0), -17.8, 0.7);
    }

    #[test]
    fn silence_becomes_silence_and_channels_stay_apart() {
        for mut filter in [
            Pass::low(RATE, 40.0),
            Pass::high(RATE, 20.0),
            Pass::band(RATE, 22_000.0, 10.0),
        ] {
            for n in 0..1000i16 {
                assert_eq!(
                    filter.next([if n % 2 == 0 { i16::MAX } else { i16::MIN }, 0])[1],
                    0
                );
            }
            for _ in 0..2 * RATE {
                filter.next([0, 0]);
            }
            assert_eq!(filter.next([0, 0]), [0, 0]);
        }
    }
}
