//! Descriptors and the words of their kernel procedure tables.

use super::*;
use crate::file::{DescRoutines, File};
use abi::linux::{O_RDONLY, O_RDWR};
use core::any::Any;
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
    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn file(count: &Arc<AtomicI32>, flags: u32) -> Arc<OpenFile> {
    count.fetch_add(1, Ordering::Relaxed);
    OpenFile::new(Arc::new(Counted(count.clone())), flags)
}

fn words(files: &Files, fd: usize) -> [usize; 3] {
    let kpt = files.kpt();
    // SAFETY: the table is not changed meanwhile, and the index is below its length.
    unsafe { [*kpt.read.add(fd), *kpt.write.add(fd), *kpt.lseek.add(fd)] }
}

const SLOW: usize = 1;
const BAD: usize = 2;

#[test]
fn the_lowest_descriptor_is_taken_and_published() {
    let count = Arc::new(AtomicI32::new(0));
    let files = Files::new(1024).unwrap();
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
    let count = Arc::new(AtomicI32::new(0));
    let files = Files::new(200).unwrap();
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
    let count = Arc::new(AtomicI32::new(0));
    let parent = Files::new(1024).unwrap();
    let of = file(&count, O_RDWR);
    parent.install(of.clone(), false).unwrap();
    assert!(!of.shared.load(Ordering::Relaxed));
    let child = parent.fork_copy().unwrap();
    assert!(of.shared.load(Ordering::Relaxed));
    assert_eq!(words(&child, 0), [SLOW; 3]);
    let (_, cold) = parent.get_cold(0).unwrap();
    assert!(cold);
    parent.warm(0, &of);
    assert!(!parent.get_cold(0).unwrap().1);
    drop(child);
    assert!(parent.get_cold(0).unwrap().1);
    parent.warm(0, &of);
    assert!(!of.shared.load(Ordering::Relaxed));
    drop(of);
    parent.install_at(0, file(&count, O_RDONLY), false).unwrap();
    assert_eq!(count.load(Ordering::Relaxed), 1);
}

#[test]
fn a_table_of_several_threads_plugs_no_exclusive_code() {
    let count = Arc::new(AtomicI32::new(0));
    let files = Files::new(1024).unwrap();
    files.install(file(&count, O_RDWR), false).unwrap();
    files.share();
    assert!(files.get(0).unwrap().shared.load(Ordering::Relaxed));
    let fd = files.install(file(&count, O_RDWR), false).unwrap();
    assert!(files.get(fd).unwrap().shared.load(Ordering::Relaxed));
    files.close(fd).unwrap();
    assert_eq!(count.load(Ordering::Relaxed), 1);
    files.leave();
    let fd = files.install(file(&count, O_RDWR), false).unwrap();
    assert!(!files.get(fd).unwrap().shared.load(Ordering::Relaxed));
    files.leave();
    assert_eq!(count.load(Ordering::Relaxed), 0);
}
