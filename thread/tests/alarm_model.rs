//! Every interleaving of alarms that are cancelled from other CPUs, checked with loom: an alarm is called or
//! cancelled, never both, its slot is used again once, and a late cancel affects no other alarm.
#![expect(
    clippy::duplicate_mod,
    reason = "the control is the same file with weaker orders"
)]

extern crate alloc;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Runs `model` with at most `switches` forced ones; says how many executions that took.
fn check(name: &str, switches: usize, model: impl Fn() + Send + Sync + 'static) {
    let executions = Arc::new(AtomicUsize::new(0));
    let counted = executions.clone();
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(switches);
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        model();
    });
    let executions = executions.load(Ordering::Relaxed);
    println!("{name}: {executions} executions");
}

/// The models, of the algorithm beside them.
macro_rules! models {
    () => {
        pub mod models {
            use super::alarm::{AlarmHeap, Due, Key, NONE, Slots};
            use super::primitive::{ALARM_CHUNK, ALARM_FAN};
            use loom::sync::atomic::{AtomicPtr, AtomicU32};
            use std::ptr::null_mut;

            /// Slots that live as long as the threads of a model.
            fn slots() -> &'static Slots {
                Box::leak(Box::new(Slots {
                    nodes: core::array::from_fn(|_| AtomicPtr::new(null_mut())),
                    cancelled: AtomicU32::new(NONE),
                }))
            }

            fn nothing(_: usize) {}

            fn add(heap: &mut AlarmHeap, at: u64, argument: usize) -> Key {
                heap.add(at, nothing, argument).expect("a slot is lost")
            }

            /// Arguments of the alarms that are due.
            fn called(heap: &mut AlarmHeap, now: u64) -> Vec<usize> {
                let due = core::iter::from_fn(|| heap.due(now));
                due.filter_map(|due| match due {
                    Due::Call(_, argument) => Some(argument),
                    Due::Nothing => None,
                })
                .collect()
            }

            /// After the last cancel: every slot can be taken once.
            fn all_there(heap: &mut AlarmHeap) {
                called(heap, u64::MAX - 1);
                let mut taken: Vec<u32> = Vec::new();
                for _ in 0..ALARM_CHUNK * ALARM_FAN {
                    let key = add(heap, 1, 0);
                    assert!(!taken.contains(&key.slot), "a slot is given twice");
                    taken.push(key.slot);
                }
                assert!(heap.add(1, nothing, 0).is_none());
            }

            /// Two CPUs cancel one alarm each, while a third sets others, and calls those that are due.
            pub fn two_cancel() {
                let slots = slots();
                let mut heap = AlarmHeap::new(slots);
                let keys = [add(&mut heap, 10, 0), add(&mut heap, 20, 1)];
                let cancellers = keys.map(|key| loom::thread::spawn(move || slots.cancel(key)));
                let mut calls = called(&mut heap, 15);
                add(&mut heap, 30, 2);
                calls.extend(called(&mut heap, 25));
                add(&mut heap, 40, 3);
                let cancelled = cancellers.map(|canceller| canceller.join().unwrap());
                calls.extend(called(&mut heap, 100));
                for (alarm, cancelled) in [cancelled[0], cancelled[1], false, false]
                    .into_iter()
                    .enumerate()
                {
                    let times = calls.iter().filter(|call| **call == alarm).count();
                    assert_eq!(times, usize::from(!cancelled), "alarm {alarm}");
                }
                all_there(&mut heap);
            }

            /// Two CPUs and the owner cancel the same alarm, and the owner reuses its slot meanwhile.
            pub fn all_cancel_one() {
                let slots = slots();
                let mut heap = AlarmHeap::new(slots);
                let key = add(&mut heap, 10, 0);
                let cancellers =
                    [key, key].map(|key| loom::thread::spawn(move || slots.cancel(key)));
                let mine = heap.remove(key);
                let later = [add(&mut heap, 20, 1), add(&mut heap, 30, 2)];
                let done = cancellers.map(|canceller| canceller.join().unwrap());
                let times = [mine, done[0], done[1]].iter().filter(|d| **d).count();
                assert_eq!(times, 1, "an alarm is cancelled once");
                assert!(!slots.cancel(key), "it is gone");
                assert_eq!(called(&mut heap, 100), [1, 2]);
                assert!(!later.iter().any(|key| heap.remove(*key)));
                all_there(&mut heap);
            }
        }
    };
}

/// Loom's atomics, as they are.
#[path = "."]
mod strong {
    pub mod primitive {
        pub use loom::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};
        pub const ALARM_CHUNK: usize = 2;
        pub const ALARM_FAN: usize = 2;
        pub const ALARM_NODES: usize = 1;
        macro_rules! constructor {
            ($($constructor:tt)*) => {};
        }
        pub(crate) use constructor;
    }
    #[allow(dead_code)]
    #[path = "../src/alarm.rs"]
    pub mod alarm;
    models!();
}

/// The same algorithm with every memory order relaxed: the control.
#[allow(dead_code, reason = "one model is enough")]
#[path = "."]
mod weak {
    #[allow(non_upper_case_globals, non_snake_case)]
    pub mod primitive {
        pub use loom::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};
        pub const ALARM_CHUNK: usize = 2;
        pub const ALARM_FAN: usize = 2;
        pub const ALARM_NODES: usize = 1;
        macro_rules! constructor {
            ($($constructor:tt)*) => {};
        }
        pub(crate) use constructor;
        pub mod Ordering {
            use loom::sync::atomic::Ordering;
            pub const Relaxed: Ordering = Ordering::Relaxed;
            pub const Acquire: Ordering = Ordering::Relaxed;
            pub const Release: Ordering = Ordering::Relaxed;
            pub const AcqRel: Ordering = Ordering::Relaxed;
        }
    }
    #[allow(dead_code)]
    #[path = "../src/alarm.rs"]
    pub mod alarm;
    models!();
}

#[test]
fn alarms_are_called_or_cancelled() {
    check("two cancel", 3, strong::models::two_cancel);
}

#[test]
fn an_alarm_is_cancelled_once() {
    check("all cancel one", 3, strong::models::all_cancel_one);
}

#[test]
#[should_panic(expected = "alarm")]
fn the_model_sees_orders_that_are_too_weak() {
    check("control", 3, weak::models::two_cancel);
}
