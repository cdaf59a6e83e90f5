//! Queues against their twins and a model, and the channels of figures 4.2 and 4.3.
//!
//! *Unsafe*: thread handles as callback arguments.

use super::*;
use crate::catalogue::gauge::{self, Gauge};
use crate::catalogue::testing::{Random, hot_path, listing};
use crate::kit::class::create;
use crate::kit::interfacer::{Function, link, unlink};
use std::collections::VecDeque;
use std::sync::atomic::AtomicUsize;
use std::thread::{self, Thread};

pub(super) fn specs(size: usize) -> impl Iterator<Item = Spec> {
    use Parties::{Many, One};
    [
        (One, One, false),
        (One, One, true),
        (Many, One, true),
        (One, Many, true),
        (Many, Many, true),
        (Many, One, false),
        (One, Many, false),
        (Many, Many, false),
    ]
    .into_iter()
    .flat_map(move |(producers, consumers, strings)| {
        [false, true].map(|several_cpus| Spec {
            producers,
            consumers,
            size,
            several_cpus,
            strings,
        })
    })
}

pub(super) fn queue(spec: Spec) -> Ref<ByteQueue> {
    codegen::host::link();
    create(spec).unwrap()
}

#[test]
fn every_kind_is_a_queue() {
    for size in [2, 8, 64] {
        for spec in specs(size) {
            let made = queue(spec);
            let mut model = VecDeque::new();
            let twin = lab::queue::mpmc::Queue::<u8, 64>::new();
            let mut random = Random::new(size as u64);
            for _ in 0..2000 {
                if random.below(2) == 0 {
                    let byte = random.next() as u8;
                    let room = model.len() < size;
                    assert_eq!(made.put(byte), isize::from(room), "{spec:?}");
                    if room {
                        model.push_back(byte);
                        assert_eq!(twin.put(byte), Ok(()));
                    }
                } else {
                    let wanted = model.pop_front();
                    assert_eq!(twin.get(), wanted);
                    assert_eq!(made.get(), wanted, "{spec:?}");
                }
                assert_eq!(made.len(), model.len());
            }
        }
    }
}

#[test]
fn no_byte_is_lost_among_threads() {
    for spec in specs(16).filter(|spec| spec.several_cpus) {
        let made = queue(spec);
        let parties = |side| if side == Parties::Many { 3 } else { 1 };
        let (producers, consumers) = (parties(spec.producers), parties(spec.consumers));
        let each = 30_000;
        let left = Arc::new(AtomicUsize::new(producers * each));
        let seen: Arc<[AtomicUsize; 256]> = Arc::new([const { AtomicUsize::new(0) }; 256]);
        let putters: Vec<_> = (0..producers)
            .map(|_| {
                let made = made.clone();
                thread::spawn(move || {
                    for n in 0..each {
                        while made.put(n as u8) != 1 {
                            thread::yield_now();
                        }
                    }
                })
            })
            .collect();
        let getters: Vec<_> = (0..consumers)
            .map(|_| {
                let (made, left, seen) = (made.clone(), left.clone(), seen.clone());
                thread::spawn(move || {
                    while left.load(Ordering::Relaxed) > 0 {
                        match made.get() {
                            Some(byte) => {
                                seen[byte as usize].fetch_add(1, Ordering::Relaxed);
                                left.fetch_sub(1, Ordering::Relaxed);
                            }
                            None => thread::yield_now(),
                        }
                    }
                })
            })
            .collect();
        putters
            .into_iter()
            .chain(getters)
            .for_each(|t| t.join().unwrap());
        for (byte, count) in seen.iter().enumerate() {
            let wanted = (0..each).filter(|n| *n as u8 == byte as u8).count() * producers;
            assert_eq!(count.load(Ordering::Relaxed), wanted, "{spec:?} {byte}");
        }
        assert!(made.is_empty());
    }
}

extern "sysv64" fn suspend(_: usize) -> bool {
    thread::park();
    true
}

extern "sysv64" fn resume(thread: usize) {
    // SAFETY: the tests pass threads that they keep until the queue is gone.
    unsafe { &*(thread as *const Thread) }.unpark();
}

