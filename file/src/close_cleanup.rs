//! The objects that a process loses when it closes a descriptor, although the file stays open: record locks,
//! notifications of message queues and of directories.
//!
//! *Interface*: a [`CloseCleanup`] counts such an object; while there are none ([`any`]) a close does not
//! search. Then [`crate::fdtable`] cuts them.

use core::sync::atomic::{AtomicUsize, Ordering};

static TIES: AtomicUsize = AtomicUsize::new(0);

/// Whether there are such things.
#[inline]
pub fn any() -> bool {
    TIES.load(Ordering::Relaxed) != 0
}

/// There is one as long as this is kept.
pub struct CloseCleanup(());

impl CloseCleanup {
    /// Adds one.
    pub fn new() -> CloseCleanup {
        TIES.fetch_add(1, Ordering::Relaxed);
        CloseCleanup(())
    }
}

impl Default for CloseCleanup {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for CloseCleanup {
    fn drop(&mut self) {
        TIES.fetch_sub(1, Ordering::Relaxed);
    }
}
