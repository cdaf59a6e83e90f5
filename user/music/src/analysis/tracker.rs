//! The rhythm tracker: follows the beat of music by an interval locked loop (dissertation, section 6.3.2).
//!
//! *Interface*: [`Tracker::next`] takes a frame and says whether a part of a beat begins with it;
//! [`Tracker::interval_ns`] is the beat's interval.
//!
//! The correlator ([`tempo`](super::tempo)) finds the period of what sounds begin. It chooses an onset from
//! which others lie at that period, and [`feedback::Ill`] locks to it. From then on the onsets that are near
//! an expected beat are the loop's reference; the loop subdivides the interval between them and says when the
//! next part of a beat is due. Onsets elsewhere, and beats without an onset, change nothing. When the
//! correlator finds another period for some time, or no onset is where a beat should be, the loop is locked
//! anew.

use super::onsets::{HOP, Onset, Onsets};
use super::tempo::Tempo;
use crate::frame::{Frame, mono};
use feedback::Ill;
use std::collections::VecDeque;

/// Parts of a beat.
pub const PARTS: u64 = 4;

/// Hops between two looks at the correlator: about a quarter of a second at 44,100 Hz.
const LOOK: u64 = 172;
/// Onsets that are remembered.
const ONSETS: usize = 64;
/// An onset is a beat within this part of the interval around the expected time.
const NEAR: u64 = 10;
/// Beats back that a place is judged by.
const BACK: u64 = 6;
/// Beats without an onset after which the loop is not locked any more.
const MISSED: u32 = 6;
/// Looks at which another period, or another place, was found.
const DOUBTS: u32 = 3;

/// A part of a beat that begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its number in the beat; the beat itself is 0.
    pub number: u64,
    /// The number of the beat since the loop was locked.
    pub beat: u64,
}

/// The loop while it is locked.
struct Lock {
    ill: Ill,
    /// The reference's last time in nanoseconds.
    last: u64,
    /// The frame in which the next part begins, and which that is.
    due: u64,
    part: u64,
    /// Beats that have begun, and the frame of the last.
    beats: u64,
    beat_at: u64,
    /// The mean rise of the onsets that were beats.
    rise: i32,
    missed: u32,
    doubts: u32,
}

/// Follows a beat.
pub struct Tracker {
    rate: u64,
    onsets: Onsets,
    tempo: Tempo,
    recent: VecDeque<Onset>,
    /// Frames that have been heard.
    heard: u64,
    lock: Option<Lock>,
}

impl Tracker {
    /// Looks for `low` to `high` beats per minute.
    pub fn new(rate: u32, low: f64, high: f64) -> Self {
        Self {
            rate: rate.into(),
            onsets: Onsets::new(),
            tempo: Tempo::new(rate, low, high),
            recent: VecDeque::new(),
            heard: 0,
            lock: None,
        }
    }

    /// Takes a frame: the part of a beat that begins with it.
    pub fn next(&mut self, frame: Frame) -> Option<Part> {
        if let Some((rise, onset)) = self.onsets.next(mono(frame)) {
            self.tempo.next(rise);
            if let Some(onset) = onset {
                self.recent.push_back(onset);
                if self.recent.len() > ONSETS {
                    self.recent.pop_front();
                }
                self.hear(onset);
            }
            if (self.heard / HOP as u64).is_multiple_of(LOOK) {
                self.look();
            }
        }
        let part = self.begin();
        self.heard += 1;
        part
    }

    /// The beat's interval in nanoseconds, when the loop is locked.
    pub fn interval_ns(&self) -> Option<u64> {
        self.lock.as_ref()?.ill.interval_ns()
    }

    fn ns(&self, frame: u64) -> u64 {
        (u128::from(frame) * 1_000_000_000 / u128::from(self.rate)) as u64
    }

    fn frame(&self, ns: u64) -> u64 {
        let whole = u128::from(ns) * u128::from(self.rate) + 500_000_000;
        (whole / 1_000_000_000) as u64
    }

    /// The part that is due now.
    fn begin(&mut self) -> Option<Part> {
        let lock = self.lock.as_mut()?;
        if self.heard < lock.due {
            return None;
        }
        let number = lock.part;
        if number == 0 {
            lock.beats += 1;
            lock.beat_at = self.heard;
        }
        let beat = lock.beats.saturating_sub(1);
        self.schedule(self.heard);
        Some(Part { number, beat })
    }