fn resume_of(thread: &Thread) -> Entry<Event> {
    let kept: &'static Thread = Box::leak(Box::new(thread.clone()));
    Function::event(&"resume", resume, core::ptr::from_ref(kept) as usize)
}

/// Figure 4.2: the producer's thread is suspended when the queue is full and resumed when it no longer is.
#[test]
fn linked_to_suspend_and_resume_a_queue_is_a_blocking_channel() {
    for spec in specs(4) {
        if !spec.several_cpus {
            continue;
        }
        let made = queue(spec);
        let total = 20_000;
        let linked = Arc::new(std::sync::Barrier::new(2));
        let producer = {
            let (made, linked) = (made.clone(), linked.clone());
            thread::spawn(move || {
                let me = resume_of(&thread::current());
                link(&made, Q_FULL, Function::retry(&"suspend", suspend, 0)).unwrap();
                link(&made, Q_FULL_1, me).unwrap();
                linked.wait();
                (0..total).for_each(|n| assert_eq!(made.put(n as u8), 1));
            })
        };
        let consumer = {
            let (made, linked) = (made.clone(), linked.clone());
            thread::spawn(move || {
                let me = resume_of(&thread::current());
                link(&made, Q_EMPTY, Function::retry(&"suspend", suspend, 0)).unwrap();
                link(&made, Q_EMPTY_1, me).unwrap();
                linked.wait();
                (0..total).for_each(|n| assert_eq!(made.get(), Some(n as u8)));
            })
        };
        producer.join().unwrap();
        consumer.join().unwrap();
        let seen = made.header().link(Q_FULL.number()).unwrap();
        assert_eq!((seen.name, seen.to), ("suspend", 0));
        let place = made.header().site(Q_FULL.number(), 0).unwrap();
        let put = made.routines().0;
        assert!(!place.in_line && place.at > put.entry());
    }
}

/// Figure 4.3: nothing but the links differs; a full queue returns to the producer, and tells it later.
#[test]
fn left_unlinked_a_queue_is_a_non_blocking_channel() {
    for spec in specs(4) {
        let made = queue(spec);
        static TOLD: AtomicUsize = AtomicUsize::new(0);
        extern "sysv64" fn more_work(_: usize) {
            TOLD.fetch_add(1, Ordering::Relaxed);
        }
        TOLD.store(0, Ordering::Relaxed);
        link(&made, Q_FULL_1, Function::event(&"more work", more_work, 0)).unwrap();
        (0..4).for_each(|n| assert_eq!(made.put(n), 1));
        assert_eq!((made.put(4), made.put(5)), (0, 0));
        assert_eq!(made.get(), Some(0));
        assert_eq!(TOLD.load(Ordering::Relaxed), 1, "told once, {spec:?}");
        assert_eq!(made.get(), Some(1));
        assert_eq!(TOLD.load(Ordering::Relaxed), 1);
        assert_eq!((made.put(4), made.put(5), made.put(6)), (1, 1, 0));
    }
}

#[test]
fn a_small_callentry_stands_in_the_place_of_the_callback() {
    let spec = specs(2).next().unwrap();
    let made = queue(spec);
    let gauge = create::<Gauge>(false).unwrap();
    assert!(link(&made, Q_EMPTY_1, gauge::count(&gauge)).unwrap());
    assert_eq!(made.get(), None);
    (0..3).for_each(|_| {
        made.put(1);
    });
    assert_eq!(gauge.read(), 1, "only the put after a failed get is told");
    let seen = made.header().link(Q_EMPTY_1.number()).unwrap();
    assert_eq!((seen.name, seen.to), ("count", gauge.header().number()));
    let place = made.header().site(Q_EMPTY_1.number(), 0).unwrap();
    assert_eq!((place.in_line, place.bytes), (true, 8));
    unlink(&made, Q_EMPTY_1).unwrap();
    assert!(made.header().link(Q_EMPTY_1.number()).is_none());
    assert!(made.header().site(Q_EMPTY_1.number(), 0).is_none());
    drop(made);
    let again = queue(spec);
    assert_eq!((again.len(), again.get()), (0, None));
    again.put(9);
    assert_eq!((gauge.take(), gauge.take()), (1, 0));
}

