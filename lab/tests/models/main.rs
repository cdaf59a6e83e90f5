//! Every structure under loom: all interleavings of a few operations, all values that the memory model
//! allows.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p lab --release --test models`
//! Each model says how many executions that were (`--nocapture`).
#![cfg(loom)]

#[path = "../../../sync/tests/models/kit.rs"]
#[allow(dead_code)] // `sync` needs the rest
mod kit;
mod locks;
mod queues;
mod words;

use kit::{beside, free, leak, link_threads, model};
use lab::queue::{linked, mpmc, mpsc, spmc, spsc};
use lab::{List, list};
use loom::sync::Arc;
use loom::thread;

#[test]
fn spsc_keeps_order_and_owns_places() {
    model(3, || {
        let queue: Arc<spsc::Queue<Box<u32>, 2>> = Arc::new(spsc::Queue::new());
        let producer = {
            let queue = queue.clone();
            thread::spawn(move || {
                let mut n = 0;
                while n < 4 {
                    // SAFETY: the only producer.
                    match unsafe { queue.put(Box::new(n)) } {
                        Ok(()) => n += 1,
                        Err(_) => thread::yield_now(),
                    }
                }
            })
        };
        for n in 0..3 {
            let got = loop {
                // SAFETY: the only consumer.
                match unsafe { queue.get() } {
                    Some(got) => break got,
                    None => thread::yield_now(),
                }
            };
            assert_eq!(*got, n);
        }
        producer.join().unwrap();
        assert_eq!(queue.len(), 1);
    });
}

#[test]
fn mpsc_keeps_insertions_whole() {
    model(3, || {
        let queue: Arc<mpsc::Queue<Box<u32>, 4>> = Arc::new(mpsc::Queue::new());
        let pair = {
            let queue = queue.clone();
            thread::spawn(move || queue.put_all([Box::new(1), Box::new(2)]).is_ok())
        };
        let single = {
            let queue = queue.clone();
            thread::spawn(move || queue.put(Box::new(3)).is_ok())
        };
        let mut got = Vec::new();
        while got.len() < 3 {
            // SAFETY: the only consumer.
            match unsafe { queue.get() } {
                Some(value) => got.push(*value),
                None => thread::yield_now(),
            }
        }
        assert!(pair.join().unwrap() && single.join().unwrap());
        assert!(
            [[1, 2, 3], [3, 1, 2]].contains(&[got[0], got[1], got[2]]),
            "{got:?}"
        );
    });
}

#[test]
fn mpsc_places_are_used_again_only_when_left() {
    model(3, || {
        let queue: Arc<mpsc::Queue<Box<u32>, 1>> = Arc::new(mpsc::Queue::new());
        let producers: Vec<_> = (0..2)
            .map(|n| {
                let queue = queue.clone();
                thread::spawn(move || {
                    (0..2)
                        .filter(|m| queue.put(Box::new(n + m)).is_ok())
                        .count()
                })
            })
            .collect();
        // SAFETY: the only consumer.
        let mut got = (0..2).filter_map(|_| unsafe { queue.get() }).count();
        let put: usize = producers.into_iter().map(|p| p.join().unwrap()).sum();
        // SAFETY: as above.
        got += std::iter::from_fn(|| unsafe { queue.get() }).count();
        assert_eq!(got, put);
        assert!(put >= 1);
    });
}

#[test]
fn spmc_gives_each_value_to_one() {
    model(3, || {
        let queue: Arc<spmc::Queue<u32, 2>> = Arc::new(spmc::Queue::new());
        // SAFETY: this thread is the only producer, here and below.
        unsafe { queue.put(1).and(queue.put(2)).unwrap() };
        let consumers: Vec<_> = (0..2)
            .map(|_| {
                let queue = queue.clone();
                thread::spawn(move || queue.get())
            })
            .collect();
        let mut expected = vec![1, 2];
        // SAFETY: as above. Room appears when a consumer has left a place, which is then written over.
        expected.extend(unsafe { queue.put(3) }.is_ok().then_some(3));
        let mut all: Vec<_> = consumers
            .into_iter()
            .filter_map(|c| c.join().unwrap())
            .collect();
        assert_eq!(all.len(), 2);
        all.extend(std::iter::from_fn(|| queue.get()));
        all.sort_unstable();
        assert_eq!(all, expected);
    });
}

