//! The lock-free parts of the room, explored by loom in every interleaving of a few steps.
//!
//! The very files of the room are compiled here a second time, with loom's atomics as their `primitive`.

#[path = "../src/frame/bitmap.rs"]
#[allow(dead_code)]
mod bitmap;
#[path = "../src/heap/magazine.rs"]
#[allow(dead_code)]
mod magazine;
mod primitive {
    pub use loom::sync::atomic;
}
#[path = "../src/frame/stock.rs"]
#[allow(dead_code)]
mod stock;

use bitmap::{Bitmap, Hints};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};
use loom::thread;
use magazine::Magazine;
use stock::Stock;

/// Explores `run` with at most three switches at points where a thread could go on.
fn explore(run: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(run);
}

/// Memory of 128 frames.
struct Frames {
    words: Vec<AtomicU64>,
    summary: Vec<AtomicU64>,
    hints: Hints,
}

impl Frames {
    fn new(free: &[usize]) -> Arc<Frames> {
        let frames = Frames {
            words: (0..2).map(|_| AtomicU64::new(0)).collect(),
            summary: vec![AtomicU64::new(0)],
            hints: Hints {
                bottom: AtomicUsize::new(0),
                top: AtomicUsize::new(0),
                run: AtomicUsize::new(0),
            },
        };
        free.iter().for_each(|frame| frames.bitmap().give(*frame));
        Arc::new(frames)
    }

    fn bitmap(&self) -> Bitmap<'_> {
        Bitmap {
            words: &self.words,
            summary: &self.summary,
            hints: &self.hints,
        }
    }

    /// Everything that is free, taken.
    fn rest(&self) -> Vec<usize> {
        let mut rest: Vec<_> = std::iter::from_fn(|| self.bitmap().take_bottom(128)).collect();
        rest.sort();
        rest
    }
}

#[test]
fn two_takers_get_different_frames() {
    explore(|| {
        let frames = Frames::new(&[5, 70]);
        let other = frames.clone();
        let taker = thread::spawn(move || other.bitmap().take_top());
        let mine = frames.bitmap().take_bottom(128);
        let theirs = taker.join().unwrap();
        assert!(mine.is_some() && theirs.is_some() && mine != theirs);
        assert_eq!(frames.rest(), []);
    });
}

#[test]
fn a_frame_given_while_its_word_is_emptied_is_not_lost() {
    explore(|| {
        let frames = Frames::new(&[5]);
        let other = frames.clone();
        let taker = thread::spawn(move || other.bitmap().take_top());
        frames.bitmap().give(6);
        let theirs = taker.join().unwrap();
        let mut all = frames.rest();
        all.extend(theirs);
        all.sort();
        assert_eq!(all, [5, 6]);
    });
}

#[test]
fn two_takers_and_a_giver_leave_nothing_hidden() {
    explore(|| {
        let frames = Frames::new(&[5]);
        let (second, third) = (frames.clone(), frames.clone());
        let taker = thread::spawn(move || second.bitmap().take_top());
        let other_taker = thread::spawn(move || third.bitmap().take_top());
        frames.bitmap().give(6);
        let mut all: Vec<_> = taker.join().unwrap().into_iter().collect();
        all.extend(other_taker.join().unwrap());
        all.extend(frames.rest());
        all.sort();
        assert_eq!(all, [5, 6]);
    });
}

#[test]
fn a_run_across_words_is_taken_whole_or_not_at_all() {
    explore(|| {
        let frames = Frames::new(&[62, 63, 64, 65]);
        let other = frames.clone();
        let taker = thread::spawn(move || other.bitmap().take_run(3, 1, 128));
        let single = frames.bitmap().take_top();
        let run = taker.join().unwrap();
        assert!(single.is_some());
        let mut all: Vec<_> = single.into_iter().collect();
        all.extend(run.into_iter().flat_map(|first| first..first + 3));
        all.extend(frames.rest());
        all.sort();
        assert_eq!(all, [62, 63, 64, 65]);
    });
}

#[test]
fn of_two_searches_that_collide_one_succeeds() {
    explore(|| {
        let frames = Frames::new(&[62, 63, 64, 65]);
        let other = frames.clone();
        let searcher = thread::spawn(move || other.bitmap().take_run(4, 2, 66));
        let runs = [frames.bitmap().take_run(4, 2, 66), searcher.join().unwrap()];
        assert_eq!(runs.iter().flatten().count(), 1);
        let mut all = frames.rest();
        all.extend(
            runs.into_iter()
                .flatten()
                .flat_map(|first| first..first + 4),
        );
        all.sort();
        assert_eq!(all, [62, 63, 64, 65]);
    });
}

#[test]
fn the_stock_survives_a_frame_that_comes_back() {
    explore(|| {
        let links: Arc<Vec<AtomicU32>> = Arc::new((0..3).map(|_| AtomicU32::new(0)).collect());
        let stock = Arc::new(Stock {
            head: AtomicU64::new(0),
            len: AtomicUsize::new(0),
        });
        stock.push(&links, 1);
        stock.push(&links, 2);
        let (other, other_links) = (stock.clone(), links.clone());
        let taker = thread::spawn(move || other.pop(&other_links));
        // Both go, the upper one comes back: the taker's link may be stale.
        let (first, second) = (stock.pop(&links), stock.pop(&links));
        if let Some(first) = first {
            stock.push(&links, first);
        }
        let mut all: Vec<_> = taker.join().unwrap().into_iter().chain(second).collect();
        all.extend(std::iter::from_fn(|| stock.pop(&links)));
        all.sort();
        assert_eq!(all, [1, 2]);
        assert_eq!(stock.len(), 0);
    });
}

#[test]
fn the_magazine_survives_an_object_that_comes_back() {
    explore(|| {
        let links: Arc<Vec<AtomicU32>> = Arc::new((0..3).map(|_| AtomicU32::new(0)).collect());
        let magazine = Arc::new(Magazine(AtomicU64::new(0)));
        assert!(magazine.push(1, &links[1]) && magazine.push(2, &links[2]));
        let (other, other_links) = (magazine.clone(), links.clone());
        let taker = thread::spawn(move || other.pop(|number| &other_links[number as usize]));
        let link = |number: u32| &links[number as usize];
        let (first, second) = (magazine.pop(link), magazine.pop(link));
        if let Some(first) = first {
            assert!(magazine.push(first, link(first)));
        }
        let mut all: Vec<_> = taker.join().unwrap().into_iter().chain(second).collect();
        all.extend(std::iter::from_fn(|| magazine.pop(link)));
        all.sort();
        assert_eq!(all, [1, 2]);
        assert_eq!(
            magazine.0.load(loom::sync::atomic::Ordering::Relaxed) & ((1 << 34) - 1),
            0
        );
    });
}
