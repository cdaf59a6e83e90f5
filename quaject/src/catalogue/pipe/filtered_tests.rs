//! A pipe's routines with filters in them against the pipe's twins and the filters' reference
//! implementations, while filters are inserted and removed; and beside plain calls, on several processors.
//!
//! *Unsafe*: making routines by hand.

use super::rig::{Load, Pair};
use super::{Patience, Sharing, synthesize_read};
use crate::catalogue::composed::Composed;
use crate::catalogue::constant::constant;
use crate::catalogue::filter::checksum::Checksum;
use crate::catalogue::filter::tests::Both;
use crate::catalogue::filter::upper::Upper;
use crate::catalogue::filtered::{Filtered, Late, MOST, Moves, WayBack};
use crate::catalogue::stream::{Direction, Stream};
use crate::catalogue::testing::{Ended, Random, UserMemory, call, called_within, leaked, listing};
use crate::kit::by_name::{insert, remove};
use crate::kit::class::{Ref, create};
use crate::kit::routine_env::{DescFn, RoutineEnv, UserAccess};
use crate::threads;
use abi::nr;
use alloc::sync::Arc;
use codegen::{Draft, Routine, dynasm};
use std::sync::Mutex as StdMutex;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use sync::monitor::{CONTENDED, HELD};

const ME: usize = 0x1234;
const RING: usize = 4096;

fn identity(d: &mut Draft) {
    dynasm!(d ; .arch x64 ; mov eax, ME as i32);
}

/// The result is the word of a [`Late`].
fn late(d: &mut Draft, _: &Ref<Stream>) {
    dynasm!(d ; .arch x64 ; ret);
}

/// A queue, its routines, and what filtered routines of it are made with.
struct Rig {
    env: &'static RoutineEnv,
    pair: Pair,
    sharing: Sharing,
    /// Moves the bytes of a `read`.
    inner: Routine<DescFn>,
    _way: WayBack,
    stream: Ref<Stream>,
}

impl Rig {
    fn new(cpus: usize, sharing: Sharing) -> Rig {
        Self::over::<RING>(cpus, sharing)
    }

    fn over<const SIZE: usize>(cpus: usize, sharing: Sharing) -> Rig {
        let env = leaked(cpus, UserAccess::Host);
        let pair = Pair::new::<SIZE>(Load::Bytes, called_within(env), sharing);
        let way = WayBack::new(env).unwrap();
        let inner = match cpus {
            1 => pair.read.clone(),
            _ => {
                // SAFETY: the queue is leaked.
                let made =
                    unsafe { synthesize_read(pair.made, way.env(), sharing, Patience::Patient) };
                made.unwrap()
            }
        };
        let stream = create::<Stream>(()).unwrap();
        stream.act_for(ME);
        Rig {
            env,
            pair,
            sharing,
            inner,
            _way: way,
            stream,
        }
    }

    fn way(&self, course: Direction) -> OneWay {
        let (number, own, moves) = match course {
            Direction::Incoming => (nr::READ, &self.pair.read, Moves::By(self.inner.clone())),
            Direction::Outgoing => (
                nr::WRITE,
                &self.pair.write,
                Moves::Into(self.pair.made, self.sharing),
            ),
        };
        let composed = Composed::new("test", number, self.env).unwrap();
        let recipe = Filtered {
            stream: self.stream.clone(),
            own: own.clone(),
            moves,
            identity,
            late,
            env: self.env,
        };
        composed.follow(Some(Arc::new(recipe))).unwrap();
        let chain = Vec::new();
        OneWay {
            course,
            composed,
            chain,
        }
    }

    /// Nobody has the turn of either way.
    fn is_free(&self) -> bool {
        [Direction::Incoming, Direction::Outgoing]
            .iter()
            .all(|course| self.stream.turn(*course).word().load(Ordering::SeqCst) == 0)
    }
}

/// All kinds of machines and sharing.
const KINDS: [(usize, Sharing); 4] = [
    (1, Sharing::Exclusive),
    (1, Sharing::Shared),
    (2, Sharing::Exclusive),
    (2, Sharing::Shared),
];

/// One way: the composed routine, and the filters with their twins.
struct OneWay {
    course: Direction,
    composed: Arc<Composed>,
    chain: Vec<Both>,
}

