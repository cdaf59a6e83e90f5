//! The atomics that the algorithms here are written with: the machine's own, or loom's.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::*;

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::*;
