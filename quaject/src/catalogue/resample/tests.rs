//! The routine against its reference implementation, and the filter's quality.

use super::format::{Frame, MOST_CHANNELS, Sample};
use super::reference::{self, Reference};
use super::{HIGHEST, MOST_STEER, Moved, Resampler, Spec, law};
use crate::catalogue::testing::Random;
use crate::kit::class::{Ref, create};
use core::f64::consts::PI;

const RATES: [u32; 7] = [8000, 11_025, 22_050, 32_000, 44_100, 48_000, 96_000];

fn made(spec: Spec) -> Ref<Resampler> {
    codegen::host::link();
    create::<Resampler>(spec).unwrap()
}

fn rates(from_rate: u32, to_rate: u32) -> Spec {
    Spec {
        from: Frame::CARD,
        to: Frame::CARD,
        from_rate,
        to_rate,
        steered: false,
    }
}

fn any_frame(random: &mut Random) -> Frame {
    Frame {
        sample: Sample::ALL[random.below(13) as usize],
        channels: 1 + random.below(u64::from(MOST_CHANNELS)) as u8,
    }
}

fn frames(values: impl IntoIterator<Item = [i16; 2]>) -> Vec<u8> {
    let bytes = |[left, right]: [i16; 2]| [left.to_le_bytes(), right.to_le_bytes()].concat();
    values.into_iter().flat_map(bytes).collect()
}

fn left(bytes: &[u8]) -> Vec<f64> {
    let one = |b: &[u8]| f64::from(i16::from_le_bytes([b[0], b[1]]));
    bytes.chunks_exact(4).map(one).collect()
}

/// All that comes of `source`.
fn all(of: &Resampler, source: &[u8]) -> Vec<u8> {
    let (mut at, mut out, mut piece) = (0, Vec::new(), [0; 4096]);
    loop {
        let Moved { used, made } = of.convert(&source[at..], &mut piece);
        at += used * of.spec().from.bytes();
        out.extend(&piece[..made * of.spec().to.bytes()]);
        if made == 0 {
            assert_eq!(at, source.len());
            return out;
        }
    }
}

#[test]
fn the_routine_does_what_its_twin_does_wherever_a_stream_is_cut() {
    let mut random = Random::new(3);
    for round in 0..150 {
        let from_rate = RATES[random.below(7) as usize] + random.below(3) as u32;
        let to_rate = match random.below(3) {
            0 => from_rate,
            _ => RATES[random.below(7) as usize],
        };
        let spec = Spec {
            from: any_frame(&mut random),
            to: any_frame(&mut random),
            from_rate,
            to_rate,
            steered: random.below(2) == 0,
        };
        let (routine, mut plain) = (made(spec), Reference::new(spec));
        for _ in 0..30 {
            let len = random.below(700) as usize;
            let source = match random.below(3) {
                0 => vec![[0, 0x7f, 0x80, 0xff][random.below(4) as usize]; len],
                _ => random.bytes(len),
            };
            let room = random.below(900) as usize;
            let (mut ours, mut twins) = (vec![0xa5; room], vec![0xa5; room]);
            let moved = routine.convert(&source, &mut ours);
            assert_eq!(
                moved,
                plain.convert(&source, &mut twins),
                "{round}: {spec:?}"
            );
            assert_eq!(ours, twins, "{round}: {spec:?}");
            if spec.steered && random.below(3) == 0 {
                routine.steer(random.below(2000) as i32 - 1000);
                plain.step = routine
                    .words()
                    .step
                    .load(core::sync::atomic::Ordering::Relaxed);
            }
        }
    }
}

#[test]
fn impossible_ones_are_not_made() {
    let good = rates(8000, 44_100);
    let odd = |channels| Frame {
        sample: Sample::U8,
        channels,
    };
    for bad in [
        rates(0, 44_100),
        rates(44_100, 0),
        rates(HIGHEST + 1, 44_100),
        rates(1, 44_100),
        rates(u32::MAX, u32::MAX),
        Spec {
            from: odd(0),
            ..good
        },
        Spec {
            to: odd(MOST_CHANNELS + 1),
            ..good
        },
    ] {
        assert!(create::<Resampler>(bad).is_err(), "{bad:?}");
    }
}

