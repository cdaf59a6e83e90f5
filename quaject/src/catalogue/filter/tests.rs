//! Chains of filters against their reference implementations: of random links, changed while bytes pass, and
//! refused where they do not fit.

use super::checksum::Checksum;
use super::newline::{Ends, Newline};
use super::rate::{Limit, Rate};
use super::tap::{self, Tap};
use super::upper::{self, Upper};
use crate::catalogue::gauge::{self, Gauge};
use crate::catalogue::pump::{self, Pump};
use crate::catalogue::queue::{ByteQueue, Parties, Spec, q_get, q_put};
use crate::catalogue::serializer::Serializer;
use crate::catalogue::stream::{Direction, Stream};
use crate::catalogue::testing::{Random, listing};
use crate::kit::by_name::{Quaject, Refused, along, insert, link_by_name, remove, unlink_by_name};
use crate::kit::class::{Ref, create};
use crate::kit::interfacer::{LONGEST, link, unlink};
use crate::kit::routine_env::RoutineError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// A filter, and its reference implementation.
pub(crate) enum Both {
    Upper(Ref<Upper>),
    Newline(Ref<Newline>, Ends),
    Tap(Ref<Tap>, Ref<Gauge>, u64),
    Checksum(Ref<Checksum>, u32, u32),
    Rate(Ref<Rate>, u64),
}

impl Both {
    pub(crate) fn any(random: &mut Random) -> Both {
        let several_cpus = random.below(2) == 0;
        match random.below(5) {
            0 => Both::Upper(create(()).unwrap()),
            1 => {
                let ends = [Ends::Feed, Ends::Return][random.below(2) as usize];
                Both::Newline(create(ends).unwrap(), ends)
            }
            2 => {
                let (tap, gauge) = (create::<Tap>(()).unwrap(), create(several_cpus).unwrap());
                link(&tap, tap::EACH, gauge::count(&gauge)).unwrap();
                Both::Tap(tap, gauge, 0)
            }
            3 => Both::Checksum(create(()).unwrap(), 1, 0),
            _ => {
                let limit = Limit {
                    per_second: 1000,
                    several_cpus,
                };
                Both::Rate(create(limit).unwrap(), 0)
            }
        }
    }

    pub(crate) fn quaject(&self) -> &dyn Quaject {
        match self {
            Both::Upper(filter) => filter,
            Both::Newline(filter, _) => filter,
            Both::Tap(filter, ..) => filter,
            Both::Checksum(filter, ..) => filter,
            Both::Rate(filter, _) => filter,
        }
    }

    pub(crate) fn twin(&mut self, byte: u8) -> u8 {
        match self {
            Both::Upper(_) => return byte.to_ascii_uppercase(),
            Both::Newline(_, Ends::Feed) if byte == b'\r' => return b'\n',
            Both::Newline(_, Ends::Return) if byte == b'\n' => return b'\r',
            Both::Newline(..) => {}
            Both::Tap(_, _, count) | Both::Rate(_, count) => *count += 1,
            Both::Checksum(_, bytes, sums) => {
                *bytes = (*bytes + u32::from(byte)) % 65521;
                *sums = (*sums + *bytes) % 65521;
            }
        }
        byte
    }

    pub(crate) fn check(&self) {
        match self {
            Both::Upper(_) | Both::Newline(..) => {}
            Both::Tap(tap, gauge, count) => {
                assert_eq!(gauge.read(), *count);
                assert_eq!(tap.value(), *count);
            }
            Both::Checksum(filter, bytes, sums) => {
                assert_eq!(filter.value(), u64::from(sums << 16 | bytes))
            }
            Both::Rate(filter, count) => assert_eq!(filter.value(), *count),
        }
    }
}

fn bytes(random: &mut Random, most: u64) -> Vec<u8> {
    (0..random.below(most))
        .map(|_| match random.below(4) {
            0 => *b"\r\nazAZ".get(random.below(6) as usize).unwrap(),
            _ => random.below(256) as u8,
        })
        .collect()
}

