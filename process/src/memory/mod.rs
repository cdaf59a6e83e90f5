//! Lack of memory: caches are released, then one process is ended so that the machine can continue.
//!
//! *Interface*: [`admission`] for calls; [`short`], for a thread that cannot have a page it needs;
//! [`coming`], for one that can fail; [`shrink`] releases caches and inactive lists; `oom_victim` chooses the
//! process to end; [`fault_injection`] makes allocations fail on purpose.
//!
//! The victim is the process that holds most, its share of the kernel's memory included ([`oom_score`]) and
//! moved by its `oom_score_adj`, or one of the largest family, and the first process only if it has more than
//! all others and no other process has been ended for a while; it need not be the last caller. It ends as by
//! SIGKILL; the asking thread waits a little and tries again.

pub mod admission;
pub mod fault;
pub mod fault_injection;
pub mod oom_score;
mod oom_victim;
pub mod shrink;

use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

use abi::layout::PAGE;
use abi::linux::{SIGKILL, status_signaled};
use machine::clock::now_ns;
use vm::frame;
use vm::space::SpaceLimits;

use crate::process::{Task, init_process, tree};

/// How long a thread waits for memory at a time, nanoseconds.
const PATIENCE_NS: u64 = 2_000_000;

/// The process that was ended last; while it still exists, no other is.
static VICTIM: AtomicI32 = AtomicI32::new(0);

/// Whether a thread is choosing a victim now.
static CHOOSING: AtomicBool = AtomicBool::new(false);

/// When that was, nanoseconds since boot.
static ENDED_NS: AtomicU64 = AtomicU64::new(0);
/// How long after it memory may still be on its way, nanoseconds.
const COMING_NS: u64 = 1_000_000_000;
/// How long after it the first process, with which the machine would end, is left alone: while a family ends
/// its members have no memory of their own any more, and have not given all of it back yet.
const PATIENCE_WITH_FIRST_NS: u64 = 5_000_000_000;

/// Frames that a process must hold to be ended for a call that could be refused: the end of a smaller one
/// would not help.
const WORTHWHILE: usize = 256;

/// Links the heap to this, and applies the settings of the kernel's command line. Before the first program.
pub fn start(command_line: &str) {
    vm::heap::link_starved(starved);
    vm::space::link_limits(|| {
        Task::here(|task| task.process.bounds()).unwrap_or(SpaceLimits::NONE)
    });
    fault_injection::start(command_line);
}

/// So much of memory, divided by this, may be empty pages of code, or stacks without threads, before they are
/// given back.
const SLACK: usize = 32;

/// After a process has ended: gives back its empty memory, if that is much.
pub(crate) fn tidy() {
    let much = frame::total() / SLACK;
    vm::heap::tidy();
    if vm::stack::stats().cached_frames() > much {
        vm::stack::trim();
    }
    if codegen::slack() > much * PAGE {
        codegen::trim();
    }
}

/// Makes room. Returns whether to try again; not when the running process itself has to end.
pub fn short() -> bool {
    if shrink::run(1) {
        return true;
    }
    let first = init_process::first();
    choose(|| {
        if !is_dying()
            && let Some(most) = oom_victim::largest(first)
            && (most.process.pid != first || since_the_last() >= PATIENCE_WITH_FIRST_NS)
        {
            end(&most);
        }
    });
    wait()
}

/// Lets one thread choose at a time: looking at all processes takes a while. `None`: another is at it.
fn choose<R>(step: impl FnOnce() -> R) -> Option<R> {
    if CHOOSING.swap(true, Ordering::Acquire) {
        return None;
    }
    let result = step();
    CHOOSING.store(false, Ordering::Release);
    Some(result)
}

/// Makes room for a call that could be refused: ends the process that holds most, unless that is the running
/// one or its family, or no process holds much. Returns whether to try again.
fn relieve() -> bool {
    if is_dying() {
        return since_the_last() < COMING_NS && wait();
    }
    let first = init_process::first();
    let own = Task::here(|task| task.process.pid);
    let ended = choose(|| {
        let most = oom_victim::largest(first).filter(|most| {
            own != Some(most.head)
                && most.process.pid != first
                && !most.spared
                && most.pages >= WORTHWHILE
        });
        most.inspect(end).is_some()
    });
    // While another chooses there is hope.
    ended.unwrap_or(true) && wait()
}

/// Whether the process that was ended last is still about to end.
fn is_dying() -> bool {
    let before = VICTIM.load(Ordering::Relaxed);
    tree::find(before).is_some_and(|p| p.signals.is_ending() && !p.is_zombie())
}

fn end(most: &oom_victim::Victim) {
    VICTIM.store(most.process.pid, Ordering::Relaxed);
    ENDED_NS.store(now_ns(), Ordering::Relaxed);
    machine::log!(
        "out of memory: process {} ends, {} KiB",
        most.process.pid,
        4 * most.pages
    );
    most.process.end(status_signaled(SIGKILL));
}

/// Even the memory kept for small allocations is used up. The caller may hold any lock, so it can only let
/// others continue, which give memory back.
fn starved() {
    thread::yield_now();
}

/// Whether memory is on its way, because a process has just been ended for it: waits a little then, and the
/// caller tries again.
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
