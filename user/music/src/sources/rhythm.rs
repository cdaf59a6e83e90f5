//! Music with a beat: a kick, a snare, hi-hats by chance, a bass and noise.
//!
//! *Interface*: [`Rhythm`] gives a frame at a time; [`Rhythm::beats`] tells where the beats are that it has
//! played. [`Score`] says what it plays.

use super::drums::{Drum, FULL, Kit};
use super::tone::Random;
use crate::frame::{Frame, rounded, saturated};
use std::f64::consts::PI;

/// The music to play.
#[derive(Clone, Copy, Debug)]
pub struct Score {
    /// Beats per minute at first.
    pub tempo: f64,
    /// Beats per minute later.
    pub later: f64,
    /// When the one tempo becomes the other, in seconds.
    pub from: f64,
    /// How long that takes, in seconds.
    pub during: f64,
    /// Loudness of the noise, in percent of the loudest.
    pub noise: f64,
    /// Each stroke comes up to so many seconds early or late.
    pub jitter: f64,
    /// Only a click on each beat.
    pub plain: bool,
    /// Which music of many.
    pub seed: u64,
}

impl Score {
    /// Music of one tempo, without noise.
    pub const fn steady(tempo: f64) -> Self {
        Self {
            tempo,
            later: tempo,
            from: 0.0,
            during: 0.0,
            noise: 0.0,
            jitter: 0.0,
            plain: false,
            seed: 1,
        }
    }

    /// The tempo after so many seconds.
    pub fn at(&self, seconds: f64) -> f64 {
        if seconds < self.from {
            self.tempo
        } else if seconds < self.from + self.during {
            self.tempo + (self.later - self.tempo) * (seconds - self.from) / self.during
        } else {
            self.later
        }
    }
}

/// The steps of a beat.
const STEPS: u32 = 4;
/// Notes of the bass, one for each beat, in hertz.
const BASS: [f64; 4] = [82.4, 82.4, 110.0, 98.0];

/// Music under way.
pub struct Rhythm {
    score: Score,
    rate: f64,
    kit: Kit,
    random: Random,
    noise: Random,
    /// Frames that have been played.
    now: u64,
    /// When the next step is, in frames, and its number.
    step_at: f64,
    step: u32,
    /// Strokes of steps that are to come, with their times.
    strokes: Vec<(u64, Drum, i32)>,
    /// The bass: its phase, its frequency, the age of its note in seconds.
    bass: (f64, f64, f64),
    beats: Vec<u64>,
}

impl Rhythm {
    /// Music that begins with a quarter of a second without a beat.
    pub fn new(rate: u32, score: Score) -> Self {
        Self {
            score,
            rate: f64::from(rate),
            kit: Kit::new(rate),
            random: Random::new(score.seed),
            noise: Random::new(score.seed + 1000),
            now: 0,
            step_at: f64::from(rate) / 4.0,
            step: 0,
            strokes: Vec::new(),
            bass: (0.0, BASS[0], 1.0),
            beats: Vec::new(),
        }
    }

    /// The frames in which beats have begun so far, or will within a fraction of a second.
    pub fn beats(&self) -> &[u64] {
        &self.beats
    }

    /// The next frame.
    pub fn frame(&mut self) -> Frame {
        // Steps are planned a little ahead, for strokes that come early.
        let ahead = self.score.jitter * self.rate + 1.0;
        while self.step_at <= self.now as f64 + ahead {
            self.plan();
            let tempo = self.score.at(self.step_at / self.rate);
            self.step_at += 60.0 / tempo * self.rate / f64::from(STEPS);
            self.step += 1;
        }
        let (now, kit) = (self.now, &mut self.kit);
        self.strokes.retain(|(at, drum, loud)| {
            if *at <= now {
                kit.strike(*drum, *loud);
            }
            *at > now
        });
        if let Some(beat) = self.beats.iter().rposition(|beat| *beat == now) {
            self.bass = (0.0, BASS[beat % BASS.len()], 0.0);
        }
        self.now += 1;
        let drums = f64::from(self.kit.sample());
        let noise = self.score.noise / 100.0 * f64::from(i16::MAX);
        let bass = self.bass();
        std::array::from_fn(|_| rounded(drums + bass + self.noise.wave() * noise))
    }

