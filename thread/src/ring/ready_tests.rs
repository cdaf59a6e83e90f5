//! The rings against a plain model, with switches simulated by following the `link` words.

use super::*;
use crate::tte::detached;
use codegen::host::Low;
use std::collections::VecDeque;

const TURN: usize = 0x7777;

/// A thread whose entries are recognizable numbers.
fn thread(number: usize, level: u8, root: u64) -> Low<Tte> {
    let tte = detached();
    tte.sw_in.store(number * 0x100 + 1, Relaxed);
    tte.sw_in_mm.store(number * 0x100 + 2, Relaxed);
    tte.wanted_level.store(level, Relaxed);
    tte.root.store(root, Relaxed);
    tte
}

fn ring(idle: &Tte) -> ReadyRing {
    ring_of(0, idle)
}

fn ring_of(cpu: usize, idle: &Tte) -> ReadyRing {
    let ring = ReadyRing::new(cpu);
    ring.turn.store(TURN, Relaxed);
    ring.idle.store(idle.as_ptr(), Relaxed);
    ring.mend(idle);
    ring
}

#[test]
fn the_policy_is_the_table_of_the_text() {
    let table = policy();
    assert_eq!(
        &table[1..17],
        &[0, 1, 0, 2, 0, 1, 0, 3, 0, 1, 0, 2, 0, 1, 0, 4]
    );
    for level in 0..LEVELS - 1 {
        let turns = table.iter().filter(|&&l| l as usize == level).count();
        assert_eq!(turns, TURNS >> (level + 1));
    }
}

#[test]
fn links_lead_round_the_ring_and_change_space_only_where_needed() {
    let idle = thread(9, 0, 1);
    let ring = ring(&idle);
    let (a, b, c) = (thread(1, 0, 7), thread(2, 0, 7), thread(3, 0, 8));
    ring.insert(&idle, &a, End::Back);
    assert_eq!(idle.link.load(Relaxed), 0x102);
    ring.insert(&a, &b, End::Back);
    ring.insert(&a, &c, End::Back);
    assert_eq!(a.link.load(Relaxed), 0x201);
    assert_eq!(b.link.load(Relaxed), 0x302);
    assert_eq!(c.link.load(Relaxed), 0x102);
    // Blocks: the link of the outgoing thread still leads on, and the ring is closed behind it.
    ring.remove(&a, &a);
    assert_eq!(a.link.load(Relaxed), 0x201);
    assert_eq!(c.link.load(Relaxed), 0x202);
    // Unblocked: in front of all others.
    ring.insert(&b, &a, End::Front);
    assert_eq!(b.link.load(Relaxed), 0x101);
    assert_eq!(a.link.load(Relaxed), 0x302);
    ring.remove(&b, &a);
    ring.remove(&b, &c);
    assert!(ring.is_alone(&b));
    assert_eq!(b.link.load(Relaxed), 0x201);
    ring.remove(&b, &b);
    assert_eq!(b.link.load(Relaxed), 0x902);
}

#[test]
fn several_levels_go_through_the_turn_routine() {
    let idle = thread(9, 0, 1);
    let ring = ring(&idle);
    let (a, b) = (thread(1, 0, 7), thread(2, 3, 7));
    ring.insert(&idle, &a, End::Back);
    ring.insert(&a, &b, End::Back);
    assert_eq!(a.link.load(Relaxed), TURN);
    ring.remove(&a, &b);
    assert_eq!(a.link.load(Relaxed), 0x101);
}

#[test]
fn whoever_is_lent_a_turn_is_next_whatever_its_level() {
    let idle = thread(9, 0, 1);
    let ring = ring(&idle);
    let (a, b, c) = (thread(1, 0, 7), thread(2, 0, 7), thread(3, 5, 8));
    for tte in [&a, &b, &c] {
        ring.insert(if tte.is(&a) { &idle } else { &a }, tte, End::Back);
    }
    assert_eq!(a.link.load(Relaxed), TURN);
    ring.hand_over(&a, &c);
    assert_eq!(a.link.load(Relaxed), 0x302);
    // One level is left, so the links lead round: a, c, b.
    assert_eq!(c.link.load(Relaxed), 0x202);
    assert_eq!(b.link.load(Relaxed), 0x101);
    assert_eq!(ring.ready(), 3);
    // Out and in again, it has its own level.
    ring.remove(&c, &c);
    ring.insert(&b, &c, End::Back);
    assert_eq!(c.level.load(Relaxed), 5);
    assert_eq!(b.link.load(Relaxed), TURN);
    // With two in the patient level, the one that is lent a turn leaves it.
    let d = thread(4, 5, 7);
    ring.insert(&b, &d, End::Back);
    ring.hand_over(&b, &d);
    assert_eq!(b.link.load(Relaxed), 0x401);
    assert_eq!(d.link.load(Relaxed), TURN);
    assert!(core::ptr::eq(c.next.load(Relaxed), c.as_ptr()));
}

