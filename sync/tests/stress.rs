//! The structures under real threads: ordinary runs, and small ones under Miri.
#![cfg(not(loom))]

use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use sync::cas2::Pair;
use sync::queue::{linked, mpmc, mpsc, spmc, spsc};
use sync::{ArrayStack, Handle, List, Monitor, Once, Stack, ValueStack, WaitList, list, stack};

const MANY: u64 = if cfg!(miri) { 60 } else { 20_000 };
const THREADS: u64 = 3;

/// Values that came out: each of `0..total` once.
struct Tally(Vec<AtomicBool>);

impl Tally {
    fn new(total: u64) -> Tally {
        Tally((0..total).map(|_| AtomicBool::new(false)).collect())
    }
    fn see(&self, value: u64) {
        assert!(
            !self.0[value as usize].swap(true, Ordering::Relaxed),
            "{value} came twice"
        );
    }
    fn complete(&self) {
        assert!(
            self.0.iter().all(|seen| seen.load(Ordering::Relaxed)),
            "a value is lost"
        );
    }
}

/// Call `f` until it gives something.
fn until<T>(mut f: impl FnMut() -> Option<T>) -> T {
    loop {
        match f() {
            Some(value) => return value,
            None => std::thread::yield_now(),
        }
    }
}

#[test]
fn pairs_count_together() {
    let pair = Pair::new(0, 0);
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
fn queue_of_one_and_one() {
    let mut queue: spsc::Queue<Box<u64>, 4> = spsc::Queue::new();
    let (mut producer, mut consumer) = queue.split();
    std::thread::scope(|s| {
        s.spawn(move || {
            for n in 0..MANY {
                let mut value = Box::new(n);
                while let Err(back) = producer.put(value) {
                    value = back;
                    std::thread::yield_now();
                }
            }
        });
        for n in 0..MANY {
            assert_eq!(*until(|| consumer.get()), n);
        }
    });
    // What is left is dropped with the queue.
    let (mut producer, _) = queue.split();
    assert!((0..4).all(|n| producer.put(Box::new(n)).is_ok()));
    assert!(producer.put(Box::new(9)).is_err());
}

/// Each place is filled and emptied many times, and what is full or empty says so at every count.
#[test]
fn queue_of_one_and_one_knows_its_count() {
    let queue = spsc::Queue::<u32, 4>::new();
    for n in 0..10 {
        // SAFETY: there is no other thread.
        unsafe {
            for k in 0..4 {
                assert_eq!((queue.len(), queue.is_empty()), (k, k == 0));
                assert_eq!(queue.put(4 * n + k as u32), Ok(()));
            }
            assert_eq!((queue.len(), queue.put(0)), (4, Err(0)));
            for k in 0..4 {
                assert_eq!(queue.get(), Some(4 * n + k));
            }
            assert_eq!((queue.get(), queue.is_empty()), (None, true));
        }
    }
}

#[test]
fn queue_of_many_and_one() {
    let queue: mpsc::Queue<Box<u64>, 8> = mpsc::Queue::new();
    let tally = Tally::new(THREADS * MANY);
    std::thread::scope(|s| {
        for t in 0..THREADS {
            let queue = &queue;
            s.spawn(move || {
                for n in (0..MANY).step_by(2) {
                    let value = t * MANY + n;
                    if n % 4 == 0 {
                        until(|| queue.put_all([Box::new(value), Box::new(value + 1)]).ok());
                    } else {
                        until(|| queue.put(Box::new(value)).ok());
                        until(|| queue.put(Box::new(value + 1)).ok());
                    }
                }
            });
        }
        // SAFETY: there is no other consumer.
        let mut consumer = unsafe { queue.consumer() };
        for _ in 0..THREADS * MANY {
            tally.see(*until(|| consumer.get()));
        }
    });
    tally.complete();
    assert!(queue.is_empty());
    assert!(
        queue
            .put_all::<9>(std::array::from_fn(|_| Box::new(0)))
            .is_err()
    );
}

#[test]
fn queue_of_one_and_many() {
    let queue: spmc::Queue<u64, 8> = spmc::Queue::new();
    let tally = Tally::new(THREADS * MANY);
    std::thread::scope(|s| {
        for _ in 0..THREADS {
            s.spawn(|| (0..MANY).for_each(|_| tally.see(until(|| queue.get()))));
        }
        for n in 0..THREADS * MANY {
            // SAFETY: there is no other producer.
            until(|| unsafe { queue.put(n) }.ok());
        }
    });
    tally.complete();
    assert!(queue.is_empty());
}

#[test]
fn queue_of_many_and_many() {
    let queue: mpmc::Queue<u64, 4> = mpmc::Queue::new();
    let tally = Tally::new(THREADS * MANY);
    std::thread::scope(|s| {
        for t in 0..THREADS {
            let (queue, tally) = (&queue, &tally);
            s.spawn(move || (0..MANY).for_each(|n| until(|| queue.put(t * MANY + n).ok())));
            s.spawn(move || {
                let mut last = [0; THREADS as usize];
                for _ in 0..MANY {
                    let value = until(|| queue.get());
                    tally.see(value);
                    // What one producer put comes out in its order, whoever gets it.
                    let producer = (value / MANY) as usize;
                    assert!(last[producer] <= value);
                    last[producer] = value;
                }
            });
        }
    });
    tally.complete();
    assert_eq!((queue.len(), queue.get()), (0, None));
    assert!((0..4).all(|n| queue.put(n).is_ok()));
    assert_eq!(queue.put(4), Err(4));
}

#[test]
fn queue_of_nodes() {
    let nodes: Vec<linked::Node> = (0..=THREADS).map(|_| linked::Node::new()).collect();
    // SAFETY: the nodes outlive the queue, and each is in one place at a time.
    let queue: linked::Queue<u64> = unsafe { linked::Queue::new(NonNull::from(&nodes[0])) };
    let tally = Tally::new(THREADS * MANY);
    std::thread::scope(|s| {
        for t in 0..THREADS {
            let (queue, tally) = (&queue, &tally);
            let mut node = Handle(NonNull::from(&nodes[t as usize + 1]));
            s.spawn(move || {
                for n in 0..MANY {
                    // SAFETY: as above.
                    unsafe { queue.put({ node }.0, t * MANY + n) };
                    let (value, free) = until(|| queue.get());
                    tally.see(value);
                    node = Handle(free);
                }
            });
        }
    });
    tally.complete();
    assert!(queue.get().is_none());
    assert!(queue.into_spare().is_some());
}

#[test]
fn list_under_change() {
    let fixed: Vec<list::Node> = (0..4).map(|_| list::Node::new()).collect();
    // One node per insertion: the whole test is one grace period.
    let passing: Vec<list::Node> = (0..THREADS * MANY / 4).map(|_| list::Node::new()).collect();
    let list = List::new();
    for node in &fixed {
        // SAFETY: the nodes outlive the list.
        unsafe { list.append(NonNull::from(node)) };
    }
    std::thread::scope(|s| {
        for nodes in passing.chunks((MANY / 4) as usize) {
            let list = &list;
            s.spawn(move || {
                for (n, node) in nodes.iter().enumerate() {
                    let node = NonNull::from(node);
                    // SAFETY: as above; the test is one grace period.
                    unsafe {
                        if n % 2 == 0 {
                            list.insert(node);
                        } else {
                            list.append(node);
                        }
                        if n % 7 != 0 {
                            assert!(list.remove(node));
                        }
                    }
                }
            });
        }
        for _ in 0..MANY / 50 {
            // SAFETY: as above.
            let seen = unsafe { list.iter() }
                .filter(|n| fixed.iter().any(|f| std::ptr::eq(f, *n)))
                .count();
            assert_eq!(seen, fixed.len(), "a node that stays was not seen");
        }
    });
    let kept = passing
        .chunks((MANY / 4) as usize)
        .map(|c| c.len().div_ceil(7))
        .sum::<usize>();
    // SAFETY: as above.
    assert_eq!(unsafe { list.iter() }.count(), fixed.len() + kept);
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
