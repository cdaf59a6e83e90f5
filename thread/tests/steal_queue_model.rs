//! Every interleaving of the steal queue and of the idle CPUs' protocol, checked with loom: a thread is
//! dispatched by one CPU, with the registers that the steal queue's CPU saved, and no thread is in a steal
//! queue while a CPU sleeps that was not notified.

#[allow(dead_code)]
#[path = "../src/tte/flags.rs"]
mod flags;
mod primitive {
    pub use loom::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};
    macro_rules! constructor {
        ($($constructor:tt)*) => {};
    }
    pub(crate) use constructor;
}
#[allow(dead_code)]
#[path = "../src/ring/steal_queue.rs"]
mod steal_queue;
#[allow(dead_code)]
#[path = "../src/tte/token.rs"]
mod token;

use flags::{ASLEEP, STOPME, TOKEN};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use loom::thread;
use std::ptr::null_mut;
use steal_queue::{IdleCpus, StealQueue};
use token::{Given, give};

/// A thread's entry: the state word, and what switching it out has saved.
struct Entry {
    state: AtomicU32,
    registers: UnsafeCell<u32>,
    dispatched: AtomicU32,
}

impl Entry {
    fn new() -> *mut Entry {
        Box::into_raw(Box::new(Entry {
            state: AtomicU32::new(0),
            registers: UnsafeCell::new(0),
            dispatched: AtomicU32::new(0),
        }))
    }

    /// The running CPU's work before the thread can be in a steal queue.
    fn switch_out(&self) {
        // SAFETY: the models are about exactly this exclusion; loom checks it.
        self.registers.with_mut(|saved| unsafe { *saved += 1 });
    }

    /// The work of a CPU that has taken the thread: no other may have it.
    fn switch_in(&self) {
        // SAFETY: as above.
        self.registers.with_mut(|saved| unsafe { *saved += 10 });
        self.dispatched.fetch_add(1, Ordering::Relaxed);
    }
}

fn at(entry: *mut Entry) -> &'static Entry {
    // SAFETY: every model keeps its entries until all have ended.
    unsafe { &*entry }
}

/// At a model's end.
fn free(entry: *mut Entry) {
    // SAFETY: made by `Entry::new`, and no other reference is left.
    drop(unsafe { Box::from_raw(entry) });
}

fn steal_queue<const N: usize>() -> StealQueue<Entry, N> {
    StealQueue {
        places: std::array::from_fn(|_| AtomicPtr::new(null_mut())),
        filled: std::array::from_fn(|_| AtomicU64::new(0)),
        puts: AtomicU64::new(0),
        used: AtomicU32::new(0),
    }
}

fn any(_: *mut Entry) -> Option<u8> {
    Some(0)
}

/// All interleavings with at most `switches` forced ones.
fn check(switches: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(switches);
    builder.check(model);
}

/// The victim, a thief, a waker and a stopper, all at once on one thread.
#[test]
fn a_thread_is_dispatched_once_and_its_marks_are_kept() {
    check(3, || {
        let steal_queue = Arc::new(steal_queue::<1>());
        let entry = Entry::new();
        at(entry).switch_out();
        assert!(steal_queue.put(entry));
        let victim = steal_queue.clone();
        let shared = entry as usize;
        let thief = thread::spawn(move || {
            let taken = steal_queue.take(any);
            if let Some(entry) = taken {
                at(entry).switch_in();
            }
            taken.is_some()
        });
        let waker = thread::spawn(move || give(&at(shared as *mut Entry).state, 0));
        let stopper = thread::spawn(move || {
            at(shared as *mut Entry)
                .state
                .fetch_or(STOPME, Ordering::AcqRel)
        });
        let mine = victim.take(any);
        if let Some(entry) = mine {
            at(entry).switch_in();
        }
        let stolen = thief.join().unwrap();
        assert!(stolen != mine.is_some(), "not dispatched exactly once");
        assert_eq!(
            waker.join().unwrap(),
            Given::Token,
            "woken, but it was ready"
        );
        stopper.join().unwrap();
        assert_eq!(at(entry).dispatched.load(Ordering::Relaxed), 1);
        let state = at(entry).state.load(Ordering::Relaxed);
        assert_eq!(state & (TOKEN | STOPME | ASLEEP), TOKEN | STOPME);
        assert!(!victim.sweep());
        free(entry);
    });
}

