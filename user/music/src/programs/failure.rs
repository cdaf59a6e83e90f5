//! How a program ends when something is wrong: a status, and perhaps a line.
//!
//! *Interface*: [`Failure`], its statuses, and where failures come from.

use std::io::{self, ErrorKind};

/// A device or a file failed.
const FAILED: u8 = 1;
/// A wrong word.
pub const USAGE: u8 = 2;
/// Nobody reads the output any more: 128 and the number of SIGPIPE.
const UNREAD: u8 = 141;

/// A status, and the line that says why.
#[derive(Debug)]
pub struct Failure {
    /// The status.
    pub status: u8,
    /// The line; none where the status says all.
    pub message: Option<String>,
}

impl Failure {
    /// A wrong word.
    pub fn usage(message: impl Into<String>) -> Self {
        Self {
            status: USAGE,
            message: Some(message.into()),
        }
    }

    /// A call failed with `name`.
    pub fn with(name: &str, error: &io::Error) -> Self {
        Self {
            status: FAILED,
            message: Some(format!("{name}: {error}")),
        }
    }

    /// Output failed. It is no failure to speak of when its reader has gone.
    pub fn writing(name: &str, error: &io::Error) -> Self {
        match error.kind() {
            ErrorKind::BrokenPipe => Self {
                status: UNREAD,
                message: None,
            },
            _ => Self::with(name, error),
        }
    }
}
