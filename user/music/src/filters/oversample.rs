//! The digital interpolation filter: four frames for each (dissertation, section 6.3.3).
//!
//! *Interface*: [`Oversample::next`] gives the four frames for one; [`Oversample::tail`] those that are left
//! after the end. Up to 20 kHz of a stream of 44,100 Hz pass, and the images of the spectrum around 44.1,
//! 88.2 and 132.3 kHz are taken away.
//!
//! The filter is a sinc under a Kaiser window in four phases of [`TAPS`] taps, in whole numbers. The taps of
//! each phase have the same sum, so a constant remains one.

use crate::frame::{Frame, SILENCE, saturated};
use std::f64::consts::PI;

/// Frames out for a frame in.
pub const RATIO: usize = 4;
/// Taps of each phase: over so many frames of the input it reaches.
const TAPS: usize = 64;
/// Fraction bits of a tap.
const FRACTION: u32 = 16;
/// The window's shape: about 80 dB.
const BETA: f64 = 7.857;

/// Interpolates between frames.
pub struct Oversample {
    taps: [[i32; TAPS]; RATIO],
    /// The last frames twice in a row, so that `TAPS` of them always lie together.
    line: Vec<Frame>,
    at: usize,
    /// Frames that are still to come out after the end.
    left: usize,
}

impl Default for Oversample {
    fn default() -> Self {
        Self::new()
    }
}

impl Oversample {
    /// A filter that has heard nothing.
    pub fn new() -> Self {
        Self {
            taps: taps(),
            line: vec![SILENCE; 2 * TAPS],
            at: 0,
            left: TAPS - 1,
        }
    }

    /// The frames that come out as `frame` goes in.
    pub fn next(&mut self, frame: Frame) -> [Frame; RATIO] {
        self.line[self.at] = frame;
        self.line[self.at + TAPS] = frame;
        self.at = (self.at + 1) % TAPS;
        // The oldest first.
        let line = &self.line[self.at..self.at + TAPS];
        self.taps.map(|taps| {
            let mut sums = [1 << (FRACTION - 1); 2];
            for (frame, tap) in line.iter().zip(taps) {
                for (sum, sample) in sums.iter_mut().zip(frame) {
                    *sum += i64::from(*sample) * i64::from(tap);
                }
            }
            sums.map(|sum| saturated((sum >> FRACTION) as i32))
        })
    }

    /// After the end of the input: further frames, while the filter still holds some.
    pub fn tail(&mut self) -> Option<[Frame; RATIO]> {
        self.left = self.left.checked_sub(1)?;
        Some(self.next(SILENCE))
    }
}

/// The taps of each phase, for the oldest frame first.
fn taps() -> [[i32; TAPS]; RATIO] {
    let all = (RATIO * TAPS) as f64;
    let tap = |n: usize| {
        // From the middle, in frames of the output and in halves of the window.
        let from = n as f64 - (all - 1.0) / 2.0;
        let angle = PI * from / RATIO as f64;
        let part = 2.0 * from / all;
        // Half of the input's rate is the middle of the slope.
        libm::sin(angle) / angle * bessel(BETA * libm::sqrt(1.0 - part * part)) / bessel(BETA)
    };
    std::array::from_fn(|phase| {
        let real: [f64; TAPS] = std::array::from_fn(|n| tap(RATIO * (TAPS - 1 - n) + phase));
        let sum: f64 = real.iter().sum();
        let scale = f64::from(1 << FRACTION) / sum;
        let mut whole = real.map(|tap| libm::round(tap * scale) as i32);
        // The largest tap takes the change of the sum by rounding.
        let largest = (0..TAPS).max_by_key(|n| whole[*n]).unwrap_or(0);
        whole[largest] += (1 << FRACTION) - whole.iter().sum::<i32>();
        whole
    })
}

/// The modified Bessel function of order 0.
fn bessel(x: f64) -> f64 {
    let (mut sum, mut term) = (1.0, 1.0);
    for n in 1..60 {
        let step = x / (2.0 * f64::from(n));
        term *= step * step;
        sum += term;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{RATE, rounded};

    /// The loudness of `hertz` in `signal`, sampled at `rate`; whole periods give an exact answer.
    fn level(signal: &[f64], rate: f64, hertz: f64) -> f64 {
        let (mut re, mut im) = (0.0, 0.0);
        for (n, x) in signal.iter().enumerate() {
            let angle = 2.0 * PI * hertz * n as f64 / rate;
            // A Hann window keeps what is elsewhere away.
            let window = 1.0 - libm::cos(2.0 * PI * n as f64 / signal.len() as f64);
            re += x * window * libm::cos(angle);
            im += x * window * libm::sin(angle);
        }
        2.0 * libm::sqrt(re * re + im * im) / signal.len() as f64
    }

    #[test]
    fn tones_pass_and_their_images_do_not() {
        let rate = f64::from(RATE);
        for hertz in [100.0, 1000.0, 7000.0, 15_000.0, 19_000.0, 20_000.0] {
            let mut filter = Oversample::new();
            let mut out = Vec::new();
            for n in 0..12_000 {
                let x = libm::sin(2.0 * PI * hertz * f64::from(n) / rate) * 20_000.0;
                let four = filter.next([rounded(x), 0]);
                out.extend(four.map(|frame| f64::from(frame[0])));
            }
            let out = &out[8000..];
            let passed = level(out, 4.0 * rate, hertz);
            assert!((passed / 20_000.0 - 1.0).abs() < 0.01, "{hertz}: {passed}");
            for image in [
                rate - hertz,
                rate + hertz,
                2.0 * rate - hertz,
                2.0 * rate + hertz,
            ] {
                let heard = level(out, 4.0 * rate, image);
                let decibels = 20.0 * libm::log10(heard.max(1e-9) / passed);
                assert!(decibels < -75.0, "{hertz} at {image}: {decibels}");
            }
        }
    }

    #[test]
    fn a_constant_stays_one_and_all_of_the_input_comes_out() {
        let mut filter = Oversample::new();
        for n in 0..200 {
            let four = filter.next([12_345, i16::MIN]);
            if n >= TAPS {
                assert_eq!(four, [[12_345, i16::MIN]; RATIO]);
            }
        }
        let mut filter = Oversample::new();
        let mut out = filter.next([20_000, 0]).to_vec();
        out.extend(std::iter::from_fn(|| filter.tail()).flatten());
        let sum: i32 = out.iter().map(|frame| i32::from(frame[0])).sum();
        assert!((sum - 80_000).abs() < 300, "{sum}");
        let peak = (0..out.len()).max_by_key(|n| out[*n][0]).unwrap();
        assert!(peak.abs_diff(RATIO * TAPS / 2) <= 1, "{peak}");
    }
}
