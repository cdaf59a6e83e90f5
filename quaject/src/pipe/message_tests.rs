//! Routines of messages against their twins, on the same inputs.

use super::message::LONGEST;
use super::*;
use crate::seam::{Conv, Seam};
use crate::testing::{Ended, Random, UserMemory, call, low, low_block, seam};
use abi::nr;

const USER: usize = 8192;

fn queue<const N: usize>() -> &'static PipeCore {
    let ring = NonNull::from(low_block::<N>()).cast();
    // SAFETY: the ring is leaked.
    low(unsafe { PipeCore::lent(ring, N) })
}

/// The same queue twice: one for routines, one for twins.
struct Pair {
    made: &'static PipeCore,
    twin: &'static PipeCore,
    receive: codegen::Routine<crate::DescFn>,
    send: codegen::Routine<crate::DescFn>,
    sharing: Sharing,
    user: UserMemory,
}

impl Pair {
    fn new<const N: usize>(seam: &Seam, sharing: Sharing) -> Pair {
        let made = queue::<N>();
        Pair {
            made,
            twin: queue::<N>(),
            // SAFETY: the queue is leaked, and this thread is the only one.
            receive: unsafe { synthesize_receive(made, seam, sharing, Patience::Patient).unwrap() },
            // SAFETY: as above.
            send: unsafe { synthesize_send(made, seam, sharing).unwrap() },
            sharing,
            user: UserMemory::new(USER),
        }
    }

    fn send(&mut self, at: usize, bytes: &[u8]) -> Ended {
        self.user.bytes()[at..at + bytes.len()].copy_from_slice(bytes);
        let ended = call(&self.send, [7, self.user.at(at), bytes.len() as u64]);
        let wanted = self.twin.send_message(self.sharing, bytes);
        assert_eq!(
            ended,
            expected(wanted, nr::WRITE),
            "send of {}",
            bytes.len()
        );
        ended
    }

    fn receive(&mut self, at: usize, count: usize) -> Ended {
        self.user.bytes().fill(0xa5);
        let ended = call(&self.receive, [7, self.user.at(at), count as u64]);
        let mut wanted = vec![0xa5; USER];
        let result = self
            .twin
            .receive_message(self.sharing, &mut wanted[at..at + count]);
        assert_eq!(ended, expected(result, nr::READ), "receive of {count}");
        assert!(
            self.user.bytes() == wanted,
            "receive of {count} moved other bytes"
        );
        ended
    }

    fn agree(&self) {
        assert_eq!(self.made.available(), self.twin.available());
        assert_eq!(
            self.made.tail.tail.load(Ordering::Relaxed),
            self.twin.tail.tail.load(Ordering::Relaxed)
        );
    }
}

fn expected(result: Option<usize>, number: usize) -> Ended {
    result.map_or(Ended::Slowly(number), |count| Ended::With(count as isize))
}

fn every_variant(mut check: impl FnMut(&Seam, Sharing)) {
    for cpus in [1, 2] {
        let seam = seam(cpus, Conv::Host);
        check(&seam, Sharing::Exclusive);
        check(&seam, Sharing::Shared);
    }
}

fn random_traffic<const N: usize>(seam: &Seam, sharing: Sharing, seed: u64) {
    let mut random = Random::new(seed);
    let mut pair = Pair::new::<N>(seam, sharing);
    for _ in 0..600 {
        let count = match random.below(4) {
            0 => random.below(3),
            1 => random.below(40),
            _ => random.below(LONGEST as u64 + 10),
        } as usize;
        let at = random.below(40) as usize;
        if random.below(2) == 0 {
            let bytes = random.bytes(count);
            pair.send(at, &bytes);
        } else {
            pair.receive(at, count);
        }
        pair.agree();
    }
}

#[test]
fn routines_and_twins_move_the_same_messages() {
    every_variant(|seam, sharing| {
        for seed in 0..4 {
            random_traffic::<MESSAGES>(seam, sharing, seed);
            random_traffic::<4096>(seam, sharing, seed);
        }
    });
}

#[test]
fn messages_stay_apart_and_whole_or_cut() {
    every_variant(|seam, sharing| {
        let mut pair = Pair::new::<4096>(seam, sharing);
        for _ in 0..700 {
            for length in [1, 8, 13] {
                assert_eq!(
                    pair.send(3, &vec![length as u8; length]),
                    Ended::With(length as isize)
                );
            }
            assert_eq!(pair.made.first_message(), Some(1));
            assert_eq!(pair.receive(0, 100), Ended::With(1));
            assert_eq!(pair.receive(0, 5), Ended::With(5));
            let (length, [first, second]) = {
                let end = pair.made.read_end();
                let (length, pieces) = end.message().unwrap();
                (length, pieces.map(<[u8]>::to_vec))
            };
            assert_eq!((length, [first, second].concat()), (13, vec![13; 13]));
            assert_eq!(pair.receive(0, 13), Ended::With(13));
            assert_eq!(pair.made.first_message(), None);
            pair.agree();
        }
    });
}