/// A model: for each level a queue whose head is next; the running thread is at the end of its own queue.
#[derive(Default)]
struct Model {
    levels: [VecDeque<usize>; LEVELS],
}

fn random(seed: &mut u64) -> usize {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    (*seed >> 11) as usize
}

/// Random inserts, removals and switches within one level: the ring's order is the model's.
#[test]
fn one_level_is_a_queue() {
    let mut seed = 0x1234_5678_9abc_def1;
    for _ in 0..200 {
        let idle = thread(99, 0, 1);
        let ring = ring(&idle);
        let threads: Vec<_> = (0..8).map(|i| thread(i, 0, 7 + (i as u64 & 1))).collect();
        let mut model = Model::default();
        let queue = &mut model.levels[0];
        let mut current: &Tte = &idle;
        for _ in 0..200 {
            let i = random(&mut seed) % threads.len();
            let tte: &Tte = &threads[i];
            match random(&mut seed) % 4 {
                0 | 1 if !tte.on_ring.is_some() && !current.is(tte) => {
                    let end = [End::Front, End::Back][random(&mut seed) % 2];
                    // The short way where it may be taken, half of the time.
                    let short = random(&mut seed).is_multiple_of(2);
                    let inserted = short
                        && match end {
                            End::Front => ring.insert_next(current, tte),
                            End::Back => ring.insert_last(current, tte),
                        };
                    if !inserted {
                        ring.insert(current, tte, end);
                    }
                    let running = current.on_ring.is_some() as usize;
                    match end {
                        End::Front => queue.push_front(i),
                        End::Back => queue.insert(queue.len() - running, i),
                    }
                }
                2 if tte.on_ring.is_some() => {
                    // The same where the running thread leaves.
                    let short = current.is(tte) && random(&mut seed).is_multiple_of(2);
                    let others = queue.len() > 1;
                    let left = short && ring.leave(tte);
                    assert_eq!(left, short && others);
                    if !left {
                        ring.remove(current, tte);
                    }
                    queue.retain(|&q| q != i);
                    if current.is(tte) {
                        current = follow(&ring, current, &threads, &idle);
                        if let Some(next) = queue.pop_front() {
                            assert!(current.is(&threads[next]));
                            queue.push_back(next);
                        } else {
                            assert!(current.is(&idle));
                        }
                    }
                }
                // An idle thread halts instead of switching when no thread is ready.
                _ if current.is(&idle) && queue.is_empty() => {}
                _ => {
                    current = follow(&ring, current, &threads, &idle);
                    if let Some(next) = queue.pop_front() {
                        assert!(current.is(&threads[next]));
                        queue.push_back(next);
                    } else {
                        assert!(current.is(&idle));
                    }
                }
            }
            assert_eq!(ring.ready() as usize, queue.len());
        }
    }
}

/// Where `current`'s `sw_out` leads, with the right entry for the address spaces.
fn follow<'a>(_ring: &ReadyRing, current: &Tte, threads: &'a [Low<Tte>], idle: &'a Tte) -> &'a Tte {
    let link = current.link.load(Relaxed);
    let next: &Tte = match link / 0x100 {
        99 => idle,
        number => &threads[number],
    };
    let same = next.root.load(Relaxed) == current.root.load(Relaxed);
    assert_eq!(link % 0x100, if same { 1 } else { 2 });
    next
}