/// Signal to what is not the signal, in decibels, of a sine of `hertz` that has been converted.
fn quality(from: u32, to: u32, hertz: f64) -> f64 {
    let turn = |n: f64, rate: u32| 2.0 * PI * hertz * n / f64::from(rate);
    let source = (0..from / 4).map(|n| {
        let value = (30_000.0 * turn(f64::from(n), from).sin()).round() as i16;
        [value, -value]
    });
    let resampler = made(rates(from, to));
    let out = left(&all(&resampler, &frames(source)));
    let heard = &out[out.len() / 8..out.len() * 7 / 8];
    // The sine and cosine that are nearest to it, by their normal equations.
    let first = (out.len() / 8) as f64;
    let [mut ss, mut sc, mut cc, mut sv, mut cv] = [0.0; 5];
    for (n, value) in heard.iter().enumerate() {
        let (s, c) = turn(first + n as f64, to).sin_cos();
        (ss, sc, cc) = (ss + s * s, sc + s * c, cc + c * c);
        (sv, cv) = (sv + s * value, cv + c * value);
    }
    let divisor = ss * cc - sc * sc;
    let (sine, cosine) = ((sv * cc - cv * sc) / divisor, (cv * ss - sv * sc) / divisor);
    let (mut signal, mut noise) = (0.0, 0.0);
    for (n, value) in heard.iter().enumerate() {
        let angle = turn(first + n as f64, to);
        let wanted = sine * angle.sin() + cosine * angle.cos();
        signal += wanted * wanted;
        noise += (value - wanted) * (value - wanted);
    }
    10.0 * (signal / noise).log10()
}

#[test]
fn a_sine_stays_a_sine() {
    let mut worst = f64::MAX;
    for from in RATES {
        for to in RATES {
            for hertz in [200.0, 1000.0, 0.3 * f64::from(from.min(to) / 800 * 800)] {
                let quality = quality(from, to, hertz);
                println!("{from:>6} to {to:>6}, {hertz:>6} Hz: {quality:.1} dB");
                worst = worst.min(quality);
            }
        }
    }
    assert!(worst > 80.0, "{worst:.1} dB");
}

#[test]
fn a_constant_stays_what_it_is() {
    for from in RATES {
        for to in RATES {
            for value in [[0, 0], [1, -1], [12_345, -32_768], [32_767, 32_767]] {
                let out = all(&made(rates(from, to)), &frames(vec![value; 4000]));
                let settled = &out[out.len() / 16 * 4..];
                assert!(
                    frames([value; 1])
                        .iter()
                        .cycle()
                        .zip(settled)
                        .all(|(a, b)| a == b)
                );
            }
        }
    }
}

#[test]
fn an_impulse_is_heard_once_at_its_time_and_evenly() {
    for (from, to) in [(11_025, 44_100), (22_050, 44_100), (44_100, 48_000)] {
        let at = 400;
        let source = (0..1000).map(|n| if n == at { [20_000, 0] } else { [0, 0] });
        let out = left(&all(&made(rates(from, to)), &frames(source)));
        let place = at as f64 * f64::from(to) / f64::from(from);
        let largest = (0..out.len())
            .max_by(|a, b| out[*a].total_cmp(&out[*b]))
            .unwrap();
        assert!(
            (largest as f64 - place).abs() < 1.0,
            "{largest} for {place}"
        );
        let sum: f64 = out.iter().sum();
        let wanted = 20_000.0 * f64::from(to) / f64::from(from);
        assert!((sum / wanted - 1.0).abs() < 0.001, "{sum} for {wanted}");
        if place.fract() == 0.0 {
            let sides = (1..60).map(|n| (out[largest - n], out[largest + n]));
            assert!(
                sides.clone().all(|(a, b)| (a - b).abs() <= 1.0),
                "{sides:?}"
            );
        }
    }
}

