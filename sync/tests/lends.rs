//! A thread that waits for the end of a grace period lends its turns to the threads that run callbacks.
#![cfg(not(loom))]

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use sync::callout::{Callouts, DEFAULT, link};
use sync::epoch::Domain;

const COLLECTOR: usize = 16;
const WAITER: usize = 32;

thread_local! {
    static CURRENT: Cell<usize> = const { Cell::new(0) };
}

/// How often a turn was lent to the collector, and whether it may go on, as it has a turn now.
static LENT: AtomicUsize = AtomicUsize::new(0);
static HAS_TURN: AtomicBool = AtomicBool::new(false);
/// Whether the waiter yielded, which would give nobody a turn.
static YIELDED: AtomicBool = AtomicBool::new(false);
/// Whether the collector is in its callback.
static CALLED: AtomicBool = AtomicBool::new(false);

/// The waiter is urgent: the collector runs only in turns that are lent to it.
static CALLOUTS: Callouts = Callouts {
    current: || CURRENT.get(),
    yield_now: || {
        if CURRENT.get() == WAITER {
            YIELDED.store(true, Ordering::Relaxed);
            HAS_TURN.store(true, Ordering::Release);
        }
    },
    donate: |thread| {
        if thread == 0 {
            // The turn is about to end.
            return true;
        }
        assert_eq!((CURRENT.get(), thread), (WAITER, COLLECTOR));
        LENT.fetch_add(1, Ordering::Relaxed);
        HAS_TURN.store(true, Ordering::Release);
        true
    },
    ..DEFAULT
};

#[test]
fn a_waiting_thread_lends_its_turns_to_the_collector() {
    link(&CALLOUTS);
    let domain = Domain::<2>::new();
    domain.idle_exit(0);
    domain.idle_exit(1);
    let callback = |_| {
        CALLED.store(true, Ordering::Release);
        while !HAS_TURN.load(Ordering::Acquire) {
            std::hint::spin_loop();
        }
    };
    // CPU 1 has not passed a quiescent point yet: it waits.
    domain.retire(callback, 0);
    assert!(!CALLED.load(Ordering::Relaxed));
    domain.quiescent(1);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            CURRENT.set(COLLECTOR);
            domain.idle_enter(1);
            domain.collect();
        });
        while !CALLED.load(Ordering::Acquire) {
            std::hint::spin_loop();
        }
        CURRENT.set(WAITER);
        domain.synchronize();
    });
    assert!(LENT.load(Ordering::Relaxed) > 0);
    assert!(!YIELDED.load(Ordering::Relaxed));
}
