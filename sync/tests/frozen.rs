//! Progress: one thread stops for ever after the first instruction of an operation, after the second, and so
//! on to its end, and each time the others must get theirs done.
//!
//! The operations of the others are counted and must succeed where the structure promises that: a value that
//! is put comes out again, and so on. A spin lock and a queue of Vyukov's kind go through the same and must
//! fail somewhere, or the test does.
#![cfg(all(not(loom), not(miri), target_os = "linux", target_arch = "x86_64"))]
// Boxed, so that nodes stay where they are.
#![allow(clippy::borrowed_box)]

#[path = "common/mod.rs"]
#[allow(dead_code)] // each test needs a part of it
mod common;

use common::freeze::{goes_on, soon, stops};
use std::cell::UnsafeCell;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use sync::cas2::AtomicPair;
use sync::epoch::{self, Retired};
use sync::{ArrayStack, Once, Stack, ValueStack, WaitList, WaitNode, stack};

#[test]
fn a_spin_lock_is_caught() {
    struct Spin(AtomicBool, UnsafeCell<u64>);
    // SAFETY: the cell is touched by who has set the flag.
    unsafe impl Sync for Spin {}
    let add = |spin: &Spin| {
        soon(|| (!spin.0.swap(true, Ordering::Acquire)).then_some(()))?;
        // SAFETY: the lock is held.
        unsafe { *spin.1.get() += 1 };
        spin.0.store(false, Ordering::Release);
        Some(())
    };
    let stuck = stops(
        || Spin(AtomicBool::new(false), UnsafeCell::new(0)),
        |spin| {
            add(spin);
        },
        |spin| add(spin).is_some(),
        |_| {},
    );
    assert!(stuck.is_err());
}

/// `queue/mpmc` as it would be without help: a claim, then a fill that everybody waits for.
#[test]
fn a_queue_that_waits_for_its_peers_is_caught() {
    struct Waiting {
        head: AtomicUsize,
        tail: AtomicUsize,
        places: [(AtomicUsize, AtomicU64); 4],
    }
    impl Waiting {
        fn put(&self, value: u64) {
            let at = self.head.fetch_add(1, Ordering::AcqRel);
            let place = &self.places[at % 4];
            place.1.store(value, Ordering::Relaxed);
            place.0.store(at + 1, Ordering::Release);
        }
        fn get(&self) -> Option<u64> {
            let at = self.tail.load(Ordering::Acquire);
            let place = &self.places[at % 4];
            if place.0.load(Ordering::Acquire) != at + 1 {
                return None;
            }
            self.tail.store(at + 1, Ordering::Release);
            Some(place.1.load(Ordering::Relaxed))
        }
    }
    let stuck = stops(
        || Waiting {
            head: AtomicUsize::new(0),
            tail: AtomicUsize::new(0),
            places: [const { (AtomicUsize::new(0), AtomicU64::new(0)) }; 4],
        },
        |queue| queue.put(1),
        |queue| {
            queue.put(2);
            soon(|| queue.get()).is_some()
        },
        |_| {},
    );
    assert!(stuck.is_err());
}

#[test]
fn adjacent_words() {
    let add = |pair: &AtomicPair| {
        let mut old = pair.load();
        soon(
            || match pair.compare_exchange(old, (old.0 + 1, old.1 + 1)) {
                Ok(()) => Some(()),
                Err(now) => {
                    old = now;
                    None
                }
            },
        )
    };
    goes_on(
        "pair",
        || AtomicPair::new(0, 0),
        |pair| {
            add(pair);
        },
        |pair| (0..20).all(|_| add(pair).is_some()),
        |pair| assert_eq!(pair.load(), (21, 21)),
    );
}

