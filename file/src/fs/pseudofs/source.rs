//! The source of a text, and the piece that one read has made.
//!
//! *Interface.* A [`TextSource`] writes records to a [`TextPiece`] from a position on, which is a number that
//! the source chooses: an address, a process's number, a count. It stops when the piece refuses a record, and
//! is asked again from there. [`whole`] is a source of one record, [`records`] one of a function. An
//! [`TextOut`] takes the bytes of a record; when memory is out it takes no more, and the reading fails with
//! `ENOMEM`.

use abi::errno::{Errno, Result};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use vm::fallible::try_reserve_kept;

/// Makes a text piece by piece. Each record is consistent at one instant; between two records the state may
/// change.
pub trait TextSource: Send + Sync {
    /// Called when the text is opened: refuses, or returns another source for the open file (for example one
    /// that keeps the current state).
    fn open(&self) -> Result<Option<Arc<dyn TextSource>>> {
        Ok(None)
    }

    /// Hands the records from place `from` on to `piece`, in order, until it refuses one. 0 is the start of
    /// the text.
    fn write(&self, from: u64, piece: &mut TextPiece) -> Result<()>;
}

/// A source of one record.
pub fn whole(
    write: impl Fn(&mut TextOut) -> Result<()> + Send + Sync + 'static,
) -> Arc<dyn TextSource> {
    records(move |from, piece| {
        let mut result = Ok(());
        if from == 0 {
            piece.record(1, |out| result = write(out));
        }
        result
    })
}

/// A source whose [`TextSource::write`] is `write`.
pub fn records(
    write: impl Fn(u64, &mut TextPiece) -> Result<()> + Send + Sync + 'static,
) -> Arc<dyn TextSource> {
    struct Records<F>(F);

    impl<F: Fn(u64, &mut TextPiece) -> Result<()> + Send + Sync> TextSource for Records<F> {
        fn write(&self, from: u64, piece: &mut TextPiece) -> Result<()> {
            (self.0)(from, piece)
        }
    }

    Arc::new(Records(write))
}

/// Decimal digits of the greatest number.
const DIGITS: usize = 20;

/// Writes the digits of `number` to the end of `room`, and answers where they begin: behind the first byte.
fn digits(room: &mut [u8; DIGITS + 1], number: u64) -> usize {
    let (mut at, mut left) = (DIGITS, number);
    while left > 9 && at > 1 {
        let tens = left / 10;
        room[at] = b'0' + (left - tens * 10) as u8;
        left = tens;
        at -= 1;
    }
    room[at] = b'0' + left as u8;
    at
}

/// The bytes of records.
#[derive(Default)]
pub struct TextOut {
    bytes: Vec<u8>,
    /// Memory was out; the following bytes are missing.
    short: bool,
}

impl TextOut {
    /// Adds bytes.
    pub fn push_bytes(&mut self, bytes: &[u8]) {
        if self.short || try_reserve_kept(&mut self.bytes, bytes.len()).is_err() {
            self.short = true;
        } else {
            #[expect(clippy::disallowed_methods, reason = "there is room")]
            self.bytes.extend_from_slice(bytes);
        }
    }

    /// Adds a number in decimal digits.
    pub fn decimal(&mut self, number: u64) {
        let mut room = [0; DIGITS + 1];
        let at = digits(&mut room, number);
        self.push_bytes(&room[at..]);
    }

    /// Adds a blank, and a number in decimal digits.
    pub fn spaced(&mut self, number: u64) {
        let mut room = [b' '; DIGITS + 1];
        let at = digits(&mut room, number) - 1;
        self.push_bytes(&room[at..]);
    }

    /// Adds a number in decimal digits, behind a minus if it is below 0.
    pub fn signed(&mut self, number: i64) {
        if number < 0 {
            self.push_bytes(b"-");
        }
        self.decimal(number.unsigned_abs());
    }

    /// Adds a number in decimal digits, with blanks in front to be `width` bytes wide at least.
    pub fn right(&mut self, number: u64, width: usize) {
        let digits = number.checked_ilog10().map_or(1, |log| log as usize + 1);
        self.blanks(width.saturating_sub(digits));
        self.decimal(number);
    }

    /// Adds a number in hexadecimal digits, `least` of them at least (16 at most).
    pub fn hex(&mut self, number: u64, least: usize) {
        const LONGEST: usize = 16;
        let needed = (u64::BITS - number.leading_zeros()).div_ceil(4) as usize;
        let count = needed.max(least).clamp(1, LONGEST);
        let mut digits = [0; LONGEST];
        let mut left = number;
        for digit in digits[..count].iter_mut().rev() {
            *digit = b"0123456789abcdef"[left as usize % 16];
            left /= 16;
        }
        self.push_bytes(&digits[..count]);
    }

    /// Adds so many blanks.
    pub fn blanks(&mut self, count: usize) {
        const BLANKS: [u8; 64] = [b' '; 64];
        let mut left = count;
        while left > 0 {
            let some = left.min(BLANKS.len());
            self.push_bytes(&BLANKS[..some]);
            left -= some;
        }
    }

    /// Adds a name that a user has chosen; of its bytes those in `special` are shown as a backslash and three
    /// octal digits, as Linux does in tables (`seq_escape`).
    pub fn octal(&mut self, name: &[u8], special: &[u8]) {
        let mut left = name;
        while let Some(at) = left.iter().position(|byte| special.contains(byte)) {
            let (before, rest) = left.split_at(at);
            self.push_bytes(before);
            let byte = rest.first().copied().unwrap_or_default();
            let digit = |shift: u32| b'0' + (byte >> shift & 7);
            self.push_bytes(&[b'\\', digit(6), digit(3), digit(0)]);
            left = rest.get(1..).unwrap_or_default();
        }
        self.push_bytes(left);
    }