#[test]
fn mpmc_gives_each_value_to_one() {
    model(3, || {
        let queue: Arc<mpmc::Queue<u32, 4>> = Arc::new(mpmc::Queue::new());
        queue.put(1).unwrap();
        let producer = {
            let queue = queue.clone();
            thread::spawn(move || queue.put(2).is_ok())
        };
        let consumer = {
            let queue = queue.clone();
            thread::spawn(move || queue.get())
        };
        // There is always room, and two are put before `mine` with one other consumer: neither may fail
        // because somebody else is half-way.
        assert!(queue.put(3).is_ok());
        let mine = queue.get();
        assert!(mine.is_some() && producer.join().unwrap());
        let mut got: Vec<_> = consumer.join().unwrap().into_iter().chain(mine).collect();
        got.extend(std::iter::from_fn(|| queue.get()));
        got.sort_unstable();
        assert_eq!(got, [1, 2, 3]);
    });
}

#[test]
fn mpmc_keeps_order_of_one_producer() {
    model(3, || {
        let queue: Arc<mpmc::Queue<u32, 2>> = Arc::new(mpmc::Queue::new());
        let producer = {
            let queue = queue.clone();
            thread::spawn(move || {
                (1..=3)
                    .filter(|n| queue.put(*n).is_ok())
                    .collect::<Vec<_>>()
            })
        };
        let mut got: Vec<_> = (0..2).filter_map(|_| queue.get()).collect();
        let put = producer.join().unwrap();
        got.extend(std::iter::from_fn(|| queue.get()));
        assert_eq!(got, put);
    });
}

#[test]
fn linked_queue_keeps_order_while_nodes_return() {
    model(3, || {
        let nodes: Vec<_> = (0..3).map(|_| leak(linked::Node::new())).collect();
        // SAFETY: nodes live until the end of the model and are in one place at a time.
        let queue = Arc::new(unsafe { linked::Queue::<u32>::new(nodes[0]) });
        // SAFETY: as above.
        unsafe { queue.put(nodes[1], 1) };
        let other = {
            let (queue, node) = (queue.clone(), sync::Handle(nodes[2]));
            thread::spawn(move || {
                let node = node;
                // SAFETY: as above.
                unsafe { queue.put(node.0, 2) };
                let got = queue.get();
                // The node comes back at once.
                // SAFETY: it is in no queue now.
                got.into_iter()
                    .for_each(|(n, free)| unsafe { queue.put(free, n + 10) });
            })
        };
        let mine = queue.get().map(|(n, _)| n);
        other.join().unwrap();
        let rest: Vec<_> = std::iter::from_fn(|| queue.get().map(|(n, _)| n)).collect();
        let all: Vec<_> = mine.into_iter().chain(rest).collect();
        assert!(
            [vec![1, 12], vec![2, 11], vec![12, 1]].contains(&all),
            "{all:?}"
        );
        nodes.into_iter().for_each(free);
    });
}

#[test]
fn list_unlinks_what_it_removes() {
    model(3, || {
        let list = Arc::new(List::new());
        let nodes: Vec<_> = (0..4).map(|_| leak(list::Node::new())).collect();
        // SAFETY: nodes live until the end of the model, which is one grace period.
        unsafe { nodes[..3].iter().for_each(|n| list.append(*n)) };
        // Two neighbours go at once, while a third comes behind one of them.
        let other = {
            let (list, node) = (list.clone(), sync::Handle(nodes[1]));
            thread::spawn(move || {
                let node = node;
                // SAFETY: as above.
                unsafe { list.remove(node.0) }
            })
        };
        // SAFETY: as above.
        let removed = unsafe { list.remove(nodes[2]) };
        // SAFETY: as above.
        unsafe { list.append(nodes[3]) };
        assert!(removed && other.join().unwrap());
        // SAFETY: as above.
        let left: Vec<_> = unsafe { list.iter() }
            .map(|n| std::ptr::from_ref(n).addr())
            .collect();
        assert_eq!(left, [nodes[0].as_ptr().addr(), nodes[3].as_ptr().addr()]);
        // SAFETY: as above.
        assert!(!unsafe { list.remove(nodes[1]) });
        nodes.into_iter().for_each(free);
    });
}

#[test]
fn list_removes_once() {
    model(3, || {
        let list = Arc::new(List::new());
        let node = leak(list::Node::new());
        // SAFETY: the node lives until the end of the model.
        unsafe { list.insert(node) };
        let (also, handle) = (list.clone(), sync::Handle(node));
        let other = thread::spawn(move || {
            let handle = handle;
            // SAFETY: as above.
            unsafe { also.remove(handle.0) }
        });
        // SAFETY: as above.
        let mine = unsafe { list.remove(node) };
        assert!(mine != other.join().unwrap());
        assert!(list.is_empty());
        free(node);
    });
}
