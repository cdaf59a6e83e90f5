//! File routines against their twins, on the same inputs.
//!
//! *Unsafe*: making routines by hand.

use super::*;
use crate::catalogue::testing::{
    Ended, Random, UserMemory, call, call_at, either, env, hot_path, listing, low,
};
use crate::kit::routine_env::{RoutineEnv, UserAccess};
use abi::nr;
use codegen::Routine;

const PAGES: usize = 20;

/// A file of `PAGES` places, some of them holes, that can be compared with another.
struct File {
    core: &'static FileCore,
    cursor: &'static Cursor,
    pages: Vec<&'static mut [u8; PAGE]>,
}

impl File {
    fn new(holes: &[usize], size: u64) -> File {
        let array: &'static [AtomicU64; PAGES] =
            Box::leak(Box::new([const { AtomicU64::new(0) }; PAGES]));
        let core: &'static FileCore = low(FileCore::new());
        let mut pages = Vec::new();
        for (at, place) in array.iter().enumerate() {
            let page: &'static mut [u8; PAGE] = Box::leak(Box::new([at as u8; PAGE]));
            if !holes.contains(&at) {
                let address = page.as_mut_ptr().expose_provenance();
                place.store(address as u64, Ordering::Relaxed);
            }
            pages.push(page);
        }
        // SAFETY: the array and its pages are leaked.
        unsafe { core.replace_pages(array.as_ptr().cast_mut(), array.as_ptr().cast_mut(), PAGES) };
        core.size.store(size, Ordering::Relaxed);
        File {
            core,
            cursor: low(Cursor::new()),
            pages,
        }
    }

    fn state(&self) -> (u64, u64, u32) {
        (
            self.core.size.load(Ordering::Relaxed),
            self.cursor.offset.load(Ordering::Relaxed),
            self.core.touched.load(Ordering::Relaxed),
        )
    }
}

struct Pair {
    made: File,
    twin: File,
    read: Routine<crate::DescFn>,
    write: Routine<crate::DescFn>,
    lseek: Routine<crate::DescFn>,
    sharing: Sharing,
    append: bool,
    user: UserMemory,
}

impl Pair {
    fn new(env: &RoutineEnv, sharing: Sharing, append: bool, holes: &[usize], size: u64) -> Pair {
        let made = File::new(holes, size);
        // SAFETY: file and cursor are leaked, and this thread is the only one.
        let (read, write, lseek) = unsafe {
            (
                synthesize_read(made.core, made.cursor, env, sharing).unwrap(),
                synthesize_write(made.core, made.cursor, env, sharing, append).unwrap(),
                synthesize_lseek(made.core, made.cursor, env, sharing).unwrap(),
            )
        };
        Pair {
            made,
            twin: File::new(holes, size),
            read,
            write,
            lseek,
            sharing,
            append,
            user: UserMemory::new(PAGES * PAGE),
        }
    }

    fn read(&mut self, at: usize, count: usize) {
        self.user.bytes().fill(0xa5);
        let ended = call(&self.read, [7, self.user.at(at), count as u64]);
        let mut wanted = vec![0xa5; PAGES * PAGE];
        let into = &mut wanted[at..at + count];
        let result = self.twin.core.read(self.twin.cursor, self.sharing, into);
        assert_eq!(ended, expected(result, nr::READ), "read of {count}");
        if result.is_some() {
            assert!(
                self.user.bytes() == wanted,
                "read of {count} moved other bytes"
            );
        }
        self.agree();
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        self.user.bytes()[at..at + bytes.len()].copy_from_slice(bytes);
        let ended = call(&self.write, [7, self.user.at(at), bytes.len() as u64]);
        let twin = &self.twin;
        let result = twin
            .core
            .write(twin.cursor, self.sharing, self.append, bytes);
        assert_eq!(
            ended,
            expected(result, nr::WRITE),
            "write of {}",
            bytes.len()
        );
        self.agree();
    }

    fn seek(&mut self, to: i64, whence: i32) {
        let ended = call(&self.lseek, [7, to as u64, whence as u64]);
        let twin = &self.twin;
        let result = twin.core.lseek(twin.cursor, self.sharing, to, whence);
        let result = result.map(|offset| offset as usize);
        assert_eq!(
            ended,
            expected(result, nr::LSEEK),
            "seek to {to} from {whence}"
        );
        self.agree();
    }

