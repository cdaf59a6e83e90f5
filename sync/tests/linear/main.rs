//! Every structure is linearizable: histories recorded under stress, each explained by operations one after
//! the other.
//!
//! Half of the histories run at full speed, half with threads that yield between any two instructions of an
//! operation, by repeatable random numbers. Two controls must be caught: a history that is wrong by hand, and
//! a counter whose increment is two steps.
#![cfg(all(not(loom), not(miri), target_os = "linux", target_arch = "x86_64"))]

mod checker;
#[path = "../common/mod.rs"]
#[allow(dead_code)] // each test needs a part of it
mod common;
mod histories;
#[allow(dead_code)] // the other test of the name needs the rest
mod specs;

use checker::{Event, explain};
use histories::{OPERATIONS, THREADS, histories, linearizable, nothing, value};
use specs::{Counter, On, Seq};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use sync::cas2::AtomicPair;
use sync::{ArrayStack, Monitor, Stack, ValueStack, stack};

#[test]
fn the_checker_finds_what_is_wrong() {
    let event = |call, begin, end| Event { call, begin, end };
    let wrong = [
        event(On::Back(vec![1], true), 0, 1),
        event(On::Back(vec![2], true), 2, 3),
        event(On::Take(Some(2)), 4, 5),
    ];
    assert_eq!(explain(&Seq::ENDLESS, vec![], &wrong), None);
    let right = [
        event(On::Back(vec![1], true), 0, 3),
        event(On::Back(vec![2], true), 1, 2),
        event(On::Take(Some(2)), 4, 5),
    ];
    assert_eq!(explain(&Seq::ENDLESS, vec![], &right), Some(vec![1, 0, 2]));
}

#[test]
fn an_increment_of_two_steps_is_caught() {
    let caught = histories(
        &Counter,
        &0,
        || AtomicU64::new(0),
        |counter, thread| {
            for _ in 0..OPERATIONS {
                thread.just(|| {
                    let old = counter.load(Ordering::SeqCst);
                    counter.store(old + 1, Ordering::SeqCst);
                    old
                });
            }
        },
        nothing,
    );
    assert!(caught.is_some());
}

#[test]
fn adjacent_words() {
    linearizable(
        &Counter,
        0,
        || AtomicPair::new(0, 0),
        |pair, thread| {
            for _ in 0..OPERATIONS {
                thread.just(|| {
                    let mut old = pair.read();
                    while let Err(now) = pair.compare_exchange(old, (old.0 + 3, old.1 + 1)) {
                        old = now;
                    }
                    assert_eq!(old.0, 3 * old.1);
                    old.1
                });
            }
        },
        nothing,
    );
}

#[test]
fn stack_of_nodes() {
    const NODES: usize = 2 * THREADS;
    struct Nodes(Stack, [stack::Node; NODES]);
    let number = |nodes: &Nodes, node: NonNull<stack::Node>| {
        (0..NODES)
            .find(|n| std::ptr::eq(&nodes.1[*n], node.as_ptr()))
            .expect("one of ours")
    };
    linearizable(
        &Seq::ENDLESS,
        vec![],
        || Nodes(Stack::new(), [const { stack::Node::new() }; NODES]),
        |nodes, thread| {
            let mut mine = vec![2 * thread.number, 2 * thread.number + 1];
            for _ in 0..OPERATIONS {
                match thread.random.below(7) {
                    0 => {
                        let all = thread.note(|| {
                            let all: Vec<_> = nodes.0.take_all().collect();
                            let all: Vec<_> = all.into_iter().map(|n| number(nodes, n)).collect();
                            (On::TakeAll(all.iter().map(|n| *n as u64).collect()), all)
                        });
                        mine.extend(all);
                    }
                    1..=3 if !mine.is_empty() => {
                        let node = mine.pop().expect("not empty");
                        thread.just(|| {
                            // SAFETY: the node is ours, and lives as long as the stack.
                            unsafe { nodes.0.push(NonNull::from(&nodes.1[node])) };
                            On::Front(node as u64, true)
                        });
                    }
                    _ => {
                        let got = thread.note(|| {
                            let got = nodes.0.pop().map(|n| number(nodes, n));
                            (On::Take(got.map(|n| n as u64)), got)
                        });
                        mine.extend(got);
                    }
                }
            }
        },
        |nodes| {
            let all = nodes.0.take_all().map(|n| number(nodes, n) as u64);
            Some(On::TakeAll(all.collect()))
        },
    );
}

#[test]
fn stack_in_an_array() {
    let spec = Seq {
        capacity: 3,
        slack: 0,
    };
    linearizable(
        &spec,
        vec![],
        ArrayStack::<u32, 3>::new,
        |stack, thread| {
            for n in 0..OPERATIONS {
                let value = value(thread, n);
                if thread.random.below(2) == 0 {
                    thread.just(|| On::Front(value, stack.push(value as u32).is_ok()));
                } else {
                    thread.just(|| On::Take(stack.pop().map(u64::from)));
                }
            }
        },
        nothing,
    );
}

#[test]
fn stack_of_values() {
    // Each of the others may keep a place.
    let spec = Seq {
        capacity: 5,
        slack: THREADS - 1,
    };
    linearizable(
        &spec,
        vec![],
        ValueStack::<u64, 5>::new,
        |stack, thread| {
            for n in 0..OPERATIONS {
                let value = value(thread, n);
                if thread.random.below(2) == 0 {
                    thread.just(|| On::Front(value, stack.push(value).is_ok()));
                } else {
                    thread.just(|| On::Take(stack.pop()));
                }
            }
        },
        nothing,
    );
}

fn increment(n: &mut u64) -> u64 {
    *n += 1;
    *n - 1
}

#[test]
fn monitor() {
    linearizable(
        &Counter,
        0,
        || Monitor::new(0),
        |total, thread| {
            (0..OPERATIONS).for_each(|_| thread.just(|| increment(&mut total.lock())));
        },
        nothing,
    );
}
