//! The turn routine run natively: each thread's `sw_in` is a routine that returns the thread's number.

use super::*;
use crate::ring::ready::End;
use crate::tte::{LEVELS, detached};
use codegen::host::Low;
use core::sync::atomic::Ordering::Relaxed;

static ENTRY: Class = Class::new("test.entry");

struct Machine {
    cpu: Low<[u64; 512]>,
    ring: Low<ReadyRing>,
    idle: Low<Tte>,
    threads: Vec<Low<Tte>>,
    code: Vec<Routine<Jump>>,
}

type Turn = extern "C" fn(usize) -> u64;

impl Machine {
    fn new() -> Machine {
        codegen::host::link();
        let mut machine = Machine {
            cpu: Low::new([0; 512]),
            ring: Low::new(ReadyRing::new(0)),
            idle: detached(),
            threads: Vec::new(),
            code: Vec::new(),
        };
        let turn = synthesize(&machine.ring, 0).unwrap();
        machine.ring.turn.store(turn.entry(), Relaxed);
        machine.ring.idle.store(machine.idle.as_ptr(), Relaxed);
        machine.code.push(turn);
        let idle = machine.entry(1000);
        machine.idle.sw_in.store(idle, Relaxed);
        machine.idle.sw_in_mm.store(idle, Relaxed);
        machine.ring.mend(&machine.idle);
        machine.run(&machine.idle);
        machine
    }

    fn entry(&mut self, number: i32) -> usize {
        let mut d = Draft::new(&ENTRY, "entry");
        dynasm!(d ; .arch x64 ; mov eax, number ; ret);
        // SAFETY: returns a number.
        let routine = unsafe { Routine::from(d.seal().unwrap()) };
        let entry = routine.entry();
        self.code.push(routine);
        entry
    }

    /// A thread whose `sw_in` returns its number, and whose `sw_in_mm` that plus 100.
    fn add(&mut self, level: u8, root: u64) -> usize {
        let number = self.threads.len();
        let (same, other) = (self.entry(number as i32), self.entry(number as i32 + 100));
        let tte = detached();
        tte.sw_in.store(same, Relaxed);
        tte.sw_in_mm.store(other, Relaxed);
        tte.wanted_level.store(level, Relaxed);
        tte.root.store(root, Relaxed);
        self.threads.push(tte);
        self.ring
            .insert(self.current(), &self.threads[number], End::Back);
        number
    }

    fn current(&self) -> &Tte {
        // SAFETY: `run` stores live entries.
        unsafe { &*(self.cpu[Cpu::CURRENT / 8] as *const Tte) }
    }

    fn run(&self, tte: &Tte) {
        let word = (self.cpu.address() as usize + Cpu::CURRENT) as *mut u64;
        // SAFETY: inside the fake CPU.
        unsafe { word.write(tte.address() as u64) };
    }

    /// One switch: what `sw_out` would jump to, called.
    fn switch(&self) -> u64 {
        let link = self.current().link.load(Relaxed);
        // SAFETY: the link leads to the turn routine or to a routine of `entry`.
        let go = unsafe { core::mem::transmute::<usize, Turn>(link) };
        let number = go(self.cpu.address() as usize);
        if number != 1000 {
            self.run(&self.threads[number as usize % 100]);
        } else {
            self.run(&self.idle);
        }
        number
    }
}

#[test]
fn levels_get_their_shares() {
    let mut machine = Machine::new();
    for level in 0..LEVELS as u8 {
        machine.add(level, 0);
    }
    let mut turns = [0; LEVELS];
    let order: Vec<u64> = (0..256).map(|_| machine.switch()).collect();
    for &number in &order {
        turns[number as usize] += 1;
    }
    assert_eq!(turns, [128, 64, 32, 16, 8, 4, 2, 2]);
    assert_eq!(
        order[1..9],
        [0, 1, 0, 2, 0, 1, 0, 3][..]
            .iter()
            .cycle()
            .skip(order_start(&order))
            .take(8)
            .copied()
            .collect::<Vec<_>>()[..]
    );
}

/// Where in the table the first observed turn stands.
fn order_start(order: &[u64]) -> usize {
    let pattern = [0u64, 1, 0, 2, 0, 1, 0, 3];
    (0..8)
        .find(|&s| {
            (0..7).all(|i| order[1 + i] == pattern[(s + i) % 8] || pattern[(s + i) % 8] == 3)
        })
        .expect("the order is not the table's")
}

#[test]
fn empty_levels_give_their_turns_in_proportion() {
    let mut machine = Machine::new();
    for level in [2, 3, 7] {
        machine.add(level, 0);
    }
    let mut turns = [0; 3];
    for _ in 0..(32 + 16 + 2) * 4 {
        turns[machine.switch() as usize] += 1;
    }
    assert_eq!(turns, [128, 64, 8]);
}

