//! When memory is out: one process ends so that the machine goes on.
//!
//! *Interface*: [`short`], for a thread that cannot have a page it needs.
//!
//! The victim is the process with the most memory, or one of the largest family, and the first one only if it has more than all others; it need not be
//! the one that asked last. It ends like after SIGKILL;
//! the asking thread waits a little and tries again.

use core::sync::atomic::{AtomicI32, Ordering};

use abi::linux::{SIGKILL, status_signaled};
use machine::clock::now_ns;

use crate::process::{Task, tree};

/// How long a thread waits for memory at a time, nanoseconds.
const PATIENCE_NS: u64 = 2_000_000;

/// The process that was ended last; while it still exists, no other is.
static VICTIM: AtomicI32 = AtomicI32::new(0);

/// Makes room. Returns whether to try again; not when the running process itself has to end.
pub(crate) fn short() -> bool {
    let before = VICTIM.load(Ordering::Relaxed);
    let dying = tree::find(before).is_some_and(|p| p.signals.is_ending() && !p.is_zombie());
    if !dying && let Some((victim, pages)) = tree::largest(crate::init::first()) {
        VICTIM.store(victim.pid, Ordering::Relaxed);
        machine::log!(
            "out of memory: process {} ends, {} KiB",
            victim.pid,
            4 * pages
        );
        victim.end(status_signaled(SIGKILL));
    }
    let ending = Task::here(|task| task.process.signals.is_ending()).unwrap_or(true);
    if ending {
        return false;
    }
    let until = now_ns() + PATIENCE_NS;
    while now_ns() < until {
        thread::yield_now();
    }
    true
}
