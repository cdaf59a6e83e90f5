//! Loom models of a pipe that gets another size while others write, read and wait: each byte is read once and
//! in order, every waiter is woken, and no thread gets a false end of file.
//!
//! [`Sized`] stands for the work of the room above around [`PipeCore::hand_over`]: the current queue behind a
//! monitor, which a thread uses when it finds its queue retired.

use super::PipeCore;
use super::model::{be, link};
use crate::Sharing::Shared;
use crate::primitive::{AtomicUsize, Ordering};
use alloc::sync::Arc;
use loom::sync::Mutex;

/// A pipe.
struct Sized {
    first: Arc<PipeCore>,
    later: Mutex<Option<Arc<PipeCore>>>,
}

fn core(size: usize) -> Arc<PipeCore> {
    PipeCore::new(size).unwrap().into()
}

impl Sized {
    fn new() -> Arc<Sized> {
        link();
        Arc::new(Sized {
            first: core(4096),
            later: Mutex::new(None),
        })
    }

    fn now(&self) -> Arc<PipeCore> {
        let later = self.later.lock().unwrap();
        later.as_ref().unwrap_or(&self.first).clone()
    }

    /// Another size, once.
    fn resize(&self, size: usize) -> bool {
        let next: Arc<PipeCore> = self.first.succeed(size).unwrap().into();
        let published = next.clone();
        let publish = || *self.later.lock().unwrap() = Some(published);
        let resized = self.first.hand_over(&next, publish);
        if resized {
            // As for parties that came or left meanwhile.
            next.set_readers(true);
            next.set_writers(true);
            next.wake_readers();
            next.wake_writers();
        }
        resized
    }

    /// Writes `byte`, by the routine's twin or, where that leaves, as the slow way does.
    fn write(&self, byte: u8) {
        loop {
            let core = self.now();
            if core.write(Shared, &[byte]).is_some() {
                return;
            }
            let mut end = core.write_end();
            if core.is_retired() {
                continue;
            }
            assert!(
                !core.for_writer.is_raised(crate::kit::guard::Flag::Closed),
                "the pipe has a reader"
            );
            assert_eq!(end.put(&[byte]), 1);
            return;
        }
    }

    /// Reads a byte if there is one.
    fn read(&self) -> Option<u8> {
        let mut byte = [0];
        loop {
            let core = self.now();
            if core.read(Shared, &mut byte).is_some() {
                return Some(byte[0]);
            }
            let mut end = core.read_end();
            if end.available() > 0 {
                byte[0] = end.pieces()[0][0];
                end.consume(1);
                return Some(byte[0]);
            }
            if !core.is_retired() {
                assert!(!core.ended.load(Ordering::SeqCst), "the pipe has a writer");
                return None;
            }
        }
    }
}

fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.max_branches = 10_000;
    builder.check(model);
}

#[test]
fn a_writer_loses_nothing_to_another_size() {
    check(|| {
        let pipe = Sized::new();
        let writer = {
            let pipe = pipe.clone();
            loom::thread::spawn(move || {
                be(2);
                pipe.write(1);
                pipe.write(2);
            })
        };
        assert!(pipe.resize(8192));
        writer.join().unwrap();
        let read = [(); 3].map(|()| pipe.read());
        assert_eq!(read, [Some(1), Some(2), None]);
        assert_eq!(pipe.now().size(), 8192);
        assert_eq!(pipe.first.available(), 0);
    });
}

#[test]
fn a_reader_reads_each_byte_once_and_in_order() {
    check(|| {
        let pipe = Sized::new();
        pipe.write(1);
        pipe.write(2);
        let reader = {
            let pipe = pipe.clone();
            loom::thread::spawn(move || {
                be(2);
                [(); 2].map(|()| pipe.read())
            })
        };
        assert!(pipe.resize(8192));
        assert_eq!(reader.join().unwrap(), [Some(1), Some(2)]);
        assert_eq!(pipe.read(), None);
    });
}

#[test]
fn bytes_go_from_a_writer_to_a_reader_past_another_size() {
    check(|| {
        let pipe = Sized::new();
        pipe.write(1);
        let writer = {
            let pipe = pipe.clone();
            loom::thread::spawn(move || {
                be(2);
                pipe.write(2);
            })
        };
        let resizer = {
            let pipe = pipe.clone();
            loom::thread::spawn(move || {
                be(3);
                assert!(pipe.resize(8192));
            })
        };
        let first = pipe.read();
        writer.join().unwrap();
        resizer.join().unwrap();
        assert_eq!((first, pipe.read(), pipe.read()), (Some(1), Some(2), None));
    });
}

#[test]
fn who_waits_for_a_byte_is_woken_in_the_new_queue() {
    check(|| {
        let pipe = Sized::new();
        let other = {
            let pipe = pipe.clone();
            loom::thread::spawn(move || {
                be(2);
                assert!(pipe.resize(8192));
                pipe.write(7);
            })
        };
        // As the slow way of a read waits.
        let read = loop {
            if let Some(byte) = pipe.read() {
                break byte;
            }
            assert!(pipe.now().wait_for_data(|| false).is_ok());
        };
        other.join().unwrap();
        assert_eq!(read, 7);
    });
}

#[test]
fn what_is_too_much_for_the_new_size_stays() {
    check(|| {
        link();
        let left = Arc::new(AtomicUsize::new(0));
        // A pipe of 8192 bytes that is to have 4096.
        let big = core(8192);
        assert_eq!(big.write(Shared, &[5; 4097]), Some(4097));
        let reader = {
            let (big, left) = (big.clone(), left.clone());
            loom::thread::spawn(move || {
                be(2);
                let mut byte = [0];
                let read = big.read(Shared, &mut byte);
                left.fetch_add(4097 - read.unwrap_or(0), Ordering::SeqCst);
            })
        };
        let next = core(4096);
        let over = big.hand_over(&next, || {});
        reader.join().unwrap();
        let left = left.load(Ordering::SeqCst);
        assert_eq!(big.is_retired(), over);
        assert_eq!(big.available() + next.available(), left);
    });
}
