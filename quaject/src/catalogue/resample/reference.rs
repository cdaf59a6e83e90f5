//! The reference implementation of a resampler, in ordinary Rust.
//!
//! *Interface*: as [`Resampler`](super::Resampler), frame by frame.

use super::format::{CUT, Frame, Sample};
use super::law;
use super::table::{BETWEEN, ONE, Table, begin};
use super::{Moved, Spec};

pub struct Reference {
    spec: Spec,
    table: Option<Table>,
    past: Vec<[i64; 2]>,
    phase: u64,
    pub step: u64,
}

fn limit(value: i64) -> i16 {
    value.clamp(-0x8000, 0x7fff) as i16
}

fn sample(of: Sample, b: &[u8]) -> i32 {
    let value = match of {
        Sample::U8 => (i16::from(b[0]) - 128) << 8,
        Sample::S8 => i16::from(b[0] as i8) << 8,
        Sample::S16Le => i16::from_le_bytes([b[0], b[1]]),
        Sample::S16Be => i16::from_be_bytes([b[0], b[1]]),
        Sample::U16Le => (u16::from_le_bytes([b[0], b[1]]) ^ 0x8000) as i16,
        Sample::U16Be => (u16::from_be_bytes([b[0], b[1]]) ^ 0x8000) as i16,
        Sample::S24Packed => (i32::from_le_bytes([0, b[0], b[1], b[2]]) >> 16) as i16,
        Sample::S24Le => (i32::from_le_bytes([b[0], b[1], b[2], b[3]]) << 8 >> 16) as i16,
        Sample::S24Be => (i32::from_be_bytes([b[0], b[1], b[2], b[3]]) << 8 >> 16) as i16,
        Sample::S32Le => (i32::from_le_bytes([b[0], b[1], b[2], b[3]]) >> 16) as i16,
        Sample::S32Be => (i32::from_be_bytes([b[0], b[1], b[2], b[3]]) >> 16) as i16,
        Sample::MuLaw => law::mu_to_sample(b[0]),
        Sample::ALaw => law::a_to_sample(b[0]),
    };
    value.into()
}

pub fn bytes(of: Sample, value: i16) -> Vec<u8> {
    let wide = i32::from(value) << 16;
    let cut = value >> CUT << CUT;
    match of {
        Sample::U8 => vec![((value >> 8) + 128) as u8],
        Sample::S8 => vec![(value >> 8) as u8],
        Sample::S16Le => value.to_le_bytes().to_vec(),
        Sample::S16Be => value.to_be_bytes().to_vec(),
        Sample::U16Le => (value as u16 ^ 0x8000).to_le_bytes().to_vec(),
        Sample::U16Be => (value as u16 ^ 0x8000).to_be_bytes().to_vec(),
        Sample::S24Packed => wide.to_le_bytes()[1..].to_vec(),
        Sample::S24Le => (wide >> 8).to_le_bytes().to_vec(),
        Sample::S24Be => (wide >> 8).to_be_bytes().to_vec(),
        Sample::S32Le => wide.to_le_bytes().to_vec(),
        Sample::S32Be => wide.to_be_bytes().to_vec(),
        Sample::MuLaw => vec![law::sample_to_mu(cut)],
        Sample::ALaw => vec![law::sample_to_a(cut)],
    }
}

pub fn load(frame: Frame, from: &[u8]) -> [i16; 2] {
    let size = frame.sample.bytes();
    let one = |n: u8| sample(frame.sample, &from[usize::from(n) * size..]);
    if frame.channels == 1 {
        return [one(0) as i16; 2];
    }
    let (mut left, mut right) = (one(0), one(1));
    for channel in 2..frame.channels {
        let sides = frame.sides(channel);
        left += if sides.left { one(channel) >> 1 } else { 0 };
        right += if sides.right { one(channel) >> 1 } else { 0 };
    }
    [limit(left.into()), limit(right.into())]
}

pub fn store(frame: Frame, [left, right]: [i16; 2], into: &mut [u8]) {
    let mean = ((i32::from(left) + i32::from(right)) >> 1) as i16;
    let mut all = match frame.channels {
        1 => bytes(frame.sample, mean),
        _ => [bytes(frame.sample, left), bytes(frame.sample, right)].concat(),
    };
    for _ in 2..frame.channels {
        all.extend(bytes(frame.sample, 0));
    }
    into.copy_from_slice(&all);
}

impl Reference {
    pub fn new(spec: Spec) -> Reference {
        let step = super::step(spec).unwrap();
        let needed = spec.from_rate != spec.to_rate || spec.steered;
        let table = needed.then(|| Table::new(step).unwrap());
        let taps = table.as_ref().map_or(0, Table::taps);
        Reference {
            spec,
            past: vec![[0; 2]; taps],
            phase: begin(taps),
            table,
            step,
        }
    }

    fn filtered(&self, table: &Table) -> [i16; 2] {
        let time = self.phase as u32;
        let row = table.row((time >> BETWEEN) as usize);
        let between = i64::from(time & ((1 << BETWEEN) - 1));
        let mut sums = [0i64; 2];
        for (coefficient, frame) in row.iter().zip(&self.past) {
            let more = (i64::from(coefficient.more) * between) >> BETWEEN;
            let factor = i64::from(coefficient.here) + more;
            for (sum, sample) in sums.iter_mut().zip(frame) {
                *sum += factor * sample;
            }
        }
        sums.map(|sum| limit((sum + (1 << (ONE - 1))) >> ONE))
    }

    pub fn convert(&mut self, source: &[u8], into: &mut [u8]) -> Moved {
        let mut frames = source.chunks_exact(self.spec.from.bytes());
        let mut places = into.chunks_exact_mut(self.spec.to.bytes());
        let mut moved = Moved::default();
        let Some(table) = &self.table else {
            for (frame, place) in frames.zip(places) {
                store(self.spec.to, load(self.spec.from, frame), place);
                moved.used += 1;
                moved.made += 1;
            }
            return moved;
        };
        loop {
            while self.phase >> 32 > 0 {
                let Some(frame) = frames.next() else {
                    return moved;
                };
                moved.used += 1;
                self.past.remove(0);
                self.past.push(load(self.spec.from, frame).map(i64::from));
                self.phase -= 1 << 32;
            }
            let Some(place) = places.next() else {
                return moved;
            };
            store(self.spec.to, self.filtered(table), place);
            moved.made += 1;
            self.phase += self.step;
        }
    }
}
