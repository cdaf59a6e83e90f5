//! The lock-free parts of the room, explored by loom in every interleaving of a few steps.
//!
//! The very files of the room are compiled here a second time, with loom's atomics as their `primitive`.

#[path = "../src/frame/bitmap.rs"]
#[allow(dead_code)]
mod bitmap;
#[path = "../src/space/fault_gate.rs"]
#[allow(dead_code)]
mod fault_gate;
#[path = "../src/frame/free_count.rs"]
mod free_count;
#[path = "../src/magazine.rs"]
#[allow(dead_code)]
mod magazine;
mod primitive {
    pub use loom::sync::atomic;
}
#[path = "../src/table/owners.rs"]
#[allow(dead_code)]
mod owners;
#[path = "../src/frame/zero_pool.rs"]
#[allow(dead_code)]
mod zero_pool;

use bitmap::{Bitmap, Hints};
use fault_gate::FaultGate;
use free_count::FreeCount;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use loom::thread;
use magazine::Magazine;
use zero_pool::ZeroPool;

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
fn a_frame_that_is_taken_at_once_has_been_counted() {
    explore(|| {
        let frames = Frames::new(&[]);
        let free = Arc::new(FreeCount(AtomicUsize::new(0)));
        let (theirs, count) = (frames.clone(), free.clone());
        let taker = thread::spawn(move || {
            if theirs.bitmap().take_top().is_some() {
                count.taken(1);
            }
        });
        let count = free.clone();
        let looker = thread::spawn(move || assert!(count.now() <= 1));
        free.give(1, || frames.bitmap().give(5));
        taker.join().unwrap();
        looker.join().unwrap();
        assert_eq!(free.now(), frames.rest().len());
    });
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
        let stock = Arc::new(ZeroPool {
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
        assert!(magazine.push(2, 1, &links[1]) && magazine.push(2, 2, &links[2]));
        let (other, other_links) = (magazine.clone(), links.clone());
        let taker = thread::spawn(move || other.pop(|number| &other_links[number as usize]));
        let link = |number: u32| &links[number as usize];
        let (first, second) = (magazine.pop(link), magazine.pop(link));
        if let Some(first) = first {
            assert!(magazine.push(2, first, link(first)));
        }
        let mut all: Vec<_> = taker.join().unwrap().into_iter().chain(second).collect();
        all.extend(std::iter::from_fn(|| magazine.pop(link)));
        all.sort();
        assert_eq!(all, [1, 2]);
        assert_eq!(magazine.len(), 0);
        assert_eq!(magazine.0.load(Ordering::Relaxed) & ((1 << 34) - 1), 0);
    });
}

#[test]
fn a_magazine_is_filled_and_drained_by_several_at_once() {
    explore(|| {
        let links: Arc<Vec<AtomicU32>> = Arc::new((0..4).map(|_| AtomicU32::new(0)).collect());
        let magazine = Arc::new(Magazine(AtomicU64::new(0)));
        assert!(magazine.push(3, 1, &links[1]));
        let (other, other_links) = (magazine.clone(), links.clone());
        let taker = thread::spawn(move || other.pop(|number| &other_links[number as usize]));
        // 2 leads to 3.
        links[2].store(3 + 1, Ordering::Relaxed);
        assert!(magazine.push_chain(3, 2, &links[3], 2));
        let mut all = Vec::new();
        let mut next = magazine.drain();
        while let Some(number) = next {
            all.push(number);
            let behind = links[number as usize].load(Ordering::Relaxed);
            next = behind.checked_sub(1);
        }
        all.extend(taker.join().unwrap());
        all.sort();
        assert_eq!(all, [1, 2, 3]);
        assert_eq!(magazine.len(), 0);
    });
}

/// A space of one area with one page, on two CPUs that both have it loaded. Frame 0 is what the page has at
/// first.
struct Space {
    gate: FaultGate,
    pinned: [AtomicBool; 2],
    /// Is the area there? Like a space's areas: read by who may pass, written in a change.
    area: UnsafeCell<bool>,
    /// 0, or twice the frame's number and 2, and whether it is writable.
    entry: AtomicU64,
    frames: [Page; 3],
}

