//! Onsets: where sounds begin.
//!
//! *Interface*: [`Onsets::next`] takes a sample; after each [`HOP`] samples it answers how much louder it has
//! become, and whether a sound has begun. A sound is reported some milliseconds after it began, with the
//! sample where that was.
//!
//! Loudness is the mean size of the samples of a hop. A rise is what is above the loudest of the 23 ms
//! before by a quarter, so neither the waves of a low tone, nor a sound that dies away, nor noise are rises.
//! Whole numbers only.

use std::collections::VecDeque;

/// Samples that are looked at together.
pub const HOP: usize = 64;

/// Hops before a rise that it is compared with.
const BEFORE: usize = 16;
/// Hops in which a sound reaches its loudness.
const ATTACK: usize = 8;
/// Hops after an onset in which no other is looked for: about 60 ms.
const REST: usize = 40;
/// Loudness that is silence, in sixteenths of a sample's unit.
const FLOOR: i32 = 16 * 16;

/// A sound that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Onset {
    /// The sample in which it begins, counted from the first.
    pub at: u64,
    /// How much louder it has become.
    pub rise: i32,
}

/// A hop: its loudness and its largest sample.
#[derive(Clone, Copy, Default)]
struct Hop {
    loud: i32,
    peak: i32,
}

/// Listens for onsets.
pub struct Onsets {
    /// Samples that have been heard.
    heard: u64,
    /// The sizes of the last samples, of as many hops as in `hops`.
    sizes: VecDeque<i32>,
    /// The last hops, the newest last.
    hops: VecDeque<Hop>,
    /// The hop under way.
    sum: i32,
    peak: i32,
    /// Hops since a rise that is an onset; `None` when there is none.
    since: Option<usize>,
    rest: usize,
}

impl Default for Onsets {
    fn default() -> Self {
        Self::new()
    }
}

impl Onsets {
    /// Has heard nothing.
    pub fn new() -> Self {
        Self {
            heard: 0,
            sizes: VecDeque::new(),
            hops: VecDeque::new(),
            sum: 0,
            peak: 0,
            since: None,
            rest: BEFORE,
        }
    }

    /// Takes a sample; after each hop: how much louder it has become, and the onset that is certain now.
    pub fn next(&mut self, sample: i32) -> Option<(i32, Option<Onset>)> {
        let size = sample.abs();
        self.heard += 1;
        self.sum += size;
        self.peak = self.peak.max(size);
        self.sizes.push_back(size);
        if !self.heard.is_multiple_of(HOP as u64) {
            return None;
        }
        let loud = self.sum * 16 / HOP as i32;
        let before = self.loudest(BEFORE, |hop| hop.loud);
        self.hops.push_back(Hop {
            loud,
            peak: self.peak,
        });
        if self.hops.len() > BEFORE + ATTACK + 1 {
            self.hops.pop_front();
            self.sizes.drain(..HOP);
        }
        (self.sum, self.peak) = (0, 0);
        let rise = (loud - before).max(0);
        let clear = if rise > FLOOR.max(before / 4) {
            rise
        } else {
            0
        };
        Some((clear, self.onset(rise > FLOOR.max(before / 3))))
    }

    /// The largest of the last `count` hops.
    fn loudest(&self, count: usize, of: impl Fn(&Hop) -> i32) -> i32 {
        self.hops
            .iter()
            .rev()
            .take(count)
            .map(of)
            .max()
            .unwrap_or(0)
    }

    /// A hop has ended, which was a clear rise or not: the onset whose attack is over.
    fn onset(&mut self, risen: bool) -> Option<Onset> {
        self.rest = self.rest.saturating_sub(1);
        match &mut self.since {
            None if risen && self.rest == 0 => self.since = Some(0),
            None => {}
            Some(since) => *since += 1,
        }
        if self.since? < ATTACK {
            return None;
        }
        self.since = None;
        self.rest = REST - ATTACK;
        // The rise is the hop with ATTACK others after it.
        let risen = self.hops.len().checked_sub(ATTACK + 1)?;
        let of = |hops: std::ops::Range<usize>, what: fn(&Hop) -> i32| {
            hops.map(|n| what(&self.hops[n])).max().unwrap_or(0)
        };
        let rise = of(risen..self.hops.len(), |hop| hop.loud) - of(0..risen, |hop| hop.loud);
        // The hop before it has the first of the attack, perhaps.
        let first = risen.saturating_sub(1);
        let (quiet, loudest) = (
            of(0..first.max(1), |hop| hop.peak),
            of(first..self.hops.len(), |hop| hop.peak),
        );
        let enough = quiet + (loudest - quiet).max(0) / 4;
        let from = first * HOP;
        let found = self.sizes.iter().skip(from).position(|size| *size > enough);
        let ahead = found.unwrap_or(HOP) + from;
        let at = self.heard - self.sizes.len() as u64 + ahead as u64;
        (rise > 0).then_some(Onset { at, rise })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::RATE;
    use crate::sources::drums::{Drum, FULL, Kit};
    use crate::sources::tone::Random;

    /// Strokes every `period` samples, in noise: how late each was found at most, and how many were.
    fn strokes(drum: Drum, loud: i32, noise: f64, period: usize) -> (u64, usize, usize) {
        let (mut kit, mut onsets) = (Kit::new(RATE), Onsets::new());
        let mut random = Random::new(5);
        let (mut latest, mut found, mut wrong) = (0, 0, 0);
        for n in 0..20 * period {
            if n % period == period / 2 {
                kit.strike(drum, loud);
            }
            let sample = i32::from(kit.sample()) + (random.wave() * noise) as i32;
            if let Some((_, Some(onset))) = onsets.next(sample) {
                let from = (onset.at + period as u64 / 2) % period as u64;
                let off = from.min(period as u64 - from);
                if off < 441 {
                    found += 1;
                    latest = latest.max(off);
                } else {
                    wrong += 1;
                }
            }
        }
        (latest, found, wrong)
    }

    #[test]
    fn strokes_are_found_to_a_millisecond() {
        for drum in Drum::ALL {
            for (loud, noise) in [(FULL, 0.0), (FULL / 3, 0.0), (FULL, 600.0)] {
                let (latest, found, wrong) = strokes(drum, loud, noise, 20_011);
                assert!(latest <= 44, "{drum:?} {loud} {noise}: {latest}");
                assert_eq!((found, wrong), (20, 0), "{drum:?} {loud} {noise}");
            }
        }
    }

    #[test]
    fn steady_sounds_have_no_onsets() {
        let mut random = Random::new(9);
        let mut onsets = Onsets::new();
        let mut found = 0;
        for n in 0..20 * RATE {
            let low = libm::sin(f64::from(n) * 0.008) * 8000.0;
            let sample = (low + random.wave() * 1000.0) as i32;
            found += usize::from(
                onsets
                    .next(sample)
                    .is_some_and(|(_, onset)| onset.is_some()),
            );
        }
        // The beginning may be one.
        assert!(found <= 1, "{found}");
    }
}