#[test]
fn what_is_odd_leaves_slowly_and_publishes_nothing() {
    every_variant(|seam, sharing| {
        let mut pair = Pair::new::<MESSAGES>(seam, sharing);
        assert_eq!(pair.send(0, b""), Ended::Slowly(nr::WRITE));
        assert_eq!(pair.send(0, &[1; LONGEST + 1]), Ended::Slowly(nr::WRITE));
        pair.send(0, &[7; 100]);
        assert_eq!(pair.receive(0, 0), Ended::Slowly(nr::READ));
        let user = pair.user.at(0);
        for address in [u64::MAX, 1 << 63, 0xffff_8000_0000_0000] {
            let (sent, received) = (
                call(&pair.send, [0, address, 8]),
                call(&pair.receive, [0, address, 8]),
            );
            assert_eq!(
                (sent, received),
                (Ended::Slowly(nr::WRITE), Ended::Slowly(nr::READ))
            );
        }
        for count in [u64::MAX, 1 << 63, 1 << 32] {
            assert_eq!(call(&pair.send, [0, user, count]), Ended::Slowly(nr::WRITE));
        }
        for before in [0, 1, 8, 99] {
            let address = pair.user.at(USER - before);
            assert_eq!(
                call(&pair.send, [0, address, 100]),
                Ended::Slowly(nr::WRITE)
            );
            assert_eq!(
                call(&pair.receive, [0, address, 100]),
                Ended::Slowly(nr::READ)
            );
            pair.agree();
        }
        assert_eq!(call(&pair.receive, [0, user, u64::MAX]), Ended::With(100));
        pair.twin.receive_message(sharing, &mut [0; 100]);
        // And across the ring's end.
        while pair.made.head.load(Ordering::Relaxed) < MESSAGES as u64 - 64 {
            pair.send(0, &[1; 16]);
            pair.receive(0, 16);
        }
        let address = pair.user.at(USER - 70);
        assert_eq!(
            call(&pair.send, [0, address, 100]),
            Ended::Slowly(nr::WRITE)
        );
        pair.send(0, &[2; 100]);
        assert_eq!(
            call(&pair.receive, [0, address, 100]),
            Ended::Slowly(nr::READ)
        );
        pair.receive(0, 100);
        assert!(pair.made.writing.try_lock() && pair.made.tail.reading.try_lock());
    });
}

#[test]
fn a_closed_queue_is_left_to_the_slow_exit_whatever_is_in_it() {
    every_variant(|seam, sharing| {
        let mut pair = Pair::new::<MESSAGES>(seam, sharing);
        pair.send(0, b"there");
        for core in [pair.made, pair.twin] {
            core.set_readers(false);
            core.set_writers(false);
        }
        assert_eq!(pair.send(0, b"x"), Ended::Slowly(nr::WRITE));
        assert_eq!(pair.receive(0, 9), Ended::Slowly(nr::READ));
        for core in [pair.made, pair.twin] {
            core.set_readers(true);
            core.set_writers(true);
        }
        assert_eq!(pair.receive(0, 9), Ended::With(5));
    });
}

#[test]
fn who_waits_for_a_message_is_woken() {
    every_variant(|seam, sharing| {
        let mut pair = Pair::new::<MESSAGES>(seam, sharing);
        let node = sync::WaitNode::new();
        pair.made.expect_data(|list| assert!(list.enroll(&node)));
        pair.send(0, b"x");
        assert!(!node.is_queued());
    });
}

#[test]
fn senders_on_several_processors_lose_no_message() {
    let seam = seam(2, Conv::Host);
    let pair = Pair::new::<4096>(&seam, Sharing::Shared);
    let source = pair.user.at(0);
    let senders: Vec<_> = [3u64, 50, 200]
        .into_iter()
        .map(|length| {
            let send = pair.send.clone();
            std::thread::spawn(move || {
                let mut sent = 0;
                while sent < 2000 {
                    match call(&send, [1, source, length]) {
                        Ended::With(_) => sent += 1,
                        Ended::Slowly(_) => std::thread::yield_now(),
                    }
                }
            })
        })
        .collect();
    let (into, mut got) = (pair.user.at(LONGEST), [0; 256]);
    while got.iter().sum::<usize>() < 6000 {
        match call(&pair.receive, [1, into, 255]) {
            Ended::With(n) => got[n as usize] += 1,
            Ended::Slowly(_) => std::thread::yield_now(),
        }
    }
    senders
        .into_iter()
        .for_each(|sender| sender.join().unwrap());
    assert_eq!((got[3], got[50], got[200]), (2000, 2000, 2000));
}
