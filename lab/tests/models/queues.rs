//! Models of the queue of many producers and one consumer: nobody waits for a producer that is half-way.

use crate::model;
use lab::queue::mpsc::Queue;
use loom::sync::Arc;
use loom::thread;

/// The values that are left, in order.
fn rest<const N: usize>(queue: &Queue<Box<u32>, N>) -> Vec<u32> {
    // SAFETY: called when there is no other consumer.
    std::iter::from_fn(|| unsafe { queue.get() })
        .map(|value| *value)
        .collect()
}

#[test]
fn what_is_in_comes_out_whoever_is_half_way() {
    model(3, || {
        let queue: Arc<Queue<Box<u32>, 2>> = Arc::new(Queue::new());
        let other = {
            let queue = queue.clone();
            thread::spawn(move || queue.put(Box::new(1)).is_ok())
        };
        assert!(queue.put(Box::new(2)).is_ok());
        // SAFETY: the only consumer.
        let mine = unsafe { queue.get() };
        let mut all = vec![*mine.expect("a value was in")];
        assert!(other.join().unwrap());
        all.extend(rest(&queue));
        all.sort_unstable();
        assert_eq!(all, [1, 2]);
    });
}

#[test]
fn a_place_comes_back_from_a_producer_that_was_skipped() {
    model(3, || {
        let queue: Arc<Queue<Box<u32>, 2>> = Arc::new(Queue::new());
        let other = {
            let queue = queue.clone();
            thread::spawn(move || queue.put(Box::new(10)).is_ok())
        };
        let mut put = 0;
        let mut got = Vec::new();
        for n in 0..3 {
            put += usize::from(queue.put(Box::new(n)).is_ok());
            // SAFETY: the only consumer.
            got.extend(unsafe { queue.get() }.map(|value| *value));
        }
        put += usize::from(other.join().unwrap());
        got.extend(rest(&queue));
        assert_eq!(got.len(), put);
        let mine: Vec<_> = got.iter().filter(|n| **n < 10).collect();
        assert!(mine.is_sorted(), "one producer's order: {got:?}");
        // All places are there again.
        assert!(queue.put(Box::new(1)).is_ok() && queue.put(Box::new(2)).is_ok());
        assert_eq!(rest(&queue), [1, 2]);
    });
}

#[test]
fn batches_stay_whole_beside_slow_producers() {
    model(3, || {
        let queue: Arc<Queue<Box<u32>, 4>> = Arc::new(Queue::new());
        let single = {
            let queue = queue.clone();
            thread::spawn(move || queue.put(Box::new(1)).is_ok())
        };
        let batch = {
            let queue = queue.clone();
            thread::spawn(move || queue.put_all([Box::new(2), Box::new(3)]).is_ok())
        };
        // SAFETY: the only consumer.
        let mut all: Vec<_> = (0..2)
            .filter_map(|_| unsafe { queue.get() })
            .map(|value| *value)
            .collect();
        assert!(single.join().unwrap() && batch.join().unwrap());
        all.extend(rest(&queue));
        assert!([vec![1, 2, 3], vec![2, 3, 1]].contains(&all), "{all:?}");
    });
}

#[test]
fn a_batch_passes_over_a_place_that_is_out_of_use() {
    model(3, || {
        let queue: Arc<Queue<Box<u32>, 4>> = Arc::new(Queue::new());
        let slow = {
            let queue = queue.clone();
            thread::spawn(move || queue.put(Box::new(1)).is_ok())
        };
        let mut put = 0;
        let mut got = Vec::new();
        for n in 0..2 {
            let pair = [Box::new(10 + 2 * n), Box::new(11 + 2 * n)];
            put += 2 * usize::from(queue.put_all(pair).is_ok());
            for _ in 0..3 {
                // SAFETY: the only consumer.
                got.extend(unsafe { queue.get() }.map(|value| *value));
            }
        }
        put += usize::from(slow.join().unwrap());
        got.extend(rest(&queue));
        assert_eq!(got.len(), put, "{got:?}");
        for first in got.iter().filter(|n| **n >= 10 && **n % 2 == 0) {
            let at = got.iter().position(|n| n == first).unwrap();
            assert_eq!(got.get(at + 1), Some(&(first + 1)), "{got:?}");
        }
    });
}
