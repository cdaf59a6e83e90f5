//! Every interleaving of threads that set and cancel the time of one clock, with the alarms that come
//! meanwhile, checked with loom: it rings once for the time that is wanted in the end, and not for one that
//! was cancelled.

mod primitive {
    pub use loom::sync::atomic::{AtomicU64, Ordering};
    macro_rules! constructor {
        ($(#[$attribute:meta])* pub fn $name:ident() -> $result:ty $body:block) => {
            pub fn $name() -> $result $body
        };
    }
    pub(crate) use constructor;
}
#[path = "../src/clock/pending.rs"]
mod pending;

use loom::sync::Arc;
use loom::thread;
use pending::{Alarms, NoRoom, Pending};
use std::sync::Mutex;

/// Times of the alarms that were set, by name; None for one that was cancelled or has come.
struct Heap {
    set: Mutex<Vec<Option<u64>>>,
    room: usize,
}

impl Alarms for Heap {
    fn set(&self, at_ns: u64) -> Option<u64> {
        let mut set = self.set.lock().unwrap();
        if set.len() == self.room {
            return None;
        }
        set.push(Some(at_ns));
        Some(set.len() as u64)
    }
    fn cancel(&self, alarm: u64) {
        self.set.lock().unwrap()[alarm as usize - 1] = None;
    }
}

struct Clock {
    pending: Pending,
    heap: Heap,
}

impl Clock {
    fn new(room: usize) -> Arc<Clock> {
        let set = Mutex::new(Vec::new());
        Arc::new(Clock {
            pending: Pending::new(),
            heap: Heap { set, room },
        })
    }

    fn set(&self, at_ns: u64) -> Result<bool, NoRoom> {
        self.pending.set(at_ns, &self.heap)
    }

    /// Lets the alarms up to `until_ns` come, the soonest first; when it has rung.
    fn run(&self, until_ns: u64) -> Vec<u64> {
        let mut rung = Vec::new();
        loop {
            let next = {
                let mut set = self.heap.set.lock().unwrap();
                let due = set
                    .iter_mut()
                    .filter(|at| at.is_some_and(|at| at <= until_ns));
                due.min().and_then(Option::take)
            };
            let Some(at_ns) = next else {
                return rung;
            };
            if self.pending.rings(at_ns) {
                rung.push(at_ns);
            }
        }
    }

    /// Alarms that are left.
    fn left(&self) -> usize {
        self.heap.set.lock().unwrap().iter().flatten().count()
    }
}

fn model(f: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(4);
    builder.check(f);
}

#[test]
fn of_two_times_one_replaces_the_other() {
    model(|| {
        let clock = Clock::new(usize::MAX);
        let other = clock.clone();
        let setter = thread::spawn(move || other.set(10).unwrap());
        let first = clock.set(20).unwrap();
        let second = setter.join().unwrap();
        assert_ne!(first, second, "one of them found the other's");
        assert_eq!(clock.left(), 1);
        let rung = clock.run(u64::MAX);
        assert_eq!(rung, [if first { 20 } else { 10 }]);
    });
}

#[test]
fn a_time_is_cancelled_or_rings() {
    model(|| {
        let clock = Clock::new(usize::MAX);
        clock.set(10).unwrap();
        let other = clock.clone();
        let ringer = thread::spawn(move || other.run(10).len());
        let cancelled = clock.pending.cancel();
        let rung = ringer.join().unwrap() + clock.run(u64::MAX).len();
        assert_eq!(rung, usize::from(!cancelled));
    });
}

#[test]
fn a_cancel_spoils_no_other_time() {
    model(|| {
        let clock = Clock::new(usize::MAX);
        clock.set(10).unwrap();
        let other = clock.clone();
        let setter = thread::spawn(move || other.set(30).unwrap());
        let cancelled = clock.pending.cancel();
        let replaced = setter.join().unwrap();
        // It was cancelled and then set, or replaced and then cancelled.
        assert!(cancelled);
        assert_eq!(
            clock.run(u64::MAX),
            if replaced { vec![] } else { vec![30] }
        );
        clock.pending.end(&clock.heap);
        assert_eq!(clock.left(), 0);
    });
}

#[test]
fn an_alarm_comes_while_another_time_is_set() {
    model(|| {
        let clock = Clock::new(usize::MAX);
        clock.set(10).unwrap();
        let other = clock.clone();
        let ringer = thread::spawn(move || other.run(10).len());
        let replaced = clock.set(30).unwrap();
        let early = ringer.join().unwrap();
        assert_eq!(early, usize::from(!replaced));
        assert_eq!(clock.run(u64::MAX), [30]);
    });
}

#[test]
fn without_room_it_does_not_ring() {
    model(|| {
        let clock = Clock::new(1);
        clock.set(10).unwrap();
        assert_eq!(clock.set(20), Err(NoRoom));
        assert!(!clock.pending.cancel());
        assert_eq!(clock.run(u64::MAX), []);
    });
}
