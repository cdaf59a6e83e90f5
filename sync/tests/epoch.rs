//! Grace periods where one CPU sleeps: what waits for it stays bounded, because it is interrupted for that.
#![cfg(not(loom))]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use sync::callout::{self, Callouts};
use sync::epoch::Domain;

static DOMAIN: Domain<2> = Domain::new();
static RAN: AtomicUsize = AtomicUsize::new(0);
static IDLE: AtomicBool = AtomicBool::new(false);
static NUDGES: AtomicUsize = AtomicUsize::new(0);

static SLEEPER: Callouts = Callouts {
    cpu: || 0,
    has_turns: || !IDLE.load(Ordering::Relaxed),
    nudge: |cpu| {
        assert_eq!(cpu, 1, "nobody else holds anything up");
        NUDGES.fetch_add(1, Ordering::Relaxed);
        DOMAIN.quiescent(cpu);
    },
    ..callout::DEFAULT
};

#[test]
fn a_cpu_that_sleeps_does_not_hold_up_everything_for_ever() {
    const NOTES: usize = 10_000;
    callout::link(&SLEEPER);
    DOMAIN.idle_exit(0);
    DOMAIN.idle_exit(1);
    let mut most = 0;
    for note in 1..=NOTES {
        DOMAIN.retire(|_| _ = RAN.fetch_add(1, Ordering::Relaxed), 0);
        most = most.max(note - RAN.load(Ordering::Relaxed));
    }
    let nudges = NUDGES.load(Ordering::Relaxed);
    assert!(most <= 100, "{most} wait at a time");
    assert!(nudges <= NOTES / 16, "{nudges} interrupts");
    DOMAIN.synchronize();
    assert_eq!(RAN.load(Ordering::Relaxed), NOTES);

    // An idle thread runs nobody's callbacks: it might be preempted with what it has taken.
    IDLE.store(true, Ordering::Relaxed);
    for _ in 0..1000 {
        DOMAIN.retire(|_| _ = RAN.fetch_add(1, Ordering::Relaxed), 0);
    }
    DOMAIN.quiescent(1);
    DOMAIN.retire(|_| _ = RAN.fetch_add(1, Ordering::Relaxed), 0);
    assert_eq!(RAN.load(Ordering::Relaxed), NOTES);
    IDLE.store(false, Ordering::Relaxed);
    DOMAIN.synchronize();
    assert_eq!(RAN.load(Ordering::Relaxed), NOTES + 1001);
}