    /// Asks the loop for the first part after the frame `after`.
    fn schedule(&mut self, after: u64) {
        let from = self.ns(after);
        let Some(lock) = &self.lock else { return };
        let interval = lock.ill.interval_ns().unwrap_or(1).max(1);
        // A nanosecond is less than a frame: what has begun is not due again.
        let from = from + interval / (PARTS * 8);
        let Some(next) = lock.ill.next(from) else {
            return;
        };
        let parts = (next - lock.last) * PARTS + interval / 2;
        let part = parts / interval % PARTS;
        let due = self.frame(next).max(after + 1);
        if let Some(lock) = &mut self.lock {
            (lock.due, lock.part) = (due, part);
        }
    }

    /// An onset: is it a beat?
    fn hear(&mut self, onset: Onset) {
        let at = self.ns(onset.at);
        let Some(lock) = &mut self.lock else { return };
        let interval = lock.ill.interval_ns().unwrap_or(1).max(1);
        let since = at.saturating_sub(lock.last);
        let beats = (since + interval / 2) / interval;
        let off = since.abs_diff(beats * interval);
        if beats == 0 || off > interval / NEAR || onset.rise < lock.rise / 3 {
            return;
        }
        lock.ill.reference(at);
        lock.last = at;
        lock.missed = 0;
        lock.rise += (onset.rise - lock.rise) / 4;
        let half = u128::from(interval) * u128::from(self.rate) / 2_000_000_000;
        let begun = lock.beat_at + half as u64 > onset.at;
        if begun {
            self.schedule(self.heard);
        } else {
            // It came before it was expected, and is heard late: it is due at once.
            (lock.due, lock.part) = (self.heard, 0);
        }
    }

    /// Looks whether the correlator agrees.
    fn look(&mut self) {
        let Some(period) = self.tempo.period() else {
            self.miss();
            return;
        };
        let Some((place, score)) = self.place(period) else {
            self.miss();
            return;
        };
        let Some(lock) = &self.lock else {
            self.lock(place, period, 0);
            return;
        };
        let own = lock.ill.interval_ns().unwrap_or(1) as f64 * self.rate as f64 / 1e9;
        // A half or a double of the beat is no other beat.
        let other = [0.5, 1.0, 2.0]
            .iter()
            .all(|times| (period / own / times - 1.0).abs() > 0.06);
        // The score of the places where the loop expects beats.
        let last = self.frame(lock.last);
        let same = (period / own - 1.0).abs() < 0.06;
        let wrong = same && self.score(last, own) * 3 < score * 2;
        let beats = lock.beats;
        if let Some(lock) = &mut self.lock {
            lock.doubts = if other || wrong { lock.doubts + 1 } else { 0 };
            if lock.doubts >= DOUBTS {
                self.lock(place, period, beats);
                return;
            }
        }
        self.miss();
    }

    /// Counts beats without an onset.
    fn miss(&mut self) {
        let now = self.ns(self.heard);
        if let Some(lock) = &mut self.lock {
            let interval = lock.ill.interval_ns().unwrap_or(1).max(1);
            let missed = (now.saturating_sub(lock.last) / interval) as u32;
            if missed > lock.missed {
                // A softer passage counts, too.
                lock.rise -= lock.rise / 8;
                lock.missed = missed;
            }
            if missed > MISSED {
                self.lock = None;
            }
        }
    }

    /// Locks the loop to beats that lie `period` frames apart, one of them at `place`.
    fn lock(&mut self, place: Onset, period: f64, beats: u64) {
        let (at, interval) = (self.ns(place.at), (period / self.rate as f64 * 1e9) as u64);
        let mut ill = Ill::new(PARTS as u32);
        ill.reference(at.saturating_sub(interval));
        ill.reference(at);
        self.lock = Some(Lock {
            ill,
            last: at,
            due: 0,
            part: 0,
            beats,
            beat_at: place.at,
            rise: place.rise,
            missed: 0,
            doubts: 0,
        });
        self.schedule(self.heard);
    }

    /// The recent onset that is most probably a beat, and its score.
    fn place(&self, period: f64) -> Option<(Onset, i64)> {
        let newest = self.recent.back()?.at;
        let recent = self.recent.iter().rev();
        recent
            .take_while(|onset| ((newest - onset.at) as f64) < period * 1.1)
            .map(|onset| (*onset, self.score(onset.at, period)))
            .max_by_key(|(_, score)| *score)
    }

    /// How strong the onsets are at `at` and whole periods before.
    fn score(&self, at: u64, period: f64) -> i64 {
        let near = period / 16.0;
        let at_beat = |back: u64| {
            let expected = at as f64 - period * back as f64;
            let here = self.recent.iter().filter(|onset| {
                let off = onset.at as f64 - expected;
                off > -near && off < near
            });
            here.map(|onset| i64::from(onset.rise)).max().unwrap_or(0)
        };
        (0..BACK).map(at_beat).sum()
    }
}

#[cfg(test)]
#[path = "tracker_tests.rs"]
mod tests;
