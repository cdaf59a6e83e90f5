//! Threads on several CPUs: spread, stolen, and moved where they are woken.

use super::{STOP, done, here, join, nap, until};
use crate::life::spawn::{Body, Spec, create};
use crate::running::block::resume_address;
use crate::tte::current;
use crate::{start, suspend};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};
use machine::clock::now_ns;
use machine::{cpu, log};

/// More busy threads than CPUs spread over all CPUs.
pub(super) fn spread() {
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
pub(super) fn theft() {
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

/// A thread that an otherwise idle CPU wakes moves there when its home is busy, unless it may not move.
pub(super) fn following() {
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
