//! Threads end and are buried; their entries, stacks and code are used again.

use super::{DONE, PEER, done, here, join, nap, settle, until};
use crate::life::spawn::{Body, Spec, create};
use crate::ring::per_cpu::local;
use crate::running::block::resume_address;
use crate::tte::current;
use crate::tte::flags::{ASLEEP, DEAD};
use crate::{resume, start, suspend, yield_now};
use core::sync::atomic::{AtomicBool, Ordering};
use machine::clock::tsc;
use machine::{cpu, log};

/// An idle thread that waits for a monitor while it frees an ended thread continues when it gets the monitor,
/// although its CPU has halted.
pub(super) fn burial() {
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

/// Threads come and go: entries, stacks and code are used again.
pub(super) fn creation() {
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
