//! Echoes: the output comes back, later and softer, again and again.
//!
//! *Interface*: [`Echoes`] is a [`Filter`]; [`Echoes::set_delay`] moves the echoes while they
//! sound. *y*(*n*) = *x*(*n*) + *g*·*y*(*n* − *d*) in whole numbers. The product is cut off towards zero, so
//! every echo ends.

use super::Filter;
use crate::frame::{Frame, SILENCE, saturated};

/// Fraction bits of the gain.
const FRACTION: u32 = 15;
/// Frames in which one delay becomes another.
const FADE: i32 = 1024;

/// An echo that feeds back.
pub struct Echoes {
    /// The last frames that came out, as a ring.
    line: Vec<Frame>,
    /// Where the next frame goes.
    at: usize,
    delay: usize,
    /// The delay before, and how many frames it still counts.
    before: usize,
    fade: i32,
    gain: i32,
    /// Frames in a row that were silent.
    silent: usize,
}

impl Echoes {
    /// Echoes after `delay` frames, with `percent` of the loudness, below 100. The delay can become `most`.
    pub fn new(delay: usize, most: usize, percent: f64) -> Self {
        let most = most.max(delay).max(1);
        let gain = (percent / 100.0 * f64::from(1 << FRACTION)) as i32;
        Self {
            line: vec![SILENCE; most],
            at: 0,
            delay: delay.max(1),
            before: delay.max(1),
            fade: 0,
            gain: gain.clamp(0, (1 << FRACTION) - 1),
            silent: 0,
        }
    }

    /// Lets echoes come after `delay` frames from now on, at most as many as was said to [`Echoes::new`].
    /// While one change is under way no other begins.
    pub fn set_delay(&mut self, delay: usize) {
        let delay = delay.clamp(1, self.line.len());
        if delay != self.delay && self.fade == 0 {
            self.before = self.delay;
            self.delay = delay;
            self.fade = FADE;
        }
    }

    fn back(&self, delay: usize) -> Frame {
        let size = self.line.len();
        self.line[(self.at + size - delay) % size]
    }
}

impl Filter for Echoes {
    fn next(&mut self, frame: Frame) -> Frame {
        let (new, old) = (self.back(self.delay), self.back(self.before));
        let out = std::array::from_fn(|side| {
            let (new, old) = (i32::from(new[side]), i32::from(old[side]));
            let back = new + (old - new) * self.fade / FADE;
            saturated(i32::from(frame[side]) + back * self.gain / (1 << FRACTION))
        });
        self.fade = (self.fade - 1).max(0);
        self.line[self.at] = out;
        self.at = (self.at + 1) % self.line.len();
        self.silent = if out == SILENCE { self.silent + 1 } else { 0 };
        out
    }

    fn tail(&mut self) -> Option<Frame> {
        (self.silent < self.delay.max(self.before)).then(|| self.next(SILENCE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn echoes_come_exactly_then_and_so_loud() {
        let mut echoes = Echoes::new(10, 10, 50.0);
        let mut out = vec![echoes.next([1000, -1000])];
        out.extend(std::iter::from_fn(|| echoes.tail()));
        for (n, frame) in out.iter().enumerate() {
            let loud = 1000 >> (n / 10).min(15);
            let expected = if n % 10 == 0 { [loud, -loud] } else { SILENCE };
            assert_eq!(*frame, expected, "{n}");
        }
        // 1000 halved ten times is nothing.
        assert_eq!(out.len(), 91 + 10);
    }

    #[test]
    fn the_loudest_input_is_survived() {
        let mut echoes = Echoes::new(3, 3, 100.0);
        for _ in 0..1000 {
            echoes.next([i16::MAX, i16::MIN]);
        }
        assert_eq!(echoes.next([0, 0])[0], 32766);
        assert!(std::iter::from_fn(|| echoes.tail()).count() < 200_000);
    }

    #[test]
    fn a_moved_delay_is_heard_without_a_step() {
        let tone = |n: i32| rounded_tone(n);
        let mut echoes = Echoes::new(1000, 2000, 50.0);
        let mut last = 0;
        for n in 0..20_000 {
            if n == 7000 {
                echoes.set_delay(1700);
            }
            let now = i32::from(echoes.next([tone(n), 0])[0]);
            assert!((now - last).abs() < 300, "{n}");
            last = now;
        }
        // From then on it is exact: an impulse comes back then.
        let mut echoes = Echoes::new(1000, 2000, 50.0);
        echoes.set_delay(1700);
        for _ in 0..5000 {
            echoes.next(SILENCE);
        }
        echoes.next([8000, 0]);
        let back = (1..3000).find(|_| echoes.next(SILENCE) != SILENCE);
        assert_eq!(back, Some(1700));
    }

    fn rounded_tone(n: i32) -> i16 {
        crate::frame::rounded(libm::sin(f64::from(n) * 0.02) * 5000.0)
    }
}
