//! Pairs that are closed serve again; whatever else becomes of an end, nothing is kept or closed twice.

use super::*;
use crate::fdtable::FdTable;
use sync::Monitor;

/// The list of waiting pairs is one for all tests.
static ONE_AT_A_TIME: Monitor<()> = Monitor::new(());

fn table() -> Arc<FdTable> {
    FdTable::new(16).unwrap()
}

fn ends(files: &FdTable) -> [i32; 2] {
    let (reading, writing) = pair(0).unwrap();
    [reading, writing].map(|of| files.install(of, false).unwrap())
}

fn address(files: &FdTable, fd: i32) -> usize {
    Arc::as_ptr(&files.get(fd).unwrap()).addr()
}

fn pipe_of(files: &FdTable, fd: i32) -> Arc<Pipe> {
    let of = files.get(fd).unwrap();
    of.file_as::<PipeEnd>().unwrap().pipe.clone()
}

#[test]
fn a_closed_pair_serves_the_next_pipe_as_new() {
    let _turn = ONE_AT_A_TIME.lock();
    inactive::clear();
    let files = table();
    for order in [[0, 1], [1, 0]] {
        let fds = ends(&files);
        let before = fds.map(|fd| address(&files, fd));
        let pipe = pipe_of(&files, fds[0]);
        assert_eq!(pipe.first.write(Sharing::Shared, b"left"), Some(4));
        for end in order {
            assert!(files.close(fds[end]).is_ok());
        }
        assert!(pipe.no_reader() && pipe.no_writer());
        let again = ends(&files);
        assert_eq!(before, again.map(|fd| address(&files, fd)));
        assert_eq!(pipe.first.available(), 0);
        assert!(!pipe.no_reader() && !pipe.no_writer());
        assert_eq!(pipe.first.write(Sharing::Shared, b"new"), Some(3));
        for fd in again {
            assert!(files.close(fd).is_ok());
        }
    }
    inactive::clear();
}

#[test]
fn an_end_that_goes_another_way_lets_the_parked_one_go() {
    let _turn = ONE_AT_A_TIME.lock();
    inactive::clear();
    for other_first in [false, true] {
        let files = table();
        let fds = ends(&files);
        let pipe = pipe_of(&files, fds[0]);
        // Somebody else holds the writing end when its descriptor goes.
        let held = files.get(fds[1]).unwrap();
        assert!(files.close(fds[1]).is_ok());
        assert!(!pipe.no_writer());
        if other_first {
            drop(held);
            assert!(files.close(fds[0]).is_ok());
        } else {
            assert!(files.close(fds[0]).is_ok());
            drop(held);
        }
        assert!(pipe.no_reader() && pipe.no_writer());
        assert_eq!(Arc::strong_count(&pipe), 1, "the pipe is kept by an end");
        assert!(inactive::take(|_| ()).is_none());
    }
}

#[test]
fn no_more_wait_than_there_is_room_for() {
    let _turn = ONE_AT_A_TIME.lock();
    inactive::clear();
    let files = FdTable::new(64).unwrap();
    let pairs: [_; 12] = core::array::from_fn(|_| ends(&files));
    let pipes = pairs.map(|fds| pipe_of(&files, fds[0]));
    for fd in pairs.into_iter().flatten() {
        assert!(files.close(fd).is_ok());
    }
    let kept = |pipes: &[Arc<Pipe>]| pipes.iter().filter(|p| Arc::strong_count(p) > 1).count();
    assert_eq!(kept(&pipes), 8);
    inactive::clear();
    assert_eq!(kept(&pipes), 0);
}
