//! The user's terminal: raw while the guest has it, and always put back.
//!
//! *Interface*: `Raw::enter` until dropped; `size` in rows and columns.

use crate::failure::{Context, Result};
use rustix::stdio::{stdin, stdout};
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr};

/// The terminal passes every byte on while this lives.
pub struct Raw {
    before: Termios,
}

impl Raw {
    /// Puts the terminal on standard input into raw mode.
    pub fn enter() -> Result<Self> {
        let before = tcgetattr(stdin()).context("cannot read the terminal's modes")?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(stdin(), OptionalActions::Drain, &raw)
            .context("cannot set the terminal's modes")?;
        Ok(Self { before })
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // Nothing better can be done when the terminal is gone.
        let _ = tcsetattr(stdin(), OptionalActions::Drain, &self.before);
    }
}

/// Whether both standard input and output are a terminal.
pub fn interactive() -> bool {
    isatty(stdin()) && isatty(stdout())
}

/// Rows and columns of the terminal; 24 by 80 when it does not say.
pub fn size() -> (u16, u16) {
    match tcgetwinsize(stdout()) {
        Ok(size) if size.ws_row > 0 && size.ws_col > 0 => (size.ws_row, size.ws_col),
        _ => (24, 80),
    }
}
