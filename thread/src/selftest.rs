//! The suite that runs in the guest: `selftest=thread` on the kernel command line.
//!
//! *Interface*: [`run`], in its own kernel thread with nothing else to run. Every case ends by itself; a
//! failing case panics, so the report names it. Figures go to the log; under icount they are instructions.
#![expect(clippy::disallowed_methods, reason = "at boot, before there are users")]

use crate::clock::{WakeUp, alarm, cancel, sleep_until};
use crate::life::spawn::{Body, Spec, bury, create, spawn};
use crate::ring::chain::chain;
use crate::ring::local::local;
use crate::running::block::resume_address;
use crate::tte::flags::{ASLEEP, DEAD};
use crate::tte::signal::{Mode, Procedure};
use crate::tte::{Thread, current, for_each};
use crate::{resume, start, suspend, wait, yield_now};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use machine::clock::{now_ns, tsc};
use machine::{cpu, log};

static PEER: AtomicUsize = AtomicUsize::new(0);
static COUNT: AtomicU64 = AtomicU64::new(0);
static DONE: AtomicUsize = AtomicUsize::new(0);
static STOP: AtomicBool = AtomicBool::new(false);

/// Runs the suite.
pub fn run() {
    timed_yields();
    starts();
    ping_pong();
    many_ping_pongs();
    levels();
    preemption();
    spread();
    theft();
    following();
    burial();
    inheritance();
    help_from_afar(true);
    help_from_afar(false);
    operations();
    procedures();
    alarms();
    chaining();
    lines();
    here(crowd, 0, 0);
    join(1);
    creation();
    until("threads left over", || {
        settle();
        // An idle thread a CPU, the one that ends grace periods, and this one.
        threads() == cpu::cpus() + 2
    });
    log!("thread: selftest passed on {} processors", cpu::cpus());
}

fn threads() -> usize {
    let mut count = 0;
    for_each(|_| count += 1);
    count
}

/// Lets ended threads be buried here, and grace periods end.
fn settle() {
    bury();
    sync::epoch::synchronize();
    nap(1_000_000);
}

fn nap(ns: u64) {
    sleep_until(now_ns() + ns).expect("an alarm");
}

/// Waits for something that must come; hosts may be slow.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = now_ns() + 20_000_000_000;
    while !holds() {
        assert!(now_ns() < deadline, "{what}");
        nap(100_000);
    }
}

/// The same for a thread that must stay ready meanwhile.
fn until_yielding(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = now_ns() + 20_000_000_000;
    while !holds() {
        assert!(now_ns() < deadline, "{what}");
        yield_now();
    }
}

fn here(body: fn(usize), argument: usize, level: u8) -> Thread {
    let spec = Spec {
        cpu: Some(0),
        level,
        ..Spec::new(b"selftest", Body::Kernel(body, argument))
    };
    let thread = create(&spec).expect("memory for a thread");
    start(&thread);
    thread
}

fn join(count: usize) {
    while DONE.load(Ordering::Acquire) < count {
        nap(200_000);
    }
    DONE.store(0, Ordering::Release);
}

fn done() {
    DONE.fetch_add(1, Ordering::AcqRel);
}