#[test]
fn stacks() {
    struct Nodes(Stack, [stack::Node; 4]);
    let make = || {
        let nodes = Box::new(Nodes(Stack::new(), [const { stack::Node::new() }; 4]));
        // SAFETY: the nodes end with the stack.
        unsafe { nodes.0.push(NonNull::from(&nodes.1[0])) };
        // SAFETY: as above.
        unsafe { nodes.0.push(NonNull::from(&nodes.1[1])) };
        nodes
    };
    let others = |nodes: &Box<Nodes>| {
        (0..10).all(|_| {
            // SAFETY: the nodes end with the stack; this one is popped again.
            unsafe { nodes.0.push(NonNull::from(&nodes.1[2])) };
            // All that the victim has pushed or popped.
            let mut popped = Vec::new();
            let back = soon(|| {
                let node = nodes.0.pop()?;
                popped.push(node);
                std::ptr::eq(node.as_ptr(), &nodes.1[2]).then_some(())
            });
            for node in popped.into_iter().rev() {
                if !std::ptr::eq(node.as_ptr(), &nodes.1[2]) {
                    // SAFETY: just popped.
                    unsafe { nodes.0.push(node) };
                }
            }
            back.is_some()
        })
    };
    let count = |n| move |nodes: &Box<Nodes>| assert_eq!(nodes.0.take_all().count(), n);
    goes_on(
        "stack, push",
        make,
        // SAFETY: as above.
        |nodes| unsafe { nodes.0.push(NonNull::from(&nodes.1[3])) },
        others,
        count(3),
    );
    goes_on(
        "stack, pop",
        make,
        |nodes| assert!(nodes.0.pop().is_some()),
        others,
        count(1),
    );
    let array = || {
        let stack: ArrayStack<u32, 4> = ArrayStack::new();
        stack.push(1).and(stack.push(2)).unwrap();
        stack
    };
    let others = |stack: &ArrayStack<u32, 4>| {
        (0..10).all(|n| stack.push(n + 10).is_ok() && stack.pop().is_some())
    };
    let count = |n| move |stack: &ArrayStack<u32, 4>| assert_eq!(stack.len(), n);
    goes_on(
        "array stack, push",
        array,
        |stack| stack.push(3).unwrap(),
        others,
        count(3),
    );
    goes_on(
        "array stack, pop",
        array,
        |stack| assert!(stack.pop().is_some()),
        others,
        count(1),
    );
    let values = || {
        let stack: ValueStack<u64, 4> = ValueStack::new();
        stack.push(1).and(stack.push(2)).unwrap();
        stack
    };
    let others = |stack: &ValueStack<u64, 4>| {
        (0..10).all(|n| stack.push(n + 10).is_ok() && stack.pop().is_some())
    };
    let count = |n| move |stack: &ValueStack<u64, 4>| assert_eq!(stack.len(), n);
    goes_on(
        "stack of values, push",
        values,
        |stack| stack.push(3).unwrap(),
        others,
        count(3),
    );
    goes_on(
        "stack of values, pop",
        values,
        |stack| assert!(stack.pop().is_some()),
        others,
        count(1),
    );
}

#[test]
fn words_and_wakers() {
    goes_on(
        "once",
        Once::new,
        |once| {
            let _ = once.set(1);
        },
        |once| {
            // Nobody waits, whatever they find.
            let _ = once.set(2);
            once.get().is_none_or(|n| [1, 2].contains(n))
        },
        |once| assert!(once.get().is_some()),
    );
    let others = |list: &WaitList| {
        let node = WaitNode::new();
        let enrolled = list.enroll(&node);
        list.wake_all();
        enrolled && !node.is_queued()
    };
    goes_on(
        "wait list, enrolment",
        WaitList::new,
        |list| {
            let node = WaitNode::new();
            assert!(list.enroll(&node));
            list.leave(&node);
        },
        others,
        |list| assert!(!list.has_waiters()),
    );
    goes_on(
        "wait list, waking",
        WaitList::new,
        |list| _ = list.wake_all(),
        others,
        |list| assert!(!list.has_waiters()),
    );
    struct Waiting(WaitList, [WaitNode; 3]);
    // SAFETY: all three are enrolled before anybody shares them, and after that only looked at.
    unsafe impl Sync for Waiting {}
    let waiting = || {
        let waiting = Waiting(WaitList::new(), core::array::from_fn(|_| WaitNode::new()));
        assert!(waiting.1.iter().all(|node| waiting.0.enroll(node)));
        waiting
    };
    // The other wakers wake the sleepers that the frozen one has not woken.
    let wake_the_rest = |waiting: &Waiting| {
        waiting.0.wake_all();
        waiting.1.iter().all(|node| !node.is_queued())
    };
    let wakers = [WaitList::wake_all, WaitList::wake_one];
    for (name, wake) in ["all", "one"].into_iter().zip(wakers) {
        goes_on(
            &format!("wait list, waking {name} of three"),
            waiting,
            |waiting| _ = wake(&waiting.0),
            wake_the_rest,
            |waiting| assert!(!waiting.0.has_waiters()),
        );
    }
}

#[test]
fn notes_of_handlers() {
    static RAN: AtomicUsize = AtomicUsize::new(0);
    struct Notes(epoch::Domain<2>, [UnsafeCell<Retired>; 5]);
    // SAFETY: each note is used by one party.
    unsafe impl Sync for Notes {}
    let retire = |notes: &Notes, n: usize| {
        let note = NonNull::new(notes.1[n].get()).expect("a place");
        // SAFETY: each note is used once, and ends with the domain, when all callbacks have run.
        unsafe {
            notes
                .0
                .retire_with(note, |_| _ = RAN.fetch_add(1, Ordering::Relaxed), 0)
        };
    };
    goes_on(
        "epoch, retire and collect",
        || {
            RAN.store(0, Ordering::Relaxed);
            let notes = [const { UnsafeCell::new(Retired::new()) }; 5];
            let notes = Box::new(Notes(epoch::Domain::new(), notes));
            notes.0.idle_exit(0);
            notes
        },
        |notes| {
            retire(notes, 0);
            notes.0.quiescent(0);
            notes.0.collect();
        },
        |notes| {
            (1..5).for_each(|n| retire(notes, n));
            notes.0.quiescent(0);
            notes.0.collect();
            true
        },
        |notes| {
            notes.0.quiescent(0);
            notes.0.collect();
            assert_eq!(RAN.load(Ordering::Relaxed), 5);
        },
    );
}
