//! The rooms whose concurrent structures are checked under loom.
//!
//! *Interface*: [`MODELS`] with the tests that those are, [`models_of`] one room; [`command`] tries them,
//! [`LOOM`] makes models of tests.

use std::process::Command;
use xtask::host;

/// The rooms with models, and which of their tests those are.
pub const MODELS: &[(&str, &[&str])] = &[
    ("sync", &["--lib", "--test", "models"]),
    ("codegen", &["--test", "models"]),
    ("quaject", &[]),
    ("lab", &["--test", "models"]),
];

/// Which tests of a room are models, if it has any.
pub fn models_of(room: &str) -> Option<&'static [&'static str]> {
    let of = MODELS.iter().find(|(name, _)| *name == room);
    of.map(|(_, which)| *which)
}

/// The variable and its value that make models of tests.
pub const LOOM: (&str, &str) = ("RUSTFLAGS", "--cfg loom");

/// Tries `which` models of a room.
pub fn command(room: &str, which: &[&str]) -> Command {
    let mut command = host::cargo();
    command.args(["test", "--release", "--no-fail-fast", "--package", room]);
    command
        .args(which)
        .env(LOOM.0, LOOM.1)
        .env("CARGO_TARGET_DIR", host::project().join("target/loom"));
    command
}