#[test]
fn nothing_is_lost_in_ten_million_frames() {
    for (from, to) in [
        (48_000, 44_100),
        (44_100, 48_000),
        (8000, 44_100),
        (44_101, 44_100),
    ] {
        let resampler = made(rates(from, to));
        let source = vec![0; 4 * 1000];
        let mut into = vec![0; 4 * 8000];
        let (mut used, mut made) = (0u64, 0u64);
        while used < 10_000_000 {
            let moved = resampler.convert(&source, &mut into);
            used += moved.used as u64;
            made += moved.made as u64;
        }
        let heard = used - resampler.behind() as u64;
        let wanted = (heard * u64::from(to)).div_ceil(u64::from(from));
        assert!(
            made.abs_diff(wanted) <= 1,
            "{from} to {to}: {made}, not {wanted}"
        );
    }
}

#[test]
fn it_is_steered_by_parts_in_a_million() {
    for parts in [-5000, -100, 100, 5000, MOST_STEER + 1] {
        let resampler = made(Spec {
            steered: true,
            ..rates(44_100, 44_100)
        });
        resampler.steer(parts);
        let out = all(&resampler, &vec![0; 4 * 1_000_000]);
        let made = (out.len() / 4) as i64;
        let parts = i64::from(parts.min(MOST_STEER));
        let wanted = 1_000_000_000_000 / (1_000_000 + parts);
        assert!((made - wanted).abs() <= 20, "{made} for {wanted}");
    }
}

#[test]
fn a_stream_begins_again_as_it_began() {
    let resampler = made(rates(32_000, 44_100));
    let source = Random::new(5).bytes(4000);
    let first = all(&resampler, &source);
    assert_ne!(all(&resampler, &source), first);
    resampler.begin_again();
    assert_eq!(all(&resampler, &source), first);
}

#[test]
fn logarithmic_samples_are_those_of_the_standard() {
    // The ends of both laws, and the values next to zero.
    let mu = [
        (0x00, -32_124),
        (0x80, 32_124),
        (0xff, 0),
        (0x7f, 0),
        (0xfe, 8),
        (0xf0, 120),
        (0xef, 132),
    ];
    let a = [
        (0x2a, -32_256),
        (0xaa, 32_256),
        (0xd5, 8),
        (0x55, -8),
        (0xd4, 24),
        (0xc5, 264),
    ];
    for (byte, sample) in mu {
        assert_eq!(law::mu_to_sample(byte), sample, "{byte:x}");
    }
    for (byte, sample) in a {
        assert_eq!(law::a_to_sample(byte), sample, "{byte:x}");
    }
    for byte in 0..=u8::MAX {
        // Two bytes of μ-law are zero.
        let again = law::sample_to_mu(law::mu_to_sample(byte));
        assert!(again == byte || byte == 0x7f, "{byte:x}");
        assert_eq!(law::sample_to_a(law::a_to_sample(byte)), byte);
    }
    for sample in i16::MIN..=i16::MAX {
        let near = |back: i16| (i32::from(back) - i32::from(sample)).abs();
        let step = i32::from(sample).abs() / 16 + 16;
        assert!(
            near(law::mu_to_sample(law::sample_to_mu(sample))) <= step.min(700),
            "{sample}"
        );
        assert!(
            near(law::a_to_sample(law::sample_to_a(sample))) <= step.min(600),
            "{sample}"
        );
    }
}

#[test]
fn a_frame_of_several_channels_keeps_its_sides() {
    let frame = |channels| Frame {
        sample: Sample::S16Le,
        channels,
    };
    let heard = |channels: u8, number: u8| {
        let mut bytes = vec![0; frame(channels).bytes()];
        bytes[usize::from(number) * 2..][..2].copy_from_slice(&1000i16.to_le_bytes());
        reference::load(frame(channels), &bytes)
    };
    assert_eq!(heard(1, 0), [1000, 1000]);
    assert_eq!(heard(2, 1), [0, 1000]);
    assert_eq!(heard(3, 2), [500, 500]);
    assert_eq!(heard(4, 2), [500, 0]);
    assert_eq!(heard(4, 3), [0, 500]);
    assert_eq!(heard(6, 2), [500, 500]);
    assert_eq!(heard(6, 3), [0, 0]);
    assert_eq!(heard(6, 4), [500, 0]);
    assert_eq!(heard(6, 5), [0, 500]);
}
