//! One clear line and an exit status: how every command fails.
//!
//! *Interface*: `Failure`, `Result`, the statuses that a shell would give, and `Context`,
//! which turns any error into a `Failure` that says what was being done.

use std::fmt::Display;

/// The command line is wrong.
pub const USAGE: i32 = 2;
/// Something that the host must supply is missing or failed.
pub const HOST: i32 = 1;
/// The kernel panicked or the machine was lost.
pub const PANIC: i32 = 101;
/// `--timeout` ran out.
pub const TIMEOUT: i32 = 124;
/// The program was found but cannot be executed.
pub const NOT_EXECUTABLE: i32 = 126;
/// The program was not found.
pub const NOT_FOUND: i32 = 127;

/// Why a command ends early: an exit status and one line for the user.
#[derive(Debug)]
pub struct Failure {
    /// Exit status of `xtask`.
    pub status: i32,
    /// One line, without the `xtask: ` in front.
    pub message: String,
}

/// The result of every step of a command.
pub type Result<T> = std::result::Result<T, Failure>;

impl Failure {
    /// A failure with this status and line.
    pub fn new(status: i32, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
        }
    }
}

impl From<lexopt::Error> for Failure {
    fn from(error: lexopt::Error) -> Self {
        Self::new(USAGE, error.to_string())
    }
}

/// Says what was being done when an error came.
pub trait Context<T> {
    /// Turns the error into a host failure: `doing: error`.
    fn context(self, doing: impl Display) -> Result<T>;
}

impl<T, E: Display> Context<T> for std::result::Result<T, E> {
    fn context(self, doing: impl Display) -> Result<T> {
        self.map_err(|error| Failure::new(HOST, format!("{doing}: {error}")))
    }
}
