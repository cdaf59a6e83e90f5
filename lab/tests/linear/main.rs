//! Every structure is linearizable: histories recorded under stress, each explained by operations one after
//! the other (`sync/tests/linear`, where the controls are that must be caught).
#![cfg(all(not(loom), not(miri), target_os = "linux", target_arch = "x86_64"))]

#[path = "../../../sync/tests/linear/checker.rs"]
mod checker;
#[path = "../../../sync/tests/common/mod.rs"]
#[allow(dead_code)] // each test needs a part of it
mod common;
#[path = "../../../sync/tests/linear/histories.rs"]
mod histories;
#[path = "../../../sync/tests/linear/specs.rs"]
#[allow(dead_code)] // the other test of the name needs the rest
mod specs;

use histories::{OPERATIONS, THREADS, linearizable, nothing, value};
use lab::mcas::{Cell, Change, Domain};
use lab::queue::{linked, mpmc, mpsc, spmc, spsc};
use lab::{Helping, List, list};
use specs::{Cells, Counter, On, OnCells, Seq};
use std::ptr::NonNull;

#[test]
fn distant_words() {
    let domain: &Domain<THREADS, 3, 2> = Box::leak(Box::new(Domain::new()));
    linearizable(
        &Cells,
        [0; 3],
        || [Cell::new(0), Cell::new(0), Cell::new(0)],
        |cells, thread| {
            let mut party = domain.join().expect("a party for each");
            for n in 0..OPERATIONS {
                let mut known = [0; 3];
                let first = thread.random.below(3) as usize;
                let which = [first, (first + 1) % 3, (first + 2) % 3];
                for at in &which[..2] {
                    known[*at] = thread.note(|| {
                        let value = party.read(&cells[*at]);
                        (OnCells::Read(*at, value), value)
                    });
                }
                let new = value(thread, n + 1);
                let changes: Vec<_> = which[..2].iter().map(|at| (*at, known[*at], new)).collect();
                let written = changes.clone();
                let arguments: Vec<_> = changes
                    .iter()
                    .map(|(at, old, new)| Change {
                        cell: &cells[*at],
                        old: *old,
                        new: *new,
                    })
                    .collect();
                thread.just(|| {
                    // SAFETY: all operations on these cells are over when they go; the domain knows no others
                    // then.
                    OnCells::Change(written, unsafe { party.change(&arguments) })
                });
            }
        },
        nothing,
    );
}

const FOUR: Seq = Seq {
    capacity: 4,
    slack: 0,
};

#[test]
fn queue_of_one_and_one() {
    linearizable(
        &FOUR,
        vec![],
        spsc::Queue::<u64, 4>::new,
        |queue, thread| {
            for n in 0..3 * OPERATIONS {
                let value = value(thread, n);
                match thread.number {
                    // SAFETY: thread 0 is the only producer, thread 1 the only consumer.
                    0 => thread.just(|| On::Back(vec![value], unsafe { queue.put(value) }.is_ok())),
                    // SAFETY: as above.
                    1 => thread.just(|| On::Take(unsafe { queue.get() })),
                    _ => {}
                }
            }
        },
        nothing,
    );
}

#[test]
fn queue_of_one_and_many() {
    linearizable(
        &FOUR,
        vec![],
        spmc::Queue::<u64, 4>::new,
        |queue, thread| {
            for n in 0..2 * OPERATIONS {
                let value = value(thread, n);
                if thread.number == 0 {
                    // SAFETY: thread 0 is the only producer.
                    thread.just(|| On::Back(vec![value], unsafe { queue.put(value) }.is_ok()));
                } else {
                    thread.just(|| On::Take(queue.get()));
                }
            }
        },
        nothing,
    );
}

#[test]
fn queue_of_many_and_one() {
    let spec = Seq {
        capacity: 4,
        // Producers on their way claim up to two places each, and leave as many to be passed over.
        slack: 4,
    };
    linearizable(
        &spec,
        vec![],
        mpsc::Queue::<u64, 4>::new,
        |queue, thread| {
            for n in 0..OPERATIONS {
                let value = value(thread, 2 * n);
                if thread.number == 0 {
                    for _ in 0..2 {
                        // SAFETY: thread 0 is the only consumer.
                        thread.just(|| On::Take(unsafe { queue.get() }));
                    }
                } else if thread.random.below(3) == 0 {
                    let both = [value, value + 1];
                    thread.just(|| On::Back(both.to_vec(), queue.put_all(both).is_ok()));
                } else {
                    thread.just(|| On::Back(vec![value], queue.put(value).is_ok()));
                }
            }
        },
        nothing,
    );
}

