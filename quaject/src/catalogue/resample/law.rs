//! The logarithmic formats of G.711, as tables.
//!
//! *Interface*: [`Law::decoder`] and [`Law::encoder`] make the table that a format needs, if it needs one.
//!
//! Source: ITU-T G.711.
//!
//! *Unsafe*: filling a near block that nobody shares yet.

use super::format::{CUT, Sample, Where};
use crate::kit::near_memory::NearBlock;
use crate::kit::routine_env::{RoutineError, near};

/// A table, or none.
pub(super) struct Law(Option<NearBlock>);

impl Law {
    /// 256 samples of 16 bits.
    pub fn decoder(of: Sample) -> Result<Law, RoutineError> {
        let decode = match of {
            Sample::MuLaw => mu_to_sample,
            Sample::ALaw => a_to_sample,
            _ => return Ok(Law(None)),
        };
        let block = NearBlock::new(512).ok_or(RoutineError::OutOfMemory)?;
        for byte in 0..=u8::MAX {
            // SAFETY: the block has a place for each, is aligned, and is not shared yet.
            unsafe {
                let place = block.at().cast::<i16>().add(usize::from(byte));
                place.write(decode(byte));
            }
        }
        Ok(Law(Some(block)))
    }

    /// A byte for each value of a sample without its [`CUT`] lowest bits.
    pub fn encoder(of: Sample) -> Result<Law, RoutineError> {
        let encode = match of {
            Sample::MuLaw => sample_to_mu,
            Sample::ALaw => sample_to_a,
            _ => return Ok(Law(None)),
        };
        let count = 1 << (16 - CUT);
        let block = NearBlock::new(count).ok_or(RoutineError::OutOfMemory)?;
        for index in 0..count {
            let sample = ((index << CUT) as u16).cast_signed();
            // SAFETY: as above.
            unsafe { block.at().add(index).write(encode(sample)) };
        }
        Ok(Law(Some(block)))
    }

    pub fn at(&self) -> Result<Where, RoutineError> {
        let block = self.0.as_ref();
        block.map_or(Ok(0), |block| Ok(near(block.at().as_ptr())? as i32))
    }
}

/// Added to the magnitude, so that its highest bit says the segment.
const BIAS: i32 = 0x84;

/// μ-law to a sample.
pub(super) fn mu_to_sample(byte: u8) -> i16 {
    let byte = !byte;
    let value = ((i32::from(byte & 15) << 3) + BIAS) << (byte >> 4 & 7);
    let value = value - BIAS;
    (if byte & 0x80 != 0 { -value } else { value }) as i16
}

/// A sample to μ-law.
pub(super) fn sample_to_mu(sample: i16) -> u8 {
    const MOST: i32 = 32635;
    let value = i32::from(sample).abs().min(MOST) + BIAS;
    let segment = value.ilog2() - 7;
    let mantissa = (value >> (segment + 3)) as u8 & 15;
    let sign = if sample < 0 { 0x80 } else { 0 };
    !(sign | (segment as u8) << 4 | mantissa)
}

/// A-law to a sample.
pub(super) fn a_to_sample(byte: u8) -> i16 {
    let byte = byte ^ 0x55;
    let (segment, mantissa) = (byte >> 4 & 7, i32::from(byte & 15) << 4);
    let value = match segment {
        0 => mantissa + 8,
        _ => (mantissa + 0x108) << (segment - 1),
    };
    (if byte & 0x80 != 0 { value } else { -value }) as i16
}

/// A sample to A-law.
pub(super) fn sample_to_a(sample: i16) -> u8 {
    let (sign, value) = match sample {
        0.. => (0x80, i32::from(sample)),
        _ => (0, -1 - i32::from(sample)),
    };
    let byte = match value >> 8 {
        0 => value >> 4,
        high => {
            let segment = high.ilog2() + 1;
            (segment << 4) as i32 | (value >> (segment + 3)) & 15
        }
    };
    (sign | byte as u8) ^ 0x55
}
