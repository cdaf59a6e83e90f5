//! The chain of procedures at the end of an interrupt as a subject of torture.
//!
//! *Interface*: [`CHAIN`]. Procedures are chained by threads with interrupts on and off, by alarms, by
//! procedures that the chain is calling, and by alarms that ring between two of those. Each gets the next
//! number of its CPU when it is chained, and is called in that order, once, with interrupts off, before
//! anything that was interrupted goes on.

use core::sync::atomic::{AtomicU64, Ordering};

use machine::clock::now_ns;
use machine::cpu::{MAX_CPUS, irq_enabled, irq_restore, irq_save, this_cpu};
use thread::chain::{LINKS, chain};
use thread::clock::alarm;

use super::subject::Subject;

/// One CPU's numbers. Changed there alone, with interrupts off.
struct Numbers {
    given: AtomicU64,
    called: AtomicU64,
}

/// The subject.
pub struct Chained {
    cpus: [Numbers; MAX_CPUS],
    set: AtomicU64,
    rung: AtomicU64,
}

/// The chains of all CPUs.
pub static CHAIN: Chained = Chained {
    cpus: [const {
        Numbers {
            given: AtomicU64::new(0),
            called: AtomicU64::new(0),
        }
    }; MAX_CPUS],
    set: AtomicU64::new(0),
    rung: AtomicU64::new(0),
};

/// Procedures of the kernel's own that may be chained beside these.
const OTHERS: u64 = 8;
/// Bits of an argument that say how many more generations it makes.
const MORE: u32 = 3;

/// Chains a procedure that makes `more` generations of others, with interrupts off. Its number.
fn put(more: u64) -> u64 {
    let numbers = &CHAIN.cpus[this_cpu().number()];
    let number = numbers.given.load(Ordering::Relaxed) + 1;
    if chain(called, (number << MORE | more) as usize).is_err() {
        let waiting = number - 1 - numbers.called.load(Ordering::Relaxed);
        assert!(
            waiting + OTHERS >= LINKS as u64,
            "a chain is full with {waiting} procedures"
        );
        return 0;
    }
    numbers.given.store(number, Ordering::Relaxed);
    number
}

/// A chained procedure.
fn called(argument: usize) {
    assert!(!irq_enabled(), "a chained procedure with interrupts on");
    let number = argument as u64 >> MORE;
    let more = argument as u64 & ((1 << MORE) - 1);
    let numbers = &CHAIN.cpus[this_cpu().number()];
    let before = numbers.called.load(Ordering::Relaxed);
    assert_eq!(number, before + 1, "a chained procedure out of its turn");
    numbers.called.store(number, Ordering::Relaxed);
    if more > 0 {
        put(0);
        // One that is due: it rings before the next procedure.
        ring(0, more - 1);
        put(more - 1);
    }
}

/// Sets an alarm whose handler chains.
fn ring(after_ns: u64, more: u64) {
    CHAIN.set.fetch_add(1, Ordering::AcqRel);
    if alarm(now_ns() + after_ns, rang, more as usize).is_err() {
        CHAIN.rung.fetch_add(1, Ordering::AcqRel);
    }
}

fn rang(more: usize) {
    for _ in 0..3 {
        put(more as u64);
    }
    CHAIN.rung.fetch_add(1, Ordering::AcqRel);
}

/// The procedure that is called at once, and counts.
fn at_once(calls: usize) {
    // SAFETY: `operate` gives the address of its own counter, and waits.
    unsafe { &*(calls as *const AtomicU64) }.fetch_add(1, Ordering::Relaxed);
}

impl Subject for Chained {
    fn name(&self) -> &'static str {
        "chain"
    }

    fn roles(&self) -> usize {
        2
    }

    fn operate(&self, role: usize, round: u64) {
        if role == 1 {
            return ring(round % 4 * 5_000, round % 3);
        }
        let calls = AtomicU64::new(0);
        let room = chain(at_once, &raw const calls as usize);
        assert!(room.is_ok(), "with interrupts on nothing has to wait");
        assert_eq!(calls.load(Ordering::Relaxed), 1, "called at once");
        let irq = irq_save();
        let cpu = this_cpu().number();
        let last = (0..=round % 3).map(put).max().unwrap_or(0);
        irq_restore(irq);
        // Interrupts are on: what was chained has been called, wherever this thread is now.
        let called = self.cpus[cpu].called.load(Ordering::Acquire);
        assert!(called >= last, "{called} called, and {last} was chained");
    }

    fn settle(&self) {
        super::until("all alarms rang", || {
            self.rung.load(Ordering::Acquire) == self.set.load(Ordering::Acquire)
        });
        for numbers in &self.cpus {
            super::until("every chained procedure was called", || {
                numbers.called.load(Ordering::Acquire) == numbers.given.load(Ordering::Acquire)
            });
        }
    }
}
