//! Routines of messages against their twins, on the same inputs.

use super::framing::{HEADER, LONGEST, footprint};
use super::rig::{Load, Pair, every_variant};
use super::*;
use crate::catalogue::testing::{Ended, Random, call, call_named, env};
use crate::kit::routine_env::{RoutineEnv, UserAccess};
use abi::nr;

fn pair<const N: usize>(env: &RoutineEnv, sharing: Sharing) -> Pair {
    Pair::new::<N>(Load::Messages, env, sharing)
}

fn length(random: &mut Random) -> u64 {
    match random.below(4) {
        0 => random.below(3),
        1 => random.below(40),
        _ => random.below(LONGEST as u64 + 10),
    }
}

#[test]
fn routines_and_twins_move_the_same_messages() {
    every_variant(|env, sharing| {
        for seed in 0..4 {
            pair::<MESSAGES>(env, sharing).traffic(600, seed, length);
            pair::<4096>(env, sharing).traffic(600, seed, length);
        }
    });
}

#[test]
fn messages_stay_apart_and_whole_or_cut() {
    every_variant(|env, sharing| {
        let mut pair = pair::<4096>(env, sharing);
        for _ in 0..700 {
            for length in [1, 8, 13] {
                assert_eq!(
                    pair.write(3, &vec![length as u8; length]),
                    Ended::With(length as isize)
                );
            }
            assert_eq!(pair.made.first_message(), Some(1));
            assert_eq!(pair.read(0, 100), Ended::With(1));
            assert_eq!(pair.read(0, 5), Ended::With(5));
            let (length, [first, second]) = {
                let end = pair.made.read_end();
                let (length, pieces) = end.message().unwrap();
                (length, pieces.map(<[u8]>::to_vec))
            };
            assert_eq!((length, [first, second].concat()), (13, vec![13; 13]));
            assert_eq!(pair.read(0, 13), Ended::With(13));
            assert_eq!(pair.made.first_message(), None);
            pair.agree();
        }
    });
}

#[test]
fn longer_ones_that_a_routine_does_not_write_are_read_by_it() {
    every_variant(|env, sharing| {
        let mut pair = pair::<16384>(env, sharing);
        let mut random = Random::new(5);
        for round in 0..300 {
            let lengths = [1 + random.below(4096), 4096, 1 + random.below(9)];
            let mut total = 0;
            for length in lengths.map(|length| length as usize) {
                let bytes = random.bytes(length);
                for queue in [pair.made, pair.twin] {
                    let mut framed = vec![0xee; footprint(length)];
                    framed[HEADER..HEADER + length].copy_from_slice(&bytes);
                    assert!(match round % 2 {
                        0 => queue.write_end().put_message(&mut framed, length),
                        _ => queue.send_framed(&mut framed, length),
                    });
                }
                total += length;
            }
            assert_eq!(pair.made.read_end().in_messages(), total);
            let mut long = vec![0; footprint(4096)];
            while pair.made.send_framed(&mut long, 4096) {
                assert!(pair.twin.write_end().put_message(&mut long, 4096));
                total += 4096;
            }
            assert_eq!(pair.made.read_end().in_messages(), total);
            while pair.made.available() > 0 {
                pair.read(round % 9, 4500);
                pair.agree();
            }
        }
    });
}

#[test]
fn what_is_odd_leaves_slowly_and_publishes_nothing() {
    every_variant(|env, sharing| {
        let mut pair = pair::<MESSAGES>(env, sharing);
        assert_eq!(pair.write(0, b""), Ended::Slowly(nr::WRITE));
        assert_eq!(pair.write(0, &[1; LONGEST + 1]), Ended::Slowly(nr::WRITE));
        pair.write(0, &[7; 100]);
        assert_eq!(pair.read(0, 0), Ended::Slowly(nr::READ));
        let user = pair.user.at(0);
        for address in [u64::MAX, 1 << 63, 0xffff_8000_0000_0000] {
            pair.leaves_slowly(address, 8);
        }
        for count in [u64::MAX, 1 << 63, 1 << 32] {
            pair.writes_slowly(user, count);
        }
        for before in [0, 1, 8, 99] {
            let address = pair.user.at(pair.room - before);
            pair.leaves_slowly(address, 100);
            pair.agree();
        }
        assert_eq!(call(&pair.read, [0, user, u64::MAX]), Ended::With(100));
        pair.twin.receive_message(sharing, &mut [0; 100]);
        // And across the ring's end.
        while pair.made.head.load(Ordering::Relaxed) < MESSAGES as u64 - 64 {
            pair.write(0, &[1; 16]);
            pair.read(0, 16);
        }
        let address = pair.user.at(pair.room - 70);
        pair.writes_slowly(address, 100);
        pair.write(0, &[2; 100]);
        pair.reads_slowly(address, 100);
        pair.read(0, 100);
        assert!(pair.made.writing.try_lock() && pair.made.tail.reading.try_lock());
    });
}

