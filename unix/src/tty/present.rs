//! The terminal's editors and pump as `/syn` shows them, with their links.
//!
//! Source: dissertation, tables 4.1 and 4.2.

use quaject::class::{Ref, Tally};

mod cook_in {
    quaject::quaject! {
        /// Keyboard input editor
        presence CookIn = "CookTTYin" {
            callentry { GETCHAR = "getchar", READ = "read" }
            callout { RAW_GET = "raw_get" ("nothing comes"), ECHO = "echo" ("nothing is shown") }
        }
    }
}

mod cook_out {
    quaject::quaject! {
        /// Output editor and format conversion
        presence CookOut = "CookTTYout" {
            callentry { PUTCHAR = "putchar", WRITE = "write" }
            callout { RAW_WRITE = "raw_write" ("the bytes are lost") }
        }
    }
}

/// What one terminal consists of.
pub(super) struct Present {
    _editors: Option<(Ref<cook_in::CookIn>, Ref<cook_out::CookOut>)>,
    _pump: Tally,
}

impl Present {
    /// A terminal's quajects, linked to each other and to its line.
    pub fn new() -> Self {
        Present {
            _editors: editors(),
            _pump: quaject::pump::CLASS.tally(),
        }
    }
}

fn editors() -> Option<(Ref<cook_in::CookIn>, Ref<cook_out::CookOut>)> {
    let (input, output) = (cook_in::CookIn::present()?, cook_out::CookOut::present()?);
    let (from, to) = (input.header(), output.header());
    from.note_link(
        cook_in::RAW_GET,
        Some(&"the line's input queue, by the pump"),
        0,
        false,
    );
    from.note_link(cook_in::ECHO, Some(&"write"), to.number(), false);
    to.note_link(
        cook_out::RAW_WRITE,
        Some(&"the line's output queue"),
        0,
        false,
    );
    Some((input, output))
}
