//! The atomics of the structures that loom checks, and how their constructors are declared.
//!
//! `tests/models.rs` compiles those structures' own files with another module of this name, which has loom's
//! atomics.

pub(crate) use core::sync::atomic;

/// Defines a constructor: `const` here, ordinary in the models, where every atomic's creation is an event.
macro_rules! constructor {
    ($(#[$attribute:meta])* $visible:vis fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty $body:block) => {
        $(#[$attribute])*
        $visible const fn $name($($argument: $type),*) -> $result $body
    };
}
pub(crate) use constructor;

/// An array of words that are 0, in a constructor.
macro_rules! zeros {
    () => {
        [const { $crate::primitive::atomic::AtomicU64::new(0) }; _]
    };
}
pub(crate) use zeros;
