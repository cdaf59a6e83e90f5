//! Table 5.1: the same operation without synchronization, under a lock, lock-free, and lock-free when another
//! operation comes between.
//!
//! *Interface*: [`measure`]. Instructions are counted by the trap flag, one by one; the other operation is
//! done between two of them, after each in turn, and the dearest outcome is the price of one retry (the
//! dissertation's memory controller did this in hardware).
//! Source: dissertation, section 5.2.4.

use core::hint::black_box;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use lab::queue::mpmc;
use machine::cpu;
use sync::{ArrayStack, Stack, stack};

use super::plain::{Array, List, Node, PLACES, Ring, Shared};
use super::report;
use crate::torture::step::{Disturbance, VICTIMS, Victim};

/// A lock as the dissertation's: interrupts off, then spin.
static LOCK: AtomicBool = AtomicBool::new(false);

#[inline(always)]
fn locked<R>(work: impl FnOnce() -> R) -> R {
    let interrupts = cpu::irq_save();
    while LOCK.swap(true, Ordering::Acquire) {
        core::hint::spin_loop();
    }
    let result = work();
    LOCK.store(false, Ordering::Release);
    cpu::irq_restore(interrupts);
    result
}

static COUNTER: Shared<u64> = Shared::new(0);
static LIST: Shared<List> = Shared::new(List::new());
static NODE: Shared<Node> = Shared::new(Node::new());
static RING: Shared<Ring> = Shared::new(Ring::new());
static ARRAY: Shared<Array> = Shared::new(Array::new());

static FREE_COUNTER: AtomicU64 = AtomicU64::new(0);
static FREE_LIST: Stack = Stack::new();
static FREE_NODES: [stack::Node; 2] = [const { stack::Node::new() }; 2];
static FREE_RING: mpmc::Queue<u64, PLACES> = mpmc::Queue::new();
static FREE_ARRAY: ArrayStack<u32, PLACES> = ArrayStack::new();

/// A line of the table: what stands before each measurement, the operation three times, and what comes
/// between.
struct Line {
    name: &'static str,
    /// Makes the structures as they are to be found.
    before: fn(),
    plain: fn(),
    locked: fn(),
    free: fn(),
    /// The same operation by somebody else.
    between: fn(),
}

const LINES: &[Line] = &[
    Line {
        name: "counter_increment",
        before: || {},
        plain: plain_increment,
        locked: || locked(plain_increment),
        free: free_increment,
        between: free_increment,
    },
    Line {
        name: "list_insert",
        before: empty,
        plain: plain_list_insert,
        locked: || locked(plain_list_insert),
        free: || free_list_insert(0),
        between: || free_list_insert(1),
    },
    Line {
        name: "list_delete",
        before: fill,
        plain: plain_list_delete,
        locked: || locked(plain_list_delete),
        free: free_list_delete,
        between: free_list_delete,
    },
    Line {
        name: "queue_insert",
        before: empty,
        plain: plain_queue_insert,
        locked: || locked(plain_queue_insert),
        free: free_queue_insert,
        between: free_queue_insert,
    },
    Line {
        name: "queue_delete",
        before: fill,
        plain: plain_queue_delete,
        locked: || locked(plain_queue_delete),
        free: free_queue_delete,
        between: free_queue_delete,
    },
    Line {
        name: "stack_push",
        before: empty,
        plain: plain_push,
        locked: || locked(plain_push),
        free: free_push,
        between: free_push,
    },
    Line {
        name: "stack_pop",
        before: fill,
        plain: plain_pop,
        locked: || locked(plain_pop),
        free: free_pop,
        between: free_pop,
    },
];

/// Reports every line: without synchronization, locked, lock-free, lock-free with one retry.
pub fn measure() {
    let nothing = steps(|| {}, || {}, Disturbance::Count);
    let count =
        |line: &Line, operation| steps(line.before, operation, Disturbance::Count) - nothing;
    for line in LINES {
        let free = count(line, line.free);
        let mut retried = free;
        for step in 1..=free + nothing {
            let interfered = steps(
                line.before,
                line.free,
                Disturbance::Interfere(step, line.between),
            );
            retried = retried.max(interfered - nothing);
        }
        report(
            "table 5.1",
            line.name,
            &[
                ("unsynchronized", count(line, line.plain)),
                ("locked", count(line, line.locked)),
                ("lock-free", free),
                ("one retry", retried),
            ],
        );
    }
}

/// Instructions of `operation` under `plan`, and of calling it.
#[inline(never)]
fn steps(before: fn(), operation: fn(), plan: Disturbance) -> u64 {
    let victim: &Victim = &VICTIMS[0];
    before();
    victim.run(plan, black_box(operation));
    victim.steps()
}

/// Empties every structure.
fn empty() {
    // SAFETY: one thread measures, and nothing else uses these structures.
    unsafe {
        while LIST.with(List::delete).is_some() {}
        RING.with(|ring| *ring = Ring::new());
        ARRAY.with(|array| *array = Array::new());
    }
    FREE_LIST.take_all().for_each(drop);
    while FREE_RING.get().is_some() {}
    while FREE_ARRAY.pop().is_some() {}
}

/// Puts two into every structure.
fn fill() {
    empty();
    plain_list_insert();
    free_list_insert(0);
    free_list_insert(1);
    for _ in 0..2 {
        plain_queue_insert();
        plain_push();
        free_queue_insert();
        free_push();
    }
}

fn plain_increment() {
    // SAFETY: one thread measures, and between two of its instructions only the lock-free twin is called.
    unsafe { COUNTER.with(|count| *count = black_box(*count + 1)) };
}

fn free_increment() {
    let mut old = FREE_COUNTER.load(Ordering::Relaxed);
    while let Err(now) =
        FREE_COUNTER.compare_exchange(old, old + 1, Ordering::Relaxed, Ordering::Relaxed)
    {
        old = now;
    }
}

fn plain_list_insert() {
    // SAFETY: as in `plain_increment`.
    unsafe { LIST.with(|list| list.insert(&NODE)) };
}

fn plain_list_delete() {
    // SAFETY: as in `plain_increment`.
    black_box(unsafe { LIST.with(List::delete) }.is_some());
}

fn free_list_insert(which: usize) {
    // SAFETY: static nodes, each in the stack at most once (`empty` comes before).
    unsafe { FREE_LIST.push(NonNull::from(&FREE_NODES[which])) };
}

fn free_list_delete() {
    black_box(FREE_LIST.pop());
}

fn plain_queue_insert() {
    // SAFETY: as in `plain_increment`.
    black_box(unsafe { RING.with(|ring| ring.insert(7)) });
}

fn plain_queue_delete() {
    // SAFETY: as in `plain_increment`.
    black_box(unsafe { RING.with(Ring::delete) });
}

fn free_queue_insert() {
    black_box(FREE_RING.put(7).is_ok());
}

fn free_queue_delete() {
    black_box(FREE_RING.get());
}

fn plain_push() {
    // SAFETY: as in `plain_increment`.
    black_box(unsafe { ARRAY.with(|array| array.push(7)) });
}

fn plain_pop() {
    // SAFETY: as in `plain_increment`.
    black_box(unsafe { ARRAY.with(Array::pop) });
}

fn free_push() {
    black_box(FREE_ARRAY.push(7).is_ok());
}

fn free_pop() {
    black_box(FREE_ARRAY.pop());
}