    /// Adds a name that a user has chosen to a line of `status`: a newline and a backslash are shown as in C.
    pub fn as_in_c(&mut self, name: &[u8]) {
        for part in name.split_inclusive(|byte| matches!(byte, b'\n' | b'\\')) {
            let (plain, escape): (_, &[u8]) = match part {
                [plain @ .., b'\n'] => (plain, b"\\n"),
                [plain @ .., b'\\'] => (plain, b"\\\\"),
                plain => (plain, b""),
            };
            self.push_bytes(plain);
            self.push_bytes(escape);
        }
    }

    /// Adds a name that a user has chosen to a line of `/syn`, with a question mark for each control
    /// character: nothing in it ends the line, or moves a terminal.
    pub fn plain(&mut self, name: &str) {
        for letter in name.chars() {
            self.push(if letter.is_control() { '?' } else { letter });
        }
    }

    /// As [`TextOut::plain`], with blanks behind it to be `width` characters wide at least.
    pub fn plain_column(&mut self, name: &str, width: usize) {
        self.plain(name);
        self.blanks(width.saturating_sub(name.chars().count()));
    }

    /// Memory was out for the next bytes.
    pub fn lack(&mut self) {
        self.short = true;
    }

    /// Adds a string.
    pub fn push_str(&mut self, text: &str) {
        self.push_bytes(text.as_bytes());
    }

    /// Adds a character.
    #[inline]
    pub fn push(&mut self, letter: char) {
        self.push_str(letter.encode_utf8(&mut [0; 4]));
    }

    /// Bytes so far, those of the records before included.
    pub fn written(&self) -> usize {
        self.bytes.len()
    }
}

impl fmt::Write for TextOut {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push_str(text);
        if self.short { Err(fmt::Error) } else { Ok(()) }
    }
}

/// Whole records, as many as a read needs; a longer one if it comes first.
pub struct TextPiece {
    out: TextOut,
    limit: usize,
    next: u64,
}

impl TextPiece {
    /// An empty piece for about `limit` bytes of a text that goes on at place `from`. `ENOMEM`.
    pub fn new(from: u64, limit: usize) -> Result<TextPiece> {
        let mut out = TextOut::default();
        try_reserve_kept(&mut out.bytes, limit)?;
        Ok(TextPiece {
            out,
            limit,
            next: from,
        })
    }

    /// Adds the record that `write` writes; the text goes on at place `next` after it. `false`: no more; if
    /// the record is not in this piece, it will be asked for again.
    pub fn record(&mut self, next: u64, write: impl FnOnce(&mut TextOut)) -> bool {
        let before = self.out.written();
        write(&mut self.out);
        if before > 0 && self.out.written() > self.limit {
            self.out.bytes.truncate(before);
            return false;
        }
        self.next = next;
        self.out.written() < self.limit && !self.out.short
    }

    /// The bytes, and the place where the text goes on. `ENOMEM` when some could not be kept.
    pub fn finish(self) -> Result<(Vec<u8>, u64)> {
        if self.out.short {
            return Err(Errno::ENOMEM);
        }
        Ok((self.out.bytes, self.next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::fmt::Write;

    /// The bytes that `by_hand` adds are those of `formatted`.
    fn same(by_hand: impl FnOnce(&mut TextOut), formatted: fmt::Arguments) {
        let (mut ours, mut theirs) = (TextOut::default(), TextOut::default());
        by_hand(&mut ours);
        theirs.write_fmt(formatted).unwrap();
        assert_eq!(ours.bytes, theirs.bytes);
    }

    #[test]
    fn no_name_ends_its_line() {
        let shown = |write: fn(&mut TextOut)| {
            let mut out = TextOut::default();
            write(&mut out);
            out.bytes
        };
        assert_eq!(
            shown(|out| out.octal(b"a b\n\tc\\\xff", b" \t\n\\")),
            b"a\\040b\\012\\011c\\134\xff"
        );
        assert_eq!(shown(|out| out.octal(b"a b\n", b"\n")), b"a b\\012");
        assert_eq!(shown(|out| out.octal(b"", b"\n")), b"");
        assert_eq!(
            shown(|out| out.as_in_c(b"a\nUid:\t0\\n")),
            b"a\\nUid:\t0\\\\n"
        );
        assert_eq!(shown(|out| out.as_in_c(b"\n")), b"\\n");
        assert_eq!(
            shown(|out| out.plain_column("a\n\u{1b}[2J\u{e9}", 9)),
            "a??[2J\u{e9}  ".as_bytes()
        );
    }

    #[test]
    fn numbers_are_as_the_formatter_writes_them() {
        let powers = (0..20).map(|power| 10u64.pow(power));
        let around = powers.flat_map(|power| [power - 1, power, power + 1]);
        for number in around.chain([0xff, 0xabc_def0, u64::MAX]) {
            same(|out| out.decimal(number), format_args!("{number}"));
            same(|out| out.spaced(number), format_args!(" {number}"));
            same(|out| out.right(number, 8), format_args!("{number:8}"));
            for least in [0, 1, 2, 8, 16] {
                same(
                    |out| out.hex(number, least),
                    format_args!("{number:0least$x}"),
                );
            }
        }
        for number in [i64::MIN, -10, -1, 0, 7, i64::MAX] {
            same(|out| out.signed(number), format_args!("{number}"));
        }
        for count in [0, 1, 63, 64, 65, 130] {
            same(|out| out.blanks(count), format_args!("{:count$}", ""));
        }
    }
}
