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

use histories::{OPERATIONS, ROUNDS, THREADS, linearizable, nothing, value};
use lab::mcas::{Cell, Change, Domain};
use lab::queue::{linked, mpmc, mpsc, spmc, spsc};
use lab::work_server::{Request, WorkServer};
use lab::{BinarySemaphore, Helping, List, general_list, list};
use specs::{Cells, Counter, Flag, On, OnCells, OnFlag, Seq};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

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

#[test]
fn general_list_with_visitors() {
    #[repr(C)]
    struct Element {
        node: general_list::Node,
        number: u64,
    }
    fn back(node: NonNull<general_list::Node>) {
        // SAFETY: all nodes are in boxed elements, given back once.
        drop(unsafe { Box::from_raw(node.cast::<Element>().as_ptr()) });
    }
    fn number(node: &general_list::Node) -> u64 {
        // SAFETY: as above, and visited.
        unsafe { NonNull::from(node).cast::<Element>().as_ref() }.number
    }
    linearizable(
        &Seq::ENDLESS,
        vec![],
        || general_list::List::new(back),
        |list, thread| {
            let mut used = 0;
            for _ in 0..OPERATIONS {
                if thread.random.below(2) == 0 || used == 0 {
                    let number = value(thread, used);
                    used += 1;
                    let element = Box::leak(Box::new(Element {
                        node: general_list::Node::new(),
                        number,
                    }));
                    let node = NonNull::from(element).cast();
                    thread.just(|| {
                        // SAFETY: fresh, and freed by `back`.
                        let inserted = unsafe { list.cursor().insert_after(node) };
                        On::Front(number, inserted.is_ok())
                    });
                } else {
                    // Another's as well: whoever finds it.
                    let whose = thread.random.below(THREADS as u64);
                    let goal = whose * 100 + thread.random.below(used as u64);
                    thread.just(|| {
                        let mut cursor = list.cursor();
                        while let Some(node) = cursor.advance() {
                            if number(node) == goal {
                                return On::Remove(goal, cursor.remove());
                            }
                        }
                        On::Remove(goal, false)
                    });
                }
            }
        },
        |list| {
            let mut cursor = list.cursor();
            let left = std::iter::from_fn(|| cursor.advance().map(number));
            Some(On::Contents(left.collect()))
        },
    );
}

#[test]
fn semaphore() {
    linearizable(
        &Flag,
        true,
        || BinarySemaphore::new(true),
        |semaphore, thread| {
            for _ in 0..OPERATIONS {
                if thread.random.below(2) == 0 {
                    thread.just(|| {
                        semaphore.up();
                        OnFlag::Raise
                    });
                } else {
                    thread.just(|| OnFlag::Try(semaphore.try_down()));
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

#[test]
fn work_server() {
    #[repr(C)]
    struct Work {
        request: Request<u64>,
        result: AtomicU64,
        done: AtomicBool,
    }
    /// # Safety
    /// The request is the first field of a `Work`.
    unsafe fn run(request: NonNull<Request<u64>>, n: &mut u64) {
        // SAFETY: the caller's promise; it lives until it is done.
        let work = unsafe { request.cast::<Work>().as_ref() };
        work.result.store(increment(n), Ordering::Relaxed);
        work.done.store(true, Ordering::Release);
    }
    static DONE: AtomicUsize = AtomicUsize::new(0);
    linearizable(
        &Counter,
        0,
        || WorkServer::new(0u64, WorkServer::serve),
        |server, thread| {
            for _ in 0..OPERATIONS {
                let work = Work {
                    request: Request::new(run),
                    result: AtomicU64::new(0),
                    done: AtomicBool::new(false),
                };
                thread.just(|| {
                    // SAFETY: the work is submitted once, and waited for.
                    unsafe { server.submit(NonNull::from(&work).cast()) };
                    while !work.done.load(Ordering::Acquire) {
                        std::thread::yield_now();
                    }
                    DONE.fetch_add(1, Ordering::Relaxed);
                    work.result.load(Ordering::Relaxed)
                });
            }
        },
        nothing,
    );
    assert_eq!(
        DONE.load(Ordering::Relaxed),
        ROUNDS as usize * THREADS * OPERATIONS
    );
}
