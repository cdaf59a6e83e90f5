//! The atomics of the model-checked parts. `tests/token_model.rs` and `tests/shelf_model.rs` compile those against loom's instead.

pub use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

/// Defines a constructor; loom's atomics have none that is `const`, so a model writes its own.
macro_rules! constructor {
    ($(#[$attribute:meta])* pub fn $name:ident() -> $result:ty $body:block) => {
        $(#[$attribute])*
        pub const fn $name() -> $result $body
    };
}
pub(crate) use constructor;
