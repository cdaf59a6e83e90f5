//! The atomics of the model-checked parts. `tests/*_model.rs` compile those against loom's instead.

pub(crate) use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering, fence};
