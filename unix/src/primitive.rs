//! The atomics of the model-checked parts. `tests/roll_model.rs` compiles those against loom's instead.

pub(crate) use core::sync::atomic::{AtomicBool, AtomicPtr, Ordering, fence};
