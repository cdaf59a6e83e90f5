//! The rooms whose concurrent structures are checked under loom.
//!
//! *Interface*: [`MODELS`] with the tests that those are, [`models_of`] one room; [`LOOM`] makes models of
//! tests.

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