#[test]
fn a_stream_of_random_filters_changes_what_its_twin_changes() {
    codegen::host::link();
    let mut random = Random::new(7);
    for _ in 0..60 {
        let stream = create::<Stream>(()).unwrap();
        let mut chain: Vec<Both> = Vec::new();
        for _ in 0..40 {
            match random.below(4) {
                0 if chain.len() < usize::from(LONGEST) - 1 => {
                    let new = Both::any(&mut random);
                    insert(&stream, "incoming", new.quaject()).unwrap();
                    chain.insert(0, new);
                }
                1 if !chain.is_empty() => {
                    let gone = chain.remove(random.below(chain.len() as u64) as usize);
                    let number = gone.quaject().header().number();
                    remove(&stream, "incoming", number).unwrap();
                    assert_eq!(remove(&stream, "incoming", number), Err(Refused::NotThere));
                    gone.check();
                }
                _ => {
                    let mut there = bytes(&mut random, 300);
                    let other = there.clone();
                    let pass = |byte| chain.iter_mut().fold(byte, |byte, f| f.twin(byte));
                    let twin: Vec<u8> = there.iter().copied().map(pass).collect();
                    stream.run(Direction::Incoming, &mut there);
                    assert_eq!(there, twin);
                    stream.run(Direction::Outgoing, &mut there);
                    assert_eq!(there, twin, "the other way is another: {other:?}");
                }
            }
            chain.iter().for_each(Both::check);
            let mut seen = Vec::new();
            along(stream.header(), Direction::Incoming.port(), |of| {
                seen.push(of.number())
            });
            let numbers = chain.iter().map(|f| f.quaject().header().number());
            assert!(numbers.eq(seen.iter().copied()));
        }
    }
}

/// The algorithm's sum of the bytes begins with one and is 65,521 here, which is nothing.
#[test]
fn a_checksum_that_reaches_its_base_begins_again() {
    codegen::host::link();
    let sum = create::<Checksum>(()).unwrap();
    assert_eq!(sum.value(), 1);
    let (mut bytes, mut sums) = (1, 0);
    for byte in [255; 256].into_iter().chain([240, 7]) {
        assert_eq!(sum.pass(byte), byte);
        bytes = (bytes + u64::from(byte)) % 65_521;
        sums = (sums + bytes) % 65_521;
        assert_eq!(sum.value(), sums << 16 | bytes);
    }
    assert_eq!(bytes, 7);
}

fn queue() -> Ref<ByteQueue> {
    create(Spec {
        producers: Parties::One,
        consumers: Parties::One,
        size: 32,
        several_cpus: true,
        strings: false,
    })
    .unwrap()
}

#[test]
fn filters_between_a_pump_and_a_queue_count_what_has_gone_on() {
    codegen::host::link();
    let mut random = Random::new(8);
    for _ in 0..100 {
        let (from, to) = (queue(), queue());
        let pump = create::<Pump>(()).unwrap();
        link(&pump, pump::INPUT, q_get(&from)).unwrap();
        link(&pump, pump::OUTPUT, q_put(&to)).unwrap();
        let mut chain: Vec<Both> = Vec::new();
        for _ in 0..random.below(6) {
            let new = Both::any(&mut random);
            insert(&pump, "output", new.quaject()).unwrap();
            chain.insert(0, new);
        }
        let sent = bytes(&mut random, 64);
        let mut got = Vec::new();
        let mut rest = sent.iter();
        while got.len() < sent.len() {
            for byte in rest.by_ref().take(random.below(40) as usize) {
                if from.put(*byte) == 0 {
                    pump.run(10);
                    assert_eq!(from.put(*byte), 1);
                }
                if to.len() > 20 {
                    got.extend(std::iter::from_fn(|| to.get()));
                }
            }
            pump.run(32 - to.len());
            got.extend(std::iter::from_fn(|| to.get()));
        }
        let pass = |byte| chain.iter_mut().fold(byte, |byte, f| f.twin(byte));
        let twin: Vec<u8> = sent.iter().copied().map(pass).collect();
        assert_eq!(got, twin);
        chain.iter().for_each(Both::check);
        // A byte for which there is no room is not counted.
        let tap = create::<Tap>(()).unwrap();
        let gauge = create::<Gauge>(true).unwrap();
        link(&tap, tap::EACH, gauge::count(&gauge)).unwrap();
        assert!(!tap.put(b'x'), "nowhere to go");
        link(&tap, tap::TO, q_put(&to)).unwrap();
        let taken = (0..100).filter(|_| tap.put(b'x')).count();
        assert_eq!(gauge.read(), taken as u64);
        assert!(taken < 100);
        unlink(&tap, tap::TO).unwrap();
    }
}

