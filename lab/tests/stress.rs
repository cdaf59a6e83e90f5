//! The queues and the list under real threads: ordinary runs, and small ones under Miri.
#![cfg(not(loom))]

#[path = "../../sync/tests/common/mod.rs"]
#[allow(dead_code)] // each test needs a part of it
mod common;

use common::tally::{Tally, until};
use lab::queue::{linked, mpmc, mpsc, spmc, spsc};
use lab::{List, list};
use std::ptr::NonNull;
use sync::Handle;

const MANY: u64 = if cfg!(miri) { 60 } else { 20_000 };
const THREADS: u64 = 3;

#[test]
fn queue_of_one_and_one() {
    let mut queue: spsc::Queue<Box<u64>, 4> = spsc::Queue::new();
    let (mut producer, mut consumer) = queue.split();
    std::thread::scope(|s| {
        s.spawn(move || {
            for n in 0..MANY {
                let mut value = Box::new(n);
                while let Err(back) = producer.put(value) {
                    value = back;
                    std::thread::yield_now();
                }
            }
        });
        for n in 0..MANY {
            assert_eq!(*until(|| consumer.get()), n);
        }
    });
    // The rest is dropped with the queue.
    let (mut producer, _) = queue.split();
    assert!((0..4).all(|n| producer.put(Box::new(n)).is_ok()));
    assert!(producer.put(Box::new(9)).is_err());
}

/// Each place is filled and emptied many times, and what is full or empty says so at every count.
#[test]
fn queue_of_one_and_one_knows_its_count() {
    let queue = spsc::Queue::<u32, 4>::new();
    for n in 0..10 {
        // SAFETY: there is no other thread.
        unsafe {
            for k in 0..4 {
                assert_eq!((queue.len(), queue.is_empty()), (k, k == 0));
                assert_eq!(queue.put(4 * n + k as u32), Ok(()));
            }
            assert_eq!((queue.len(), queue.put(0)), (4, Err(0)));
            for k in 0..4 {
                assert_eq!(queue.get(), Some(4 * n + k));
            }
            assert_eq!((queue.get(), queue.is_empty()), (None, true));
        }
    }
}

#[test]
fn queue_of_many_and_one() {
    let queue: mpsc::Queue<Box<u64>, 8> = mpsc::Queue::new();
    let tally = Tally::new(THREADS * MANY);
    std::thread::scope(|s| {
        for t in 0..THREADS {
            let queue = &queue;
            s.spawn(move || {
                for n in (0..MANY).step_by(2) {
                    let value = t * MANY + n;
                    if n % 4 == 0 {
                        until(|| queue.put_all([Box::new(value), Box::new(value + 1)]).ok());
                    } else {
                        until(|| queue.put(Box::new(value)).ok());
                        until(|| queue.put(Box::new(value + 1)).ok());
                    }
                }
            });
        }
        // SAFETY: there is no other consumer.
        let mut consumer = unsafe { queue.consumer() };
        for _ in 0..THREADS * MANY {
            tally.see(*until(|| consumer.get()));
        }
    });
    tally.complete();
    assert!(queue.is_empty());
    assert!(
        queue
            .put_all::<9>(std::array::from_fn(|_| Box::new(0)))
            .is_err()
    );
}

#[test]
fn queue_of_one_and_many() {
    let queue: spmc::Queue<u64, 8> = spmc::Queue::new();
    let tally = Tally::new(THREADS * MANY);
    std::thread::scope(|s| {
        for _ in 0..THREADS {
            s.spawn(|| (0..MANY).for_each(|_| tally.see(until(|| queue.get()))));
        }
        for n in 0..THREADS * MANY {
            // SAFETY: there is no other producer.
            until(|| unsafe { queue.put(n) }.ok());
        }
    });
    tally.complete();
    assert!(queue.is_empty());
}

#[test]
fn queue_of_many_and_many() {
    let queue: mpmc::Queue<u64, 4> = mpmc::Queue::new();
    let tally = Tally::new(THREADS * MANY);
    std::thread::scope(|s| {
        for t in 0..THREADS {
            let (queue, tally) = (&queue, &tally);
            s.spawn(move || (0..MANY).for_each(|n| until(|| queue.put(t * MANY + n).ok())));
            s.spawn(move || {
                let mut last = [0; THREADS as usize];
                for _ in 0..MANY {
                    let value = until(|| queue.get());
                    tally.see(value);
                    // One producer's values come out in its order, whoever gets them.
                    let producer = (value / MANY) as usize;
                    assert!(last[producer] <= value);
                    last[producer] = value;
                }
            });
        }
    });
    tally.complete();
    assert_eq!((queue.len(), queue.get()), (0, None));
    assert!((0..4).all(|n| queue.put(n).is_ok()));
    assert_eq!(queue.put(4), Err(4));
}

#[test]
fn queue_of_nodes() {
    let nodes: Vec<linked::Node> = (0..=THREADS).map(|_| linked::Node::new()).collect();
    // SAFETY: the nodes outlive the queue, and each is in one place at a time.
    let queue: linked::Queue<u64> = unsafe { linked::Queue::new(NonNull::from(&nodes[0])) };
    let tally = Tally::new(THREADS * MANY);
    std::thread::scope(|s| {
        for t in 0..THREADS {
            let (queue, tally) = (&queue, &tally);
            let mut node = Handle(NonNull::from(&nodes[t as usize + 1]));
            s.spawn(move || {
                for n in 0..MANY {
                    // SAFETY: as above.
                    unsafe { queue.put({ node }.0, t * MANY + n) };
                    let (value, free) = until(|| queue.get());
                    tally.see(value);
                    node = Handle(free);
                }
            });
        }
    });
    tally.complete();
    assert!(queue.get().is_none());
    assert!(queue.into_spare().is_some());
}

#[test]
fn list_under_change() {
    let fixed: Vec<list::Node> = (0..4).map(|_| list::Node::new()).collect();
    // One node per insertion: the whole test is one grace period.
    let passing: Vec<list::Node> = (0..THREADS * MANY / 4).map(|_| list::Node::new()).collect();
    let list = List::new();
    for node in &fixed {
        // SAFETY: the nodes outlive the list.
        unsafe { list.append(NonNull::from(node)) };
    }
    std::thread::scope(|s| {
        for nodes in passing.chunks((MANY / 4) as usize) {
            let list = &list;
            s.spawn(move || {
                for (n, node) in nodes.iter().enumerate() {
                    let node = NonNull::from(node);
                    // SAFETY: as above; the test is one grace period.
                    unsafe {
                        if n % 2 == 0 {
                            list.insert(node);
                        } else {
                            list.append(node);
                        }
                        if n % 7 != 0 {
                            assert!(list.remove(node));
                        }
                    }
                }
            });
        }
        for _ in 0..MANY / 50 {
            // SAFETY: as above.
            let seen = unsafe { list.iter() }
                .filter(|n| fixed.iter().any(|f| std::ptr::eq(f, *n)))
                .count();
            assert_eq!(seen, fixed.len(), "a node that stays was not seen");
        }
    });
    let kept = passing
        .chunks((MANY / 4) as usize)
        .map(|c| c.len().div_ceil(7))
        .sum::<usize>();
    // SAFETY: as above.
    assert_eq!(unsafe { list.iter() }.count(), fixed.len() + kept);
}