impl OneWay {
    fn change(&mut self, stream: &Ref<Stream>, random: &mut Random) {
        let name = self.course.name();
        if self.chain.len() < 6 && random.below(2) == 0 {
            let new = Both::any(random);
            insert(stream, name, new.quaject()).unwrap();
            self.chain.insert(0, new);
        } else if !self.chain.is_empty() {
            let gone = self
                .chain
                .remove(random.below(self.chain.len() as u64) as usize);
            remove(stream, name, gone.quaject().header().number()).unwrap();
            gone.check();
        }
    }

    fn pass(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            *byte = self.chain.iter_mut().fold(*byte, |byte, f| f.twin(byte));
        }
    }

    /// Whether all calls are to be made plainly: for a filter that may have them wait, or one that is called.
    fn is_plain(&self, stream: &Ref<Stream>) -> bool {
        let waits = self.chain.iter().any(|f| matches!(f, Both::Rate(..)));
        let run = listing(&stream.routine(self.course));
        waits || run.contains("call")
    }
}

#[test]
fn bytes_that_pass_in_the_routine_are_those_of_the_twins() {
    for (seed, (cpus, sharing)) in (3..).zip([KINDS, KINDS].concat()) {
        let mut rig = match seed {
            ..7 => Rig::new(cpus, sharing),
            _ => Rig::over::<{ super::RING }>(cpus, sharing),
        };
        let mut random = Random::new(seed);
        let mut incoming = rig.way(Direction::Incoming);
        let mut outgoing = rig.way(Direction::Outgoing);
        let mut passed = 0;
        for _ in 0..3000 {
            match random.below(12) {
                0 => incoming.change(&rig.stream, &mut random),
                1 => outgoing.change(&rig.stream, &mut random),
                _ => {}
            }
            let count = 1 + random.below(MOST as u64) as usize;
            let at = random.below(64) as usize;
            let pair = &mut rig.pair;
            let address = pair.user.at(at);
            if random.below(2) == 0 {
                let mut bytes = random.bytes(count);
                pair.user.bytes()[at..at + count].copy_from_slice(&bytes);
                let fits = count <= pair.made.free();
                let ended = call(outgoing.composed.routine(), [7, address, count as u64]);
                if outgoing.is_plain(&rig.stream) || !fits {
                    assert_eq!(ended, Ended::Slowly(nr::WRITE));
                    continue;
                }
                assert_eq!(ended, Ended::With(count as isize));
                assert_eq!(
                    &pair.user.bytes()[at..at + count],
                    bytes,
                    "the program's own"
                );
                outgoing.pass(&mut bytes);
                assert_eq!(pair.twin.write(sharing, &bytes), Some(count));
            } else {
                let ended = call(incoming.composed.routine(), [7, address, count as u64]);
                if incoming.is_plain(&rig.stream)
                    || pair.made.available() == 0 && pair.twin.available() == 0
                {
                    assert_eq!(ended, Ended::Slowly(nr::READ));
                    assert!(rig.is_free());
                    continue;
                }
                let mut bytes = vec![0; count];
                let got = pair.twin.read(sharing, &mut bytes).unwrap();
                assert_eq!(ended, Ended::With(got as isize));
                incoming.pass(&mut bytes[..got]);
                assert_eq!(&pair.user.bytes()[at..at + got], &bytes[..got]);
                passed += got;
            }
            rig.pair.agree();
            assert!(rig.is_free());
            let both = incoming.chain.iter().chain(&outgoing.chain);
            both.for_each(Both::check);
        }
        assert!(passed > 10_000, "{passed}");
    }
}