#[test]
fn small_filters_stand_in_line_and_what_is_too_deep_is_called() {
    codegen::host::link();
    let stream = create::<Stream>(()).unwrap();
    let filters: [Ref<Upper>; LONGEST as usize] = core::array::from_fn(|_| create(()).unwrap());
    for (count, filter) in filters.iter().enumerate() {
        insert(&stream, "outgoing", filter).unwrap();
        let placed = stream.header().site(Direction::Outgoing.port(), 0).unwrap();
        if count < 5 {
            assert!(placed.in_line, "{count}");
        }
        let mut text = *b"a byte";
        stream.run(Direction::Outgoing, &mut text);
        assert_eq!(&text, b"A BYTE");
    }
    let more = create::<Upper>(()).unwrap();
    assert_eq!(
        insert(&stream, "outgoing", &more),
        Err(Refused::RoutineError(RoutineError::TooLong))
    );
    assert!(more.header().link(upper::NEXT.number()).is_none());
    let text = listing(&stream.routine(Direction::Outgoing));
    assert!(text.contains("call"), "{text}");
    for filter in filters.iter().skip(4) {
        remove(&stream, "outgoing", filter.header().number()).unwrap();
    }
    let text = listing(&stream.routine(Direction::Outgoing));
    assert!(!text.contains("call"), "{text}");
}

#[test]
fn what_does_not_fit_is_refused() {
    codegen::host::link();
    let stream = create::<Stream>(()).unwrap();
    let (one, two) = (create::<Upper>(()).unwrap(), create::<Upper>(()).unwrap());
    let gauge = create::<Gauge>(false).unwrap();
    let pump = create::<Pump>(()).unwrap();
    assert_eq!(insert(&stream, "ingoing", &one), Err(Refused::NoSuchPort));
    assert_eq!(
        insert(&stream, "incoming", &gauge),
        Err(Refused::WrongSignature)
    );
    assert_eq!(
        insert(&stream, "incoming", &pump),
        Err(Refused::WrongSignature)
    );
    assert_eq!(
        insert(&stream, "incoming", &stream),
        Err(Refused::WrongSignature)
    );
    insert(&stream, "incoming", &one).unwrap();
    insert(&stream, "incoming", &two).unwrap();
    assert_eq!(insert(&stream, "incoming", &two), Err(Refused::Busy));
    // The last leads nowhere, so a second place for it is a circle.
    let circle = Err(Refused::RoutineError(RoutineError::Cycle));
    assert_eq!(insert(&stream, "incoming", &one), circle);
    assert_eq!(insert(&one, "next", &one), circle);
    assert_eq!(link_by_name(&one, "next", &two, "pass"), circle);
    assert_eq!(
        link_by_name(&one, "next", &two, "put"),
        Err(Refused::WrongSignature)
    );
    assert_eq!(
        link_by_name(&one, "next", &two, "next"),
        Err(Refused::NoSuchCallentry)
    );
    assert_eq!(
        remove(&stream, "outgoing", one.header().number()),
        Err(Refused::NotThere)
    );
    assert_eq!(remove(&stream, "incoming", 0), Err(Refused::NotThere));
    assert_eq!(unlink_by_name(&one, "pass"), Err(Refused::NoSuchPort));
    let no_rate = Limit {
        per_second: 0,
        several_cpus: false,
    };
    assert_eq!(create::<Rate>(no_rate).err(), Some(RoutineError::BadSpec));
}

mod hasty {
    use crate::kit::class::OutOfMemory;

    crate::quaject! {
        /// Calls its port from an interrupt
        class Hasty = "Hasty", spec (), error OutOfMemory {
            callout { OUT: crate::signature::Put = "out" ("nothing") }
        }
        make |(), header: &'static crate::kit::class::Header| {
            header.hurries();
            Ok(Hasty)
        };
    }

    pub struct Hasty;
}

