//! A thread that waits for a monitor helps its holder.

use super::{COUNT, STOP, done, here, join, until, until_yielding};
use crate::life::spawn::{Body, Spec, create};
use crate::start;
use crate::tte::current;
use core::sync::atomic::{AtomicBool, Ordering};
use machine::cpu;

/// A thread that waits for a monitor lends its level to the holder.
pub(super) fn inheritance() {
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
pub(super) fn help_from_afar(pinned: bool) {
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
