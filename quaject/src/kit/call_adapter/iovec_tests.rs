//! Routines behind `readv` and `writev` beside those behind `read` and `write`.
//!
//! *Unsafe*: files and memory that tests leak.

use super::*;
use crate::catalogue::constant::constant;
use crate::catalogue::fsmap::{Cursor, FileCore, synthesize_read, synthesize_write};
use crate::catalogue::testing::{Ended, UserMemory, call, env, low};
use crate::kit::routine_env::Sharing;
use core::sync::atomic::{AtomicU64, Ordering};

/// A file of one page, 2,000 bytes long.
fn file() -> (&'static FileCore, &'static Cursor) {
    let page: &'static mut [u8; 4096] = Box::leak(Box::new(core::array::from_fn(|at| at as u8)));
    let address = page.as_mut_ptr().expose_provenance() as u64;
    let array: &'static [AtomicU64; 1] = Box::leak(Box::new([AtomicU64::new(address)]));
    let core: &'static FileCore = low(FileCore::new());
    // SAFETY: the array and its page are leaked.
    unsafe { core.replace_pages(array.as_ptr().cast_mut(), array.as_ptr().cast_mut(), 1) };
    core.size.store(2000, Ordering::Relaxed);
    (core, low(Cursor::new()))
}

/// Puts the segment `address`, `length` at byte `at` of `user`.
fn segment(user: &mut UserMemory, at: usize, address: u64, length: u64) -> u64 {
    user.bytes()[at..at + 8].copy_from_slice(&address.to_le_bytes());
    user.bytes()[at + 8..at + 16].copy_from_slice(&length.to_le_bytes());
    user.at(at)
}

#[test]
fn one_segment_goes_by_the_inner_routine_and_everything_else_leaves_with_its_registers() {
    for cpus in [1, 2] {
        for sharing in [Sharing::Exclusive, Sharing::Shared] {
            let outer = env(cpus, UserAccess::Host);
            let segments = CallAdapter::segments(&outer).unwrap();
            let (file, cursor) = file();
            // SAFETY: file and cursor are leaked, and this thread is the only one.
            let (read, write) = unsafe {
                let inner = segments.env();
                (
                    synthesize_read(file, cursor, inner, sharing).unwrap(),
                    synthesize_write(file, cursor, inner, sharing, false).unwrap(),
                )
            };
            let read = segments.routine(read, nr::READ).unwrap();
            let write = segments.routine(write, nr::WRITE).unwrap();
            let mut user = UserMemory::new(8192);
            for count in [1, 2, 8, 100] {
                cursor.offset.store(7, Ordering::Relaxed);
                let to = user.at(100);
                let one = segment(&mut user, 0, to, count);
                // The routine is called, and its registers looked at, by `call`.
                assert_eq!(call(&read, [7, one, 1]), Ended::With(count as isize));
                let got = &user.bytes()[100..100 + count as usize];
                assert!(
                    got.iter()
                        .enumerate()
                        .all(|(at, byte)| *byte == at as u8 + 7)
                );
                assert_eq!(cursor.offset.load(Ordering::Relaxed), 7 + count);
                cursor.offset.store(7, Ordering::Relaxed);
                assert_eq!(call(&write, [7, one, 1]), Ended::With(count as isize));
                for others in [0, 2, 1 << 32 | 1, u64::MAX] {
                    assert_eq!(call(&read, [7, one, others]), Ended::Slowly(nr::READV));
                    assert_eq!(call(&write, [7, one, others]), Ended::Slowly(nr::WRITEV));
                }
            }
            // Segments that no routine serves: nowhere, of nothing, of too much, of the kernel's memory.
            let end = user.at(8192);
            let here = user.at(64);
            for (address, length) in [
                (end, 1),
                (end - 3, 9),
                (here, 0),
                (1 << 63, 1),
                (here, u64::MAX),
            ] {
                cursor.offset.store(0, Ordering::Relaxed);
                let one = segment(&mut user, 16, address, length);
                assert_eq!(call(&read, [7, one, 1]), Ended::Slowly(nr::READV));
                assert_eq!(call(&write, [7, one, 1]), Ended::Slowly(nr::WRITEV));
                assert_eq!(cursor.offset.load(Ordering::Relaxed), 0);
            }
            // The segment itself is nowhere, or half of it.
            for at in [end, end - 8, 1 << 63, u64::MAX] {
                assert_eq!(call(&read, [7, at, 1]), Ended::Slowly(nr::READV));
                assert_eq!(call(&write, [7, at, 1]), Ended::Slowly(nr::WRITEV));
            }
        }
    }
}

#[test]
fn a_routine_that_returns_at_once_returns_through() {
    let outer = env(1, UserAccess::Host);
    let segments = CallAdapter::segments(&outer).unwrap();
    let routine = segments
        .routine(constant("answer", 5).unwrap(), nr::WRITE)
        .unwrap();
    let mut user = UserMemory::new(4096);
    let one = segment(&mut user, 0, 3, 4);
    assert_eq!(call(&routine, [7, one, 1]), Ended::With(5));
}
