//! When memory is out: one process ends so that the machine goes on.
//!
//! *Interface*: [`short`], for a thread that cannot have a page it needs; [`coming`], for one that could do without.
//!
//! The victim is the process with the most memory, or one of the largest family, and the first one only if it has more than all others and nobody else has been ended for a while; it need not be
//! the one that asked last. It ends like after SIGKILL;
//! the asking thread waits a little and tries again.

use core::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use abi::linux::{SIGKILL, status_signaled};
use machine::clock::now_ns;

use crate::process::{Task, tree};

/// How long a thread waits for memory at a time, nanoseconds.
const PATIENCE_NS: u64 = 2_000_000;

/// The process that was ended last; while it still exists, no other is.
static VICTIM: AtomicI32 = AtomicI32::new(0);

/// When that was, nanoseconds since boot.
static ENDED_NS: AtomicU64 = AtomicU64::new(0);
/// How long after it memory may still be on its way, nanoseconds.
const COMING_NS: u64 = 1_000_000_000;
/// How long after it the first process, with which the machine would end, is left alone: while a family ends its members have no memory of their own any more, and have not given all of
/// it back yet.
const PATIENCE_WITH_FIRST_NS: u64 = 5_000_000_000;

/// Makes room. Returns whether to try again; not when the running process itself has to end.
pub(crate) fn short() -> bool {
    let before = VICTIM.load(Ordering::Relaxed);
    let dying = tree::find(before).is_some_and(|p| p.signals.is_ending() && !p.is_zombie());
    let first = crate::init::first();
    if !dying
        && let Some((victim, pages)) = tree::largest(first)
        && (victim.pid != first || since_the_last() >= PATIENCE_WITH_FIRST_NS)
    {
        VICTIM.store(victim.pid, Ordering::Relaxed);
        ENDED_NS.store(now_ns(), Ordering::Relaxed);
        machine::log!(
            "out of memory: process {} ends, {} KiB",
            victim.pid,
            4 * pages
        );
        victim.end(status_signaled(SIGKILL));
    }
    wait()
}

/// Whether memory is on its way, because a process has just been ended for it: waits a little then, and the caller tries again.
pub(crate) fn coming() -> bool {
    since_the_last() < COMING_NS && wait()
}

/// Nanoseconds since a process was ended last.
fn since_the_last() -> u64 {
    now_ns().saturating_sub(ENDED_NS.load(Ordering::Relaxed))
}

/// Lets others run for a while. False, at once, when the running process has to end.
fn wait() -> bool {
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