#[test]
fn queue_of_many_and_many() {
    linearizable(
        &FOUR,
        vec![],
        mpmc::Queue::<u64, 4>::new,
        |queue, thread| {
            for n in 0..OPERATIONS {
                let value = value(thread, n);
                if thread.random.below(2) == 0 {
                    thread.just(|| On::Back(vec![value], queue.put(value).is_ok()));
                } else {
                    thread.just(|| On::Take(queue.get()));
                }
            }
        },
        nothing,
    );
}

#[test]
fn queue_of_nodes() {
    struct Nodes(
        linked::Queue<u64>,
        /// They live as long as the queue.
        #[allow(dead_code)]
        Box<[linked::Node; THREADS + 1]>,
    );
    linearizable(
        &Seq::ENDLESS,
        vec![],
        || {
            let nodes = Box::new([const { linked::Node::new() }; THREADS + 1]);
            // SAFETY: nodes and queue end together.
            let queue = unsafe { linked::Queue::new(NonNull::from(&nodes[THREADS])) };
            Nodes(queue, nodes)
        },
        |nodes, thread| {
            let mut mine = vec![NonNull::from(&nodes.1[thread.number])];
            for n in 0..OPERATIONS {
                let value = value(thread, n);
                match mine.pop() {
                    Some(node) => thread.just(|| {
                        // SAFETY: the node is ours, and lives as long as the queue.
                        unsafe { nodes.0.put(node, value) };
                        On::Back(vec![value], true)
                    }),
                    None => {
                        let free = thread.note(|| match nodes.0.get() {
                            Some((value, free)) => (On::Take(Some(value)), Some(free)),
                            None => (On::Take(None), None),
                        });
                        mine.extend(free);
                    }
                }
            }
        },
        nothing,
    );
}

#[test]
fn list_of_both_ends() {
    const NODES: usize = THREADS * OPERATIONS;
    struct Nodes(List, [list::Node; NODES]);
    linearizable(
        &Seq::ENDLESS,
        vec![],
        || Nodes(List::new(), [const { list::Node::new() }; NODES]),
        |nodes, thread| {
            let own = thread.number * OPERATIONS;
            let mut used = 0;
            for _ in 0..OPERATIONS {
                let choice = thread.random.below(4);
                if choice < 2 || used == 0 {
                    let node = own + used;
                    used += 1;
                    let at = NonNull::from(&nodes.1[node]);
                    // SAFETY: nodes end with the list, are used once, and a round is one grace period.
                    thread.just(|| unsafe {
                        if choice == 0 {
                            nodes.0.insert(at);
                            On::Front(node as u64, true)
                        } else {
                            nodes.0.append(at);
                            On::Back(vec![node as u64], true)
                        }
                    });
                } else {
                    let node = own + thread.random.below(used as u64) as usize;
                    let at = NonNull::from(&nodes.1[node]);
                    // SAFETY: as above; it was inserted.
                    thread.just(|| On::Remove(node as u64, unsafe { nodes.0.remove(at) }));
                }
            }
        },
        |nodes| {
            // SAFETY: as above.
            let left = unsafe { nodes.0.iter() }.map(|node| {
                (0..NODES)
                    .find(|n| std::ptr::eq(&nodes.1[*n], node))
                    .expect("one of ours") as u64
            });
            Some(On::Contents(left.collect()))
        },
    );
}

fn increment(n: &mut u64) -> u64 {
    *n += 1;
    *n - 1
}

#[test]
fn helping_lock() {
    linearizable(
        &Counter,
        0,
        || Helping::new(0),
        |total, thread| {
            (0..OPERATIONS).for_each(|_| thread.just(|| increment(&mut total.enter())));
        },
        nothing,
    );
}
