//! The atomics that the lock-free parts are written with. `tests/models.rs` compiles those parts again, with
//! loom's.

pub use core::sync::atomic;
