//! A drum synthesizer: a kick, a snare and a hi-hat, computed and not recorded.
//!
//! *Interface*: [`Kit::strike`] begins a sound, [`Kit::sample`] gives the sum of those that sound.

use super::tone::Random;
use crate::frame::{rounded, saturated};
use std::f64::consts::PI;

/// The drums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drum {
    /// A falling tone from 160 Hz to 50 Hz.
    Kick,
    /// A short tone and noise.
    Snare,
    /// High noise.
    Hat,
}

impl Drum {
    /// All of them, in the order of [`Kit`]'s sounds.
    pub const ALL: [Drum; 3] = [Drum::Kick, Drum::Snare, Drum::Hat];
}

/// Full loudness of a stroke.
pub const FULL: i32 = 256;

/// Sounds that are under way.
pub struct Kit {
    sounds: [Vec<i16>; 3],
    /// Which drum, how far it is, and how hard it was struck.
    under_way: Vec<(Drum, usize, i32)>,
}

impl Kit {
    /// A kit that is silent.
    pub fn new(rate: u32) -> Self {
        Self {
            sounds: Drum::ALL.map(|drum| sound(rate, drum)),
            under_way: Vec::new(),
        }
    }

    /// Begins a sound with the next sample, so hard: up to [`FULL`].
    pub fn strike(&mut self, drum: Drum, loud: i32) {
        self.under_way.push((drum, 0, loud.clamp(0, FULL)));
    }

    /// The next sample.
    pub fn sample(&mut self) -> i16 {
        let mut sum = 0;
        for (drum, at, loud) in &mut self.under_way {
            let sound = &self.sounds[*drum as usize];
            sum += sound.get(*at).map_or(0, |x| i32::from(*x) * *loud / FULL);
            *at += 1;
        }
        let sounds = &self.sounds;
        self.under_way
            .retain(|(drum, at, _)| *at < sounds[*drum as usize].len());
        saturated(sum)
    }
}

/// One stroke. Its attack is within a millisecond.
fn sound(rate: u32, drum: Drum) -> Vec<i16> {
    let rate = f64::from(rate);
    let mut random = Random::new(drum as u64 + 7);
    let (mut phase, mut last) = (0.0, 0.0);
    let (seconds, decay, loud) = match drum {
        Drum::Kick => (0.30, 0.07, 16_000.0),
        Drum::Snare => (0.20, 0.045, 11_000.0),
        Drum::Hat => (0.08, 0.018, 7_000.0),
    };
    let sample = |n: usize| {
        let time = n as f64 / rate;
        let noise = random.wave();
        let (low, high) = (noise + last, noise - last);
        last = noise;
        let body = match drum {
            Drum::Kick => {
                phase += (50.0 + 110.0 * libm::exp(-time / 0.03)) / rate;
                // A click makes the beginning sharp.
                libm::sin(2.0 * PI * phase) + 0.5 * high * libm::exp(-time / 0.002)
            }
            Drum::Snare => 0.6 * noise + 0.1 * low + 0.4 * libm::sin(2.0 * PI * 190.0 * time),
            Drum::Hat => 0.5 * high,
        };
        rounded(body * loud * libm::exp(-time / decay))
    };
    (0..(seconds * rate) as usize).map(sample).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::RATE;

    #[test]
    fn strokes_are_heard_at_once_and_end() {
        for drum in Drum::ALL {
            let mut kit = Kit::new(RATE);
            assert_eq!(kit.sample(), 0);
            kit.strike(drum, FULL);
            let heard: Vec<i32> = (0..RATE).map(|_| i32::from(kit.sample()).abs()).collect();
            let loudest = *heard.iter().max().unwrap();
            let attack = heard.iter().position(|x| *x > loudest / 4).unwrap();
            assert!(attack < 44, "{drum:?}: {attack}");
            assert!(loudest > 5000, "{drum:?}: {loudest}");
            assert!(heard[RATE as usize / 2..].iter().all(|x| *x == 0));
            assert!(kit.under_way.is_empty());
        }
    }

    #[test]
    fn strokes_add_up_and_are_cut_off() {
        let mut kit = Kit::new(RATE);
        for _ in 0..100 {
            kit.strike(Drum::Snare, FULL / 2);
        }
        let loudest = (0..1000).map(|_| kit.sample()).max();
        assert_eq!(loudest, Some(i16::MAX));
    }
}
