//! Several threads at one end.

use super::*;
use crate::catalogue::queue::{ByteQueue, Parties, Spec, q_put};
use crate::kit::class::create;
use crate::kit::interfacer::link;
use crate::threads;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

/// A serializer, and a queue for one producer to be linked behind it.
fn end_and_queue() -> (Ref<Serializer>, Ref<ByteQueue>) {
    codegen::host::link();
    let queue = create::<ByteQueue>(Spec {
        producers: Parties::One,
        consumers: Parties::One,
        size: 65536,
        several_cpus: true,
        strings: false,
    })
    .unwrap();
    (create::<Serializer>(()).unwrap(), queue)
}

#[test]
fn whoever_waited_asleep_wakes_the_next() {
    const THREADS: usize = 8;
    const CALLS: usize = 8_000;
    threads::link();
    let (end, queue) = end_and_queue();
    link(&end, TARGET, q_put(&queue)).unwrap();
    let (done, all) = channel();
    for round in 0..60 {
        for _ in 0..THREADS {
            let (end, done) = (end.clone(), done.clone());
            thread::spawn(move || {
                assert!((0..CALLS).all(|_| end.enter(7) == 1));
                done.send(()).unwrap();
            });
        }
        for _ in 0..THREADS {
            let ended = all.recv_timeout(Duration::from_secs(20));
            assert!(ended.is_ok(), "a thread sleeps in round {round}");
        }
        assert!((0..THREADS * CALLS).all(|_| queue.get() == Some(7)));
    }
}

#[test]
fn several_producers_take_turns_at_an_end_for_one() {
    let (end, queue) = end_and_queue();
    assert_eq!(end.enter(3), 0);
    link(&end, TARGET, q_put(&queue)).unwrap();
    let threads: Vec<_> = (1..=3)
        .map(|n| {
            let end = end.clone();
            std::thread::spawn(move || (0..20_000).for_each(|_| assert_eq!(end.enter(n), 1)))
        })
        .collect();
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    let mut counts = [0; 4];
    while let Some(byte) = queue.get() {
        counts[byte as usize] += 1;
    }
    assert_eq!(counts, [0, 20_000, 20_000, 20_000]);
}
