//! Progress: one thread stops for ever after the first instruction of an operation, after the second, and so
//! on to its end, and each time the others must get theirs done (`sync/tests/common/freeze.rs`).
//!
//! The operations of the others are counted and must succeed where the structure promises that: a value that
//! is put comes out again, and so on. That the method catches what waits is shown by the controls in the test
//! of the same name of `sync`.
#![cfg(all(not(loom), not(miri), target_os = "linux", target_arch = "x86_64"))]
// Boxed, so that nodes stay where they are.
#![allow(clippy::borrowed_box)]

#[path = "../../sync/tests/common/mod.rs"]
#[allow(dead_code)] // each test needs a part of it
mod common;

use common::freeze::{goes_on, soon};
use lab::mcas::{Cell, Change, Domain};
use lab::queue::{linked, mpmc, mpsc, spmc, spsc};
use lab::{List, list};
use std::ptr::NonNull;

#[test]
fn distant_words() {
    static DOMAIN: Domain<4, 3, 2> = Domain::new();
    fn add(cells: &[Cell; 3], which: &[usize]) -> bool {
        let Some(mut party) = DOMAIN.join() else {
            return false;
        };
        soon(|| {
            let changes: [_; 2] = std::array::from_fn(|n| {
                let cell = &cells[which[n]];
                let old = DOMAIN.read(cell);
                Change {
                    cell,
                    old,
                    new: old + 1,
                }
            });
            // SAFETY: the victim has gone on and ended before the cells go.
            unsafe { party.change(&changes) }.then_some(())
        })
        .is_some()
    }
    goes_on(
        "mcas",
        || [Cell::new(0), Cell::new(0), Cell::new(0)],
        |cells| assert!(add(cells, &[0, 1])),
        |cells| (0..5).all(|_| add(cells, &[1, 2]) && add(cells, &[2, 0])),
        |cells| {
            let values = [0, 1, 2].map(|n| DOMAIN.read(&cells[n]));
            assert_eq!(values, [6, 6, 10]);
        },
    );
}

/// One thread at a time is on each side that allows only one, in all runs.
macro_rules! put {
    ($queue:expr, $value:expr) => {
        // SAFETY: see above.
        unsafe { $queue.put($value) }
    };
}
macro_rules! get {
    ($queue:expr) => {
        // SAFETY: see above.
        unsafe { $queue.get() }
    };
}

#[test]
fn queues() {
    goes_on(
        "queue of one and one, put",
        spsc::Queue::<u64, 4>::new,
        |queue| put!(queue, 1).unwrap(),
        |queue| {
            get!(queue);
            true
        },
        |queue| assert!(queue.len() <= 1),
    );
    goes_on(
        "queue of one and one, get",
        || {
            let queue = spsc::Queue::<u64, 4>::new();
            put!(queue, 1).unwrap();
            queue
        },
        |queue| assert_eq!(get!(queue), Some(1)),
        |queue| (2..5).all(|n| put!(queue, n).is_ok()),
        |queue| assert_eq!(queue.len(), 3),
    );
    goes_on(
        "queue of one and many, get",
        || {
            let queue = spmc::Queue::<u64, 4>::new();
            put!(queue, 1).and(put!(queue, 2)).unwrap();
            queue
        },
        |queue| assert!(queue.get().is_some()),
        |queue| {
            queue.get().is_some() && (3..9).all(|n| put!(queue, n).is_ok() && queue.get().is_some())
        },
        |queue| assert!(queue.is_empty()),
    );
    goes_on(
        "queue of one and many, put",
        spmc::Queue::<u64, 4>::new,
        |queue| put!(queue, 1).unwrap(),
        |queue| {
            queue.get();
            true
        },
        |queue| assert!(queue.len() <= 1),
    );
    let through = |queue: &mpsc::Queue<u64, 4>| {
        // A value that is put comes out, also when the place of one who stopped comes round again.
        (10..30)
            .all(|n| queue.put(n).is_ok() && soon(|| (get!(queue)? == n).then_some(())).is_some())
    };
    goes_on(
        "queue of many and one, put",
        mpsc::Queue::<u64, 4>::new,
        |queue| queue.put(1).unwrap(),
        through,
        |queue| assert!(queue.len() <= 1),
    );
    goes_on(
        "queue of many and one, two at once",
        mpsc::Queue::<u64, 4>::new,
        |queue| queue.put_all([1, 2]).unwrap(),
        through,
        |queue| {
            let left: Vec<_> = std::iter::from_fn(|| get!(queue)).collect();
            assert!([vec![], vec![1, 2]].contains(&left), "{left:?}");
        },
    );
    goes_on(
        "queue of many and one, get",
        || {
            let queue = mpsc::Queue::<u64, 4>::new();
            queue.put(1).and(queue.put(2)).unwrap();
            queue
        },
        |queue| assert!(get!(queue).is_some()),
        |queue| queue.put(3).is_ok() && queue.put(4).is_ok(),
        |queue| assert_eq!(queue.len(), 3),
    );
    let full = || {
        let queue = mpmc::Queue::<u64, 4>::new();
        queue.put(1).and(queue.put(2)).unwrap();
        queue
    };
    let through = |queue: &mpmc::Queue<u64, 4>| {
        (10..30).all(|n| queue.put(n).is_ok() && queue.get().is_some())
    };
    goes_on(
        "queue of many and many, put",
        full,
        |queue| queue.put(3).unwrap(),
        through,
        |queue| assert_eq!(queue.len(), 3),
    );
    goes_on(
        "queue of many and many, get",
        full,
        |queue| assert!(queue.get().is_some()),
        through,
        |queue| assert_eq!(queue.len(), 1),
    );
}

