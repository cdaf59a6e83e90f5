//! The structures that change several things at once, under real threads: ordinary runs, and small ones under
//! Miri.
#![cfg(not(loom))]

#[path = "../../sync/tests/common/mod.rs"]
#[allow(dead_code)] // each test needs a part of it
mod common;

use lab::Helping;
use lab::mcas::{Cell, Change, Domain};
use lab::queue::mpsc;

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
fn a_helping_lock_excludes() {
    common::threads::link();
    let total = Helping::new(0);
    std::thread::scope(|s| {
        for _ in 0..THREADS {
            s.spawn(|| (0..MANY).for_each(|_| *total.enter() += 1));
        }
    });
    assert_eq!(*total.enter(), THREADS * MANY);
}
