//! Descriptors and the words of their kernel procedure tables.
//!
//! *Unsafe*: reading a kernel procedure table; arrays that the test has replaced.

use super::*;
use crate::fs::file::{DescRoutines, File};
use abi::linux::{O_RDONLY, O_RDWR, O_WRONLY};
use std::sync::atomic::AtomicI32;

/// Counts its descriptions.
struct Counted(Arc<AtomicI32>);

impl File for Counted {
    fn close(&self, _of: &OpenFile) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
    fn synthesize(&self, _of: &OpenFile, _sharing: Sharing) -> Result<DescRoutines> {
        Err(Errno::ENOMEM)
    }
}

fn file(count: &Arc<AtomicI32>, flags: u32) -> Arc<OpenFile> {
    count.fetch_add(1, Ordering::Relaxed);
    OpenFile::new(Arc::new(Counted(count.clone())), flags)
}

/// Plugs `entries` at `fd`.
fn plug(files: &FdTable, fd: usize, entries: [usize; 3]) {
    irqs_off(|off| files.arrays(off).set(fd, entries));
}

/// A table for so many descriptors, and a count of descriptions.
fn table(limit: usize) -> (Arc<FdTable>, Arc<AtomicI32>) {
    (FdTable::new(limit).unwrap(), Arc::default())
}

fn words(files: &FdTable, fd: usize) -> [usize; 3] {
    let kpt = files.kpt();
    // SAFETY: the table is not changed meanwhile, and the index is below its length.
    unsafe { [*kpt.read.add(fd), *kpt.write.add(fd), *kpt.lseek.add(fd)] }
        .map(|word| word as u32 as usize)
}

const SLOW: usize = 1;
const BAD: usize = 2;

#[test]
fn the_lowest_descriptor_is_taken_and_published() {
    let (files, count) = table(1024);
    for fd in 0..5 {
        assert_eq!(files.install(file(&count, O_RDWR), false), Ok(fd));
    }
    assert_eq!(words(&files, 3), [SLOW, SLOW, SLOW]);
    files.close(2).unwrap();
    assert_eq!(words(&files, 2), [BAD, BAD, BAD]);
    assert_eq!(files.close(2), Err(Errno::EBADF));
    assert_eq!(files.install(file(&count, O_RDONLY), true), Ok(2));
    assert_eq!(words(&files, 2), [SLOW, BAD, SLOW]);
    assert_eq!(files.install_from(4, file(&count, O_RDWR), false), Ok(5));
    assert_eq!(files.cloexec(2), Ok(true));
    files.close_on_exec();
    assert!(files.get(2).is_err() && files.get(3).is_ok());
    assert_eq!(files.get(-1).err(), Some(Errno::EBADF));
    assert_eq!(count.load(Ordering::Relaxed), 5);
    drop(files);
    assert_eq!(count.load(Ordering::Relaxed), 0);
}

#[test]
fn tables_grow_up_to_the_limit() {
    let (files, count) = table(200);
    let of = file(&count, O_RDWR);
    for fd in 0..200 {
        assert_eq!(files.install(of.clone(), false), Ok(fd));
    }
    assert_eq!(files.install(of.clone(), false), Err(Errno::EMFILE));
    assert_eq!(files.kpt().len, 256);
    assert_eq!(words(&files, 70), [SLOW; 3]);
    assert_eq!(files.install_at(200, of.clone(), false), Err(Errno::EBADF));
    assert_eq!(
        files.install_from(300, of.clone(), false),
        Err(Errno::EINVAL)
    );
    files.close_range(10, u32::MAX, false);
    assert_eq!(files.install(of, false), Ok(10));
}