/// A frame: a byte for each of two threads, and what a copy reads and who frees it writes.
struct Page {
    bytes: [AtomicU64; 2],
    there: UnsafeCell<()>,
}

const EMPTY: u64 = 0;
const WRITABLE: u64 = 1;

fn entry(frame: usize, rights: u64) -> u64 {
    frame as u64 * 2 + 2 + rights
}

fn frame(entry: u64) -> usize {
    (entry / 2 - 1) as usize
}

impl Space {
    fn new(entry: u64) -> Arc<Space> {
        Arc::new(Space {
            gate: FaultGate::new(),
            pinned: [AtomicBool::new(false), AtomicBool::new(false)],
            area: UnsafeCell::new(true),
            entry: AtomicU64::new(entry),
            frames: std::array::from_fn(|_| Page {
                bytes: [AtomicU64::new(7), AtomicU64::new(7)],
                there: UnsafeCell::new(()),
            }),
        })
    }

    /// With interrupts off on CPU `cpu`, which has the space: its store of that came before, and loading
    /// serialized.
    fn pinned<R>(&self, cpu: usize, part: impl FnOnce() -> R) -> R {
        self.pinned[cpu].store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let done = part();
        self.pinned[cpu].store(false, Ordering::Release);
        done
    }

    /// The round of interrupts from CPU `own`.
    fn await_pinned(&self, own: usize) {
        fence(Ordering::SeqCst);
        while self.pinned[1 - own].load(Ordering::Acquire) {
            thread::yield_now();
        }
    }

