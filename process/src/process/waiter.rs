//! A thread that waits at a futex.
//!
//! *Interface*: [`Waiter`], which a task keeps for its plain waits. Its life is that of `futex`.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicUsize};

use super::Task;

/// A thread that waits, or is about to.
pub(crate) struct Waiter {
    /// The thread's handle, for `resume`.
    pub(crate) thread: usize,
    pub(crate) bitset: u32,
    /// The bucket it is in now; a requeue changes it.
    pub(crate) bucket: AtomicUsize,
    pub(crate) woken: AtomicBool,
    /// A possible owner of a lock.
    pub(crate) task: Option<Arc<Task>>,
    /// The owner of the lock that it has got ended: it says so in the word itself.
    pub(crate) inherits: AtomicBool,
}