#[test]
fn nothing_that_may_wait_comes_behind_an_interrupt() {
    codegen::host::link();
    let waits = Err(Refused::RoutineError(RoutineError::Waits));
    let (hasty, other) = (
        create::<hasty::Hasty>(()).unwrap(),
        create::<Upper>(()).unwrap(),
    );
    let (one, two) = (create::<Upper>(()).unwrap(), create::<Upper>(()).unwrap());
    let monitor = create::<Serializer>(()).unwrap();
    assert_eq!(link_by_name(&hasty, "out", &monitor, "enter"), waits);
    link_by_name(&one, "to", &two, "put").unwrap();
    link_by_name(&two, "to", &monitor, "enter").unwrap();
    assert_eq!(link_by_name(&hasty, "out", &one, "put"), waits);
    assert_eq!(insert(&hasty, "out", &monitor), waits);
    unlink_by_name(&two, "to").unwrap();
    link_by_name(&hasty, "out", &one, "put").unwrap();
    assert_eq!(link_by_name(&two, "to", &monitor, "enter"), waits);
    // A filter that leads there is not inserted either, and others lead wherever they like.
    link_by_name(&other, "to", &monitor, "enter").unwrap();
    assert_eq!(link_by_name(&two, "to", &other, "put"), waits);
    // With the links that lead there the prohibition goes.
    unlink_by_name(&hasty, "out").unwrap();
    unlink_by_name(&one, "to").unwrap();
    link_by_name(&two, "to", &monitor, "enter").unwrap();
    assert_eq!(link_by_name(&hasty, "out", &two, "put"), waits);
}

#[test]
fn a_limit_lasts_as_long_as_its_bytes() {
    codegen::host::link();
    let limit = Limit {
        per_second: 1000,
        several_cpus: true,
    };
    let rate = create::<Rate>(limit).unwrap();
    let now = 5_000_000_000;
    assert_eq!(rate.due_ns(now), 0);
    (0..100).for_each(|byte| assert_eq!(rate.pass(byte), byte));
    assert_eq!(rate.due_ns(now), 100_000_000);
    assert_eq!(rate.due_ns(now + 99_000_000), 1_000_000);
    assert_eq!(rate.due_ns(now + 100_000_000), 0);
    // An unused share is not saved up.
    assert_eq!(rate.due_ns(now + 3_000_000_000), 0);
    rate.pass(0);
    assert_eq!(rate.due_ns(now + 3_000_000_000), 1_000_000);
}

/// Chains grow no longer by filters that come and go, though others hold these.
#[test]
fn held_filters_come_and_go_for_ever() {
    codegen::host::link();
    let stream = create::<Stream>(()).unwrap();
    let all = [create::<Upper>(()).unwrap(), create::<Upper>(()).unwrap()];
    let _held = all.clone();
    let number = |at: usize| all[at].header().number();
    insert(&stream, "incoming", &all[0]).unwrap();
    for round in 0..100 {
        let (comes, goes) = ((round + 1) % 2, round % 2);
        insert(&stream, "incoming", &all[comes]).unwrap();
        remove(&stream, "incoming", number(goes)).unwrap();
    }
}

/// Filters come and go under threads whose bytes pass: each is as one of the chains has it, and those behind
/// the changes as the last one has it.
#[test]
fn filters_come_and_go_under_threads() {
    codegen::host::link();
    let stream = create::<Stream>(()).unwrap();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for seed in 0..3 {
            let (stream, over) = (&stream, &over);
            scope.spawn(move || {
                let mut random = Random::new(seed);
                while !over.load(Ordering::Relaxed) {
                    let sent = bytes(&mut random, 100);
                    let mut got = sent.clone();
                    stream.run(Direction::Incoming, &mut got);
                    for (sent, got) in sent.iter().zip(got) {
                        let others = [*sent, sent.to_ascii_uppercase()];
                        assert!(others.contains(&got) || (*sent, got) == (b'\r', b'\n'));
                    }
                }
            });
        }
        let mut random = Random::new(9);
        let upper = create::<Upper>(()).unwrap();
        let feed = create::<Newline>(Ends::Feed).unwrap();
        let sum = create::<Checksum>(()).unwrap();
        let all: [&dyn Quaject; 3] = [&upper, &feed, &sum];
        let mut there = [false; 3];
        for _ in 0..400 {
            let at = random.below(3) as usize;
            let number = all[at].header().number();
            match there[at] {
                true => remove(&stream, "incoming", number).unwrap(),
                false => insert(&stream, "incoming", all[at]).unwrap(),
            }
            there[at] = !there[at];
            let mut text = *b"ab\rc";
            stream.run(Direction::Incoming, &mut text);
            let ends = if there[1] { b"ab\nc" } else { b"ab\rc" };
            let mut twin = *ends;
            if there[0] {
                twin.make_ascii_uppercase();
            }
            assert_eq!(text, twin);
        }
        over.store(true, Ordering::Relaxed);
    });
}
