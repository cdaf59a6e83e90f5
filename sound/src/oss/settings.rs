//! The settings of an open `/dev/dsp`, and their arithmetic. It knows no card and no file.
//!
//! *Interface*: [`Settings`] are changed by the values of `ioctl` ([`Settings::set_rate`] and others say what
//! was set), [`Settings::shape`] is the buffer that follows from them, and [`Scale`] counts frames of the
//! program in those of the card.

use abi::errno::{Errno, Result};
use abi::linux::{
    AFMT_A_LAW, AFMT_MU_LAW, AFMT_QUERY, AFMT_S8, AFMT_S16_BE, AFMT_S16_LE, AFMT_S24_BE,
    AFMT_S24_LE, AFMT_S24_PACKED, AFMT_S32_BE, AFMT_S32_LE, AFMT_U8, AFMT_U16_BE, AFMT_U16_LE,
};
use quaject::resample::{Frame, MOST_CHANNELS, Sample};

/// The numbers of formats.
const FORMATS: [(u32, Sample); 13] = [
    (AFMT_MU_LAW, Sample::MuLaw),
    (AFMT_A_LAW, Sample::ALaw),
    (AFMT_U8, Sample::U8),
    (AFMT_S16_LE, Sample::S16Le),
    (AFMT_S16_BE, Sample::S16Be),
    (AFMT_S8, Sample::S8),
    (AFMT_U16_LE, Sample::U16Le),
    (AFMT_U16_BE, Sample::U16Be),
    (AFMT_S32_LE, Sample::S32Le),
    (AFMT_S32_BE, Sample::S32Be),
    (AFMT_S24_LE, Sample::S24Le),
    (AFMT_S24_BE, Sample::S24Be),
    (AFMT_S24_PACKED, Sample::S24Packed),
];

/// All formats, a bit each.
pub fn formats() -> u32 {
    FORMATS.iter().fold(0, |all, (number, _)| all | number)
}

fn number(sample: Sample) -> u32 {
    let found = FORMATS.iter().find(|(_, other)| *other == sample);
    found.map_or(AFMT_QUERY, |(number, _)| *number)
}

/// The byte of which silence is made, and its place in a sample, in the formats where zero is none.
fn rest(sample: Sample) -> (u8, usize) {
    match sample {
        Sample::U8 | Sample::U16Be => (0x80, 0),
        Sample::U16Le => (0x80, 1),
        Sample::MuLaw => (0xff, 0),
        Sample::ALaw => (0xd5, 0),
        _ => (0, 0),
    }
}

/// Lowest and highest rate.
const RATES: core::ops::RangeInclusive<i32> = 1000..=192_000;
/// The largest buffer, in bytes.
const LARGEST: usize = 64 << 10;
/// The smallest fragment.
const SMALLEST: usize = 16;
/// Fragments of a buffer without wishes.
const USUAL: usize = 4;

/// As many channels as that are refused, and fewer than this are set to the most there can be.
const TOO_MANY: i32 = 129;

/// All that a program has set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Its frames.
    pub frame: Frame,
    /// Frames in a second.
    pub rate: u32,
    /// Fragments: their number at most, and the logarithm of their bytes.
    fragments: Option<(usize, u32)>,
    /// Into so many parts a buffer's part is divided.
    subdivision: Option<usize>,
}

/// A buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleFormat {
    /// Bytes of a fragment: whole frames.
    pub fragment: usize,
    /// Fragments.
    pub count: usize,
}

impl SampleFormat {
    /// Bytes of the buffer.
    pub fn total(self) -> usize {
        self.fragment * self.count
    }
}

impl Settings {
    /// Those of `/dev/dsp` at first.
    pub const DSP: Settings = Settings {
        frame: Frame {
            sample: Sample::U8,
            channels: 1,
        },
        rate: 8000,
        fragments: None,
        subdivision: None,
    };
    /// Those of `/dev/audio`.
    pub const AUDIO: Settings = Settings {
        frame: Frame {
            sample: Sample::MuLaw,
            channels: 1,
        },
        ..Settings::DSP
    };

    /// `SNDCTL_DSP_SPEED`.
    pub fn set_rate(&mut self, rate: i32) -> i32 {
        let rate = rate.clamp(*RATES.start(), *RATES.end());
        self.rate = rate.unsigned_abs();
        rate
    }