#[test]
fn sharing_follows_fork_and_close() {
    let (parent, count) = table(1024);
    let of = file(&count, O_RDWR);
    parent.install(of.clone(), false).unwrap();
    assert_eq!(of.sharing(), Sharing::Exclusive);
    let child = parent.fork_copy().unwrap();
    assert_eq!(of.sharing(), Sharing::Shared);
    assert_eq!(words(&child, 0), [SLOW; 3]);
    let (_, cold) = parent.get_cold(0).unwrap();
    assert!(cold);
    parent.warm(0, &of);
    assert!(!parent.get_cold(0).unwrap().1);
    drop((child, of));
    let (of, cold) = parent.get_cold(0).unwrap();
    assert!(cold);
    parent.warm(0, &of);
    assert_eq!(of.sharing(), Sharing::Exclusive);
    drop(of);
    parent.install_at(0, file(&count, O_RDONLY), false).unwrap();
    assert_eq!(count.load(Ordering::Relaxed), 1);
}

/// As in a table that was copied before the routines were made: a description that is only written has the
/// same `read` there.
#[test]
fn code_is_plugged_where_any_of_it_is_missing() {
    for (flags, before) in [
        (O_WRONLY, [BAD, 77, SLOW]),
        (O_RDONLY, [77, BAD, SLOW]),
        (O_RDWR, [SLOW, SLOW, 77]),
    ] {
        let (files, count) = table(1024);
        let of = file(&count, flags);
        files.install(of.clone(), false).unwrap();
        files.warm(0, &of);
        let after = words(&files, 0);
        plug(&files, 0, before);
        assert!(files.get_cold(0).unwrap().1);
        files.warm(0, &of);
        assert!(!files.get_cold(0).unwrap().1);
        assert_eq!(words(&files, 0), after);
    }
}

#[test]
fn code_is_plugged_at_each_number_that_asks() {
    let (files, count) = table(1024);
    let of = file(&count, O_RDWR);
    for _ in 0..2 {
        files.install(of.clone(), false).unwrap();
    }
    files.warm(0, &of);
    // Stands for the code of before.
    plug(&files, 1, [77; 3]);
    assert!(!files.get_cold(0).unwrap().1);
    assert!(files.get_cold(1).unwrap().1);
    files.warm(1, &of);
    assert!(!files.get_cold(1).unwrap().1);
    assert_eq!(words(&files, 1), words(&files, 0));
}

#[test]
fn code_that_comes_late_is_made_at_the_second_call() {
    /// Counts how often it makes code.
    struct Late(Arc<AtomicI32>);
    impl File for Late {
        fn code_comes_late(&self) -> bool {
            true
        }
        fn synthesize(&self, _of: &OpenFile, _sharing: Sharing) -> Result<DescRoutines> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(DescRoutines::default())
        }
    }
    let (files, made) = table(1024);
    let of = OpenFile::new(Arc::new(Late(made.clone())), O_RDONLY);
    let made = || made.load(Ordering::Relaxed);
    files.install(of, false).unwrap();
    assert_eq!(words(&files, 0), [SLOW, BAD, SLOW]);
    assert!(!files.get_cold(0).unwrap().1);
    assert_eq!(made(), 0);
    let (of, cold) = files.get_cold(0).unwrap();
    assert!(cold);
    files.warm(0, &of);
    assert_eq!(made(), 1);
    assert!(!files.get_cold(0).unwrap().1);
    // Opened again it has its code at once.
    files.close(0).unwrap();
    of.reopen(O_RDONLY);
    assert_eq!(files.install_if_sole_user(of, false).ok(), Some(0));
    assert!(!files.get_cold(0).unwrap().1);
    assert_eq!(made(), 1);
}

#[test]
fn a_fork_leaves_no_exclusive_code_at_any_number_of_a_file() {
    /// Stands for exclusive code.
    const ALONE: usize = 77;
    let (parent, count) = table(1024);
    let of = file(&count, O_RDWR);
    for fd in 0..3 {
        parent.install(of.clone(), false).unwrap();
        plug(&parent, fd, [ALONE; 3]);
    }
    assert_eq!(words(&parent, 2), [ALONE; 3]);
    let _child = parent.fork_copy().unwrap();
    for fd in 0..3 {
        assert_eq!(words(&parent, fd), [SLOW; 3]);
    }
    // One who marks it for ever comes to this table only later: its code is seen to all the same.
    plug(&parent, 1, [ALONE; 3]);
    of.share_for_ever();
    let _other = parent.fork_copy().unwrap();
    assert_eq!(words(&parent, 1), [SLOW; 3]);
}

