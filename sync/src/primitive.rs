//! The atomics and cells that every algorithm here is written with: the machine's own, or loom's.

#[cfg(loom)]
pub use loom::sync::atomic;

#[cfg(not(loom))]
pub use core::sync::atomic;