    /// `SNDCTL_DSP_CHANNELS`. EINVAL.
    pub fn set_channels(&mut self, channels: i32) -> Result<i32> {
        if channels >= TOO_MANY {
            return Err(Errno::EINVAL);
        }
        let channels = channels.clamp(1, i32::from(MOST_CHANNELS));
        self.frame.channels = channels as u8;
        Ok(channels)
    }

    /// `SNDCTL_DSP_SETFMT`: 8 bits from 0 on for a format that there is not.
    pub fn set_format(&mut self, wanted: i32) -> i32 {
        let wanted = wanted.cast_unsigned();
        if wanted != AFMT_QUERY {
            let found = FORMATS.iter().find(|(number, _)| *number == wanted);
            self.frame.sample = found.map_or(Sample::U8, |(_, sample)| *sample);
        }
        number(self.frame.sample).cast_signed()
    }

    /// `SOUND_PCM_READ_BITS`.
    pub fn bits(&self) -> i32 {
        match self.frame.sample {
            Sample::S24Le | Sample::S24Be => 24,
            sample => sample.bytes() as i32 * 8,
        }
    }

    fn is_shaped(&self) -> bool {
        self.fragments.is_some() || self.subdivision.is_some()
    }

    /// `SNDCTL_DSP_SETFRAGMENT`: the number above 16 bits, the logarithm below. EINVAL for a second one.
    pub fn set_fragments(&mut self, value: i32) -> Result<()> {
        /// From this one on a logarithm is refused.
        const TOO_LARGE: u32 = 25;
        let shift = value.cast_unsigned() & 0xffff;
        let count = (value.cast_unsigned() >> 16) as usize;
        if self.is_shaped() || shift >= TOO_LARGE {
            return Err(Errno::EINVAL);
        }
        self.fragments = Some((count.max(2), shift.max(SMALLEST.ilog2())));
        Ok(())
    }

    /// `SNDCTL_DSP_SUBDIVIDE`: sets it, or says what it is. EINVAL.
    pub fn subdivide(&mut self, value: i32) -> Result<i32> {
        if value == 0 {
            return Ok(self.subdivision.unwrap_or(1) as i32);
        }
        if self.is_shaped() || !matches!(value, 1 | 2 | 4 | 8 | 16) {
            return Err(Errno::EINVAL);
        }
        self.subdivision = Some(value.unsigned_abs() as usize);
        Ok(value)
    }

    /// The buffer of at most `most` bytes.
    pub fn shape(&self, most: usize) -> SampleFormat {
        let frame = self.frame.bytes();
        let most = most.min(LARGEST).max(2 * frame);
        let wanted = match self.fragments {
            Some((_, shift)) => 1 << shift,
            None => {
                let second = frame * self.rate as usize;
                let mut part = 1 << most.ilog2();
                loop {
                    part /= 2;
                    if part <= second {
                        break part / self.subdivision.unwrap_or(USUAL);
                    }
                }
            }
        };
        let bounded = wanted.max(SMALLEST).min(most / 2);
        let fragment = (bounded / frame).max(1) * frame;
        let count = self.fragments.map_or(usize::MAX, |(count, _)| count);
        SampleFormat {
            fragment,
            count: count.min(most / fragment).max(2),
        }
    }

    /// Fills `into` with silence.
    pub fn silence(&self, into: &mut [u8]) {
        let (byte, place) = rest(self.frame.sample);
        into.fill(0);
        for sample in into.chunks_exact_mut(self.frame.sample.bytes()) {
            sample[place] = byte;
        }
    }
}

/// The rates of a program and of a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Frames of the program in a second.
    pub program: u32,
    /// Frames of the card.
    pub card: u32,
}

impl Scale {
    /// Frames of the card that `frames` of the program last, or a few more.
    pub fn to_card(self, frames: u64) -> u64 {
        let product = u128::from(frames) * u128::from(self.card);
        product.div_ceil(u128::from(self.program.max(1))) as u64
    }

    /// Frames of the program that `frames` of the card last at least.
    pub fn to_program(self, frames: u64) -> u64 {
        let product = u128::from(frames) * u128::from(self.program);
        (product / u128::from(self.card.max(1))) as u64
    }
}

/// A count of bytes as programs get it: it begins again behind the largest number.
pub fn counted(bytes: u64) -> i32 {
    (bytes & i32::MAX as u64) as i32
}