    fn agree(&self) {
        assert_eq!(self.made.state(), self.twin.state());
        assert!(self.made.pages == self.twin.pages, "pages differ");
    }
}

fn expected(result: Option<usize>, number: usize) -> Ended {
    result.map_or(Ended::Slowly(number), |count| Ended::With(count as isize))
}

fn every_variant(mut check: impl FnMut(&RoutineEnv, Sharing)) {
    for cpus in [1, 2] {
        let env = env(cpus, UserAccess::Host);
        check(&env, Sharing::Exclusive);
        check(&env, Sharing::Shared);
    }
}

#[test]
fn routines_and_twins_do_the_same() {
    every_variant(|env, sharing| {
        for (append, holes) in [(false, &[][..]), (false, &[3, 4, 19]), (true, &[7])] {
            let mut random = Random::new(holes.len() as u64);
            let mut pair = Pair::new(env, sharing, append, holes, 5000);
            for _ in 0..300 {
                let count = match random.below(6) {
                    0 | 1 => 1,
                    2 => random.below(20),
                    3 => random.below(2000),
                    4 => random.below(9000),
                    _ => random.below(LARGEST as u64 + 10),
                } as usize;
                let at = random.below(64) as usize;
                match random.below(4) {
                    0 => {
                        let whence = random.below(5) as i32;
                        let span = if random.below(8) == 0 {
                            1 << 62
                        } else {
                            30_000
                        };
                        let to = random.below(2 * span) as i64 - span as i64 / 4;
                        pair.seek(to, whence);
                    }
                    1 => {
                        let bytes = random.bytes(count);
                        pair.write(at, &bytes);
                    }
                    _ => pair.read(at, count),
                }
            }
        }
    });
}

#[test]
fn byte_by_byte_over_the_end_of_a_page() {
    every_variant(|env, sharing| {
        let mut pair = Pair::new(env, sharing, false, &[], 4090);
        pair.seek(4080, 0);
        for n in 0..40 {
            pair.write(9, &[n]);
        }
        pair.seek(4080, 0);
        for _ in 0..50 {
            pair.read(5, 1);
        }
    });
}

#[test]
fn no_routine_goes_beyond_the_pages_that_there_are() {
    every_variant(|env, sharing| {
        let end = (PAGES * PAGE) as i64;
        let mut pair = Pair::new(env, sharing, false, &[], end as u64);
        pair.seek(-3, 2);
        pair.write(0, b"four");
        pair.write(0, b"xyz");
        pair.write(0, b"");
        pair.write(0, b"x");
        pair.read(0, 1);
        pair.read(0, 100);
        pair.seek(i64::MAX, 0);
        pair.read(0, 1);
        pair.write(0, b"x");
        pair.write(0, b"xy");
        pair.seek(1, 1);
    });
}

#[test]
fn wrong_addresses_and_counts_leave_slowly() {
    every_variant(|env, sharing| {
        let pair = Pair::new(env, sharing, false, &[], 50_000);
        for address in [u64::MAX, 1 << 63, 0xffff_8000_0000_0000] {
            for count in [1, 2, 5000] {
                assert_eq!(
                    call(&pair.read, [0, address, count]),
                    Ended::Slowly(nr::READ)
                );
                assert_eq!(
                    call(&pair.write, [0, address, count]),
                    Ended::Slowly(nr::WRITE)
                );
            }
        }
        let user = pair.user.at(0);
        assert_eq!(
            call(&pair.read, [0, user, u64::MAX]),
            Ended::Slowly(nr::READ)
        );
        assert_eq!(call(&pair.read, [0, user, 0]), Ended::Slowly(nr::READ));
        for count in [1 << 63, 1 << 40] {
            let user = pair.user.at(0);
            assert_eq!(
                call(&pair.write, [0, user, count]),
                Ended::Slowly(nr::WRITE)
            );
            let end = pair.user.at(100);
            assert_eq!(call(&pair.read, [0, end, count]), Ended::With(50_000));
            assert_eq!(call(&pair.lseek, [0, 0, 0]), Ended::With(0));
        }
        pair.agree_on_nothing_published();
    });
}

