//! Reverberation: combs side by side, then all-pass filters in a row.
//!
//! *Interface*: [`Reverb`] is a [`Filter`].
//!
//! Source: M. R. Schroeder, *Natural sounding artificial reverberation* (1962); J. A. Moorer's low-pass in
//! each comb; the lengths are those of Jezar's *Freeverb*.

use super::Filter;
use crate::frame::{Frame, RATE, SILENCE, rounded};

/// Lengths in frames at 44,100 Hz.
const COMBS: [u32; 8] = [1116, 1188, 1277, 1356, 1422, 1491, 1557, 1617];
const ALL_PASSES: [u32; 4] = [556, 441, 341, 225];
/// How much longer they are for the right channel.
const SPREAD: u32 = 23;
/// The input of the combs, so that their sum is about as loud as the input.
const INPUT: f64 = 0.03;
const ALL_PASS: f64 = 0.5;
/// A state that is nearer to zero, in samples, is zero.
const SMALLEST: f64 = 1e-6;
/// Silence for so many frames is the end.
const END: u32 = 4096;

/// A delay line, and the low-pass behind it.
struct Line {
    held: Vec<f64>,
    at: usize,
    low: f64,
}

impl Line {
    fn new(length: u32, rate: u32) -> Self {
        let length = u64::from(length) * u64::from(rate) / u64::from(RATE);
        Self {
            held: vec![0.0; (length as usize).max(1)],
            at: 0,
            low: 0.0,
        }
    }

    fn put(&mut self, value: f64) {
        self.held[self.at] = if value.abs() < SMALLEST { 0.0 } else { value };
        self.at = (self.at + 1) % self.held.len();
    }

    fn comb(&mut self, input: f64, feedback: f64, damping: f64) -> f64 {
        let out = self.held[self.at];
        self.low = out * (1.0 - damping) + self.low * damping;
        if self.low.abs() < SMALLEST {
            self.low = 0.0;
        }
        self.put(input + self.low * feedback);
        out
    }

    fn all_pass(&mut self, input: f64) -> f64 {
        let out = self.held[self.at];
        self.put(input + out * ALL_PASS);
        out - input
    }
}

/// A room around a stream.
pub struct Reverb {
    combs: [Vec<Line>; 2],
    all_passes: [Vec<Line>; 2],
    feedback: f64,
    damping: f64,
    wet: f64,
    silent: u32,
}

impl Reverb {
    /// A room of this size, whose walls swallow so much of the high frequencies, and its part in the output;
    /// all in percent.
    pub fn new(rate: u32, room: f64, damping: f64, wet: f64) -> Self {
        let lines = |lengths: &[u32]| {
            [0, SPREAD].map(|more| {
                let line = |length: &u32| Line::new(length + more, rate);
                lengths.iter().map(line).collect::<Vec<_>>()
            })
        };
        Self {
            combs: lines(&COMBS),
            all_passes: lines(&ALL_PASSES),
            // Below 1 for every room: the sound gets less with each turn.
            feedback: 0.7 + 0.28 * (room / 100.0).clamp(0.0, 1.0),
            damping: 0.4 * (damping / 100.0).clamp(0.0, 1.0),
            wet: (wet / 100.0).clamp(0.0, 1.0),
            silent: 0,
        }
    }
}

impl Filter for Reverb {
    fn next(&mut self, frame: Frame) -> Frame {
        let input = (f64::from(frame[0]) + f64::from(frame[1])) * INPUT;
        let out = std::array::from_fn(|side| {
            let mut sum = 0.0;
            for line in &mut self.combs[side] {
                sum += line.comb(input, self.feedback, self.damping);
            }
            for line in &mut self.all_passes[side] {
                sum = line.all_pass(sum);
            }
            rounded(f64::from(frame[side]) * (1.0 - self.wet) + sum * self.wet)
        });
        self.silent = if out == SILENCE { self.silent + 1 } else { 0 };
        out
    }

    fn tail(&mut self) -> Option<Frame> {
        (self.silent < END).then(|| self.next(SILENCE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_stable_and_ends() {
        for (room, damping) in [(0.0, 0.0), (50.0, 50.0), (100.0, 0.0)] {
            let mut reverb = Reverb::new(RATE, room, damping, 100.0);
            // A square wave as loud as can be.
            for n in 0..RATE {
                let loud = if n / 50 % 2 == 0 { i16::MAX } else { i16::MIN };
                reverb.next([loud, loud]);
            }
            let mut energy = Vec::new();
            let mut all = 0;
            while let Some(frame) = reverb.tail() {
                if all % 4410 == 0 {
                    energy.push(0.0);
                }
                all += 1;
                *energy.last_mut().unwrap() += f64::from(frame[0]) * f64::from(frame[0]);
                assert!(all < 40 * RATE, "it does not end");
            }
            let (first, later) = (energy[0], energy[energy.len() / 2]);
            assert!(later < first / 100.0, "{room}: {first} {later}");
        }
    }

    #[test]
    fn the_dry_part_is_exact_and_the_room_answers_both_ears_differently() {
        let mut reverb = Reverb::new(RATE, 50.0, 50.0, 0.0);
        assert_eq!(reverb.next([1234, -77]), [1234, -77]);
        let mut reverb = Reverb::new(RATE, 50.0, 50.0, 100.0);
        reverb.next([30_000, 30_000]);
        let heard: Vec<Frame> = (0..4000).map(|_| reverb.next(SILENCE)).collect();
        let first = |side: usize| heard.iter().position(|frame| frame[side] != 0).unwrap();
        // The shortest comb and nothing before it.
        assert_eq!((first(0), first(1)), (1115, 1138));
        assert!(heard.iter().any(|frame| frame[0] != frame[1]));
    }
}
