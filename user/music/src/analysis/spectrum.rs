//! The Fourier transform of a stream, window by window.
//!
//! *Interface*: [`Spectrum::new`] for a size of [`SIZES`]; [`Spectrum::of`] gives the level of each frequency
//! in a window, [`peaks`] the loudest of them.

use std::f64::consts::PI;

/// Frames of a window that can be had.
pub const SIZES: [usize; 5] = [256, 512, 1024, 2048, 4096];

/// The level of what is not there, in decibels.
pub const NOTHING: f64 = -200.0;

/// A transform of one size.
pub struct Spectrum {
    /// Hann's window.
    window: Vec<f32>,
}

impl Spectrum {
    /// A transform of `size` frames; of another size than those of [`SIZES`] there is none.
    pub fn new(size: usize) -> Option<Self> {
        let hann = |n: usize| 0.5 - 0.5 * libm::cos(2.0 * PI * n as f64 / size as f64);
        SIZES.contains(&size).then(|| Self {
            window: (0..size).map(|n| hann(n) as f32).collect(),
        })
    }

    /// Levels in decibels of the loudest tone, for frequencies from 0 in steps of rate / size.
    pub fn of(&self, samples: &[i32]) -> Vec<f64> {
        let windowed = samples.iter().zip(&self.window);
        let mut values: Vec<f32> = windowed.map(|(x, window)| *x as f32 * window).collect();
        // A tone of amplitude A has A·size/4 in its place: half of it for each sign, half for the window.
        let full = f64::from(i16::MAX) * values.len() as f64 / 4.0;
        let level = |re: f32, im: f32| {
            let (re, im) = (f64::from(re) / full, f64::from(im) / full);
            let power = re * re + im * im;
            if power > 0.0 {
                (10.0 * libm::log10(power)).max(NOTHING)
            } else {
                NOTHING
            }
        };
        macro_rules! transform {
            ($($size:literal: $function:ident),*) => {
                match values.len() {
                    $($size => <&mut [f32; $size]>::try_from(&mut values[..])
                        .map(|values| &mut microfft::real::$function(values)[..])
                        .unwrap_or_default(),)*
                    _ => Default::default(),
                }
            };
        }
        let bins = transform!(256: rfft_256, 512: rfft_512, 1024: rfft_1024, 2048: rfft_2048, 4096: rfft_4096);
        let mut levels: Vec<f64> = bins.iter().map(|bin| level(bin.re, bin.im)).collect();
        // The first bin has the highest frequency in its second half.
        if let (Some(first), Some(bin)) = (levels.first_mut(), bins.first()) {
            *first = level(bin.re / 2.0, 0.0);
        }
        levels
    }
}

/// The `most` loudest peaks above `floor`, the loudest first: place in steps, and level. The place is between
/// two steps where the levels beside the peak say so.
pub fn peaks(levels: &[f64], floor: f64, most: usize) -> Vec<(f64, f64)> {
    let mut found: Vec<(f64, f64)> = (1..levels.len().saturating_sub(1))
        .filter(|n| levels[*n] > levels[n - 1] && levels[*n] >= levels[n + 1])
        .filter(|n| levels[*n] >= floor)
        .map(|n| {
            let (before, here, after) = (levels[n - 1], levels[n], levels[n + 1]);
            // The top of the parabola through the three.
            let aside = (before - after) / (2.0 * (before - 2.0 * here + after));
            let top = here - (before - after) * aside / 4.0;
            (n as f64 + aside, top)
        })
        .collect();
    found.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.total_cmp(&other.0)));
    found.truncate(most);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tone(size: usize, steps: f64, loud: f64) -> Vec<i32> {
        let sample = |n: usize| libm::sin(2.0 * PI * steps * n as f64 / size as f64) * loud;
        (0..size).map(|n| libm::round(sample(n)) as i32).collect()
    }

    #[test]
    fn a_tone_is_found_with_its_level() {
        for size in SIZES {
            let spectrum = Spectrum::new(size).unwrap();
            for (steps, within) in [(20.0, 0.01), (20.3, 0.2), (57.5, 0.4)] {
                let levels = spectrum.of(&tone(size, steps, 16_383.5));
                assert_eq!(levels.len(), size / 2);
                let found = peaks(&levels, -60.0, 3);
                assert!(
                    (found[0].0 - steps).abs() < 0.06,
                    "{size} {steps}: {found:?}"
                );
                assert!(
                    (found[0].1 + 6.02).abs() < within,
                    "{size} {steps}: {found:?}"
                );
                assert_eq!(found.len(), 1, "{found:?}");
            }
        }
        assert!(Spectrum::new(1000).is_none());
    }

    #[test]
    fn two_tones_and_silence() {
        let spectrum = Spectrum::new(1024).unwrap();
        let both: Vec<i32> = tone(1024, 50.0, 10_000.0)
            .iter()
            .zip(tone(1024, 100.0, 1000.0))
            .map(|(one, other)| one + other)
            .collect();
        let found = peaks(&spectrum.of(&both), -60.0, 8);
        assert_eq!(found.len(), 2);
        assert!((found[0].1 - found[1].1 - 20.0).abs() < 0.1);
        let silence = spectrum.of(&[0; 1024]);
        assert!(silence.iter().all(|level| *level == NOTHING));
        assert!(peaks(&silence, NOTHING, 8).is_empty());
        // A constant is at 0.
        assert!((spectrum.of(&[i32::from(i16::MAX); 1024])[0] - 0.0).abs() < 0.01);
    }
}
