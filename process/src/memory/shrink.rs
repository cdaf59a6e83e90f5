//! The shrinkers, which give memory back when it is short: one list, from cheap to expensive.
//!
//! *Interface*: [`run`], for a caller that holds nothing and may sleep; [`for_each`] and [`set`] for
//! `/syn/memory`, to which root writes `shrink` for all of it.
//!
//! The list has every cache of the kernel with the function that releases it. They run in turn until there is
//! room; the memory that each has given is counted.

use core::sync::atomic::{AtomicU64, Ordering};

use abi::errno::{Errno, Result};
use account::Cred;
use alloc::sync::Arc;
use machine::clock::now_ns;
use vm::frame;

/// Something that can be let go.
struct Shrinker {
    name: &'static str,
    let_go: fn(),
    runs: AtomicU64,
    frames: AtomicU64,
}

impl Shrinker {
    const fn new(name: &'static str, let_go: fn()) -> Shrinker {
        Shrinker {
            name,
            let_go,
            runs: AtomicU64::new(0),
            frames: AtomicU64::new(0),
        }
    }

    /// Runs it once; returns the frames that it has freed.
    fn turn(&self) -> u64 {
        let before = frame::stats().free;
        (self.let_go)();
        let won = frame::stats().free.saturating_sub(before) as u64;
        self.runs.fetch_add(1, Ordering::Relaxed);
        self.frames.fetch_add(won, Ordering::Relaxed);
        won
    }
}

/// All shrinkers. Released objects leave empty slabs, which the heap's turn after them gives back.
static SHRINKERS: [Shrinker; 13] = [
    Shrinker::new("pages of files that are kept elsewhere", give_up_pages),
    Shrinker::new("empty pages of the heap", trim_heap),
    Shrinker::new(
        "names, and files that wait for an open",
        file::fs::path_cache::purge,
    ),
    Shrinker::new("inactive quajects", give_up_inactive),
    Shrinker::new("places of futexes", crate::futex::give_up_arrays),
    Shrinker::new("what a grace period keeps", sync::epoch::synchronize),
    Shrinker::new("sockets that nobody can reach", collect_sockets),
    Shrinker::new("ports at rest", file::socket::inet::ports::give_up_resting),
    Shrinker::new("files without locks", file::fs::lock::give_up_idle),
    Shrinker::new("pages that this left empty", trim_heap),
    Shrinker::new("kernel stacks", give_up_stacks),
    Shrinker::new("empty pages of code", trim_code),
    Shrinker::new(
        "what the host has of memory",
        device::virtio::balloon::give_back,
    ),
];

/// Pages of files that go at a time.
const PAGES: usize = 1024;

/// A whole turn that gave nothing is not made again for so long, nanoseconds.
const REST_NS: u64 = 20_000_000;
/// When that may be.
static NEXT_NS: AtomicU64 = AtomicU64::new(0);

fn give_up_pages() {
    file::page_cache::index::make_room(PAGES);
}

fn trim_heap() {
    vm::heap::trim();
}

fn give_up_inactive() {
    quaject::inactive::reclaim();
}

/// Closing the last descriptor of sockets in flight collects them; this also covers the case that another
/// thread was collecting at that moment.
fn collect_sockets() {
    file::fdtable::scm_rights::collect();
    // Bound: a grace period, asleep: for what sockets that nobody can reach have let go of.
    sync::epoch::synchronize();
}

fn give_up_stacks() {
    vm::stack::trim();
}

fn trim_code() {
    codegen::trim();
}

/// Runs the shrinkers one after the other until `room` frames are free beyond the kept memory; returns
/// whether they are. Thread context, no lock held.
pub(crate) fn run(room: usize) -> bool {
    /// Others may take the freed memory, so the number of rounds is limited.
    const TURNS: usize = 8;
    for _ in 0..TURNS {
        if file::page_cache::index::make_room(PAGES) == 0 {
            break;
        }
        if frame::has_room(room) {
            return true;
        }
    }
    if now_ns() < NEXT_NS.load(Ordering::Relaxed) {
        return false;
    }
    let mut given = 0;
    for shrinker in &SHRINKERS {
        given += shrinker.turn();
        if frame::has_room(room) {
            return true;
        }
    }
    if given == 0 {
        NEXT_NS.store(now_ns() + REST_NS, Ordering::Relaxed);
    }
    false
}

/// Handles a write to `/syn/memory`: `shrink` releases everything possible, until a whole round frees
/// nothing. EINVAL.
pub fn set(_opener: &Arc<Cred>, text: &str) -> Result<()> {
    /// Maximum of rounds: others may refill the caches.
    const TURNS: usize = 8;
    if text.trim() != "shrink" {
        return Err(Errno::EINVAL);
    }
    for _ in 0..TURNS {
        if SHRINKERS.iter().map(Shrinker::turn).sum::<u64>() == 0 {
            break;
        }
    }
    Ok(())
}

/// Calls `each(name, runs, frames)` for every one.
pub fn for_each(mut each: impl FnMut(&str, u64, u64)) {
    for shrinker in &SHRINKERS {
        each(
            shrinker.name,
            shrinker.runs.load(Ordering::Relaxed),
            shrinker.frames.load(Ordering::Relaxed),
        );
    }
}