#[test]
fn a_level_that_runs_empty_takes_one_back_from_the_shelf() {
    let idle = thread(9, 0, 1);
    let ring = ring(&idle);
    let (a, b, c, d) = (
        thread(1, 0, 7),
        thread(2, 0, 7),
        thread(3, 0, 8),
        thread(4, 3, 7),
    );
    for tte in [&d, &b, &c] {
        assert!(ring.steal_queue.put(tte.as_ptr()));
    }
    ring.insert(&idle, &a, End::Back);
    assert!(ring.is_alone(&a));
    // The longest waiting of its level, and of another level when there is none.
    ring.remove(&a, &a);
    assert_eq!(a.link.load(Relaxed), 0x201);
    ring.remove(&b, &b);
    assert_eq!(b.link.load(Relaxed), 0x302);
    ring.remove(&c, &c);
    assert_eq!(c.link.load(Relaxed), 0x402);
    assert_eq!(ring.ready(), 1);
    ring.remove(&d, &d);
    assert_eq!(d.link.load(Relaxed), 0x902);
    assert!(!ring.steal_queue.is_used());
}

#[test]
fn whoever_computes_gets_a_turn_in_turn_with_or_without_the_shelf() {
    for count in 2..=8 {
        let idle = thread(99, 0, 0);
        let ring = ring(&idle);
        let threads: Vec<_> = (0..count).map(|i| thread(i, 4, 7)).collect();
        let mut ran_at = vec![0; count];
        ring.insert(&idle, &threads[0], End::Back);
        for tte in &threads[1..] {
            assert!(ring.steal_queue.put(tte.as_ptr()));
        }
        let mut current: &Tte = &threads[0];
        // The timer's action at the end of each quantum, when no CPU is idle.
        for tick in 1..200 {
            let index = |tte: &Tte| tte.sw_in.load(Relaxed) / 0x100;
            while let Some(spare) = ring.spare(current, false, |tte| ran_at[index(tte)] + 1 < tick)
            {
                ring.remove(current, spare);
                assert!(ring.steal_queue.put(spare.as_ptr()));
            }
            ring.take_back(current);
            current = follow(&ring, current, &threads, &idle);
            ring.mend(current);
            ran_at[index(current)] = tick;
            for (i, &ran) in ran_at.iter().enumerate() {
                assert!(
                    tick - ran <= 2 * count,
                    "{i} of {count} has not run for {} quanta",
                    tick - ran
                );
            }
        }
    }
}

#[test]
fn who_may_go_is_the_longest_in_line_that_is_not_next() {
    let idle = thread(9, 0, 1);
    let ring = ring(&idle);
    let (a, b, c, d) = (
        thread(1, 0, 7),
        thread(2, 0, 7),
        thread(3, 0, 7),
        thread(4, 5, 7),
    );
    let find = |all: bool| {
        let found = ring.spare(&a, all, |_| true);
        found.map(|tte| tte.sw_in.load(Relaxed) / 0x100)
    };
    ring.insert(&idle, &a, End::Back);
    assert_eq!(find(true), None);
    ring.insert(&a, &b, End::Back);
    assert_eq!((find(false), find(true)), (None, Some(2)));
    ring.insert(&a, &c, End::Back);
    assert_eq!(find(false), Some(3));
    // Patient levels first; pinned threads never.
    ring.insert(&a, &d, End::Back);
    assert_eq!((find(false), find(true)), (Some(3), Some(4)));
    d.pinned.store(true, Relaxed);
    c.pinned.store(true, Relaxed);
    assert_eq!((find(false), find(true)), (None, Some(2)));
    assert_eq!(
        ring.spare(&a, true, |_| false).map(|tte| tte.as_ptr()),
        None
    );
}

/// An urgent thread.
fn urgent(number: usize, urgency: u64) -> Low<Tte> {
    let tte = thread(number, URGENT, 7);
    tte.urgency.store(urgency, Relaxed);
    tte
}

#[test]
fn an_urgent_thread_is_next_if_it_precedes_the_running_one_and_all_that_wait() {
    let idle = thread(9, 0, 1);
    let ring = ring(&idle);
    let usual = thread(1, 0, 7);
    let (a, b, c) = (urgent(2, 40), urgent(3, 40), urgent(4, 41));
    ring.insert(&idle, &usual, End::Back);
    assert_eq!(ring.urgency(), 0);
    assert!(ring.is_next(&usual, &a) && ring.is_next(&idle, &a));
    // `a` is to run before the one that still runs.
    ring.insert(&usual, &a, End::Front);
    assert_eq!(ring.urgency(), 40);
    assert!(!ring.is_next(&usual, &b) && ring.is_next(&usual, &c));
    // And does.
    assert!(!ring.is_next(&a, &b) && ring.is_next(&a, &c));
    // The running one is pushed aside, and is not the first any more.
    ring.insert(&a, &c, End::Front);
    assert_eq!(ring.urgency(), 41);
    assert!(!ring.is_next(&c, &b));
}