impl Pair {
    fn agree_on_nothing_published(&self) {
        assert_eq!(self.made.state(), self.twin.state());
        assert!(self.made.cursor.monitor.try_lock());
        assert!(self.made.core.appending.try_lock());
    }
}

#[test]
fn a_fault_leaves_slowly_and_publishes_nothing() {
    every_variant(|env, sharing| {
        for append in [false, true] {
            let pair = Pair::new(env, sharing, append, &[], 50_000);
            let end = PAGES * PAGE;
            for (before, count) in [
                (0, 1),
                (0, 8),
                (3, 9),
                (100, 4096),
                (5000, 9000),
                (4096, 4097),
            ] {
                let address = pair.user.at(end - before);
                assert_eq!(
                    call(&pair.read, [0, address, count]),
                    Ended::Slowly(nr::READ)
                );
                assert_eq!(
                    call(&pair.write, [0, address, count]),
                    Ended::Slowly(nr::WRITE)
                );
            }
            pair.agree_on_nothing_published();
        }
    });
}

#[test]
fn a_held_monitor_is_left_alone() {
    for cpus in [1, 2] {
        let env = env(cpus, UserAccess::Host);
        let pair = Pair::new(&env, Sharing::Shared, true, &[], 5000);
        let user = pair.user.at(0);
        pair.made.cursor.monitor.lock();
        for count in [1, 2] {
            assert_eq!(call(&pair.read, [0, user, count]), Ended::Slowly(nr::READ));
            assert_eq!(
                call(&pair.write, [0, user, count]),
                Ended::Slowly(nr::WRITE)
            );
        }
        assert_eq!(call(&pair.lseek, [0, 0, 0]), Ended::Slowly(nr::LSEEK));
        pair.made.cursor.monitor.unlock();
        pair.made.core.appending.lock();
        assert_eq!(call(&pair.write, [0, user, 1]), Ended::Slowly(nr::WRITE));
        assert_eq!(call(&pair.read, [0, user, 1]), Ended::With(1));
        pair.made.core.appending.unlock();
        assert_eq!(call(&pair.write, [0, user, 1]), Ended::With(1));
    }
}

/// The effects of a positional routine and of its twin: the bytes of either file and of either memory.
#[test]
fn positional_routines_do_as_their_twins_and_leave_the_position_alone() {
    for cpus in [1, 2] {
        let env = env(cpus, UserAccess::Host);
        let mut pair = Pair::new(&env, Sharing::Shared, false, &[3, 7], 60_001);
        // SAFETY: the file is leaked.
        let (read, write) = unsafe {
            (
                synthesize_read_at(pair.made.core, &env).unwrap(),
                synthesize_write_at(pair.made.core, &env).unwrap(),
            )
        };
        let mut random = Random::new(cpus as u64);
        let mut served = [0; 2];
        for _ in 0..4000 {
            let count = match random.below(8) {
                0 => random.below(40_000) as usize,
                1 => 0,
                _ => random.below(20) as usize,
            };
            let at = match random.below(8) {
                0 => 60_001 - random.below(20),
                1 => i64::MAX as u64 - random.below(20),
                2 => u64::MAX - random.below(20),
                _ => random.below(62_000),
            };
            let buffer = random.below(2000) as usize;
            let user = pair.user.at(buffer);
            if random.below(2) == 0 {
                pair.user.bytes().fill(0xa5);
                let ended = call_at(&read, [7, user, count as u64, at]);
                let mut wanted = vec![0xa5; PAGES * PAGE];
                let into = &mut wanted[buffer..buffer + count];
                let result = pair.twin.core.read_at(at, into);
                assert_eq!(ended, expected(result, nr::PREAD64), "{count} from {at}");
                if let Some(count) = result {
                    assert!(pair.user.bytes() == wanted, "{count} from {at}");
                    served[0] += 1;
                }
            } else {
                let bytes = random.bytes(count);
                pair.user.bytes()[buffer..buffer + count].copy_from_slice(&bytes);
                let ended = call_at(&write, [7, user, count as u64, at]);
                let result = pair.twin.core.write_at(at, &bytes);
                assert_eq!(ended, expected(result, nr::PWRITE64), "{count} to {at}");
                served[1] += usize::from(result.is_some());
            }
            pair.agree();
        }
        assert!(served.iter().all(|count| *count > 500), "{served:?}");
        for address in [1 << 63, u64::MAX, pair.user.at(PAGES * PAGE - 1)] {
            let ended = call_at(&read, [7, address, 2, 5]);
            assert_eq!(ended, Ended::Slowly(nr::PREAD64));
            let ended = call_at(&write, [7, address, 2, 5]);
            assert_eq!(ended, Ended::Slowly(nr::PWRITE64));
        }
        pair.made.core.close(true);
        let ended = call_at(&write, [7, pair.user.at(0), 2, 5]);
        assert_eq!(ended, Ended::Slowly(nr::PWRITE64));
    }
}

