//! The atomics that the algorithms here are written with: the machine's own, or loom's.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::*;

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::*;

/// For use between a `SeqCst` read-modify-write or store and a `SeqCst` load that must not pass it. They are
/// ordered without it; loom, which takes `SeqCst` accesses for acquire and release only, needs a fence to
/// know.
pub(crate) fn in_order() {
    #[cfg(loom)]
    fence(Ordering::SeqCst);
}