#[test]
fn a_queue_that_cannot_be_is_refused() {
    codegen::host::link();
    for size in [0, 1, 3, 1 << 17] {
        let spec = Spec {
            size,
            ..specs(2).next().unwrap()
        };
        assert_eq!(create::<ByteQueue>(spec).err(), Some(RoutineError::BadSpec));
    }
}

/// Where a place says itself that it is filled, the positions follow, and each may be behind the other.
#[test]
fn a_position_that_is_behind_makes_no_length() {
    for spec in specs(4).filter(|spec| spec.several_cpus && !spec.strings) {
        if (spec.producers, spec.consumers) != (Parties::One, Parties::One) {
            continue;
        }
        let made = queue(spec);
        let words = made.words();
        assert_eq!((made.put(7), made.len()), (1, 1));
        words.head.fetch_sub(1, Ordering::Relaxed);
        assert_eq!((made.get(), made.len()), (Some(7), 0));
        words.head.fetch_add(1, Ordering::Relaxed);
        (0..4).for_each(|n| assert_eq!(made.put(n), 1));
        assert_eq!((made.get(), made.put(4)), (Some(0), 1));
        words.tail.tail.fetch_sub(1, Ordering::Relaxed);
        assert_eq!(made.len(), 4);
    }
}

/// Instructions up to the return, with nothing linked.
#[test]
fn the_hot_paths_of_one_and_one_keep_their_budget() {
    for (several_cpus, budget) in [(false, (10, 7)), (true, (9, 8))] {
        let spec = Spec {
            several_cpus,
            ..specs(64).next().unwrap()
        };
        let made = queue(spec);
        let (put, get) = made.routines();
        let text = listing(&put) + &listing(&get);
        assert_eq!((hot_path(&put), hot_path(&get)), budget, "{text}");
    }
}

/// Strings and single bytes are the same queue, and go along the same callbacks.
#[test]
fn strings_go_in_and_out_as_bytes_do() {
    for spec in specs(8).filter(|spec| spec.strings) {
        let made = queue(spec);
        let (room, data) = (
            create::<Gauge>(false).unwrap(),
            create::<Gauge>(false).unwrap(),
        );
        link(&made, Q_FULL_1, gauge::count(&room)).unwrap();
        link(&made, Q_EMPTY_1, gauge::count(&data)).unwrap();
        let mut model = VecDeque::new();
        let (mut full, mut empty) = (false, false);
        let (mut rooms, mut datas) = (0, 0);
        let mut random = Random::new(5);
        for _ in 0..3000 {
            let count = random.below(12) as usize;
            if random.below(2) == 0 {
                let bytes = random.bytes(count);
                let fits = count.min(8 - model.len());
                assert_eq!(made.write(&bytes), fits);
                model.extend(&bytes[..fits]);
                datas += u64::from(fits > 0 && core::mem::take(&mut empty));
                full |= fits < count;
                assert!(
                    made.recent(made.settled().unwrap())
                        .zip(model.iter().rev())
                        .all(|(a, b)| a == *b)
                );
            } else {
                let mut into = vec![0; count];
                let got = made.read(&mut into);
                assert_eq!(got, count.min(model.len()));
                assert!(
                    into[..got]
                        .iter()
                        .all(|byte| model.pop_front() == Some(*byte))
                );
                rooms += u64::from(got > 0 && core::mem::take(&mut full));
                empty |= got == 0 && count > 0;
            }
            assert_eq!(
                (made.len(), room.read(), data.read()),
                (model.len(), rooms, datas)
            );
        }
        let layout = made.layout().unwrap();
        assert_eq!((layout.size, layout.bytes % 64), (8, 0));
    }
    for spec in specs(8).filter(|spec| !spec.strings) {
        assert_eq!(queue(spec).layout(), Err(RoutineError::BadSpec));
    }
}
