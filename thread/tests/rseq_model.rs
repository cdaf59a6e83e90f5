//! Every interleaving of a thread's check of its restartable sequence with moves to other CPUs, checked with
//! loom: the last number written is its CPU's.

#[allow(dead_code)]
#[path = "../src/tte/flags.rs"]
mod flags;
mod primitive {
    pub use loom::sync::atomic::{AtomicU32, Ordering};
}
#[path = "../src/tte/rseq.rs"]
mod rseq;

use flags::{SEQUENCE, TOKEN};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;

struct Thread {
    marks: AtomicU32,
    state: AtomicU32,
    cpu: AtomicU32,
}

/// Takes `thread` to `cpus`, one after the other. In the kernel that happens between two instructions of the
/// thread; here also beside them.
fn travel(thread: &Thread, cpus: &[u32]) {
    for &cpu in cpus {
        thread.cpu.store(cpu, Ordering::Relaxed);
        rseq::note(&thread.marks, &thread.state);
    }
}

/// The thread's answers until nothing asks it any more: the last, and how many looks.
fn look(thread: &Thread, told: &mut u32) -> usize {
    let mut looks = 0;
    while thread.state.load(Ordering::Relaxed) & SEQUENCE != 0 {
        rseq::take(&thread.state);
        *told = thread.cpu.load(Ordering::Relaxed);
        looks += 1;
    }
    looks
}

/// Two that take it elsewhere and wake it, one after the other, and the thread between and beside them.
fn model(marks: u32) {
    loom::model(move || {
        let thread = Arc::new(Thread {
            marks: AtomicU32::new(marks),
            state: AtomicU32::new(marks),
            cpu: AtomicU32::new(0),
        });
        let traveller = thread.clone();
        let travels = thread::spawn(move || {
            travel(&traveller, &[1, 2]);
            traveller.state.fetch_or(TOKEN, Ordering::AcqRel);
        });
        let mut told = 0;
        let looks = look(&thread, &mut told);
        travels.join().unwrap();
        let looks = looks + look(&thread, &mut told);
        assert_eq!(thread.state.load(Ordering::Relaxed), TOKEN);
        if marks == 0 {
            assert_eq!(looks, 0);
        } else {
            assert_eq!(told, 2);
        }
    });
}

#[test]
fn what_is_told_last_is_where_it_is() {
    model(SEQUENCE);
}

#[test]
fn one_without_sequences_is_never_asked() {
    model(0);
}
