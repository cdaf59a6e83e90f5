//! The atomics of the model-checked parts, and sizes that models cannot afford. The models in `tests` compile
//! those parts against loom's atomics instead.

pub use core::sync::atomic::{
    AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};

/// Slots for alarms that are made at a time: a page.
pub(crate) const ALARM_CHUNK: usize = 64;
/// So many times they are made for one part of the table that finds them,
pub(crate) const ALARM_FAN: usize = 512;
/// and so many parts that has: eight million alarms of one CPU, with half a gigabyte of slots.
pub(crate) const ALARM_NODES: usize = 256;

/// Defines a constructor; loom's atomics have none that is `const`, so a model writes its own.
macro_rules! constructor {
    ($(#[$attribute:meta])* pub fn $name:ident() -> $result:ty $body:block) => {
        $(#[$attribute])*
        pub const fn $name() -> $result $body
    };
}
pub(crate) use constructor;