    fn exchange(&self, seen: u64, new: u64) -> bool {
        self.entry
            .compare_exchange(seen, new, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// A fault at an empty page, with frame 1. `true`: it passed the gate. `after`: changes that there may
    /// have been since it asked a pager.
    fn fill(&self, cpu: usize, after: Option<u64>) -> bool {
        self.pinned(cpu, || {
            let Some(changes) = self.gate.pass() else {
                return false;
            };
            if after.is_some_and(|after| after != changes) {
                return false;
            }
            // SAFETY: whoever has passed may read.
            if self.area.with(|area| unsafe { *area }) {
                self.exchange(EMPTY, entry(1, 0));
            }
            true
        })
    }

    /// A change on CPU `cpu` takes the area away, and its page.
    fn remove(&self, cpu: usize, round: bool) {
        if self.gate.close() && round {
            self.await_pinned(cpu);
        }
        // SAFETY: a change is alone.
        self.area.with_mut(|area| unsafe { *area = false });
        self.entry.store(EMPTY, Ordering::Relaxed);
        self.gate.open();
    }

    /// Thread `cpu` writes its byte of a page that is copied when it is written, to frame `cpu` + 1.
    fn write(&self, cpu: usize, round: bool) {
        let won = self.pinned(cpu, || {
            self.gate.pass()?;
            let seen = self.entry.load(Ordering::Acquire);
            if seen & WRITABLE != 0 {
                return None;
            }
            let (from, to) = (&self.frames[frame(seen)], &self.frames[cpu + 1]);
            from.there.with(|_| {
                for (from, to) in from.bytes.iter().zip(&to.bytes) {
                    to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
                }
            });
            self.exchange(seen, entry(cpu + 1, WRITABLE))
                .then_some(seen)
        });
        if let Some(seen) = won {
            if round {
                self.await_pinned(cpu);
            }
            // Nobody knows the frame any more.
            self.frames[frame(seen)].there.with_mut(|_| ());
        }
        // The access is made again.
        let now = self.entry.load(Ordering::Acquire);
        assert_eq!(now & WRITABLE, WRITABLE);
        self.frames[frame(now)].bytes[cpu].store(cpu as u64, Ordering::Relaxed);
    }
}

/// A fault on one CPU, a change on the other.
fn a_fault_meets_a_change(round: bool) {
    explore(move || {
        let space = Space::new(EMPTY);
        let other = space.clone();
        let fault = thread::spawn(move || other.fill(0, None));
        space.remove(1, round);
        fault.join().unwrap();
        assert_eq!(space.entry.load(Ordering::Relaxed), EMPTY);
    });
}

#[test]
fn nothing_appears_where_a_change_took_the_area_away() {
    a_fault_meets_a_change(true);
}

#[test]
#[should_panic]
fn the_model_notices_a_change_without_its_round() {
    a_fault_meets_a_change(false);
}

/// A pager's answer comes in while the area goes and another takes its place.
fn an_answer_is_late(compare: bool) {
    explore(move || {
        let space = Space::new(EMPTY);
        let other = space.clone();
        let fault = thread::spawn(move || {
            let asked = other.pinned(0, || other.gate.pass());
            // Here the pager is asked.
            let after = if compare { asked } else { None };
            let _ = asked.is_some() && other.fill(0, after);
            asked
        });
        space.remove(1, true);
        // The same, with another object's pages.
        if space.gate.close() {
            space.await_pinned(1);
        }
        // SAFETY: a change is alone.
        space.area.with_mut(|area| unsafe { *area = true });
        space.gate.open();
        let asked = fault.join().unwrap();
        assert!(space.entry.load(Ordering::Relaxed) == EMPTY || asked == Some(2));
    });
}

#[test]
fn an_answer_from_before_a_change_is_not_entered() {
    an_answer_is_late(true);
}

#[test]
#[should_panic]
fn the_model_notices_an_answer_from_before_a_change() {
    an_answer_is_late(false);
}

/// Both CPUs write to a page that has to be copied.
fn two_copies_are_made(round: bool) {
    explore(move || {
        let space = Space::new(entry(0, 0));
        let other = space.clone();
        let writer = thread::spawn(move || other.write(0, round));
        space.write(1, round);
        writer.join().unwrap();
        let page = &space.frames[frame(space.entry.load(Ordering::Relaxed))];
        let bytes = [0, 1].map(|i: usize| page.bytes[i].load(Ordering::Relaxed));
        assert_eq!(bytes, [0, 1]);
    });
}

#[test]
fn of_two_copies_one_stays_and_has_both_writes() {
    two_copies_are_made(true);
}

#[test]
#[should_panic]
fn the_model_notices_a_frame_that_goes_while_it_is_copied() {
    two_copies_are_made(false);
}

#[test]
fn a_gate_that_was_left_closed_opens_after_a_few_faults() {
    explore(|| {
        let gate = FaultGate::new();
        assert!(gate.close() && gate.pass().is_none());
        // Another change, without a round.
        assert!(!gate.close());
        let faults = (0..).take_while(|_| {
            gate.waited();
            gate.pass().is_none()
        });
        assert!((1..10).contains(&faults.count()));
        assert_eq!(gate.pass(), Some(2));
    });
}

/// A table of several owners: each reads it to copy it, and the last one writes it. loom's cell notices a
/// write beside a read. With `careless`, one looks for others by the way, and writes whatever it sees.
fn owners_part(careless: bool) {
    explore(move || {
        let table = Arc::new((AtomicU32::new(1), UnsafeCell::new(0)));
        assert!(owners::join(&table.0));
        let write = |table: &(AtomicU32, UnsafeCell<u32>)| {
            // SAFETY: loom notices another access at the same time.
            table.1.with_mut(|it| unsafe { *it += 1 });
        };
        let part = move |table: &(AtomicU32, UnsafeCell<u32>)| {
            if owners::is_sole(&table.0) || careless {
                write(table);
                return true;
            }
            // SAFETY: as above.
            let copy = table.1.with(|it| unsafe { *it });
            assert_eq!(copy, 0, "copied after the last had it");
            let last = owners::leave(&table.0);
            if last {
                write(table);
            }
            last
        };
        let other = table.clone();
        let thread = thread::spawn(move || part(&other));
        let mine = part(&table);
        let theirs = thread.join().unwrap();
        assert!(mine != theirs, "one is the last");
        assert!(owners::is_sole(&table.0));
        assert_eq!(table.0.load(Ordering::Relaxed), 1, "the mark stays");
    });
}

#[test]
fn the_last_owner_of_a_table_has_it_alone() {
    owners_part(false);
}

#[test]
#[should_panic]
fn an_owner_that_does_not_look_is_noticed() {
    owners_part(true);
}