#[test]
fn calls_that_are_not_meant_leave_and_no_byte_has_passed() {
    for (cpus, sharing) in KINDS {
        let mut rig = Rig::new(cpus, sharing);
        let write = rig.way(Direction::Outgoing);
        let read = rig.way(Direction::Incoming);
        let plain = |of: &OneWay| {
            let text = listing(&of.composed.plugged().unwrap());
            !text.contains("push")
        };
        assert!(plain(&write) && plain(&read), "the file's own");
        let filters = [(); 2].map(|()| create::<Checksum>(()).unwrap());
        insert(&rig.stream, "outgoing", &filters[0]).unwrap();
        assert!(!plain(&write) && plain(&read), "one way alone");
        insert(&rig.stream, "incoming", &filters[1]).unwrap();
        assert!(!plain(&read));
        let pair = &rig.pair;
        let user = pair.user.at(0);
        let writes_slowly = |address, count| {
            let ended = call(write.composed.routine(), [7, address, count]);
            assert_eq!(ended, Ended::Slowly(nr::WRITE), "{address:#x}, {count}");
            assert_eq!(filters[0].value(), 1);
            assert_eq!(pair.made.available(), 0);
            assert!(pair.made.writing.try_lock() && rig.is_free());
            pair.made.writing.unlock();
        };
        let reads_slowly = |address, count, there| {
            let ended = call(read.composed.routine(), [7, address, count]);
            assert_eq!(ended, Ended::Slowly(nr::READ), "{address:#x}, {count}");
            assert_eq!(filters[1].value(), 1);
            assert_eq!(pair.made.available(), there);
            assert!(pair.made.tail.reading.try_lock());
            pair.made.tail.reading.unlock();
        };
        writes_slowly(user, 0);
        writes_slowly(user, MOST as u64 + 1);
        writes_slowly(user, u64::MAX);
        writes_slowly(1 << 63, 8);
        // Part of it could pass, but none does.
        writes_slowly(pair.user.at(pair.room - 4), 8);
        rig.stream.act_for(ME + 1);
        writes_slowly(user, 8);
        rig.stream.act_for(0);
        writes_slowly(user, 8);
        rig.stream.act_for(ME);
        reads_slowly(user, 8, 0);
        assert!(rig.is_free(), "nothing is there");
        let ended = call(write.composed.routine(), [7, user, 8]);
        assert_eq!(ended, Ended::With(8));
        assert_ne!(filters[0].value(), 1);
        reads_slowly(user, 0, 8);
        reads_slowly(user, MOST as u64 + 1, 8);
        reads_slowly(pair.user.at(pair.room - 4), 8, 8);
        assert!(rig.is_free(), "the file's routine has left");
        rig.stream.act_for(0);
        reads_slowly(user, 8, 8);
        rig.stream.act_for(ME);
        let turn = rig.stream.turn(Direction::Incoming).word();
        for taken in [HELD, CONTENDED] {
            turn.store(taken, Ordering::SeqCst);
            reads_slowly(user, 8, 8);
            assert_eq!(turn.load(Ordering::SeqCst), taken, "another's turn");
        }
        turn.store(0, Ordering::SeqCst);
        assert_eq!(call(read.composed.routine(), [7, user, 8]), Ended::With(8));
        assert_ne!(filters[1].value(), 1);
        assert!(rig.is_free());
        rig.pair.user.bytes().fill(0);
    }
}

#[test]
fn bytes_that_have_not_passed_when_their_memory_changes_pass_later() {
    for cpus in [1, 2] {
        let mut rig = Rig::new(cpus, Sharing::Shared);
        // Says that it has moved eight bytes.
        rig.inner = constant("moved", 8).unwrap();
        let read = rig.way(Direction::Incoming);
        let (upper, sum) = (
            create::<Upper>(()).unwrap(),
            create::<Checksum>(()).unwrap(),
        );
        insert(&rig.stream, "incoming", &upper).unwrap();
        insert(&rig.stream, "incoming", &sum).unwrap();
        let user = &mut rig.pair.user;
        // Behind the end is nothing; the last page may not be written.
        let places = [(rig.pair.room, None), (rig.pair.room - 4096, Some(b'A'))];
        let mut count = 0;
        for (end, stored) in places {
            for there in 0..=8 {
                let before = end - there;
                user.bytes().fill(b'a');
                user.protect_last(stored.is_some());
                let ended = call(read.composed.routine(), [7, user.at(before), 8]);
                user.protect_last(false);
                let Ended::With(word) = ended else {
                    panic!("it has moved bytes");
                };
                let late = Late::new(word as u64);
                let passed = stored.filter(|_| there < 8);
                let rest = 8 - there;
                assert_eq!(
                    late,
                    Late {
                        all: 8,
                        rest,
                        passed
                    }
                );
                assert!(user.bytes()[before..end].iter().all(|byte| *byte == b'A'));
                assert!(user.bytes()[end..].iter().all(|byte| *byte == b'a'));
                count += there + passed.iter().len();
            }
        }
        assert!(rig.is_free());
        let sums = (1 + count * usize::from(b'a')) % 65521;
        assert_eq!(sum.value() as u16 as usize, sums, "each passes once");
    }
}