#[test]
fn of_the_urgent_ones_those_that_wait_may_go() {
    let idle = thread(9, 0, 1);
    let ring = ring(&idle);
    let usual = thread(1, 0, 7);
    let (a, b, c) = (urgent(2, 40), urgent(3, 30), urgent(4, 20));
    let find = |current: &Tte, all: bool| {
        let found = ring.spare_urgent(current, all);
        found.map(|tte| tte.sw_in.load(Relaxed) / 0x100)
    };
    ring.insert(&idle, &usual, End::Back);
    assert_eq!(find(&usual, true), None);
    // In a turn of the others the only one stays, unless a CPU is idle.
    ring.insert(&usual, &a, End::Front);
    assert_eq!((find(&usual, false), find(&usual, true)), (None, Some(2)));
    assert_eq!((find(&a, false), find(&a, true)), (None, None));
    // The second, or the first that has been pushed aside by it.
    ring.insert(&a, &b, End::Front);
    ring.insert(&a, &c, End::Front);
    assert_eq!((find(&a, false), find(&b, false)), (Some(3), Some(2)));
    b.pinned.store(true, Relaxed);
    assert_eq!(find(&a, false), None);
    // One that is lent the level is not urgent.
    b.pinned.store(false, Relaxed);
    b.wanted_level.store(0, Relaxed);
    assert_eq!(find(&a, false), None);
    // None of them is for the steal queue.
    assert!(
        ring.spare(&a, true, |_| true)
            .is_some_and(|tte| tte.is(&usual))
    );
}

#[test]
fn a_shelf_keeps_the_order_of_its_puts_and_has_an_end() {
    let idle = thread(9, 0, 1);
    let ring = ring(&idle);
    let threads: Vec<_> = (0..SHELF + 1).map(|i| thread(i, 0, 7)).collect();
    for (i, tte) in threads.iter().enumerate() {
        assert_eq!(ring.steal_queue.put(tte.as_ptr()), i < SHELF);
    }
    assert!(ring.steal_queue.is_full());
    assert!(ring.steal_queue.take_thread(threads[3].as_ptr()));
    assert!(!ring.steal_queue.take_thread(threads[3].as_ptr()));
    assert!(ring.steal_queue.put(threads[SHELF].as_ptr()));
    let order = core::iter::from_fn(|| ring.steal_queue.take(rank));
    let expected = (0..=SHELF).filter(|&i| i != 3).map(|i| threads[i].as_ptr());
    assert!(order.eq(expected));
    assert!(!ring.steal_queue.sweep());
}

/// By all ways into a ring: its CPU finds the thread there and no other does, and after it nobody.
#[test]
fn a_thread_is_a_member_of_the_ring_that_it_is_in() {
    let idle = thread(99, 0, 1);
    let ring = ring_of(2, &idle);
    let [running, next, last, handed, other] = [1, 2, 3, 4, 5].map(|i| thread(i, 0, 7));
    let urgent = thread(6, URGENT, 7);
    let (here, there) = (Ring::of_cpu(2), Ring::of_cpu(3));
    ring.insert(&idle, &running, End::Back);
    assert!(ring.insert_next(&running, &next) && ring.insert_last(&running, &last));
    ring.insert(&running, &handed, End::Back);
    ring.hand_over(&running, &handed);
    ring.insert(&running, &urgent, End::Back);
    // Its home is this CPU already, while it is in another's ring: on its way it is in none.
    other.cpu.store(2, Relaxed);
    other.on_ring.enter(there);
    assert!(other.on_ring.is_some() && !other.on_ring.is_of(here));
    for tte in [&running, &next, &last, &handed, &urgent] {
        assert!(tte.on_ring.is_of(here) && !tte.on_ring.is_of(there));
        ring.remove(&running, tte);
        assert!(!tte.on_ring.is_some() && !tte.on_ring.is_of(here));
    }
}