#[test]
fn appenders_on_several_threads_lose_nothing() {
    let env = env(2, UserAccess::Host);
    let file = File::new(&[], 0);
    let writers: Vec<_> = (1..=3u8)
        .map(|n| {
            let cursor = low(Cursor::new());
            // SAFETY: both are leaked, and each writer has a cursor of its own.
            let write = unsafe {
                synthesize_write(file.core, cursor, &env, Sharing::Exclusive, true).unwrap()
            };
            std::thread::spawn(move || {
                let mut user = UserMemory::new(64);
                user.bytes().fill(n);
                let mut done = 0;
                while done < 400 {
                    match call(&write, [0, user.at(0), 50]) {
                        Ended::With(count) => {
                            assert_eq!(count, 50);
                            done += 1;
                        }
                        Ended::Slowly(_) => std::thread::yield_now(),
                    }
                }
            })
        })
        .collect();
    writers
        .into_iter()
        .for_each(|writer| writer.join().unwrap());
    assert_eq!(file.core.size.load(Ordering::Relaxed), 60_000);
    let all: Vec<u8> = file
        .pages
        .iter()
        .flat_map(|page| page.iter().copied())
        .collect();
    for record in all[..60_000].chunks(50) {
        assert!(record.iter().all(|byte| *byte == record[0]));
    }
    for n in 1..=3 {
        assert_eq!(
            all[..60_000].iter().filter(|byte| **byte == n).count(),
            20_000
        );
    }
}

#[test]
fn the_hot_paths_keep_their_budget() {
    let env = env(1, UserAccess::Kernel);
    let pair = Pair::new(&env, Sharing::Exclusive, false, &[], 0);
    let [read, write, lseek] = either([20, 22, 7], [23, 25, 7]);
    assert!(hot_path(&pair.read) <= read, "{}", listing(&pair.read));
    assert!(hot_path(&pair.write) <= write, "{}", listing(&pair.write));
    assert!(hot_path(&pair.lseek) <= lseek, "{}", listing(&pair.lseek));
}

#[test]
fn a_closed_file_is_written_slowly_and_read_as_ever() {
    every_variant(|env, sharing| {
        for append in [false, true] {
            let mut pair = Pair::new(env, sharing, append, &[3], 3 * PAGE as u64);
            pair.write(0, b"x");
            for closed in [true, false] {
                pair.made.core.close(closed);
                pair.twin.core.close(closed);
                pair.seek(10, SEEK_SET);
                pair.write(5, b"y");
                pair.write(5, b"several");
                pair.write(0, &[7; 2 * PAGE]);
                pair.read(0, 30);
                pair.read(0, 2 * PAGE);
            }
        }
    });
}

#[test]
fn a_touched_file_says_so_once() {
    let env = env(1, UserAccess::Host);
    let mut pair = Pair::new(&env, Sharing::Exclusive, false, &[], 100);
    pair.read(0, 10);
    assert!(!pair.made.core.take_touched());
    pair.write(0, b"x");
    assert!(pair.made.core.take_touched() && !pair.made.core.take_touched());
}

#[test]
fn a_write_that_stopped_half_way_says_that_the_file_is_torn() {
    every_variant(|env, sharing| {
        for append in [false, true] {
            let mut pair = Pair::new(env, sharing, append, &[], 100);
            pair.seek(100, 0);
            pair.write(0, b"whole");
            assert!(!pair.made.core.take_torn());
            let address = pair.user.at(PAGES * PAGE - 10);
            assert_eq!(
                call(&pair.write, [0, address, 20]),
                Ended::Slowly(nr::WRITE)
            );
            assert!(pair.made.core.take_torn() && !pair.made.core.take_torn());
        }
    });
}
