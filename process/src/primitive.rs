//! The atomics of the model-checked parts. `tests/*_model.rs` compile those against loom's instead.

pub(crate) use core::sync::atomic::{
    AtomicI32, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering, fence,
};

/// For use between a `SeqCst` store or read-modify-write and a `SeqCst` load that must not pass it: they are
/// ordered without it, but loom's are not.
pub(crate) fn in_order() {}