#[test]
fn queue_of_nodes() {
    struct Nodes(linked::Queue<u64>, Box<[linked::Node; 4]>);
    let make = || {
        let nodes = Box::new([const { linked::Node::new() }; 4]);
        // SAFETY: nodes and queue end together, here and below; each node is in one place.
        let queue = unsafe { linked::Queue::new(NonNull::from(&nodes[0])) };
        // SAFETY: as above.
        unsafe { queue.put(NonNull::from(&nodes[1]), 1) };
        Nodes(queue, nodes)
    };
    let others = |nodes: &Nodes| {
        let mut free = NonNull::from(&nodes.1[2]);
        (10..20).all(|n| {
            // SAFETY: as above.
            unsafe { nodes.0.put(free, n) };
            match nodes.0.get() {
                Some((_, node)) => {
                    free = node;
                    true
                }
                None => false,
            }
        })
    };
    let left =
        |n: usize| move |nodes: &Nodes| assert_eq!(std::iter::from_fn(|| nodes.0.get()).count(), n);
    goes_on(
        "queue of nodes, put",
        make,
        // SAFETY: as above.
        |nodes| unsafe { nodes.0.put(NonNull::from(&nodes.1[3]), 2) },
        others,
        left(2),
    );
    goes_on(
        "queue of nodes, get",
        make,
        |nodes| assert!(nodes.0.get().is_some()),
        others,
        left(0),
    );
}

#[test]
fn lists() {
    struct Nodes(List, [list::Node; 6]);
    let make = || {
        let nodes = Box::new(Nodes(List::new(), [const { list::Node::new() }; 6]));
        for n in 0..3 {
            // SAFETY: nodes and list end together, and a run is one grace period, here and below.
            unsafe { nodes.0.append(NonNull::from(&nodes.1[n])) };
        }
        nodes
    };
    let others = |nodes: &Box<Nodes>| {
        // SAFETY: as above.
        unsafe {
            nodes.0.append(NonNull::from(&nodes.1[4]));
            nodes.0.insert(NonNull::from(&nodes.1[5]));
            nodes.0.remove(NonNull::from(&nodes.1[2])) && nodes.0.remove(NonNull::from(&nodes.1[0]))
        }
    };
    let left = |which: &'static [usize]| {
        move |nodes: &Box<Nodes>| {
            // SAFETY: as above.
            let mut left: Vec<_> = unsafe { nodes.0.iter() }
                .filter_map(|node| (0..6).find(|n| std::ptr::eq(&nodes.1[*n], node)))
                .collect();
            left.sort_unstable();
            assert_eq!(left, which);
        }
    };
    goes_on(
        "list, remove",
        make,
        // SAFETY: as above.
        |nodes| assert!(unsafe { nodes.0.remove(NonNull::from(&nodes.1[1])) }),
        others,
        left(&[4, 5]),
    );
    goes_on(
        "list, append",
        make,
        // SAFETY: as above.
        |nodes| unsafe { nodes.0.append(NonNull::from(&nodes.1[3])) },
        others,
        left(&[1, 3, 4, 5]),
    );
    goes_on(
        "list, insert",
        make,
        // SAFETY: as above.
        |nodes| unsafe { nodes.0.insert(NonNull::from(&nodes.1[3])) },
        others,
        left(&[1, 3, 4, 5]),
    );
}
