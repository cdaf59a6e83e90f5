//! Pipe routines against their twins, on the same inputs.
//!
//! *Unsafe*: making routines by hand.

use super::rig::{Load, Pair, every_variant, queue};
use super::*;
use crate::catalogue::testing::{Ended, Random, UserMemory, call, either, env, hot_path, listing};
use crate::kit::routine_env::{RoutineEnv, UserAccess};

fn pair<const N: usize>(env: &RoutineEnv, sharing: Sharing) -> Pair {
    Pair::new::<N>(Load::Bytes, env, sharing)
}

fn count(random: &mut Random) -> u64 {
    match random.below(5) {
        0 | 1 => 1,
        2 => random.below(20),
        3 => random.below(5000),
        _ => random.below(RING as u64 + 10),
    }
}

#[test]
fn routines_and_twins_move_the_same_bytes() {
    every_variant(|env, sharing| {
        for seed in 0..3 {
            pair::<RING>(env, sharing).traffic(400, seed, count);
            pair::<4096>(env, sharing).traffic(400, seed, count);
        }
    });
}

#[test]
fn bytes_one_at_a_time_fill_and_drain_the_ring() {
    every_variant(|env, sharing| {
        let mut pair = pair::<4096>(env, sharing);
        for n in 0..4097 {
            pair.write(0, &[n as u8]);
        }
        for _ in 0..4097 {
            pair.read(3, 1);
        }
        pair.agree();
    });
}

#[test]
fn a_kernel_address_or_an_absurd_count_leaves_slowly() {
    every_variant(|env, sharing| {
        let mut pair = pair::<RING>(env, sharing);
        pair.write(0, b"something");
        for address in [u64::MAX, 1 << 63, 0xffff_8000_0000_0000] {
            for count in [1, 2, 8] {
                pair.leaves_slowly(address, count);
            }
        }
        for count in [u64::MAX, 1 << 63, (RING + 1) as u64] {
            pair.writes_slowly(pair.user.at(0), count);
        }
        let all = call(&pair.read, [0, pair.user.at(0), u64::MAX]);
        assert_eq!(all, Ended::With(9));
    });
}

#[test]
fn a_count_of_zero_moves_nothing() {
    every_variant(|env, sharing| {
        let mut pair = pair::<RING>(env, sharing);
        pair.write(0, b"");
        pair.write(0, b"x");
        pair.read(0, 0);
        assert_eq!(pair.made.available(), 1);
    });
}

#[test]
fn a_fault_leaves_slowly_and_publishes_nothing() {
    every_variant(|env, sharing| {
        let mut pair = pair::<4096>(env, sharing);
        let end = pair.room;
        pair.write(0, &[3; 100]);
        for (before, count) in [(0, 1), (0, 8), (3, 8), (20, 64), (99, 100)] {
            let address = pair.user.at(end - before);
            pair.leaves_slowly(address, count);
            pair.agree();
        }
        // And across the ring's end.
        pair.read(0, 100);
        pair.write(0, &[4; 3990]);
        pair.read(0, 3980);
        let address = pair.user.at(end - 40);
        pair.writes_slowly(address, 41);
        pair.write(0, &[5; 50]);
        let address = pair.user.at(end - 20);
        pair.reads_slowly(address, 30);
        let address = pair.user.at(end - 58);
        pair.reads_slowly(address, 60);
        pair.read(0, 60);
        assert!(pair.made.writing.try_lock() && pair.made.tail.reading.try_lock());
    });
}

#[test]
fn a_held_end_is_left_alone_when_shared() {
    for cpus in [1, 2] {
        let env = env(cpus, UserAccess::Host);
        let mut pair = pair::<RING>(&env, Sharing::Shared);
        pair.write(0, b"abc");
        let (reader, writer) = (pair.made.read_end(), pair.made.write_end());
        for count in [1, 2] {
            let user = pair.user.at(0);
            pair.leaves_slowly(user, count);
        }
        drop((reader, writer));
        pair.read(0, 3);
    }
}

#[test]
fn the_last_reader_gone_leaves_every_write_to_the_slow_exit() {
    every_variant(|env, sharing| {
        let mut pair = pair::<RING>(env, sharing);
        for core in [pair.made, pair.twin] {
            core.set_readers(false);
        }
        pair.write(0, b"x");
        pair.write(0, b"xyz");
        for core in [pair.made, pair.twin] {
            core.set_readers(true);
        }
        pair.write(0, b"x");
        assert_eq!(pair.made.available(), 1);
    });
}

