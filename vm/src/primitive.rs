//! The atomics that the lock-free parts are written with: the machine's own, or loom's.

#[cfg(loom)]
pub use loom::sync::atomic;

#[cfg(not(loom))]
pub use core::sync::atomic;
