//! Tests of queues whose other end stops between any two instructions, or acts at the same instant.
//!
//! *Unsafe*: a place to look at; stops between instructions (`sync/tests/common/trap.rs`).

use super::tests::{queue, specs};
use super::*;
use crate::catalogue::gauge::{self, Gauge};
use crate::catalogue::testing::Random;
use crate::kit::class::create;
use crate::kit::interfacer::link;
use std::sync::atomic::{AtomicU8, AtomicUsize};
use std::thread;

#[path = "../../../../sync/tests/common/trap.rs"]
#[allow(dead_code)] // each test needs a part of it
mod trap;
use trap::{Gate, Plan};

/// Has a thread stop after the first instruction of `victim`, after the second and so on, each time with a
/// fresh queue of `spec`, while `other` does its part; `after` gets what `other` returned when the thread has
/// gone on to the end.
fn stops<T>(
    spec: Spec,
    gate: &'static Gate,
    begin: impl Fn(&ByteQueue),
    victim: impl Fn(PutFn, GetFn) + Sync,
    other: impl Fn(&ByteQueue) -> T,
    after: impl Fn(&ByteQueue, T),
) {
    for at in 1.. {
        gate.reset();
        let made = queue(spec);
        begin(&made);
        let (put, get) = made.routines();
        let (stopped, seen) = thread::scope(|s| {
            s.spawn(|| {
                trap::under(Plan::Freeze(at, gate), || {
                    victim(put.function(), get.function())
                });
                gate.finished();
            });
            let stopped = gate.stopped();
            let seen = other(&made);
            gate.lift();
            (stopped, seen)
        });
        after(&made, seen);
        if !stopped {
            assert!(at > 10, "the trap flag does not work");
            break;
        }
    }
}

#[test]
fn a_put_that_stops_anywhere_shows_its_byte_or_nothing() {
    static GATE: Gate = Gate::new();
    for spec in specs(4).filter(|spec| spec.several_cpus) {
        stops(
            spec,
            &GATE,
            |made| assert_eq!(made.put(1), 1),
            |put, _| assert_eq!(put(9), 1),
            |made| {
                assert_eq!(made.get(), Some(1), "{spec:?}");
                made.get()
            },
            |made, seen| {
                let left = made.get();
                let both = [seen, left];
                assert!(
                    [[Some(9), None], [None, Some(9)]].contains(&both),
                    "{spec:?} {both:?}"
                );
                assert_eq!(made.put(5), 1);
                assert_eq!((made.get(), made.get()), (Some(5), None), "{spec:?}");
            },
        );
    }
}

#[test]
fn a_get_that_stops_anywhere_keeps_its_byte() {
    static GATE: Gate = Gate::new();
    static GOT: AtomicUsize = AtomicUsize::new(0);
    for spec in specs(2).filter(|spec| spec.several_cpus) {
        stops(
            spec,
            &GATE,
            |made| assert_eq!((made.put(1), made.put(2)), (1, 1)),
            |_, get| GOT.store(get() as usize, Ordering::Relaxed),
            |made| made.put(3),
            |made, put| {
                assert_eq!(GOT.load(Ordering::Relaxed), 1, "{spec:?}");
                let third = (put == 1).then_some(3);
                assert_eq!((made.get(), made.get()), (Some(2), third), "{spec:?}");
            },
        );
    }
}

/// A producer of strings that stops, also between its claim and its publication, stops no other.
#[test]
fn a_producer_that_stops_anywhere_delays_no_other() {
    static GATE: Gate = Gate::new();
    let many = |spec: &Spec| spec.strings && spec.producers == Parties::Many;
    for spec in specs(16).filter(|spec| spec.several_cpus && many(spec)) {
        stops(
            spec,
            &GATE,
            |_| {},
            |put, _| assert_eq!(put(b'9'), 1),
            |made| made.write(b"xyz"),
            |made, put| {
                assert_eq!(put, 3);
                let mut into = [0; 8];
                assert_eq!(made.read(&mut into), 4);
                assert!([b"9xyz", b"xyz9"].contains(&&into[..4].try_into().unwrap()));
            },
        );
    }
}

/// One end fails while the other provides what it waits for: either it sees this after all, or it is
/// notified.
#[test]
fn who_fails_at_the_instant_of_the_change_is_told() {
    const ROUNDS: usize = 100_000;
    for (spec, full) in specs(2)
        .filter(|spec| spec.several_cpus)
        .flat_map(|spec| [(spec, true), (spec, false)])
    {
        let made = queue(spec);
        let told = create::<Gauge>(false).unwrap();
        let port = if full { Q_FULL_1 } else { Q_EMPTY_1 };
        link(&made, port, gauge::count(&told)).unwrap();
        let (put, get) = made.routines();
        let (put, get) = (put.function(), get.function());
        if full {
            assert_eq!((put(0), put(0)), (1, 1));
        }
        let (begun, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let wait = |word: &AtomicUsize, round| {
            let mut tries = 0u64;
            while word.load(Ordering::Acquire) < round {
                tries += 1;
                if tries.is_multiple_of(2000) {
                    thread::yield_now();
                }
            }
        };
        let (mut random, mut missed) = (Random::new(3), 0);
        // SAFETY: the places follow the words.
        let places = unsafe {
            made.block
                .at()
                .add(size_of::<Words>())
                .cast::<AtomicU8>()
                .as_ref()
        };
        thread::scope(|s| {
            s.spawn(|| {
                for round in 1..=ROUNDS {
                    wait(&begun, round);
                    let _done = if full { get() } else { put(0) };
                    ended.store(round, Ordering::Release);
                }
            });
            for round in 1..=ROUNDS {
                let before = told.read();
                begun.store(round, Ordering::Release);
                // A look at the places meanwhile, so that a store there has to wait for the other cache.
                (0..random.below(30)).for_each(|_| {
                    places.load(Ordering::Relaxed);
                });
                let failed = if full { put(0) == 0 } else { get() < 0 };
                wait(&ended, round);
                if failed {
                    let possible = if full { put(0) == 1 } else { get() == 0 };
                    missed += usize::from(told.read() == before || !possible);
                }
            }
        });
        assert_eq!(missed, 0, "{spec:?}, full {full}");
    }
}
