//! The two quajects of a line as `/syn` shows them: Serial_in while the receiver is on, Serial_out while the transmitter is.
//!
//! Source: dissertation, table 4.4.

use quaject::class::Ref;

mod input {
    quaject::quaject! {
        /// Serial line, receiving
        presence SerialIn = "Serial_in" {
            callentry { ENABLE = "enable", DISABLE = "disable" }
            callout { PUTCHAR = "putchar" ("the receiver stays off") }
        }
    }
}

mod output {
    quaject::quaject! {
        /// Serial line, sending
        presence SerialOut = "Serial_out" {
            callentry { ENABLE = "enable", DISABLE = "disable" }
            callout { GETCHAR = "getchar" ("the transmitter stays off") }
        }
    }
}

/// The quajects that are there.
pub(super) struct Present {
    input: Option<Ref<input::SerialIn>>,
    output: Option<Ref<output::SerialOut>>,
}

impl Present {
    /// Neither.
    pub const fn new() -> Self {
        Present {
            input: None,
            output: None,
        }
    }

    /// The sources that are on now. The queues' ends stand in the handler.
    pub fn show(&mut self, receive: bool, transmit: bool) {
        if receive != self.input.is_some() {
            self.input = receive.then(input::SerialIn::present).flatten();
            if let Some(shown) = &self.input {
                let port = input::PUTCHAR;
                shown
                    .header()
                    .note_link(port, Some(&"put of the input queue"), 0, true);
            }
        }
        if transmit != self.output.is_some() {
            self.output = transmit.then(output::SerialOut::present).flatten();
            if let Some(shown) = &self.output {
                let port = output::GETCHAR;
                shown
                    .header()
                    .note_link(port, Some(&"get of the output queue"), 0, true);
            }
        }
    }
}