/// Routines on several CPUs beside plain calls of the same description: each byte passes once, in the order
/// in which it is written or read.
#[test]
fn threads_have_each_byte_pass_once_and_in_order() {
    const TOTAL: usize = 300_000;
    threads::link();
    for course in [Direction::Outgoing, Direction::Incoming] {
        let rig = Rig::new(2, Sharing::Shared);
        let way = rig.way(course);
        let filter = create::<Checksum>(()).unwrap();
        insert(&rig.stream, course.name(), &filter).unwrap();
        let core = rig.pair.made;
        let left = AtomicI64::new(TOTAL as i64);
        let (served, sums) = (AtomicU64::new(0), StdMutex::new((1u32, 0u32)));
        let sum = |bytes: &[u8]| {
            let mut sums = sums.lock().unwrap();
            for byte in bytes {
                sums.0 = (sums.0 + u32::from(*byte)) % 65521;
                sums.1 = (sums.1 + sums.0) % 65521;
            }
        };
        // Bytes that a thread of the filtered side is to move now; 0 at the end.
        let next = |random: &mut Random| {
            let count = 1 + random.below(200) as i64;
            count.min(left.fetch_sub(count, Ordering::SeqCst)).max(0) as usize
        };
        std::thread::scope(|scope| {
            for seed in 1..=2 {
                let (routine, served) = (way.composed.routine(), &served);
                let next = &next;
                scope.spawn(move || {
                    let (mut random, mut user) = (Random::new(seed), UserMemory::new(4096));
                    loop {
                        let mut count = next(&mut random);
                        if count == 0 {
                            break;
                        }
                        user.bytes()[..count].copy_from_slice(&random.bytes(count));
                        while count > 0 {
                            match call(routine, [7, user.at(0), count as u64]) {
                                Ended::With(moved) => {
                                    count -= moved as usize;
                                    served.fetch_add(1, Ordering::Relaxed);
                                }
                                Ended::Slowly(_) => std::thread::yield_now(),
                            }
                        }
                    }
                });
            }
            // Plain calls of the same description, in pieces.
            let (next, stream) = (&next, &rig.stream);
            scope.spawn(move || {
                let mut random = Random::new(3);
                loop {
                    let mut count = next(&mut random);
                    if count == 0 {
                        break;
                    }
                    while count > 0 {
                        match course {
                            Direction::Outgoing => {
                                let mut end = core.write_end();
                                let moved = end.fill(count, |place| {
                                    place.fill(7);
                                    for piece in place.chunks_mut(40) {
                                        stream.run(course, piece);
                                    }
                                    Ok::<_, ()>(place.len())
                                });
                                count -= moved.unwrap();
                            }
                            Direction::Incoming => {
                                let mut end = core.read_end();
                                let mut moved = 0;
                                for piece in end.pieces() {
                                    let piece = &piece[..piece.len().min(count - moved)];
                                    for piece in piece.chunks(40) {
                                        stream.run(course, &mut piece.to_vec());
                                    }
                                    moved += piece.len();
                                }
                                end.consume(moved);
                                count -= moved;
                            }
                        }
                        std::thread::yield_now();
                    }
                }
            });
            // The other side, alone: what it moves is in order.
            let mut random = Random::new(4);
            let mut moved = 0;
            while moved < TOTAL {
                let mut bytes = random.bytes(300.min(TOTAL - moved));
                let count = match course {
                    Direction::Outgoing => core.read(Sharing::Exclusive, &mut bytes).unwrap_or(0),
                    Direction::Incoming => core.write(Sharing::Exclusive, &bytes).unwrap_or(0),
                };
                if count == 0 {
                    std::thread::yield_now();
                }
                sum(&bytes[..count]);
                moved += count;
            }
        });
        let (bytes, sums) = *sums.lock().unwrap();
        assert_eq!(filter.value(), u64::from(sums << 16 | bytes));
        assert!(served.load(Ordering::Relaxed) > 100, "by routines");
        assert!(rig.is_free() && core.available() == 0);
    }
}