#[test]
fn a_closed_queue_is_left_to_the_slow_exit_whatever_is_in_it() {
    every_variant(|env, sharing| {
        let mut pair = pair::<MESSAGES>(env, sharing);
        pair.write(0, b"there");
        for core in [pair.made, pair.twin] {
            core.set_readers(false);
            core.set_writers(false);
        }
        assert_eq!(pair.write(0, b"x"), Ended::Slowly(nr::WRITE));
        assert_eq!(pair.read(0, 9), Ended::Slowly(nr::READ));
        for core in [pair.made, pair.twin] {
            core.set_readers(true);
            core.set_writers(true);
        }
        assert_eq!(pair.read(0, 9), Ended::With(5));
    });
}

#[test]
fn who_waits_for_a_message_is_woken() {
    every_variant(|env, sharing| {
        let mut pair = pair::<MESSAGES>(env, sharing);
        let node = sync::WaitNode::new();
        pair.made.expect_data(|list| assert!(list.enroll(&node)));
        pair.write(0, b"x");
        assert!(!node.is_queued());
    });
}

#[test]
fn senders_on_several_processors_lose_no_message() {
    let env = env(2, UserAccess::Host);
    let pair = pair::<4096>(&env, Sharing::Shared);
    let source = pair.user.at(0);
    let senders: Vec<_> = [3u64, 50, 200]
        .into_iter()
        .map(|length| {
            let send = pair.write.clone();
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
        match call(&pair.read, [1, into, 255]) {
            Ended::With(n) => got[n as usize] += 1,
            Ended::Slowly(_) => std::thread::yield_now(),
        }
    }
    senders
        .into_iter()
        .for_each(|sender| sender.join().unwrap());
    assert_eq!((got[3], got[50], got[200]), (2000, 2000, 2000));
}

#[test]
fn the_sender_is_told_with_each_message_or_nothing_is_done() {
    let name: [u8; NAME] = core::array::from_fn(|byte| 0x30 + byte as u8);
    every_variant(|env, sharing| {
        let mut pair = pair::<MESSAGES>(env, sharing);
        let read = pair.reader_from(env, name);
        let [into, to, length] = [0, 256, 512].map(|at| pair.user.at(at));
        let slowly = Ended::Slowly(nr::READ);
        let room = |pair: &mut Pair, room: i32| {
            pair.user.bytes()[512..516].copy_from_slice(&room.to_le_bytes());
        };
        room(&mut pair, 28);
        assert_eq!(
            call_named(&read, [3, into, 9, 0, to, length]),
            slowly,
            "empty"
        );
        for round in 0..600u64 {
            let count = 1 + round as usize % 200;
            pair.write(3, &vec![round as u8; count]);
            pair.user.bytes()[256..300].fill(0x55);
            // Room that is too little, or nowhere; a name that is nowhere.
            let end = pair.user.at(pair.room);
            for wrong in [0, 15, -1, i32::MIN] {
                room(&mut pair, wrong);
                assert_eq!(call_named(&read, [3, into, 9, 0, to, length]), slowly);
            }
            room(&mut pair, 16 + round as i32);
            for (to, length) in [
                (to, end),
                (to, end - 2),
                (end, length),
                (end - 9, length),
                (to, u64::MAX - 7),
            ] {
                assert_eq!(call_named(&read, [3, into, 9, 0, to, length]), slowly);
            }
            assert_eq!(pair.made.first_message(), Some(count));
            let got = count.min(150);
            let ended = call_named(&read, [3, into, 150, 0, to, length]);
            assert_eq!(ended, Ended::With(got as isize));
            let bytes = pair.user.bytes();
            assert!(bytes[..got].iter().all(|byte| *byte == round as u8));
            assert_eq!(bytes[256..256 + NAME], name);
            assert_eq!(bytes[256 + NAME], 0x55);
            assert_eq!(bytes[512..516], (NAME as i32).to_le_bytes());
            pair.twin.receive_message(sharing, &mut [0; 150]);
            pair.agree();
        }
    });
}