/// Two thieves, while the victim takes one back and puts it on again: ABA on a place.
#[test]
fn a_thread_put_back_is_as_good_as_new() {
    check(3, || {
        let steal_queue = Arc::new(steal_queue::<2>());
        let entries = [Entry::new(), Entry::new()];
        for entry in entries {
            at(entry).switch_out();
            assert!(steal_queue.put(entry));
        }
        let thieves = [0, 1].map(|_| {
            let steal_queue = steal_queue.clone();
            thread::spawn(move || {
                let taken = steal_queue.take(any);
                if let Some(entry) = taken {
                    at(entry).switch_in();
                }
                usize::from(taken.is_some())
            })
        });
        // Runs one for a while.
        if let Some(entry) = steal_queue.take(any) {
            at(entry).switch_in();
            at(entry).switch_out();
            assert!(steal_queue.put(entry));
        }
        let stolen: usize = thieves.map(|thief| thief.join().unwrap()).iter().sum();
        let mut left = 0;
        while let Some(entry) = steal_queue.take(any) {
            at(entry).switch_in();
            left += 1;
        }
        assert_eq!(stolen + left, 2);
        entries.into_iter().for_each(free);
    });
}

/// One certain thread, taken by a helper and by a thief.
#[test]
fn a_certain_thread_is_taken_once() {
    check(3, || {
        let steal_queue = Arc::new(steal_queue::<2>());
        let entries = [Entry::new(), Entry::new()];
        for entry in entries {
            at(entry).switch_out();
            assert!(steal_queue.put(entry));
        }
        let wanted = entries[1] as usize;
        let helper = {
            let steal_queue = steal_queue.clone();
            thread::spawn(move || {
                let taken = steal_queue.take_thread(wanted as *mut Entry);
                if taken {
                    at(wanted as *mut Entry).switch_in();
                }
                taken
            })
        };
        let mut taken = 0;
        for _ in 0..2 {
            if let Some(entry) = steal_queue.take(any) {
                at(entry).switch_in();
                taken += 1;
            }
        }
        taken += usize::from(helper.join().unwrap());
        assert_eq!(taken, 2);
        entries.into_iter().for_each(free);
    });
}

/// A CPU goes to sleep while another gets something to give away.
fn sleeper_and_offerer(announces: bool) {
    check(3, move || {
        let steal_queue = Arc::new(steal_queue::<1>());
        let idlers = Arc::new(IdleCpus(AtomicU32::new(0)));
        let told = Arc::new(AtomicBool::new(false));
        let entry = Entry::new();
        let shared = entry as usize;
        let busy = {
            let (steal_queue, idlers, told) = (steal_queue.clone(), idlers.clone(), told.clone());
            thread::spawn(move || {
                assert!(steal_queue.put(shared as *mut Entry));
                if let Some(cpu) = idlers.claim(u32::MAX) {
                    assert_eq!(cpu, 5);
                    told.store(true, Ordering::Relaxed);
                }
            })
        };
        let mut found = steal_queue.take(any).is_some();
        if !found && announces {
            idlers.announce(5);
            found = steal_queue.take(any).is_some();
        }
        busy.join().unwrap();
        let asleep = !found && !told.load(Ordering::Relaxed);
        assert!(!asleep, "asleep with work on the shelf");
        free(entry);
    });
}

#[test]
fn nobody_sleeps_while_somebody_waits() {
    sleeper_and_offerer(true);
}

#[test]
#[should_panic(expected = "asleep with work on the shelf")]
fn the_model_sees_a_sleeper_that_did_not_announce_itself() {
    sleeper_and_offerer(false);
}
