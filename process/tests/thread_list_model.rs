//! Every interleaving of threads that come and go with an interrupt that looks for one of them, checked with
//! loom: it sees whole tasks, each once, all that are there throughout, and none that has been freed.
//!
//! *Unsafe*: cells whose accesses loom checks.

extern crate alloc;

mod primitive {
    pub use loom::sync::atomic::{AtomicPtr, AtomicU8, Ordering, fence};
}
#[allow(dead_code)]
#[path = "../src/process/thread_list.rs"]
mod thread_list;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicBool, Ordering, fence};
use machine::irqs_off::irqs_off;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use thread_list::{FoundThread, ListedThread, ThreadLink, ThreadList};

/// A task: its number is written when it is made and when it is freed, and loom says when somebody reads it
/// meanwhile.
struct Task {
    number: UnsafeCell<u32>,
    link: ThreadLink<Task>,
}

impl ListedThread for Task {
    fn link(&self) -> &ThreadLink<Task> {
        &self.link
    }
}

// SAFETY: that the cell is read by no one while it is written is what the models are about; loom checks it.
unsafe impl Sync for Task {}
// SAFETY: as above.
unsafe impl Send for Task {}

fn task(number: u32) -> &'static Task {
    Box::leak(Box::new(Task {
        number: UnsafeCell::new(number),
        link: ThreadLink::default(),
    }))
}

impl Task {
    fn number(&self) -> u32 {
        // SAFETY: as for `Sync`.
        self.number.with(|number| unsafe { *number })
    }

    fn write(&self, number: u32) {
        // SAFETY: as for `Sync`.
        self.number.with_mut(|at| unsafe { *at = number });
    }
}

/// The numbers on the thread list, as an interrupt sees them.
fn look(thread_list: &ThreadList<Task>) -> Vec<u32> {
    let mut seen = Vec::new();
    // SAFETY: the models free nothing under it, or loom sees it.
    let found = irqs_off(|off| unsafe {
        let note = |task: &Task| {
            seen.push(task.number());
            None::<()>
        };
        thread_list.find(8, note, off)
    });
    assert_eq!(found, FoundThread::No);
    seen
}

fn check(name: &str, model: impl Fn() + Send + Sync + 'static) {
    check_by(loom::model::Builder::new(), name, model);
}

fn check_by(builder: loom::model::Builder, name: &str, model: impl Fn() + Send + Sync + 'static) {
    let executions = Arc::new(AtomicUsize::new(0));
    let counted = executions.clone();
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        model();
    });
    let executions = executions.load(Ordering::Relaxed);
    println!("{name}: {executions} executions");
}

/// One thread of three ends and another begins, while an interrupt looks.
#[test]
fn who_is_there_throughout_is_seen_once() {
    check("enter and leave", || {
        let thread_list: &'static ThreadList<Task> = Box::leak(Box::default());
        let [first, second, third] = [1, 2, 3].map(task);
        let mut threads = Vec::new();
        for task in [first, second, third] {
            thread_list.enter(&mut threads, task);
        }
        let looker = loom::thread::spawn(move || look(thread_list));
        thread_list.leave(&mut threads, 1);
        let late = task(0);
        late.write(4);
        thread_list.enter(&mut threads, late);
        thread_list.leave(&mut threads, 1);
        let seen = looker.join().unwrap();
        let times = |number| seen.iter().filter(|n| **n == number).count();
        assert_eq!(times(1), 1, "{seen:?}");
        assert!(seen.iter().all(|n| (1..=4).contains(n) && times(*n) == 1));
        second.write(0);
        third.write(0);
        assert_eq!(look(thread_list), [1, 4]);
    });
}

/// A thread ends while the first timer of its process is armed by another, and rings.
fn an_end_and_a_first_timer(says_so: bool) {
    let thread_list: &'static ThreadList<Task> = Box::leak(Box::default());
    let [first, second] = [1, 2].map(task);
    let mut threads = Vec::new();
    thread_list.enter(&mut threads, first);
    thread_list.enter(&mut threads, second);
    let over: &'static AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
    let armer = loom::thread::spawn(move || {
        if says_so {
            thread_list.watch();
        } else {
            fence(Ordering::SeqCst);
        }
        assert!(look(thread_list).starts_with(&[1]));
        over.store(true, Ordering::Release);
    });
    thread_list.leave(&mut threads, 1);
    // The grace period: until the interrupt is over.
    if !thread_list.is_watched() || over.load(Ordering::Acquire) {
        second.write(0);
    }
    armer.join().unwrap();
}

#[test]
fn who_has_left_is_not_freed_under_an_interrupt() {
    check("end and first timer", || an_end_and_a_first_timer(true));
}

/// A thread ends while two others arm timers, of which one finds that the other has said so.
#[test]
fn who_finds_it_said_need_not_say_it() {
    let mut builder = loom::model::Builder::new();
    // Of three threads: all orders would take minutes.
    builder.preemption_bound = Some(3);
    check_by(builder, "end and two timers", || {
        let thread_list: &'static ThreadList<Task> = Box::leak(Box::default());
        let [first, second] = [1, 2].map(task);
        let mut threads = Vec::new();
        thread_list.enter(&mut threads, first);
        thread_list.enter(&mut threads, second);
        let armers = [(); 2].map(|()| {
            let over: &'static AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
            let armer = loom::thread::spawn(move || {
                thread_list.watch();
                assert!(look(thread_list).starts_with(&[1]));
                over.store(true, Ordering::Release);
            });
            (armer, over)
        });
        thread_list.leave(&mut threads, 1);
        let mut all = armers.iter();
        if !thread_list.is_watched() || all.all(|(_, over)| over.load(Ordering::Acquire)) {
            second.write(0);
        }
        for (armer, _) in armers {
            armer.join().unwrap();
        }
    });
}

#[test]
#[should_panic(expected = "Causality violation")]
fn the_model_sees_a_looker_that_did_not_say_so() {
    check("control", || an_end_and_a_first_timer(false));
}
