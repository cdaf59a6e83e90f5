//! Formats: rates and sizes as codecs offer them, and the number of a format.
//!
//! *Interface*: [`Rates`] is what a converter offers for frames of two samples of 16 bits; [`Rates::best`] is
//! the one that is used, [`format`] its number.
//! Source: High Definition Audio Specification 1.0a, sections 3.7.1 and 7.3.4.7.

/// A rate, its bit in what a converter offers, and its part of a format's number: base, multiple and divisor.
const KNOWN: [(u32, u32, u16); 6] = [
    // That of compact discs first: it is this kernel's, wherever a codec can.
    (44_100, 5, 0x4000),
    (48_000, 6, 0x0000),
    (96_000, 8, 0x0800),
    (192_000, 10, 0x1800),
    (88_200, 7, 0x4800),
    (176_400, 9, 0x5800),
];

/// Samples of 16 bits, in what a converter offers; the same in a format's number, with two in a frame.
const BITS_16: u32 = 1 << 17;
const FRAMES: u16 = 1 << 4 | 1;

/// The known rates of a converter: never none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates(u32);

impl Rates {
    /// Those in a converter's answer. None: it has none that is known, or no samples of 16 bits.
    pub fn of(word: u32) -> Option<Rates> {
        let known = KNOWN.iter().fold(0, |bits, (_, bit, _)| bits | 1 << bit);
        (word & BITS_16 != 0 && word & known != 0).then_some(Rates(word & known))
    }

    /// Those that another one has, too.
    pub fn with(self, other: Rates) -> Option<Rates> {
        let both = self.0 & other.0;
        (both != 0).then_some(Rates(both))
    }

    /// The one to be used, in frames in a second.
    pub fn best(self) -> u32 {
        let mut rates = KNOWN.iter().filter(|(_, bit, _)| self.0 & 1 << bit != 0);
        rates.next().map_or(KNOWN[0].0, |(rate, ..)| *rate)
    }
}

/// The number of the format with `rate` frames in a second.
pub fn format(rate: u32) -> Option<u16> {
    let (.., number) = KNOWN.iter().find(|(known, ..)| *known == rate)?;
    Some(number | FRAMES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_of_discs_is_used_where_a_codec_can() {
        let best = |bits: u32| Rates::of(bits | BITS_16).map(Rates::best);
        assert_eq!(best(0x1fc), Some(44_100));
        assert_eq!(best(1 << 6 | 1 << 8 | 1 << 10), Some(48_000));
        assert_eq!(best(1 << 8 | 1 << 10), Some(96_000));
        assert_eq!(best(1 << 10), Some(192_000));
        assert_eq!(best(1 << 7), Some(88_200));
        // 8,000 alone, and no rate at all.
        assert_eq!((best(1), best(0)), (None, None));
        assert_eq!(Rates::of(0x7ff), None, "no samples of 16 bits");
        let [one, other] = [0x60, 0x540].map(|bits| Rates::of(bits | BITS_16).unwrap());
        assert_eq!(one.with(other).unwrap().best(), 48_000);
        assert_eq!(format(44_100), Some(0x4011));
        assert_eq!(format(48_000), Some(0x0011));
        assert_eq!(format(96_000), Some(0x0811));
        assert_eq!(format(192_000), Some(0x1811));
        assert_eq!(format(8_000), None);
    }
}