    /// The strokes of the step at `step_at`.
    fn plan(&mut self) {
        let beat = self.step / STEPS;
        let place = self.step % STEPS;
        let at = libm::round(self.step_at);
        if place == 0 {
            self.beats.push(at as u64);
        }
        if self.score.plain {
            if place == 0 {
                self.strokes.push((at as u64, Drum::Hat, FULL));
            }
            return;
        }
        let (chance, hard) = (self.random.part(), self.random.part());
        let late = at + self.random.wave() * self.score.jitter * self.rate;
        let mut strike = |drum: Drum, least: f64, most: f64| {
            let loud = (least + (most - least) * hard) * f64::from(FULL);
            self.strokes.push((late.max(0.0) as u64, drum, loud as i32));
        };
        match (place, beat % 2) {
            // Now and then a beat is left out.
            (0, _) if chance < 0.04 => {}
            (0, 0) => strike(Drum::Kick, 0.6, 1.0),
            (0, _) => strike(Drum::Snare, 0.6, 1.0),
            (2, _) if chance < 0.85 => strike(Drum::Hat, 0.3, 0.8),
            (1 | 3, _) if chance < 0.2 => strike(Drum::Hat, 0.2, 0.6),
            _ => {}
        }
    }

    fn bass(&mut self) -> f64 {
        if self.score.plain {
            return 0.0;
        }
        let (phase, hertz, age) = &mut self.bass;
        *phase += *hertz / self.rate;
        *age += 1.0 / self.rate;
        let attack = (*age / 0.02).min(1.0);
        let tone = libm::sin(2.0 * PI * *phase) + 0.3 * libm::sin(4.0 * PI * *phase);
        1500.0 * tone * attack * libm::exp(-*age / 0.6)
    }
}

/// The same frame, softer: `percent` of the loudness.
pub fn softer(frame: Frame, percent: f64) -> Frame {
    let gain = (percent / 100.0 * 65_536.0) as i64;
    frame.map(|x| saturated((i64::from(x) * gain / 65_536) as i32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::RATE;

    #[test]
    fn beats_come_at_their_tempo() {
        let mut rhythm = Rhythm::new(RATE, Score::steady(120.0));
        for _ in 0..10 * RATE {
            rhythm.frame();
        }
        let beats = rhythm.beats();
        assert_eq!(beats[0], u64::from(RATE) / 4);
        assert!(beats.windows(2).all(|two| two[1] - two[0] == 22_050));
        assert_eq!(beats.len(), 20);
    }

    #[test]
    fn the_tempo_changes_when_it_shall() {
        let score = Score {
            later: 150.0,
            from: 5.0,
            during: 5.0,
            ..Score::steady(100.0)
        };
        assert_eq!(
            [0.0, 5.0, 7.5, 10.0, 99.0].map(|at| score.at(at)),
            [100.0, 100.0, 125.0, 150.0, 150.0]
        );
    }

    #[test]
    fn it_is_the_same_again_and_another_with_another_seed() {
        let play = |seed| {
            let score = Score {
                seed,
                noise: 5.0,
                jitter: 0.003,
                ..Score::steady(97.0)
            };
            let mut rhythm = Rhythm::new(RATE, score);
            (0..RATE).map(|_| rhythm.frame()).collect::<Vec<_>>()
        };
        assert_eq!(play(3), play(3));
        assert_ne!(play(3), play(4));
    }

    #[test]
    fn softer_is_exact() {
        assert_eq!(softer([1000, -1000], 50.0), [500, -500]);
        assert_eq!(softer([i16::MAX, i16::MIN], 100.0), [i16::MAX, i16::MIN]);
    }
}
