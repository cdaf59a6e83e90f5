//! Operations on threads, procedures, alarms and chained procedures, lines of the log.

use super::{COUNT, DONE, done, here, join, nap, until};
use crate::clock::{WakeUp, alarm, cancel, sleep_until};
use crate::life::spawn::spawn;
use crate::ring::chain::chain;
use crate::tte::current;
use crate::tte::signal::{Mode, Procedure};
use crate::{resume, suspend, wait, yield_now};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use machine::clock::now_ns;
use machine::log;

/// stop, proceed, wait, notify, kill between threads.
pub(super) fn operations() {
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
pub(super) fn procedures() {
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

pub(super) fn alarms() {
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
pub(super) fn chaining() {
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
pub(super) fn lines() {
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
pub(super) fn crowd(_: usize) {
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
