//! The atomics of the structures that loom checks: the machine's own, or loom's.

#[cfg(loom)]
pub(crate) use loom::sync::atomic;

#[cfg(not(loom))]
pub(crate) use core::sync::atomic;

/// Defines a function that is `const` on the machine and ordinary under loom, whose atomics count their creation.
macro_rules! constructor {
    ($(#[$attribute:meta])* $visible:vis fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty $body:block) => {
        $(#[$attribute])*
        #[cfg(not(loom))]
        $visible const fn $name($($argument: $type),*) -> $result $body
        $(#[$attribute])*
        #[cfg(loom)]
        $visible fn $name($($argument: $type),*) -> $result $body
    };
}
pub(crate) use constructor;
