//! CookTTYout: turns a program's output into the bytes for a terminal.
//!
//! *Interface* (table 4.2). Callentry: [`CookTtyOut::write`]. Callout: `raw_write`, given to each call, which
//! takes processed bytes and returns how many it took. [`CookTtyOut::column`] is the cursor's column. It
//! knows no device and no thread.
//!
//! For the usual flags a descriptor has a generated routine ([`TtyWriteRecipe`]) that does not count
//! columns; [`column_behind`] finds the cursor from what was shown last, when somebody asks.
//!
//! Source: dissertation, sections 4.1 (table 4.2) and 4.4.2 (filters that map a data format); the
//! translations are those of termios `c_oflag`.

mod write;

pub use write::{Rule, TtyWriteRecipe, write};

use abi::linux::{OCRNL, OLCUC, ONLCR, ONLRET, ONOCR, OPOST, TABDLY, XTABS};
use alloc::vec::Vec;

use crate::kit::signature;

crate::quaject! {
    /// Output editor and format conversion
    presence Quaject = "CookTTYout" {
        callentry { WRITE = "write" }
        callout { RAW_WRITE: signature::Write = "raw_write" ("the bytes are lost") }
    }
}

const TAB: usize = 8;

/// The state of one output editor: only the cursor's column.
#[derive(Debug, Default)]
pub struct CookTtyOut {
    column: usize,
}

/// The longest expansion of one byte, in bytes.
const LONGEST: usize = TAB;

impl CookTtyOut {
    /// An editor with its cursor at the left.
    pub const fn new() -> Self {
        CookTtyOut { column: 0 }
    }

    /// An editor with its cursor at `column`.
    pub const fn at(column: usize) -> Self {
        CookTtyOut { column }
    }

    /// Column of the cursor, from 0, as far as bytes alone tell it.
    pub fn column(&self) -> usize {
        self.column
    }

    /// Processes `bytes` under the output flags `oflag` and hands them to `raw_write`, which takes all or
    /// nothing of each piece it is given (at most 8 bytes) unless the piece came from unprocessed output.
    /// Returns how many of `bytes` were taken.
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

/// Whether the flags' processing depends on the cursor's column.
pub fn needs_column(oflag: u32) -> bool {
    oflag & OPOST != 0 && (oflag & TABDLY == XTABS || oflag & ONOCR != 0)
}

/// Column of the cursor behind bytes that were shown, `newest` first: as far as they go back to the left
/// margin.
#[expect(clippy::disallowed_methods, reason = "a queue's length at most")]
pub fn column_behind(oflag: u32, newest: impl Iterator<Item = u8>) -> usize {
    let at_margin =
        |byte: u8| byte == b'\r' || (byte == b'\n' && oflag & (OPOST | ONLRET) == OPOST | ONLRET);
    let mut line: Vec<u8> = newest.take_while(|byte| !at_margin(*byte)).collect();
    line.reverse();
    let mut editor = CookTtyOut::new();
    line.into_iter().for_each(|byte| editor.advance(byte));
    editor.column
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

#[cfg(all(test, not(loom)))]
mod tests;
