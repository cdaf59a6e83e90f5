//! The correlator: how much a signal is like another, or like itself, some time later.
//!
//! *Interface*: [`correlation`] of two signals for each lag; [`peaks`] finds the lags at which it is largest.
//! Whole numbers: sums are exact.

/// A signal that is the same has this.
pub const SAME: i32 = 1000;

/// For each lag from 0 on, how much `other` is like `one` so many samples before: from -[`SAME`] to [`SAME`].
/// Each lag compares as many samples as `one` has; `other` has `lags` - 1 more. 0 where a signal is silent.
pub fn correlation(one: &[i32], other: &[i32], lags: usize) -> Vec<i32> {
    let power = |signal: &[i32]| -> i64 {
        let square = |x: &i32| i64::from(*x) * i64::from(*x);
        signal.iter().map(square).sum()
    };
    let lags = lags.min((other.len() + 1).saturating_sub(one.len()));
    let own = power(one);
    let at = |lag: usize| {
        let other = &other[lag..lag + one.len()];
        let both = u128::from(own.unsigned_abs()) * u128::from(power(other).unsigned_abs());
        let norm = both.isqrt() as i64;
        let products = one.iter().zip(other);
        let sum: i64 = products.map(|(x, y)| i64::from(*x) * i64::from(*y)).sum();
        if norm == 0 {
            return 0;
        }
        let part = i128::from(sum) * i128::from(SAME) / i128::from(norm);
        part.clamp(-i128::from(SAME), i128::from(SAME)) as i32
    };
    (0..lags).map(at).collect()
}

/// The `most` largest peaks from lag `from` on, the largest first: lag and value.
pub fn peaks(values: &[i32], from: usize, most: usize) -> Vec<(usize, i32)> {
    let mut found: Vec<(usize, i32)> = (from..values.len())
        .filter(|n| {
            let before = n.checked_sub(1).map_or(i32::MIN, |before| values[before]);
            let after = values.get(n + 1).copied().unwrap_or(i32::MIN);
            values[*n] > 0 && values[*n] > before && values[*n] >= after
        })
        .map(|n| (n, values[n]))
        .collect();
    found.sort_by_key(|(lag, value)| (-value, *lag));
    found.truncate(most);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::tone::Random;

    fn noise(seed: u64, count: usize) -> Vec<i32> {
        let mut random = Random::new(seed);
        (0..count)
            .map(|_| (random.wave() * 20_000.0) as i32)
            .collect()
    }

    #[test]
    fn an_echo_is_found() {
        let dry = noise(1, 6000);
        let wet: Vec<i32> = (0..6000)
            .map(|n| dry[n] + n.checked_sub(777).map_or(0, |before| dry[before] / 2))
            .collect();
        let values = correlation(&wet[..4096], &wet, 1024);
        assert_eq!((values.len(), values[0]), (1024, SAME));
        assert_eq!(peaks(&values, 1, 1)[0].0, 777);
        assert!((values[777] - 400).abs() < 50, "{}", values[777]);
    }

    #[test]
    fn a_lag_between_two_signals_is_found_and_strangers_are_not_alike() {
        let one = noise(2, 3000);
        let late: Vec<i32> = [vec![0; 123], one.clone()].concat();
        let found = peaks(&correlation(&one[..2000], &late, 500), 0, 1);
        assert_eq!(found, [(123, SAME)]);
        let stranger = correlation(&one[..2000], &noise(3, 3000), 500);
        assert!(stranger.iter().all(|value| value.abs() < 120));
        let turned: Vec<i32> = one.iter().map(|x| -x).collect();
        assert_eq!(correlation(&one[..2000], &turned, 1), [-SAME]);
    }

    #[test]
    fn silence_and_the_loudest_are_survived() {
        assert_eq!(correlation(&[0; 10], &[0; 12], 9), [0; 3]);
        assert_eq!(correlation(&[5; 10], &[5; 3], 9), [0; 0]);
        let loud = vec![-32_768; 70_000];
        assert_eq!(correlation(&loud[..60_000], &loud, 2), [SAME; 2]);
    }
}
