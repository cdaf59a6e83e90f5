//! The speeds of a terminal, as `TCGETS2` and `TCSETS2` tell and set them.
//!
//! *Interface*: [`speeds`] are those that settings mean. No line here has a speed; programs get back what
//! they set.

use abi::linux::{BOTHER, CBAUD, Termios};

/// Bits a second by the codes `B0` to `B38400`, and on from `B57600`.
const TABLE: [u32; 31] = [
    0, 50, 75, 110, 134, 150, 200, 300, 600, 1200, 1800, 2400, 4800, 9600, 19200, 38400, 57600,
    115_200, 230_400, 460_800, 500_000, 576_000, 921_600, 1_000_000, 1_152_000, 1_500_000,
    2_000_000, 2_500_000, 3_000_000, 3_500_000, 4_000_000,
];

/// The bit of the codes behind `B38400`.
const CBAUDEX: u32 = 0o10000;
/// Codes of input stand so many bits higher.
const INPUT: u32 = 16;

/// The speed of `code`, bits a second; none for one that stands beside the settings.
fn coded(code: u32) -> Option<u32> {
    if code == BOTHER {
        return None;
    }
    let index = match code & CBAUDEX {
        0 => code,
        _ => (code & !CBAUDEX) + 15,
    };
    TABLE.get(index as usize).copied()
}

/// The speeds of input and output that `settings` mean, bits a second; `beside` are those that stand beside
/// them.
pub(super) fn speeds(settings: &Termios, beside: [u32; 2]) -> [u32; 2] {
    let output = coded(settings.cflag & CBAUD).unwrap_or(beside[1]);
    let input = match settings.cflag >> INPUT & CBAUD {
        0 => output,
        code => coded(code).unwrap_or(beside[0]),
    };
    [input, output]
}

#[cfg(test)]
mod tests {
    use super::*;
    use abi::linux::{B9600, B115200};

    #[test]
    fn codes_are_speeds_and_others_stand_beside() {
        let of = |cflag| {
            let settings = Termios {
                cflag,
                ..Termios::default()
            };
            speeds(&settings, [1, 2])
        };
        assert_eq!(of(B9600), [9600, 9600]);
        assert_eq!(of(B115200), [115_200, 115_200]);
        assert_eq!(of(B115200 | B9600 << INPUT), [9600, 115_200]);
        assert_eq!(of(BOTHER | BOTHER << INPUT), [1, 2]);
        assert_eq!(of(BOTHER), [2, 2]);
        assert_eq!(of(0o10017), [4_000_000, 4_000_000]);
    }
}
