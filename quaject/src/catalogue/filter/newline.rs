//! Newline: one end of a line in place of another.

use super::{Treatment, filter};
use crate::kit::assembly::Assembly;
use crate::kit::routine_env::RoutineError;
use codegen::dynasm;

/// The rule of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// A carriage return becomes a line feed, as with a terminal's `ICRNL`.
    Feed,
    /// A line feed becomes a carriage return, as with `INLCR`.
    Return,
}

filter! {
    /// Puts one end of a line in place of another
    Newline = "Newline", Ends, spec Ends, make Ok::<_, RoutineError>
}

impl Treatment for Ends {
    fn change(&self, a: &mut Assembly) {
        let (from, to) = match self {
            Ends::Feed => (b'\r', b'\n'),
            Ends::Return => (b'\n', b'\r'),
        };
        let (from, to) = (i32::from(from), i32::from(to));
        dynasm!(a ; .arch x64 ; cmp edi, from ; jne >other ; mov edi, to ; other:);
    }
}
