//! The structures that change several things at once, under real threads: ordinary runs, and small ones under
//! Miri.
#![cfg(not(loom))]

#[path = "../../sync/tests/common/mod.rs"]
#[allow(dead_code)] // each test needs a part of it
mod common;

use lab::mcas::{Cell, Change, Domain};
use lab::queue::mpsc;
use lab::work_server::{Outcome, WorkServer};
use lab::{BinarySemaphore, Helping, general_list, marked_list};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A multiple of 1, 2 and 3.
const MANY: u64 = if cfg!(miri) { 42 } else { 12_000 };
const THREADS: u64 = 3;

/// Money moves between accounts; none appears or vanishes, and nobody sees any on its way.
#[test]
fn words_change_together() {
    const CELLS: usize = 4;
    const TOTAL: u64 = 1000;
    let domain: Domain<4, 3, 2> = Domain::new();
    let cells: [Cell; CELLS] = std::array::from_fn(|n| Cell::new(if n == 0 { TOTAL } else { 0 }));
    std::thread::scope(|s| {
        for t in 0..THREADS as usize {
            let (domain, cells) = (&domain, &cells);
            s.spawn(move || {
                let mut party = domain.join().unwrap();
                for n in 0..MANY as usize {
                    // Three accounts in changing order, or two.
                    let which = [(t + n) % CELLS, (t + n + 1) % CELLS, (t + n + 2) % CELLS];
                    let which = &which[..2 + n % 2];
                    loop {
                        let old: Vec<u64> = which.iter().map(|w| party.read(&cells[*w])).collect();
                        let all: u64 = old.iter().sum();
                        let share = all / which.len() as u64;
                        let changes: Vec<_> = which
                            .iter()
                            .enumerate()
                            .map(|(at, w)| Change {
                                cell: &cells[*w],
                                old: old[at],
                                new: if at == 0 {
                                    all - share * (which.len() as u64 - 1)
                                } else {
                                    share
                                },
                            })
                            .collect();
                        // SAFETY: cells and domain end together.
                        if unsafe { party.change(&changes) } {
                            break;
                        }
                    }
                }
            });
        }
    });
    let sum: u64 = cells.iter().map(|cell| domain.read(cell)).sum();
    assert_eq!(sum, TOTAL);
    assert!((0..4).all(|_| domain.join().is_some()));
}

#[repr(C)]
struct Element {
    node: general_list::Node,
    /// 1 while it is in the list or visited.
    alive: AtomicUsize,
}

fn back(node: NonNull<general_list::Node>) {
    // SAFETY: every node of these lists is the first field of a boxed element, given back once.
    let element = unsafe { Box::from_raw(node.cast::<Element>().as_ptr()) };
    assert_eq!(element.alive.swap(0, Ordering::Relaxed), 1);
    BACK.fetch_add(1, Ordering::Relaxed);
}

static BACK: AtomicUsize = AtomicUsize::new(0);

/// Nodes come and go in the middle, and are freed at once when nobody stands on them.
#[test]
fn general_list_under_change() {
    let list = general_list::List::new(back);
    std::thread::scope(|s| {
        for t in 0..THREADS as usize {
            let list = &list;
            s.spawn(move || {
                for n in 0..MANY as usize / 4 {
                    let mut cursor = list.cursor();
                    for _ in 0..(n + t) % 3 {
                        cursor.advance();
                    }
                    let new = Box::new(Element {
                        node: general_list::Node::new(),
                        alive: AtomicUsize::new(1),
                    });
                    let new = NonNull::from(Box::leak(new)).cast();
                    // SAFETY: a fresh node, which `back` frees.
                    while unsafe { cursor.insert_after(new) }.is_err() {
                        cursor = list.cursor();
                    }
                    let mut cursor = list.cursor();
                    let mut steps = 0;
                    while cursor.advance().is_some() {
                        let node = cursor.pointer().expect("it stands on a node");
                        // SAFETY: visited, and the first field of an element.
                        let element = unsafe { node.cast::<Element>().as_ref() };
                        assert_eq!(element.alive.load(Ordering::Relaxed), 1);
                        steps += 1;
                        if steps == 3 {
                            cursor.remove();
                            break;
                        }
                    }
                }
            });
        }
    });
    drop(list);
    assert_eq!(
        BACK.load(Ordering::Relaxed),
        THREADS as usize * (MANY as usize / 4)
    );
}

#[repr(C)]
struct Single {
    node: marked_list::Node,
    visitors: AtomicUsize,
    visits: AtomicUsize,
    out: AtomicUsize,
}

fn went_out(node: NonNull<marked_list::Node>) {
    // SAFETY: every node of these lists is the first field of an element that lives as long.
    let single = unsafe { node.cast::<Single>().as_ref() };
    assert_eq!(single.out.fetch_add(1, Ordering::Relaxed), 0);
}

