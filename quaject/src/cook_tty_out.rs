//! CookTTYout: what a program writes becomes what a terminal shows.
//!
//! *Interface* (table 4.2). Callentry: [`CookTtyOut::write`]. Callout: `raw_write`, given to each call, which
//! takes processed bytes and answers how many it took. [`CookTtyOut::column`] is where the cursor stands.
//! Pure logic: it knows no device and no thread.
//!
//! Source: dissertation, sections 4.1 (table 4.2) and 4.4.2 (filters that map a data format); the
//! translations are those of termios `c_oflag`.

use abi::linux::{OCRNL, OLCUC, ONLCR, ONLRET, ONOCR, OPOST, TABDLY, XTABS};

const TAB: usize = 8;

/// The state of one output editor: only the cursor's column.
#[derive(Debug, Default)]
pub struct CookTtyOut {
    column: usize,
}

/// The longest expansion of one byte, in bytes.
const LONGEST: usize = TAB;

impl CookTtyOut {
    /// An editor whose cursor stands at the left.
    pub const fn new() -> Self {
        CookTtyOut { column: 0 }
    }

    /// Column of the cursor, from 0, as far as bytes alone tell it.
    pub fn column(&self) -> usize {
        self.column
    }

    /// Processes `bytes` under the output flags `oflag` and hands them to `raw_write`, which takes all or nothing
    /// of each piece it is given (at most 8 bytes) unless the piece came from unprocessed output. Returns how many of `bytes` were taken.
    pub fn write(
        &mut self,
        oflag: u32,
        bytes: &[u8],
        mut raw_write: impl FnMut(&[u8]) -> usize,
    ) -> usize {
        if oflag & OPOST == 0 {
            return raw_write(bytes);
        }
        let mut taken = 0;
        while taken < bytes.len() {
            let plain = bytes[taken..]
                .iter()
                .position(|&byte| is_special(oflag, byte))
                .unwrap_or(bytes.len() - taken);
            if plain > 0 {
                let run = &bytes[taken..taken + plain];
                let done = raw_write(run);
                run[..done].iter().for_each(|&byte| self.advance(byte));
                taken += done;
                if done < plain {
                    break;
                }
                continue;
            }
            let mut piece = [0; LONGEST];
            let (length, column) = self.expand(oflag, bytes[taken], &mut piece);
            if length > 0 && raw_write(&piece[..length]) < length {
                break;
            }
            self.column = column;
            taken += 1;
        }
        taken
    }

    fn advance(&mut self, byte: u8) {
        match byte {
            b'\r' => self.column = 0,
            b'\t' => self.column = (self.column / TAB + 1) * TAB,
            8 => self.column = self.column.saturating_sub(1),
            // Continuation bytes of UTF-8 and control bytes do not move the cursor.
            0x80..=0xbf | 0..=0x1f | 0x7f => {}
            _ => self.column += 1,
        }
    }

    /// Expands one special byte; returns the expansion's length and the column after it.
    fn expand(&self, oflag: u32, byte: u8, piece: &mut [u8; LONGEST]) -> (usize, usize) {
        match byte {
            b'\n' if oflag & ONLCR != 0 => {
                piece[..2].copy_from_slice(b"\r\n");
                (2, 0)
            }
            b'\n' => {
                piece[0] = b'\n';
                (1, if oflag & ONLRET != 0 { 0 } else { self.column })
            }
            b'\r' if oflag & ONOCR != 0 && self.column == 0 => (0, 0),
            b'\r' if oflag & OCRNL != 0 => {
                piece[0] = b'\n';
                (1, if oflag & ONLRET != 0 { 0 } else { self.column })
            }
            b'\t' => {
                let width = TAB - self.column % TAB;
                piece[..width].fill(b' ');
                (width, self.column + width)
            }
            lower => {
                piece[0] = lower.to_ascii_uppercase();
                (1, self.column + 1)
            }
        }
    }
}

fn is_special(oflag: u32, byte: u8) -> bool {
    match byte {
        b'\n' => oflag & (ONLCR | ONLRET) != 0,
        b'\r' => oflag & (OCRNL | ONOCR) != 0,
        b'\t' => oflag & TABDLY == XTABS,
        b'a'..=b'z' => oflag & OLCUC != 0,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cook(oflag: u32, text: &[u8]) -> (Vec<u8>, usize) {
        let mut editor = CookTtyOut::new();
        let mut shown = Vec::new();
        let taken = editor.write(oflag, text, |piece| {
            shown.extend_from_slice(piece);
            piece.len()
        });
        assert_eq!(taken, text.len());
        (shown, editor.column())
    }

    #[test]
    fn newlines_gain_carriage_returns() {
        assert_eq!(
            cook(OPOST | ONLCR, b"a\nbc\n"),
            (b"a\r\nbc\r\n".to_vec(), 0)
        );
        assert_eq!(cook(OPOST | ONLCR, "aé".as_bytes()).1, 2);
    }

    #[test]
    fn raw_output_is_untouched() {
        assert_eq!(cook(ONLCR | XTABS, b"\ta\n").0, b"\ta\n");
    }

    #[test]
    fn tabs_expand_to_the_next_stop() {
        assert_eq!(cook(OPOST | XTABS, b"ab\tc").0, b"ab      c");
        assert_eq!(cook(OPOST, b"ab\tc"), (b"ab\tc".to_vec(), 9));
    }

    #[test]
    fn a_refused_piece_is_not_counted() {
        let mut editor = CookTtyOut::new();
        let mut room = 3;
        let taken = editor.write(OPOST | ONLCR, b"ab\ncd", |piece| {
            if piece.len() <= room {
                room -= piece.len();
                piece.len()
            } else {
                0
            }
        });
        assert_eq!((taken, editor.column()), (2, 2));
    }
}
