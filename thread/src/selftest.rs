//! The suite that runs in the guest: `selftest=thread` on the kernel command line.
//!
//! *Interface*: [`run`], in its own kernel thread with nothing else to run. Every case ends by itself; a
//! failing case panics, so the report names it. Figures go to the log; under icount they are instructions.
#![expect(clippy::disallowed_methods, reason = "at boot, before there are users")]

mod balance;
mod events;
mod helping;
mod life;
mod turns;

use crate::clock::sleep_until;
use crate::life::spawn::{Body, Spec, bury, create};
use crate::tte::{Thread, for_each};
use crate::{start, yield_now};
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use machine::clock::now_ns;
use machine::{cpu, log};

static PEER: AtomicUsize = AtomicUsize::new(0);
static COUNT: AtomicU64 = AtomicU64::new(0);
static DONE: AtomicUsize = AtomicUsize::new(0);
static STOP: AtomicBool = AtomicBool::new(false);

/// Runs the suite.
pub fn run() {
    turns::timed_yields();
    turns::starts();
    turns::ping_pong();
    turns::many_ping_pongs();
    turns::levels();
    turns::preemption();
    balance::spread();
    balance::theft();
    balance::following();
    life::burial();
    helping::inheritance();
    helping::help_from_afar(true);
    helping::help_from_afar(false);
    events::operations();
    events::procedures();
    events::alarms();
    events::chaining();
    events::lines();
    here(events::crowd, 0, 0);
    join(1);
    life::creation();
    until("threads left over", || {
        settle();
        // An idle thread a CPU, the one that ends grace periods, and this one.
        threads() == cpu::cpus() + 2
    });
    log!("thread: selftest passed on {} processors", cpu::cpus());
}

fn threads() -> usize {
    let mut count = 0;
    for_each(|_| count += 1);
    count
}

/// Lets ended threads be buried here, and grace periods end.
fn settle() {
    bury();
    sync::epoch::synchronize();
    nap(1_000_000);
}

fn nap(ns: u64) {
    sleep_until(now_ns() + ns).expect("an alarm");
}

/// Waits for something that must come; hosts may be slow.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = now_ns() + 20_000_000_000;
    while !holds() {
        assert!(now_ns() < deadline, "{what}");
        nap(100_000);
    }
}

/// The same for a thread that must stay ready meanwhile.
fn until_yielding(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = now_ns() + 20_000_000_000;
    while !holds() {
        assert!(now_ns() < deadline, "{what}");
        yield_now();
    }
}

fn here(body: fn(usize), argument: usize, level: u8) -> Thread {
    let spec = Spec {
        cpu: Some(0),
        level,
        ..Spec::new(b"selftest", Body::Kernel(body, argument))
    };
    let thread = create(&spec).expect("memory for a thread");
    start(&thread);
    thread
}

fn join(count: usize) {
    while DONE.load(Ordering::Acquire) < count {
        nap(200_000);
    }
    DONE.store(0, Ordering::Release);
}

fn done() {
    DONE.fetch_add(1, Ordering::AcqRel);
}
