//! The cost of procedure chaining: chaining one procedure in a handler, and that together with calling it at
//! the end of the interrupt.
//!
//! *Interface*: [`measure`], on a machine with one CPU that counts instructions.
//! Source: Massalin and Pu, "Threads and Input/Output in the Synthesis Kernel", section 3.1, and its table of
//! interrupts.

use core::sync::atomic::{AtomicU64, Ordering};

use machine::clock::now_ns;
use thread::chain::{LINKS, chain};
use thread::clock::alarm;

use super::report;

/// When the handler began to chain, when it had, and when the last procedure was called.
static TIMES: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];
static CALLED: AtomicU64 = AtomicU64::new(0);

fn stamp(which: usize) {
    TIMES[which].store(now_ns(), Ordering::Release);
}

fn called(_: usize) {
    CALLED.fetch_add(1, Ordering::Relaxed);
    stamp(2);
}

/// Procedures that are chained at a time.
const CHAINED: usize = LINKS / 2;

/// An alarm's procedure.
fn handler(_: usize) {
    stamp(0);
    for _ in 0..CHAINED {
        if chain(called, 0).is_err() {
            called(0);
        }
    }
    stamp(1);
}

/// Reports what one of many costs, reading the clock in the procedure left out.
pub fn measure() {
    CALLED.store(0, Ordering::Release);
    let from = now_ns();
    for _ in 0..CHAINED {
        stamp(2);
    }
    let clock = now_ns() - from;
    if alarm(now_ns() + 100_000, handler, 0).is_err() {
        return;
    }
    while CALLED.load(Ordering::Acquire) < CHAINED as u64 {
        core::hint::black_box(());
    }
    let [before, after, end] = [0, 1, 2].map(|i: usize| TIMES[i].load(Ordering::Acquire));
    let each = |total: u64| total / CHAINED as u64;
    row("chain", each(after - before));
    row("chain_and_call", each((end - before).saturating_sub(clock)));
}

fn row(name: &str, instructions: u64) {
    report("chaining", name, &[("instructions", instructions)]);
}