/// A thread is started once; a second start fails and keeps no handle of it, which would be left over at the
/// end.
fn starts() {
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
fn timed_yields() {
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
fn ping_pong() {
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
fn many_ping_pongs() {
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
fn levels() {
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
fn preemption() {
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

/// More busy threads than CPUs spread over all CPUs.
fn spread() {
    static SEEN: AtomicUsize = AtomicUsize::new(0);
    /// The first ones end early, and leave their CPUs idle while others share one.
    fn spinner(ends_ns: usize) {
        while !STOP.load(Ordering::Acquire) && now_ns() < ends_ns as u64 {
            let irq = cpu::irq_save();
            let bit = 1 << cpu::this_cpu().number();
            cpu::irq_restore(irq);
            SEEN.fetch_or(bit, Ordering::Relaxed);
        }
        done();
    }
    let cpus = cpu::cpus();
    SEEN.store(0, Ordering::Relaxed);
    STOP.store(false, Ordering::Release);
    let early = now_ns() + 20_000_000;
    for i in 0..2 * cpus {
        let ends = if i < cpus { early as usize } else { usize::MAX };
        let spec = Spec::new(b"spinner", Body::Kernel(spinner, ends));
        start(&create(&spec).expect("memory for a thread"));
    }
    nap(30_000_000);
    SEEN.store(0, Ordering::Relaxed);
    until("a CPU stayed idle", || {
        SEEN.load(Ordering::Relaxed) == (1 << cpus) - 1
    });
    STOP.store(true, Ordering::Release);
    join(2 * cpus);
    let stolen: u32 = (0..cpus).map(|cpu| crate::stats(cpu).stolen).sum();
    log!("thread: all {cpus} CPUs busy; {stolen} threads taken so far");
}

/// A CPU that answers nothing is robbed all the same of what waits there.
fn theft() {
    static ENDED: AtomicUsize = AtomicUsize::new(0);
    fn prey(_: usize) {
        ENDED.fetch_add(1, Ordering::AcqRel);
    }
    fn deaf(_: usize) {
        let threads: Vec<_> = (0..2 * cpu::cpus())
            .map(|_| create(&Spec::new(b"prey", Body::Kernel(prey, 0))).expect("memory"))
            .collect();
        let irq = cpu::irq_save();
        for thread in &threads {
            start(thread);
        }
        let deadline = now_ns() + 20_000_000_000;
        while ENDED.load(Ordering::Acquire) < threads.len() {
            assert!(now_ns() < deadline, "nobody took what waited here");
            core::hint::spin_loop();
        }
        cpu::irq_restore(irq);
        done();
    }
    if cpu::cpus() == 1 {
        return;
    }
    let stolen = || {
        (0..cpu::cpus())
            .map(|cpu| crate::stats(cpu).stolen)
            .sum::<u32>()
    };
    let before = stolen();
    ENDED.store(0, Ordering::Release);
    here(deaf, 0, 0);
    join(1);
    let count = ENDED.load(Ordering::Acquire);
    assert!(
        stolen() - before >= count as u32,
        "they ran without being taken"
    );
    log!("thread: {count} threads taken from a CPU that answered nothing");
}

/// An idle thread that waits for a monitor while it frees an ended thread continues when it gets the monitor,
/// although its CPU has halted.
fn burial() {
    /// It has its dispatcher: the making of one may sleep too.
    static COMPLETE: AtomicBool = AtomicBool::new(false);
    fn mortal(_: usize) {
        let me = current();
        me.set_slow_dispatcher().expect("memory for a dispatcher");
        COMPLETE.store(true, Ordering::Release);
        suspend();
    }
    fn holder(_: usize) {
        let spec = Spec {
            cpu: Some(1),
            ..Spec::new(b"mortal", Body::Kernel(mortal, 0))
        };
        let thread = create(&spec).expect("memory for a thread");
        start(&thread);
        until("the thread sleeps", || {
            COMPLETE.load(Ordering::Acquire) && thread.flags() & ASLEEP != 0
        });
        let dispatcher = thread.dispatcher.lock();
        resume(&thread);
        let (there, idle) = (local(1), local(1).ring.idle.load(Ordering::Acquire));
        let runs = |cpu: &cpu::Cpu| cpu.current.load(Ordering::Acquire);
        until("the idle thread has it", || {
            thread.flags() & DEAD != 0
                && there.zombies.load(Ordering::Acquire).is_null()
                && cpu::online().nth(1).map(runs) == Some(idle as usize)
        });
        // Grace periods, which interrupt the CPU, are over by then.
        nap(20_000_000);
        drop(dispatcher);
        until("the idle thread sleeps on", || {
            thread.dispatcher.lock().is_none()
        });
        done();
        resume_address(PEER.load(Ordering::Acquire));
    }
    if cpu::cpus() == 1 {
        return;
    }
    settle();
    PEER.store(current().address(), Ordering::Release);
    here(holder, 0, 0);
    // Without naps: their alarms would interrupt the CPU, if they are of that one.
    while DONE.swap(0, Ordering::AcqRel) == 0 {
        suspend();
    }
}

/// A thread that an otherwise idle CPU wakes moves there when its home is busy, unless it may not move.
fn following() {
    static SLEEPER: AtomicUsize = AtomicUsize::new(0);
    static WAKES: AtomicUsize = AtomicUsize::new(0);
    static HOME: AtomicUsize = AtomicUsize::new(0);
    const NAP: u64 = 2_000_000;
    fn sleeper(_: usize) {
        SLEEPER.store(current().address(), Ordering::Release);
        while !STOP.load(Ordering::Acquire) {
            suspend();
            HOME.store(current().cpu(), Ordering::Release);
            WAKES.fetch_add(1, Ordering::AcqRel);
        }
        done();
    }
    fn spinner(_: usize) {
        while !STOP.load(Ordering::Acquire) {
            core::hint::spin_loop();
        }
        done();
    }
    /// Wakes the sleeper now and then; between, its CPU is idle.
    fn waker(_: usize) {
        while !STOP.load(Ordering::Acquire) {
            resume_address(SLEEPER.load(Ordering::Acquire));
            nap(NAP);
        }
        done();
    }
    if cpu::cpus() == 1 {
        return;
    }
    for pinned in [false, true] {
        STOP.store(false, Ordering::Release);
        SLEEPER.store(0, Ordering::Release);
        WAKES.store(0, Ordering::Release);
        let make = |body: fn(usize), cpu: Option<usize>| {
            let spec = Spec {
                cpu,
                ..Spec::new(b"following", Body::Kernel(body, 0))
            };
            let thread = create(&spec).expect("memory for a thread");
            start(&thread);
            thread
        };
        let asleep = make(sleeper, Some(0));
        until("the sleeper has not begun", || {
            SLEEPER.load(Ordering::Acquire) != 0
        });
        asleep.pinned.store(pinned, Ordering::Release);
        make(waker, Some(1));
        // A thread computes on the sleeper's home CPU, and none on the waker's CPU.
        for busy in (0..cpu::cpus()).filter(|&cpu| cpu != 1) {
            make(spinner, Some(busy));
        }
        let woken = |often: usize| move || WAKES.load(Ordering::Acquire) >= often;
        if pinned {
            until("the sleeper was not woken", woken(5));
            assert_eq!(HOME.load(Ordering::Acquire), 0, "it may be on one CPU only");
        } else {
            until("the sleeper stayed at its busy home", || {
                HOME.load(Ordering::Acquire) == 1 && woken(1)()
            });
        }
        STOP.store(true, Ordering::Release);
        resume_address(SLEEPER.load(Ordering::Acquire));
        join(cpu::cpus() + 1);
    }
    log!("thread: who was woken from an idle CPU followed");
}

/// A thread that waits for a monitor lends its level to the holder.
fn inheritance() {
    static MONITOR: sync::Monitor<u64> = sync::Monitor::new(0);
    const PATIENT: u8 = 6;
    fn holder(_: usize) {
        let mut held = MONITOR.lock();
        COUNT.store(1, Ordering::Release);
        // Until it has the waiter's level; alone it never would.
        until_yielding("no level was lent", || {
            current().level.load(Ordering::Relaxed) == 0
        });
        *held += 1;
        drop(held);
        done();
    }
    fn contender(_: usize) {
        *MONITOR.lock() += 1;
        done();
    }
    COUNT.store(0, Ordering::Release);
    here(holder, 0, PATIENT);
    until("the monitor was taken", || {
        COUNT.load(Ordering::Acquire) == 1
    });
    here(contender, 0, 0);
    join(2);
    assert_eq!(*MONITOR.lock(), 2);
}

/// The same where the holder waits for the quanta of others on another CPU, which it may not leave or may.
fn help_from_afar(pinned: bool) {
    static MONITOR: sync::Monitor<u64> = sync::Monitor::new(0);
    static HELD: AtomicBool = AtomicBool::new(false);
    static LENT: AtomicBool = AtomicBool::new(false);
    const PATIENT: u8 = 6;
    fn holder(_: usize) {
        let held = MONITOR.lock();
        HELD.store(true, Ordering::Release);
        until_yielding("no level was lent from afar", || {
            current().level.load(Ordering::Relaxed) < PATIENT
        });
        LENT.store(true, Ordering::Release);
        drop(held);
        done();
    }
    fn spinner(_: usize) {
        while !STOP.load(Ordering::Acquire) {
            core::hint::spin_loop();
        }
        done();
    }
    fn contender(_: usize) {
        *MONITOR.lock() += 1;
        done();
    }
    let cpus = cpu::cpus();
    if cpus == 1 {
        return;
    }
    let make = |body: fn(usize), level: u8, cpu: Option<usize>| {
        let spec = Spec {
            cpu,
            level,
            ..Spec::new(b"afar", Body::Kernel(body, 0))
        };
        start(&create(&spec).expect("memory for a thread"));
    };
    for word in [&STOP, &HELD, &LENT] {
        word.store(false, Ordering::Release);
    }
    // Every CPU has something better to do, and one of the holder's own level.
    for cpu in 0..cpus {
        make(spinner, 0, Some(cpu));
    }
    make(spinner, PATIENT, None);
    make(holder, PATIENT, pinned.then_some(0));
    until("the monitor was taken afar", || {
        HELD.load(Ordering::Acquire)
    });
    let mut contenders = 0;
    until("the holder was helped from afar", || {
        // A waiter that comes while the holder runs has nothing to help with.
        if !LENT.load(Ordering::Acquire) && contenders < 100 {
            make(contender, 0, Some(1));
            contenders += 1;
        }
        LENT.load(Ordering::Acquire)
    });
    STOP.store(true, Ordering::Release);
    join(cpus + 2 + contenders);
}

/// stop, proceed, wait, notify, kill between threads.
fn operations() {
    fn worker(_: usize) {
        while !current().is_killed() {
            COUNT.fetch_add(1, Ordering::Relaxed);
            crate::safe_point();
            yield_now();
        }
        done();
    }
    let worker = spawn(b"worker", worker, 0).expect("memory for a thread");
    for _ in 0..20 {
        nap(500_000);
        worker.stop();
        while !worker.is_stopped() {
            nap(100_000);
        }
        let at = COUNT.load(Ordering::Relaxed);
        resume(&worker);
        nap(500_000);
        assert_eq!(at, COUNT.load(Ordering::Relaxed), "a stopped thread ran");
        worker.release();
        until("a thread did not proceed", || {
            COUNT.load(Ordering::Relaxed) != at
        });
    }
    assert!(!worker.step(), "a running thread was stepped");
    worker.kill();
    join(1);

    fn waiter(_: usize) {
        for event in [3, 5, 63] {
            wait(event);
            COUNT.fetch_add(1, Ordering::AcqRel);
        }
        done();
    }
    COUNT.store(0, Ordering::Relaxed);
    let waiter = spawn(b"waiter", waiter, 0).expect("memory for a thread");
    waiter.notify(5);
    nap(2_000_000);
    assert_eq!(COUNT.load(Ordering::Acquire), 0, "woken by another event");
    waiter.notify(3);
    until("an event was not remembered", || {
        COUNT.load(Ordering::Acquire) == 2
    });
    waiter.notify(63);
    join(1);
}

/// interrupt and signal on a suspended thread: it runs the procedure and stays suspended.
fn procedures() {
    static RAN: AtomicU64 = AtomicU64::new(0);
    static WHO: AtomicUsize = AtomicUsize::new(0);
    fn procedure() {
        WHO.store(current().address(), Ordering::Release);
        RAN.fetch_add(1, Ordering::AcqRel);
    }
    fn sleeper(_: usize) {
        suspend();
        COUNT.store(1, Ordering::Release);
        done();
    }
    COUNT.store(0, Ordering::Release);
    RAN.store(0, Ordering::Release);
    let sleeper = spawn(b"sleeper", sleeper, 0).expect("memory for a thread");
    nap(1_000_000);
    let procedure = Procedure {
        address: procedure as fn() as usize,
        mode: Mode::Supervisor,
    };
    sleeper
        .set_signal(7, Some(procedure))
        .expect("a signal number");
    for i in 1..=20 {
        sleeper.signal(7).expect("room for a procedure");
        until("a procedure did not run", || {
            RAN.load(Ordering::Acquire) >= i
        });
        assert_eq!(WHO.load(Ordering::Acquire), sleeper.address());
    }
    nap(1_000_000);
    assert_eq!(
        COUNT.load(Ordering::Acquire),
        0,
        "a procedure ended a sleep"
    );
    assert!(sleeper.signal(8).is_err(), "an empty table entry");
    resume(&sleeper);
    join(1);
}

fn alarms() {
    static CALLED: AtomicU64 = AtomicU64::new(0);
    fn called(by: usize) {
        CALLED.fetch_add(by as u64, Ordering::AcqRel);
    }
    CALLED.store(0, Ordering::Release);
    let now = now_ns();
    let mut late = 0;
    for i in 0..200u64 {
        let id = alarm(now + 300_000_000 + i * 1000, called, 1).expect("an alarm");
        if i % 4 == 0 {
            assert!(cancel(id));
            assert!(!cancel(id));
        }
    }
    for _ in 0..20 {
        let at = now_ns() + 300_000;
        sleep_until(at).expect("an alarm");
        assert!(now_ns() >= at, "woke too early");
        late += now_ns() - at;
    }
    until("an alarm was not called", || {
        CALLED.load(Ordering::Acquire) == 150
    });
    nap(1_000_000);
    assert_eq!(
        CALLED.load(Ordering::Acquire),
        150,
        "a cancelled alarm was called"
    );
    log!("thread: sleeps end {} ns late", late / 20);
    drop(WakeUp::at(now_ns() + 1_000_000_000));
}

/// Procedures are chained by a handler, by one another and by an interrupt that comes in between, and run in
/// order.
fn chaining() {
    static TOLD: [AtomicU64; 8] = [const { AtomicU64::new(0) }; 8];
    static COUNT: AtomicU64 = AtomicU64::new(0);
    static LONG: AtomicU64 = AtomicU64::new(0);
    fn tell(what: usize) {
        let at = COUNT.fetch_add(1, Ordering::AcqRel) as usize;
        if let Some(word) = TOLD.get(at) {
            word.store(what as u64, Ordering::Release);
        }
    }
    /// The handler.
    fn handler(_: usize) {
        for (procedure, what) in [(tell as fn(usize), 2), (nested, 0), (tell, 5)] {
            assert_eq!(chain(procedure, what), Ok(()));
        }
        tell(1);
    }
    /// In the chain: has an interrupt come, and stays in the chain until it has.
    fn nested(_: usize) {
        let set = alarm(now_ns(), interrupt, 0).is_ok();
        assert!(set, "no alarm");
        tell(3);
        LONG.store(now_ns() + 1_000_000_000, Ordering::Release);
        stay(0);
    }
    fn stay(_: usize) {
        if COUNT.load(Ordering::Acquire) < 5 && now_ns() < LONG.load(Ordering::Acquire) {
            assert_eq!(chain(stay, 0), Ok(()));
        }
    }
    /// The handler of the interrupt in between: its procedures join the chain that it found.
    fn interrupt(_: usize) {
        assert_eq!(chain(tell, 6), Ok(()));
        tell(4);
    }
    COUNT.store(0, Ordering::Release);
    alarm(now_ns() + 200_000, handler, 0).expect("an alarm");
    until("a chained procedure was not called", || {
        COUNT.load(Ordering::Acquire) == 6
    });
    let told = [0, 1, 2, 3, 4, 5].map(|i: usize| TOLD[i].load(Ordering::Acquire));
    // Whether 5 or 4 comes first depends on when the interrupt does.
    assert!(
        told == [1, 2, 3, 4, 5, 6] || told == [1, 2, 3, 5, 4, 6],
        "chained procedures ran as {told:?}"
    );
    // Outside an interrupt: at once, or as soon as interrupts are on.
    COUNT.store(0, Ordering::Release);
    assert_eq!(chain(tell, 1), Ok(()));
    assert_eq!(COUNT.load(Ordering::Acquire), 1, "not at once");
    let irq = machine::cpu::irq_save();
    let chained = chain(tell, 2);
    let early = COUNT.load(Ordering::Acquire);
    machine::cpu::irq_restore(irq);
    assert_eq!((chained, early), (Ok(()), 1));
    until("what was chained without interrupts was not called", || {
        COUNT.load(Ordering::Acquire) == 2
    });
}

/// Lines that are written with interrupts off wake a reader of the log when these are on.
fn lines() {
    static FROM: AtomicU64 = AtomicU64::new(0);
    fn reader(_: usize) {
        let from = FROM.load(Ordering::Acquire);
        log::READERS.wait_until(|| log::LINES.is_there(from).then_some(()));
        done();
    }
    for _ in 0..3 {
        FROM.store(log::LINES.end(), Ordering::Release);
        here(reader, 0, 0);
        until("nobody waits for a line", || log::READERS.has_waiters());
        let irq = machine::cpu::irq_save();
        log!("thread: a line with interrupts off");
        log!("thread: and another");
        let early = DONE.load(Ordering::Acquire);
        machine::cpu::irq_restore(irq);
        assert_eq!(early, 0);
        until("a line woke nobody", || DONE.load(Ordering::Acquire) == 1);
        DONE.store(0, Ordering::Release);
    }
}

/// A thousand alarms at one instant: all are called, in steps between which others get in.
fn crowd(_: usize) {
    const CROWD: u64 = 1000;
    static CALLED: AtomicU64 = AtomicU64::new(0);
    static SEEN: AtomicU64 = AtomicU64::new(0);
    fn called(_: usize) {
        CALLED.fetch_add(1, Ordering::AcqRel);
    }
    fn between(_: usize) {
        SEEN.store(CALLED.load(Ordering::Acquire), Ordering::Release);
    }
    fn first(_: usize) {
        called(0);
        assert_eq!(chain(between, 0), Ok(()));
    }
    for set in [&CALLED, &SEEN] {
        set.store(0, Ordering::Release);
    }
    let at = now_ns() + 20_000_000;
    alarm(at, first, 0).expect("an alarm");
    for i in 1..CROWD {
        alarm(at + i, called, 0).expect("an alarm");
    }
    until("an alarm of many was not called", || {
        CALLED.load(Ordering::Acquire) == CROWD
    });
    let seen = SEEN.load(Ordering::Acquire);
    assert!(
        (1..=8).contains(&seen),
        "{seen} alarms were called without a pause"
    );
    done();
}

/// Threads come and go: entries, stacks and code are used again.
fn creation() {
    const ROUNDS: u64 = 500;
    fn nothing(_: usize) {
        done();
    }
    settle();
    for _ in 0..20 {
        here(nothing, 0, 0);
        join(1);
    }
    settle();
    let frames = vm::frame::stats();
    let stacks = vm::stack::stats();
    let code = codegen::stats();
    let from = tsc();
    for _ in 0..ROUNDS {
        here(nothing, 0, 0);
        while DONE.load(Ordering::Acquire) == 0 {
            yield_now();
        }
        DONE.store(0, Ordering::Release);
    }
    log!(
        "thread: create, run and end {} ticks",
        (tsc() - from) / ROUNDS
    );
    let from = tsc();
    for _ in 0..ROUNDS {
        drop(create(&Spec::new(b"never", Body::Kernel(nothing, 0))));
    }
    log!("thread: create and drop {} ticks", (tsc() - from) / ROUNDS);
    until("images left over", || {
        settle();
        codegen::stats().images <= code.images
    });
    let after = codegen::stats();
    log!("thread: before {frames:?} {stacks:?} {code:?}");
    log!(
        "thread: after  {:?} {:?} {after:?}",
        vm::frame::stats(),
        vm::stack::stats()
    );
}
