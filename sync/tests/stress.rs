//! The structures under real threads: ordinary runs, and small ones under Miri.
#![cfg(not(loom))]

#[path = "common/mod.rs"]
#[allow(dead_code)] // each test needs a part of it
mod common;

use common::tally::{Tally, until};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use sync::cas2::AtomicPair;
use sync::{ArrayStack, Monitor, Once, Stack, ValueStack, WaitList, WaitNode, stack};

const MANY: u64 = if cfg!(miri) { 60 } else { 20_000 };
const THREADS: u64 = 3;

#[test]
fn pairs_count_together() {
    let pair = AtomicPair::new(0, 0);
    std::thread::scope(|s| {
        for _ in 0..THREADS {
            s.spawn(|| {
                for _ in 0..MANY {
                    let mut old = pair.load();
                    while let Err(now) = pair.compare_exchange(old, (old.0 + 1, old.1 + 3)) {
                        old = now;
                    }
                }
            });
        }
    });
    assert_eq!(pair.load(), (THREADS * MANY, 3 * THREADS * MANY));
}

#[test]
fn stack_of_nodes() {
    #[repr(C)]
    struct Element {
        node: stack::Node,
        owner: AtomicUsize,
    }
    let elements: Vec<Element> = (0..4)
        .map(|_| Element {
            node: stack::Node::new(),
            owner: AtomicUsize::new(0),
        })
        .collect();
    let stack = Stack::new();
    for element in &elements {
        // SAFETY: the elements outlive every use of the stack.
        unsafe { stack.push(NonNull::from(element).cast()) };
    }
    std::thread::scope(|s| {
        for _ in 0..THREADS {
            s.spawn(|| {
                for _ in 0..MANY {
                    let node = until(|| stack.pop());
                    // SAFETY: every node is the first field of an element.
                    let element = unsafe { node.cast::<Element>().as_ref() };
                    assert_eq!(
                        element.owner.fetch_add(1, Ordering::Relaxed),
                        0,
                        "two owners"
                    );
                    element.owner.fetch_sub(1, Ordering::Relaxed);
                    // SAFETY: as above.
                    unsafe { stack.push(node) };
                }
            });
        }
    });
    assert_eq!(stack.take_all().count(), elements.len());
    assert!(stack.is_empty());
}

#[test]
fn stack_in_an_array() {
    let stack: ArrayStack<u32, 8> = ArrayStack::new();
    let tally = Tally::new(THREADS * MANY);
    std::thread::scope(|s| {
        for t in 0..THREADS {
            let (stack, tally) = (&stack, &tally);
            s.spawn(move || {
                for n in 0..MANY {
                    until(|| stack.push((t * MANY + n) as u32).ok());
                    tally.see(until(|| stack.pop()).into());
                }
            });
        }
    });
    tally.complete();
    assert!(stack.is_empty());
    for n in 0..8 {
        assert_eq!(stack.push(n), Ok(()));
    }
    assert_eq!(stack.push(9), Err(9));
    assert_eq!((stack.len(), stack.pop()), (8, Some(7)));
}

/// 127 places leave 24 bits to the number of pushes.
#[test]
#[cfg_attr(miri, ignore = "millions of operations")]
fn pushes_of_a_stack_in_an_array_count_round() {
    let stack: ArrayStack<u32, 127> = ArrayStack::new();
    let both = |below: u32, times: u32| {
        assert_eq!(stack.push(below), Ok(()));
        for above in 0..times {
            assert_eq!(stack.push(above), Ok(()));
            assert_eq!(stack.pop(), Some(above));
        }
        assert_eq!(stack.pop(), Some(below));
    };
    both(1, 1);
    for n in 2..1 << 24 {
        assert_eq!(stack.push(n), Ok(()));
        assert_eq!(stack.pop(), Some(n));
    }
    // The same number in the first cell as before, with another value.
    both(2, 1);
}

#[test]
fn stack_of_values() {
    let stack: ValueStack<Box<u64>, 4> = ValueStack::new();
    let tally = Tally::new(THREADS * MANY);
    std::thread::scope(|s| {
        for t in 0..THREADS {
            let (stack, tally) = (&stack, &tally);
            s.spawn(move || {
                for n in 0..MANY {
                    let mut value = Box::new(t * MANY + n);
                    while let Err(back) = stack.push(value) {
                        value = back;
                        std::thread::yield_now();
                    }
                    tally.see(*until(|| stack.pop()));
                }
            });
        }
    });
    tally.complete();
    for n in 0..4 {
        assert_eq!(stack.push(Box::new(n)), Ok(()));
    }
    assert_eq!(stack.push(Box::new(4)), Err(Box::new(4)));
    assert_eq!((stack.len(), stack.pop().as_deref()), (4, Some(&3)));
    // The others are dropped with the stack, which Miri would miss.
}

#[test]
fn once_and_monitor_and_list_of_waiters() {
    static ONCE: Once<Box<u64>> = Once::new();
    let total = Monitor::new(0);
    let list = WaitList::new();
    std::thread::scope(|s| {
        for t in 0..THREADS {
            let (total, list) = (&total, &list);
            s.spawn(move || {
                let _ = ONCE.set(Box::new(t));
                for _ in 0..MANY / 10 {
                    *total.lock() += 1;
                }
                list.wake_all();
            });
        }
        list.wait_until(|| (*total.lock() == THREADS * (MANY / 10)).then_some(()));
    });
    assert!(ONCE.get().is_some_and(|t| **t < THREADS));
    assert!(ONCE.set(Box::new(9)).is_err());
}

#[test]
fn the_oldest_is_woken_though_a_younger_one_stands_before_it() {
    common::threads::link();
    for _ in 0..200 {
        let (list, come) = (WaitList::new(), AtomicBool::new(false));
        std::thread::scope(|s| {
            let oldest = s.spawn(|| list.wait_until(|| come.load(Ordering::SeqCst).then_some(())));
            while !list.has_waiters() {
                std::thread::yield_now();
            }
            let younger = WaitNode::new();
            assert!(list.enroll(&younger));
            come.store(true, Ordering::SeqCst);
            list.wake_one();
            oldest.join().expect("it does not panic");
            list.leave(&younger);
        });
    }
}