#[test]
fn within_a_level_everybody_in_turn() {
    let mut machine = Machine::new();
    for _ in 0..3 {
        machine.add(0, 0);
    }
    machine.add(1, 0);
    let order: Vec<u64> = (0..24).map(|_| machine.switch()).collect();
    let level0: Vec<u64> = order.iter().copied().filter(|&n| n != 3).collect();
    for pair in level0.windows(2) {
        assert_eq!(pair[1], (pair[0] + 1) % 3, "{order:?}");
    }
    assert_eq!(order.iter().filter(|&&n| n == 3).count(), 8);
}

#[test]
fn other_spaces_through_sw_in_mm() {
    let mut machine = Machine::new();
    machine.add(0, 5);
    machine.add(1, 6);
    machine.switch();
    let from = machine.current().root.load(Relaxed);
    for _ in 0..8 {
        let before = machine.current().root.load(Relaxed);
        let number = machine.switch();
        let after = machine.current().root.load(Relaxed);
        assert_eq!(number >= 100, before != after);
    }
    assert!(from == 5 || from == 6);
}

/// With one level left, links that still lead to the turn routine are mended on the way.
#[test]
fn links_become_direct_again() {
    let mut machine = Machine::new();
    for _ in 0..3 {
        machine.add(0, 0);
    }
    let other = machine.add(4, 0);
    for _ in 0..20 {
        machine.switch();
    }
    while machine.current().is(&machine.threads[other]) {
        machine.switch();
    }
    machine
        .ring
        .remove(machine.current(), &machine.threads[other]);
    let order: Vec<u64> = (0..12).map(|_| machine.switch()).collect();
    for pair in order.windows(2) {
        assert_eq!(pair[1], (pair[0] + 1) % 3, "{order:?}");
    }
    let turn = machine.ring.turn.load(Relaxed);
    for tte in &machine.threads[..3] {
        assert_ne!(tte.link.load(Relaxed), turn);
    }
    // The last one blocks: the idle thread.
    for i in 0..3 {
        machine.ring.remove(machine.current(), &machine.threads[i]);
    }
    assert_eq!(machine.switch(), 1000);
}

/// The first urgent thread has every turn, but for those that are marked as one of the others.
#[test]
fn urgent_threads_run_first() {
    let mut machine = Machine::new();
    let [a, b] = [0, 3].map(|level| machine.add(level, 0) as u64);
    let mut urgent = |priority| {
        let number = machine.threads.len();
        let (same, other) = (
            machine.entry(number as i32),
            machine.entry(number as i32 + 100),
        );
        let tte = detached();
        tte.sw_in.store(same, Relaxed);
        tte.sw_in_mm.store(other, Relaxed);
        tte.wanted_level.store(URGENT, Relaxed);
        tte.urgency.store(priority, Relaxed);
        machine.threads.push(tte);
        machine
            .ring
            .insert(machine.current(), &machine.threads[number], End::Back);
        number as u64
    };
    let [low, high, same] = [10, 20, 20].map(&mut urgent);
    assert!(machine.ring.urges(machine.current()));
    assert_eq!([(); 3].map(|()| machine.switch()), [high; 3]);
    // Of the same priority the next has its turn when the first has given up its own.
    let at = |number: u64| &*machine.threads[number as usize];
    assert!(machine.ring.rotate(machine.current(), at(high)));
    assert_eq!([machine.switch(), machine.switch()], [same, same]);
    assert!(!machine.ring.urges(machine.current()));
    machine.ring.remove(machine.current(), at(same));
    assert_eq!(machine.switch(), high);
    machine.ring.remove(machine.current(), at(high));
    assert_eq!(machine.switch(), low);
    // The others' turns follow the table.
    let mut others = [0, 0];
    for _ in 0..64 {
        machine.ring.pass.store(true, Relaxed);
        let number = machine.switch();
        others[usize::from(number == b)] += 1;
        assert!(number == a || number == b);
        assert_eq!(machine.switch(), low);
    }
    assert_eq!(others, [57, 7]);
    machine.ring.remove(machine.current(), at(low));
    let rest: Vec<u64> = (0..16).map(|_| machine.switch()).collect();
    let last = rest.iter().filter(|&&number| number == b).count();
    assert!((1..=2).contains(&last));
}

/// Nothing but urgent threads: a turn for the others is nobody's.
#[test]
fn an_urgent_thread_alone_has_every_turn() {
    let mut machine = Machine::new();
    let number = machine.add(URGENT, 0) as u64;
    machine.ring.pass.store(true, Relaxed);
    assert_eq!([machine.switch(), machine.switch()], [number; 2]);
    assert!(!machine.ring.has_usual());
    let tte = &machine.threads[number as usize];
    machine.ring.remove(tte, tte);
    assert_eq!(machine.switch(), 1000);
}
