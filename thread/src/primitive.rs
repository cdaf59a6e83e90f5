//! The atomics of the model-checked part. `tests/token_model.rs` compiles `token.rs` against loom's instead.

pub use core::sync::atomic::{AtomicU32, Ordering};
