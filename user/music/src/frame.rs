//! Samples: 16 bits with sign, little-endian, left and right in turn.
//!
//! *Interface*: [`Frame`], [`RATE`]; [`saturated`] and [`rounded`] bring results back into 16 bits, [`mono`]
//! makes one channel of two; [`decode`] and [`encode`] are the form in a stream.

/// A sample of each channel: left, right.
pub type Frame = [i16; 2];

/// Bytes of a frame.
pub const BYTES: usize = 4;

/// Frames in a second, as on a CD.
pub const RATE: u32 = 44_100;

/// Both channels are silent.
pub const SILENCE: Frame = [0, 0];

/// The nearest sample.
pub fn saturated(value: i32) -> i16 {
    value.clamp(i16::MIN.into(), i16::MAX.into()) as i16
}

/// The nearest sample; halves are rounded away from zero.
pub fn rounded(value: f64) -> i16 {
    let half = if value < 0.0 { -0.5 } else { 0.5 };
    // The conversion cuts off the fraction, and what is too large or small.
    (value + half) as i16
}

/// Both frames at once, cut off where they are too loud.
pub fn added(one: Frame, other: Frame) -> Frame {
    std::array::from_fn(|side| one[side].saturating_add(other[side]))
}

/// The mean of both channels.
pub fn mono(frame: Frame) -> i32 {
    (i32::from(frame[0]) + i32::from(frame[1])) / 2
}

/// Appends the frames in `bytes`, whose length is a multiple of [`BYTES`].
pub fn decode(bytes: &[u8], frames: &mut Vec<Frame>) {
    let frame = |four: &[u8]| {
        [
            i16::from_le_bytes([four[0], four[1]]),
            i16::from_le_bytes([four[2], four[3]]),
        ]
    };
    frames.extend(bytes.chunks_exact(BYTES).map(frame));
}

/// Appends the bytes of `frames`.
pub fn encode(frames: &[Frame], bytes: &mut Vec<u8>) {
    for [left, right] in frames {
        bytes.extend(left.to_le_bytes());
        bytes.extend(right.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded() {
        let frames = [[1, -2], [i16::MIN, i16::MAX], [-256, 255]];
        let (mut bytes, mut back) = (Vec::new(), Vec::new());
        encode(&frames, &mut bytes);
        assert_eq!(&bytes[..4], [1, 0, 0xfe, 0xff]);
        decode(&bytes, &mut back);
        assert_eq!(back, frames);
    }

    #[test]
    fn results_are_rounded_and_cut_off() {
        let of = [0.4, 0.5, -0.4, -0.5, 1.49, -1.5, 40_000.0, -40_000.0];
        assert_eq!(of.map(rounded), [0, 1, 0, -1, 1, -2, i16::MAX, i16::MIN]);
        assert_eq!(rounded(f64::NAN), 0);
        assert_eq!([-32_769, 5, 32_768].map(saturated), [i16::MIN, 5, i16::MAX]);
        assert_eq!(added([30_000, -7], [30_000, 9]), [i16::MAX, 2]);
        assert_eq!((mono([10, 20]), mono([i16::MIN; 2])), (15, -32_768));
    }
}
