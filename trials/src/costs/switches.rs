//! Table 5.3: a switch, from the last instruction of one thread to the first of the next.
//!
//! *Interface*: [`measure`]. Two threads give way to each other by `yield_now`; whoever comes back notes what
//! lay between the other's time stamp and its own, less what two readings cost. The least of many is the
//! switch without an interrupt in it.
//! Source: dissertation, sections 3.3.2 and 5.3.3.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use machine::clock::{now_ns, tsc};
use thread::{Body, Spec, clock};
use vm::AddressSpace;

use super::report;

static LAST: AtomicUsize = AtomicUsize::new(0);
static FROM: AtomicU64 = AtomicU64::new(0);
static LEAST: AtomicU64 = AtomicU64::new(u64::MAX);
static STOP: AtomicBool = AtomicBool::new(false);
static DONE: AtomicUsize = AtomicUsize::new(0);

const MILLISECOND: u64 = 1_000_000;

fn pass(who: usize) {
    while !STOP.load(Ordering::Relaxed) {
        LAST.store(who, Ordering::Relaxed);
        FROM.store(tsc(), Ordering::Relaxed);
        thread::yield_now();
        let now = tsc();
        // A thread that is preempted after its reading finds a later reading of the other.
        if LAST.load(Ordering::Relaxed) != who
            && let Some(took) = now.checked_sub(FROM.load(Ordering::Relaxed))
        {
            LEAST.fetch_min(took, Ordering::Relaxed);
        }
    }
    DONE.fetch_add(1, Ordering::Release);
}

/// The cost of the readings alone.
fn readings() -> u64 {
    let one = || {
        FROM.store(tsc(), Ordering::Relaxed);
        tsc() - FROM.load(Ordering::Relaxed)
    };
    (0..100).map(|_| one()).min().unwrap_or(0)
}

fn nap() {
    // Without memory for an alarm the loop around it looks more often.
    let _ = clock::sleep_until(now_ns() + MILLISECOND);
}

/// The switch between two threads whose page tables are at these roots; 0 is the kernel's own. `None` without
/// memory for them.
fn between(roots: [u64; 2]) -> Option<u64> {
    LEAST.store(u64::MAX, Ordering::Relaxed);
    STOP.store(false, Ordering::Relaxed);
    DONE.store(0, Ordering::Relaxed);
    for (who, root) in roots.into_iter().enumerate() {
        let spec = Spec {
            cpu: Some(0),
            root,
            ..Spec::new(b"switch", Body::Kernel(pass, who))
        };
        match thread::create(&spec) {
            Ok(thread) => thread::start(&thread),
            Err(_) => return None,
        };
    }
    (0..5).for_each(|_| nap());
    STOP.store(true, Ordering::Relaxed);
    while DONE.load(Ordering::Acquire) < roots.len() {
        nap();
    }
    let least = LEAST.load(Ordering::Relaxed);
    (least != u64::MAX).then(|| least - readings())
}

/// Measures both switches.
pub fn measure() {
    if let Some(count) = between([0, 0]) {
        report("table 5.3", "switch", &[("instructions", count)]);
    }
    let Ok(space) = AddressSpace::new() else {
        return;
    };
    if let Some(count) = between([0, space.root()]) {
        report(
            "table 5.3",
            "switch_other_space",
            &[("instructions", count)],
        );
    }
    // A thread that has ended may still have its root loaded; the machine ends after the measurement.
    let _for_ever = Arc::into_raw(space);
}