#[test]
fn who_waits_is_woken_by_the_routine() {
    every_variant(|env, sharing| {
        for count in [1, 2, 100] {
            let mut pair = pair::<4096>(env, sharing);
            let (node, twins) = (sync::WaitNode::new(), sync::WaitNode::new());
            pair.made.expect_data(|list| assert!(list.enroll(&node)));
            pair.twin.expect_data(|list| assert!(list.enroll(&twins)));
            pair.write(0, &vec![1; count]);
            assert!(!node.is_queued(), "no reader was woken by {count}");
            assert!(!twins.is_queued(), "nor by the twin");
            assert!(!pair.made.for_writer.is_raised(Flag::Waited));
            pair.write(0, &vec![2; 4096 - count]);
            pair.made.expect_space(|list| assert!(list.enroll(&node)));
            pair.twin.expect_space(|list| assert!(list.enroll(&twins)));
            pair.read(0, count);
            assert!(!node.is_queued(), "no writer was woken by {count}");
            assert!(!twins.is_queued(), "nor by the twin");
            assert!(!pair.made.tail.for_reader.is_raised(Flag::Waited));
            pair.made.writers.leave(&node);
            pair.twin.writers.leave(&twins);
            pair.agree();
        }
    });
}

#[test]
fn threads_pass_bytes_through_exclusive_routines() {
    let env = env(2, UserAccess::Host);
    for step in [1u64, 7, 1000] {
        let pair = pair::<4096>(&env, Sharing::Exclusive);
        let total = 20_000 * step;
        let (write, user) = (pair.write.clone(), pair.user.at(0) as usize);
        let mut pattern = UserMemory::new(8192);
        (0..8192).for_each(|n| pattern.bytes()[n] = (n % 251) as u8);
        let source = pattern.at(0);
        let writer = std::thread::spawn(move || {
            let mut sent = 0;
            while sent < total {
                match call(&write, [1, source + sent % 251, step]) {
                    Ended::With(n) => sent += n as u64,
                    Ended::Slowly(_) => std::thread::yield_now(),
                }
            }
        });
        let mut got = 0;
        while got < total {
            match call(&pair.read, [0, user as u64, step]) {
                Ended::With(n) => {
                    let n = n as u64;
                    // SAFETY: the pair's user memory, which the writer does not touch.
                    let bytes =
                        unsafe { core::slice::from_raw_parts(user as *const u8, n as usize) };
                    for byte in bytes {
                        assert_eq!(u64::from(*byte), got % 251);
                        got += 1;
                    }
                }
                Ended::Slowly(_) => std::thread::yield_now(),
            }
        }
        writer.join().unwrap();
        drop(pattern);
    }
}

#[test]
fn threads_share_an_end_without_losing_a_byte() {
    let env = env(2, UserAccess::Host);
    let pair = pair::<4096>(&env, Sharing::Shared);
    let source = pair.user.at(0);
    let writers: Vec<_> = (0..3)
        .map(|_| {
            let write = pair.write.clone();
            std::thread::spawn(move || {
                let mut sent = 0;
                while sent < 3000 {
                    match call(&write, [1, source, 100]) {
                        Ended::With(n) => {
                            assert_eq!(n, 100, "a write of up to {ATOMIC} bytes is whole");
                            sent += 1;
                        }
                        Ended::Slowly(_) => std::thread::yield_now(),
                    }
                }
            })
        })
        .collect();
    let into = pair.user.at(8192);
    let mut got = 0;
    while got < 900_000 {
        match call(&pair.read, [1, into, 4096]) {
            Ended::With(n) => got += n,
            Ended::Slowly(_) => std::thread::yield_now(),
        }
    }
    writers
        .into_iter()
        .for_each(|writer| writer.join().unwrap());
    assert_eq!(pair.made.available(), 0);
}

#[test]
fn the_hot_paths_keep_their_budget() {
    let env = env(1, UserAccess::Kernel);
    let core = queue::<RING>();
    // SAFETY: never called.
    let (read, write) = unsafe {
        (
            synthesize_read(core, &env, Sharing::Exclusive, Patience::Patient).unwrap(),
            synthesize_write(core, &env, Sharing::Exclusive).unwrap(),
        )
    };
    assert!(hot_path(&read) <= either(15, 16), "{}", listing(&read));
    assert!(hot_path(&write) <= either(16, 17), "{}", listing(&write));
}

#[test]
fn a_pipe_of_its_own_memory_can_be_used_again() {
    let core = PipeCore::new(4096).unwrap();
    assert!(PipeCore::new(5000).is_none() && PipeCore::new(2048).is_none());
    assert_eq!(core.write(Sharing::Shared, b"left over"), Some(9));
    core.set_readers(false);
    core.set_writers(false);
    core.expect_data(|_| ());
    core.expect_space(|_| ());
    core.mark().store(7, Ordering::Relaxed);
    core.renew();
    assert_eq!((core.available(), core.free()), (0, 4096));
    assert_eq!(core.mark().load(Ordering::Relaxed), 0);
    assert_eq!(core.write(Sharing::Shared, b"x"), Some(1));
}