#[test]
fn marked_list_has_one_visitor_a_node() {
    let singles: Vec<Single> = (0..40)
        .map(|_| Single {
            node: marked_list::Node::new(),
            visitors: AtomicUsize::new(0),
            visits: AtomicUsize::new(0),
            out: AtomicUsize::new(0),
        })
        .collect();
    let list = marked_list::List::new(went_out);
    let inserted = AtomicBool::new(false);
    std::thread::scope(|s| {
        for _ in 0..THREADS {
            s.spawn(|| {
                let mut walks = 0;
                let mut last = false;
                // Many, and one more when all nodes are there.
                while walks < MANY / 10 || !last {
                    walks += 1;
                    last = inserted.load(Ordering::Acquire);
                    // SAFETY: the test is one grace period.
                    let mut visit = unsafe { list.enter() };
                    while let Some(here) = visit {
                        // SAFETY: as above.
                        let single = unsafe { here.pointer().cast::<Single>().as_ref() };
                        assert_eq!(single.visitors.fetch_add(1, Ordering::Relaxed), 0);
                        single.visits.fetch_add(1, Ordering::Relaxed);
                        single.visitors.fetch_sub(1, Ordering::Relaxed);
                        visit = here.next();
                    }
                }
            });
        }
        for (n, single) in singles.iter().enumerate() {
            // SAFETY: inserted once; the test is one grace period.
            unsafe { list.insert(NonNull::from(single).cast()) };
            std::thread::yield_now();
            if n % 2 == 1 {
                single.node.kill();
            }
        }
        inserted.store(true, Ordering::Release);
    });
    // SAFETY: as above.
    let mut visit = unsafe { list.enter() };
    let mut left = 0;
    while let Some(here) = visit {
        left += 1;
        visit = here.next();
    }
    assert_eq!(left, 20);
    let out = |n: usize| singles[n].out.load(Ordering::Relaxed);
    assert!((0..40).all(|n| out(n) == n % 2));
    let visits = |n: usize| singles[n].visits.load(Ordering::Relaxed);
    assert!((0..40).step_by(2).any(|n| visits(n) > 0));
}

/// Producers of ones, twos and threes; each batch comes out in one piece, each producer in its order.
#[test]
fn batches_stay_whole() {
    let queue: mpsc::Queue<Box<(u64, u64)>, 8> = mpsc::Queue::new();
    std::thread::scope(|s| {
        for t in 0..THREADS {
            let queue = &queue;
            s.spawn(move || {
                let mut n = 0;
                while n < MANY {
                    let value = |k: u64| Box::new((t, n + k));
                    let put = match t {
                        0 => queue.put(value(0)).is_ok(),
                        1 => queue.put_all([value(0), value(1)]).is_ok(),
                        _ => queue.put_all([value(0), value(1), value(2)]).is_ok(),
                    };
                    if put {
                        n += t + 1;
                    } else {
                        std::thread::yield_now();
                    }
                }
            });
        }
        // SAFETY: there is no other consumer.
        let mut consumer = unsafe { queue.consumer() };
        let mut next = [0; THREADS as usize];
        let mut inside: Option<(u64, u64)> = None;
        while next.iter().any(|n| *n < MANY) {
            let Some(value) = consumer.get() else {
                std::thread::yield_now();
                continue;
            };
            let (t, n) = *value;
            assert_eq!(next[t as usize], n, "one producer's order");
            next[t as usize] = n + 1;
            if let Some((whose, left)) = inside {
                assert_eq!(whose, t, "a batch in two pieces");
                inside = (left > 1).then_some((whose, left - 1));
            } else if t > 0 {
                inside = Some((t, t));
            }
        }
        assert_eq!(inside, None);
    });
    assert!(queue.is_empty());
}

#[test]
fn helping_lock_and_semaphore() {
    common::threads::link();
    let total = Helping::new(0);
    let full = BinarySemaphore::new(false);
    std::thread::scope(|s| {
        s.spawn(|| {
            let mut inside = total.enter();
            while *inside < MANY {
                inside = Helping::wait(inside, &full);
            }
        });
        for _ in 0..MANY {
            *total.enter() += 1;
            full.up();
        }
    });
    assert_eq!(*total.enter(), MANY);
}

/// Each sleeps until the other raises its semaphore: a wake-up that is lost is the end.
#[test]
fn semaphores_wake_each_other() {
    common::threads::link();
    let [there, back] = [false; 2].map(BinarySemaphore::new);
    std::thread::scope(|s| {
        s.spawn(|| {
            for _ in 0..MANY {
                there.down();
                back.up();
            }
        });
        for _ in 0..MANY {
            there.up();
            back.down();
            assert!(!back.try_down(), "raised once, taken once");
        }
    });
}

#[test]
fn work_is_done_or_left() {
    let server: WorkServer<Vec<u64>> = WorkServer::new(Vec::new(), WorkServer::serve);
    std::thread::scope(|s| {
        for t in 0..THREADS {
            let server = &server;
            s.spawn(move || {
                for n in 0..MANY {
                    let outcome = server.invoke(move |list| list.push(t * MANY + n));
                    assert!([Outcome::Done, Outcome::Queued].contains(&outcome));
                }
            });
        }
    });
    let list = server
        .try_invoke(std::mem::take)
        .ok()
        .expect("nobody is busy");
    assert_eq!(list.len() as u64, THREADS * MANY);
    for t in 0..THREADS {
        assert!(
            list.iter().filter(|n| **n / MANY == t).is_sorted(),
            "one thread's order"
        );
    }
}
