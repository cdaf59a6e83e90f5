//! The tempo: the period of onsets, by their autocorrelation.
//!
//! *Interface*: [`Tempo::next`] takes the rise of each hop; [`Tempo::period`] is the period in frames that
//! the last seconds have.
//!
//! Square roots of the rises are correlated: a snare counts nearly as much as a louder kick, which matters
//! more than how soft the strokes between the beats are. Of the periods that fit, that of a half or a double
//! beat fits nearly as well as the beat's. The period that people would tap is preferred a little: 120 beats
//! per minute.

use super::onsets::HOP;
use std::collections::VecDeque;

/// Hops that are one value of the correlation: 6 ms.
const JOINED: usize = 4;
/// Seconds that are looked at.
const WINDOW: u32 = 5;
/// Seconds without which nothing is said.
const ENOUGH: u32 = 3;
/// How sharply the preferred tempo is preferred: octaves.
const OCTAVES: f64 = 1.0;
const PREFERRED: f64 = 120.0;
/// A correlation that is less than so many percent of the power is chance.
const CLEAR: i64 = 25;
/// A period fits as well as its double when it has so many percent of that one's weighed correlation.
const AS_WELL: i64 = 84;

/// Finds the period.
pub struct Tempo {
    /// Frames of a value.
    unit: f64,
    values: VecDeque<i64>,
    most: usize,
    enough: usize,
    /// The value under way.
    sum: i64,
    hops: usize,
    /// Weights in thousandths for lags from `first` on.
    weights: Vec<i64>,
    first: usize,
}

impl Tempo {
    /// For periods of `low` to `high` beats per minute.
    pub fn new(rate: u32, low: f64, high: f64) -> Self {
        let unit = (HOP * JOINED) as f64;
        let of = |tempo: f64| 60.0 / tempo * f64::from(rate) / unit;
        let first = (of(high) as usize).max(2);
        let last = (of(low) as usize + 1).max(first + 1);
        let weight = |lag: usize| {
            let octaves = libm::log2(of(PREFERRED) / lag as f64) / OCTAVES;
            (1000.0 * libm::exp(-0.5 * octaves * octaves)) as i64
        };
        let seconds = |seconds: u32| (f64::from(rate * seconds) / unit) as usize;
        Self {
            unit,
            values: VecDeque::new(),
            // Two of the longest periods at least.
            most: seconds(WINDOW).max(5 * last / 2),
            enough: seconds(ENOUGH).max(3 * last / 2),
            sum: 0,
            hops: 0,
            weights: (first..=last).map(weight).collect(),
            first,
        }
    }

    /// A hop was so much louder than those before.
    pub fn next(&mut self, rise: i32) {
        self.sum += i64::from((rise.max(0) * 16).isqrt());
        self.hops += 1;
        if self.hops == JOINED {
            self.values.push_back(self.sum);
            if self.values.len() > self.most {
                self.values.pop_front();
            }
            (self.sum, self.hops) = (0, 0);
        }
    }

    /// The period in frames, when there is a clear one.
    pub fn period(&self) -> Option<f64> {
        let count = self.values.len();
        if count < self.enough {
            return None;
        }
        // Spread a little, since a period is no whole number of values.
        let at = |n: usize| self.values.get(n).copied().unwrap_or(0);
        let spread: Vec<i64> = (0..count)
            .map(|n| 2 * at(n) + at(n + 1) + n.checked_sub(1).map_or(0, at))
            .collect();
        let mean = spread.iter().sum::<i64>() / count as i64;
        let centred: Vec<i64> = spread.iter().map(|x| x - mean).collect();
        let correlation = |lag: usize| {
            let pairs = centred[lag..].iter().zip(&centred);
            // At most 2^28 each, and some thousands of them.
            let sum: i64 = pairs.map(|(x, y)| x * y).sum();
            sum / (count - lag) as i64
        };
        let power = correlation(0);
        let values: Vec<i64> = (0..self.weights.len())
            .map(|n| correlation(self.first + n))
            .collect();
        let weighed = |n: usize| values[n] * self.weights[n];
        let best = (1..values.len().checked_sub(1)?)
            .filter(|n| values[*n] > values[n - 1] && values[*n] >= values[n + 1])
            .max_by_key(|n| weighed(*n))?;
        if values[best] * 100 < power * CLEAR {
            return None;
        }
        // Of two that fit, the shorter: where strokes lie at half the period, too, those are the beats.
        let half = ((self.first + best) / 2).checked_sub(self.first);
        let half = half.into_iter().flat_map(|half| half.max(2) - 1..half + 3);
        let best = half
            .filter(|n| n + 1 < values.len() && weighed(*n) * 100 >= weighed(best) * AS_WELL)
            .max_by_key(|n| values[*n])
            .filter(|n| values[*n] > values[n - 1] && values[*n] >= values[n + 1])
            .unwrap_or(best);
        // The top of the parabola through the three.
        let [before, here, after] = [best - 1, best, best + 1].map(|n| values[n] as f64);
        let aside = (before - after) / (2.0 * (before - 2.0 * here + after));
        Some(((self.first + best) as f64 + aside) * self.unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::RATE;

    /// The tempo of strokes at these times in frames, with their rises.
    fn tempo(strokes: impl Iterator<Item = (f64, i32)>) -> Option<f64> {
        let mut tempo = Tempo::new(RATE, 60.0, 180.0);
        let mut now = 0;
        for (at, rise) in strokes {
            while now < (at / HOP as f64) as u64 {
                tempo.next(0);
                now += 1;
            }
            tempo.next(rise);
            now += 1;
        }
        Some(60.0 * f64::from(RATE) / tempo.period()?)
    }

    #[test]
    fn the_period_of_strokes_is_found() {
        for expected in [70.0, 80.0, 100.0, 120.0, 133.0, 150.0, 175.0] {
            let step = 60.0 / expected * f64::from(RATE) / 2.0;
            // Between the beats there are softer strokes.
            let strokes = (1..30).map(|n| (step * f64::from(n), if n % 2 == 0 { 900 } else { 90 }));
            let found = tempo(strokes).unwrap();
            assert!((found / expected - 1.0).abs() < 0.01, "{expected}: {found}");
        }
    }

    #[test]
    fn nothing_is_said_of_silence_and_of_chance() {
        assert_eq!(tempo((1..8).map(|n| (f64::from(n * RATE), 0))), None);
        assert_eq!(tempo([(1000.0, 900)].into_iter()), None);
    }
}
