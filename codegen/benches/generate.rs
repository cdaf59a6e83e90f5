//! The cost of generating a routine: by template and directly, in nanoseconds and instructions.
//!
//! `cargo bench -p codegen --bench generate`

mod count;
mod sample;

use codegen::{Routine, host};
use sample::{by_template, directly};
use std::time::Instant;

fn handled() -> Routine<fn()> {
    // SAFETY: never called.
    unsafe { Routine::from(by_template()) }
}

fn ns(work: impl Fn()) -> f64 {
    let mut best = f64::MAX;
    for _ in 0..20 {
        let start = Instant::now();
        (0..10_000).for_each(|_| work());
        best = best.min(start.elapsed().as_nanos() as f64 / 10_000.0);
    }
    best
}

fn main() {
    host::link();
    let kept = by_template();
    println!("a routine of {} bytes, made and freed:", kept.bytes().len());
    type Way = (&'static str, fn());
    let ways: [Way; 3] = [
        ("template, copied and patched", || drop(by_template())),
        ("draft, generated and sealed", || drop(directly())),
        ("template, with a counted handle", || {
            drop(handled().clone())
        }),
    ];
    for (name, work) in ways {
        work();
        let count = count::instructions(work).map_or("?".into(), |n| n.to_string());
        println!("{name:34} {:7.1} ns  {count:>6} instructions", ns(work));
    }
    let only = count::instructions(|| core::mem::forget(by_template())).unwrap_or(0);
    println!("{:34} {only:>26} instructions", "template, not freed");
    let only = count::instructions(|| core::mem::forget(directly())).unwrap_or(0);
    println!("{:34} {only:>26} instructions", "draft, not freed");
}
