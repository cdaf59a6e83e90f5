//! The automatic drummer: adds drum beats to music, on its beat (dissertation, section 6.3.2).
//!
//! *Interface*: [`Drummer`] is a [`Filter`]; [`Patterns`] say what it plays. It plays from when the rhythm
//! tracker is locked to the beat; the stream itself passes at once.

use crate::analysis::tracker::{PARTS, Part, Tracker};
use crate::filters::Filter;
use crate::frame::{Frame, added};
use crate::sources::drums::{Drum, FULL, Kit};

/// Beats of a pattern.
const BEATS: u64 = 4;

/// The part of each drum: a stroke or none for each part of four beats, again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patterns([Vec<bool>; 3]);

impl Patterns {
    /// Patterns of `x` and `.` for kick, snare and hi-hat, in each 1 to 16 of them; `Err` has the one that is
    /// not.
    ///
    /// # Errors
    /// The pattern that has other letters, or is empty or too long.
    pub fn new(texts: [&str; 3]) -> Result<Self, String> {
        let mut patterns = Vec::new();
        for text in texts {
            let strokes: Option<Vec<bool>> = text
                .chars()
                .map(|letter| match letter {
                    'x' => Some(true),
                    '.' => Some(false),
                    _ => None,
                })
                .collect();
            let fits =
                |strokes: &Vec<bool>| (1..=(BEATS * PARTS) as usize).contains(&strokes.len());
            patterns.push(strokes.filter(fits).ok_or(text)?);
        }
        Ok(Self(patterns.try_into().map_err(|_| "")?))
    }

    fn plays(&self, drum: Drum, part: Part) -> bool {
        let pattern = &self.0[drum as usize];
        let step = (part.beat % BEATS * PARTS + part.number) as usize;
        pattern[step % pattern.len()]
    }
}

/// Plays along.
pub struct Drummer {
    tracker: Tracker,
    kit: Kit,
    patterns: Patterns,
    loud: i32,
}

impl Drummer {
    /// A drummer who plays these patterns at a part of the full loudness, in percent.
    pub fn new(rate: u32, tracker: Tracker, patterns: Patterns, percent: f64) -> Self {
        Self {
            tracker,
            kit: Kit::new(rate),
            patterns,
            loud: (f64::from(FULL) * percent / 100.0) as i32,
        }
    }
}

impl Filter for Drummer {
    fn next(&mut self, frame: Frame) -> Frame {
        if let Some(part) = self.tracker.next(frame) {
            for drum in Drum::ALL {
                if self.patterns.plays(drum, part) {
                    self.kit.strike(drum, self.loud);
                }
            }
        }
        added(frame, [self.kit.sample(); 2])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::onsets::Onsets;
    use crate::frame::RATE;
    use crate::sources::rhythm::{Rhythm, Score};

    fn drummer(patterns: [&str; 3]) -> Drummer {
        let patterns = Patterns::new(patterns).unwrap();
        Drummer::new(RATE, Tracker::new(RATE, 60.0, 180.0), patterns, 100.0)
    }

    /// The onsets that the drummer adds, in frames, and the beats of the music.
    fn played(patterns: [&str; 3], score: Score, seconds: u32) -> (Vec<u64>, Vec<u64>) {
        let mut drummer = drummer(patterns);
        let mut rhythm = Rhythm::new(RATE, score);
        let mut onsets = Onsets::new();
        let mut found = Vec::new();
        for _ in 0..seconds * RATE {
            let frame = rhythm.frame().map(|x| x / 2);
            let with = drummer.next(frame);
            let drums = i32::from(with[0]) - i32::from(frame[0]);
            found.extend(onsets.next(drums).and_then(|(_, onset)| Some(onset?.at)));
        }
        (found, rhythm.beats().to_vec())
    }

    #[test]
    fn drums_are_on_the_beat_to_two_milliseconds() {
        for (seed, tempo) in [(1, 84.0), (2, 100.0), (3, 120.0), (4, 143.0)] {
            let score = Score {
                noise: 2.0,
                seed,
                ..Score::steady(tempo)
            };
            let (drums, beats) = played(["x...", ".", "."], score, 20);
            let late = drums.iter().filter(|at| **at > 6 * u64::from(RATE));
            let mut count = 0;
            for at in late {
                let off = beats.iter().map(|beat| beat.abs_diff(*at)).min().unwrap();
                assert!(off <= 88, "{tempo}: {off} frames off");
                count += 1;
            }
            let expected = (14.0 * tempo / 60.0) as usize;
            assert!(expected.abs_diff(count) <= 1, "{tempo}: {count}");
        }
    }

    #[test]
    fn the_interval_is_subdivided() {
        let (drums, beats) = played([".", ".", "..x."], Score::steady(110.0), 12);
        let late: Vec<_> = drums
            .iter()
            .filter(|at| **at > 6 * u64::from(RATE))
            .collect();
        assert!(late.len() >= 10);
        let half = (beats[1] - beats[0]) / 2;
        for at in late {
            let off = beats.iter().map(|beat| (beat + half).abs_diff(*at)).min();
            assert!(off.unwrap() <= 132, "{off:?}");
        }
    }

    #[test]
    fn patterns_are_checked() {
        for bad in ["", "xo", "x...x...x...x...x"] {
            assert_eq!(Patterns::new(["x", bad, "."]), Err(bad.to_owned()));
        }
        let patterns = Patterns::new(["x.......", "....x...", "x"]).unwrap();
        let at = |beat, number| Part { number, beat };
        assert!(patterns.plays(Drum::Kick, at(2, 0)) && !patterns.plays(Drum::Kick, at(1, 0)));
        assert!(patterns.plays(Drum::Snare, at(3, 0)) && !patterns.plays(Drum::Snare, at(3, 1)));
        assert!(patterns.plays(Drum::Hat, at(9, 3)));
    }

    #[test]
    fn without_a_beat_the_stream_passes_unchanged() {
        let mut drummer = drummer(["x", "x", "x"]);
        assert!((0..10_000).all(|n| drummer.next([n, -n]) == [n, -n]));
    }
}