#[test]
fn a_table_of_several_threads_plugs_no_exclusive_code() {
    let (files, count) = table(1024);
    files.install(file(&count, O_RDWR), false).unwrap();
    files.share();
    assert_eq!(files.get(0).unwrap().sharing(), Sharing::Shared);
    let fd = files.install(file(&count, O_RDWR), false).unwrap();
    assert_eq!(files.get(fd).unwrap().sharing(), Sharing::Shared);
    files.close(fd).unwrap();
    assert_eq!(count.load(Ordering::Relaxed), 1);
    files.leave();
    let fd = files.install(file(&count, O_RDWR), false).unwrap();
    assert_eq!(files.get(fd).unwrap().sharing(), Sharing::Exclusive);
    files.leave();
    assert_eq!(count.load(Ordering::Relaxed), 0);
}

#[test]
fn with_a_visitor_a_thread_is_not_alone() {
    let (files, count) = table(1024);
    files.install(file(&count, O_RDWR), false).unwrap();
    let ready = file(&count, O_RDWR);
    ready.make_ready();
    let visit = files.clone().visit();
    let Err(refused) = files.install_if_sole_user(ready, false) else {
        panic!("plain stores beside a visitor");
    };
    assert_eq!(files.install(refused, true), Ok(1));
    assert_eq!(visit.get(1).unwrap().sharing(), Sharing::Exclusive);
    let mut seen = Vec::new();
    visit.for_each(|fd, _, cloexec| seen.push((fd, cloexec)));
    assert_eq!(seen, [(0, false), (1, true)]);
    assert_eq!(visit.entries(1), Some([SLOW; 3]));
    // SAFETY: this is the table's thread.
    assert_eq!(irqs_off(|off| unsafe { files.close_now(1, off) }), None);
    files.close(0).unwrap();
    assert_eq!(words(&files, 0), [BAD; 3]);
    drop(visit);
    let ready = file(&count, O_RDWR);
    ready.make_ready();
    assert!(matches!(files.install_if_sole_user(ready, false), Ok(0)));
    assert_eq!(words(&files, 0), [SLOW; 3]);
    drop(files);
    assert_eq!(count.load(Ordering::Relaxed), 0);
}

#[test]
fn a_claim_that_is_not_yet_in_the_map_is_helped() {
    let (files, count) = table(1024);
    files.share();
    // Another thread has filled the slot, and done no more.
    let place = files.slots.place(0).unwrap();
    let word = word_of(file(&count, O_RDONLY), false);
    place.slot.store(word, Ordering::Release);
    assert_eq!(files.install(file(&count, O_RDWR), false), Ok(1));
    assert_eq!(words(&files, 0), [SLOW, BAD, SLOW]);
    assert_eq!(files.slots.lowest(0), 2);
    files.close_all();
    assert_eq!(count.load(Ordering::Relaxed), 0);
}

#[test]
fn what_changes_while_a_table_grows_is_in_both_arrays() {
    let (files, count) = table(1024);
    files.share();
    files.install(file(&count, O_RDWR), false).unwrap();
    let old = files.kpt.load(Ordering::Relaxed);
    let new = Kpt::new(128).unwrap();
    new.before.store(old, Ordering::Relaxed);
    files.kpt.store(Box::into_raw(new), Ordering::Relaxed);
    files.install_at(0, file(&count, O_RDONLY), false).unwrap();
    // SAFETY: the old arrays are this test's now.
    let old = unsafe { Box::from_raw(old) };
    irqs_off(|off| {
        for kpt in [&*old, files.arrays(off)] {
            let entries = kpt.words(0).map(|word| word.get() as usize);
            assert_eq!(entries, [SLOW, BAD, SLOW]);
        }
        let before = &files.arrays(off).before;
        before.store(core::ptr::null_mut(), Ordering::Relaxed);
    });
}

