//! Starting, yielding, waking each other, levels and quanta.

use super::{COUNT, PEER, STOP, done, here, join, nap, until};
use crate::life::spawn::{Body, Spec, create};
use crate::{start, suspend, yield_now};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use machine::clock::{now_ns, tsc};
use machine::{cpu, log};

/// A thread is started once; a second start fails and keeps no handle of it, which would be left over at the
/// end.
pub(super) fn starts() {
    fn body(_: usize) {
        while !STOP.load(Ordering::Acquire) {
            nap(100_000);
        }
        done();
    }
    STOP.store(false, Ordering::Release);
    let thread = here(body, 0, 0);
    for _ in 0..3 {
        assert!(!start(&thread), "a thread is started once");
    }
    STOP.store(true, Ordering::Release);
    join(1);
}

/// Two threads on one CPU that yield to each other: the cost of a switch.
pub(super) fn timed_yields() {
    const ROUNDS: u64 = 10_000;
    fn yielder(_: usize) {
        for _ in 0..ROUNDS {
            yield_now();
        }
        done();
    }
    COUNT.store(0, Ordering::Relaxed);
    fn timer(_: usize) {
        let from = tsc();
        yielder(0);
        COUNT.store(tsc() - from, Ordering::Relaxed);
    }
    here(yielder, 0, 0);
    here(timer, 0, 0);
    join(2);
    let each = COUNT.load(Ordering::Relaxed) / (2 * ROUNDS);
    log!("thread: yield to another thread {each} ticks");
    fn alone(_: usize) {
        let from = tsc();
        yielder(0);
        COUNT.store(tsc() - from, Ordering::Relaxed);
    }
    here(alone, 0, 0);
    join(1);
    log!(
        "thread: yield alone {} ticks",
        COUNT.load(Ordering::Relaxed) / ROUNDS
    );
}

/// `resume` the peer and `suspend`, in turn: the cost of block and wake.
pub(super) fn ping_pong() {
    const ROUNDS: u64 = 10_000;
    fn ping(peer: usize) {
        // The peer's address comes from the creator through `PEER`.
        let mut other = peer;
        while other == 0 {
            other = PEER.load(Ordering::Acquire);
            yield_now();
        }
        let from = tsc();
        for _ in 0..ROUNDS {
            crate::resume_address(other);
            suspend();
        }
        COUNT.store(tsc() - from, Ordering::Relaxed);
        crate::resume_address(other);
        done();
    }
    fn pong(other: usize) {
        for _ in 0..ROUNDS {
            suspend();
            crate::resume_address(other);
        }
        done();
    }
    PEER.store(0, Ordering::Release);
    let ping = here(ping, 0, 0);
    let pong = here(pong, ping.address(), 0);
    PEER.store(pong.address(), Ordering::Release);
    join(2);
    let round = COUNT.load(Ordering::Relaxed) / ROUNDS;
    log!("thread: resume, suspend and back on one CPU {round} ticks a round");
}

/// Pairs on all CPUs, each counting its rounds with a token that must never be lost.
pub(super) fn many_ping_pongs() {
    const PAIRS: usize = 8;
    const ROUNDS: usize = 2_000;
    static TURN: [AtomicUsize; PAIRS] = [const { AtomicUsize::new(0) }; PAIRS];
    static OTHER: [[AtomicUsize; 2]; PAIRS] = [const { [const { AtomicUsize::new(0) }; 2] }; PAIRS];
    fn play(which: usize) {
        let (pair, side) = (which / 2, which % 2);
        for round in 0..ROUNDS {
            while TURN[pair].load(Ordering::Acquire) != 2 * round + side {
                suspend();
            }
            TURN[pair].store(2 * round + side + 1, Ordering::Release);
            crate::resume_address(OTHER[pair][1 - side].load(Ordering::Acquire));
        }
        done();
    }
    let cpus = cpu::cpus();
    let mut players = Vec::new();
    for which in 0..2 * PAIRS {
        TURN[which / 2].store(0, Ordering::Release);
        let spec = Spec {
            // Half of the pairs sit on two CPUs.
            cpu: Some((which / 2 + which % 2 * (which / 2 % 2)) % cpus),
            ..Spec::new(b"player", Body::Kernel(play, which))
        };
        let thread = create(&spec).expect("memory for a thread");
        OTHER[which / 2][which % 2].store(thread.address(), Ordering::Release);
        players.push(thread);
    }
    let from = now_ns();
    for player in &players {
        start(player);
    }
    join(2 * PAIRS);
    log!(
        "thread: {PAIRS} pairs of {ROUNDS} rounds on {cpus} CPUs in {} us",
        (now_ns() - from) / 1000
    );
}

/// Threads of levels 0, 1 and 2 on one CPU get turns as the table says.
pub(super) fn levels() {
    static TURNS: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];
    fn taker(level: usize) {
        while !STOP.load(Ordering::Acquire) {
            TURNS[level].fetch_add(1, Ordering::Relaxed);
            yield_now();
        }
        done();
    }
    STOP.store(false, Ordering::Release);
    for level in 0..3u8 {
        TURNS[level as usize].store(0, Ordering::Relaxed);
        here(taker, level as usize, level);
    }
    let reached = |level: usize, turns: u64| TURNS[level].load(Ordering::Relaxed) >= turns;
    until("the patient level got turns", || reached(2, 1));
    for turns in &TURNS {
        turns.store(0, Ordering::Relaxed);
    }
    until("turns enough to compare", || reached(2, 1000));
    STOP.store(true, Ordering::Release);
    let turns = [0, 1, 2].map(|l: usize| TURNS[l].load(Ordering::Relaxed));
    join(3);
    log!("thread: turns of levels 0, 1, 2: {turns:?}");
    for pair in turns.windows(2) {
        let ratio = pair[0] * 100 / pair[1].max(1);
        assert!((150..260).contains(&ratio), "levels out of proportion");
    }
}

/// Threads that never yield share a CPU by their quanta.
pub(super) fn preemption() {
    static SPUN: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
    fn spinner(which: usize) {
        while !STOP.load(Ordering::Acquire) {
            SPUN[which].fetch_add(1, Ordering::Relaxed);
        }
        done();
    }
    STOP.store(false, Ordering::Release);
    let threads = [0, 1].map(|which| {
        SPUN[which].store(0, Ordering::Relaxed);
        here(spinner, which, 0)
    });
    let times = || [0, 1].map(|i: usize| threads[i].cpu_ns() / 1000);
    // Neither ever yields, so each turn but the first came by a quantum's end.
    until("a thread got no quantum", || {
        times().iter().all(|t| *t > 10_000)
    });
    STOP.store(true, Ordering::Release);
    log!("thread: two spinners' CPU time {:?} us", times());
    join(2);
}