#[test]
fn what_is_shared_for_ever_is_never_exclusive() {
    let (files, count) = table(1024);
    let of = file(&count, O_RDWR);
    files.install(of.clone(), false).unwrap();
    of.share();
    files.warm(0, &of);
    assert_eq!(of.sharing(), Sharing::Exclusive);
    of.share_for_ever();
    files.warm(0, &of);
    assert_eq!(of.sharing(), Sharing::Shared);
    of.reopen(O_RDWR);
    assert_eq!(of.sharing(), Sharing::Exclusive);
}

#[test]
fn a_table_whose_growth_ended_halfway_is_used_as_it_is() {
    let (files, count) = table(1024);
    let capacity = files.capacity();
    // The slots are made first; then there was no memory for the code.
    files.slots.reserve(2 * capacity).unwrap();
    assert_eq!(files.close(capacity as i32 + 3), Err(Errno::EBADF));
    assert_eq!(
        files.install_from(capacity as i32, file(&count, O_RDWR), false),
        Ok(capacity as i32)
    );
    assert_eq!(words(&files, capacity), [SLOW, SLOW, SLOW]);
}

#[test]
fn a_fork_leaves_no_exclusive_code_of_a_file_with_one_number() {
    let (parent, count) = table(1024);
    parent.install(file(&count, O_RDWR), false).unwrap();
    plug(&parent, 0, [77; 3]); // stands for exclusive code
    let _child = parent.fork_copy().unwrap();
    assert_eq!(words(&parent, 0), [SLOW; 3]);
}

#[test]
fn only_who_has_the_last_way_to_a_file_makes_its_code_exclusive() {
    let (files, count) = table(64);
    let of = file(&count, O_RDWR);
    assert_eq!(files.install(of.clone(), false), Ok(0));
    let other = files.fork_copy().unwrap();
    assert_eq!(of.sharing(), Sharing::Shared);
    files.close(0).unwrap();
    // A call that began before the close ends: the descriptor that is left is another table's.
    files.warm(0, &of);
    assert_eq!(of.sharing(), Sharing::Shared);
    // Here somebody else still has a count, who may be in the middle of a call.
    let call = of.clone();
    other.warm(0, &of);
    assert_eq!(of.sharing(), Sharing::Shared);
    drop(call);
    other.warm(0, &of);
    assert_eq!(of.sharing(), Sharing::Exclusive);
}

#[test]
fn what_is_freed_is_the_lowest_again_in_a_large_table() {
    let (files, count) = table(MAX_CAPACITY);
    let of = file(&count, O_RDWR);
    for fd in 0..5000 {
        assert_eq!(files.install(of.clone(), false), Ok(fd));
    }
    let last = MAX_CAPACITY as i32 - 1;
    assert_eq!(files.install_at(last, of.clone(), true), Ok(last));
    assert_eq!(words(&files, last as usize), [SLOW; 3]);
    for threads in 1..=2 {
        for fd in [4999, 4100, 64, 31, 2000] {
            files.close(fd).unwrap();
            assert_eq!(files.install(of.clone(), false), Ok(fd));
        }
        for fd in [3000, 40, 4500] {
            files.close(fd).unwrap();
        }
        for fd in [40, 3000, 4500, 4999 + threads] {
            assert_eq!(files.install(of.clone(), false), Ok(fd));
        }
        files.share();
    }
    // A search from before a release does not raise the hint.
    let low = files.slots.low.load(Ordering::Relaxed);
    files.close(50).unwrap();
    files.slots.raise(low, 100);
    assert_eq!(files.install(of, false), Ok(50));
    files.close_on_exec();
    assert!(files.get(last).is_err());
}
