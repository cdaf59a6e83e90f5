//! Idle threads, and how an idle CPU gets work.
//!
//! *Interface*: [`run`] is the idle thread's life; [`wait`] its one step; [`serve`] hands a thread to an idle CPU; [`claim`] finds an
//! idle CPU for a new thread.
//!
//! A CPU that has nothing to do leaves its bit in `IDLE` as a request, and interrupts the CPU with most ready
//! threads if one has two. A busy CPU serves a request at its next interrupt: it marks a thread that has waited a quantum long, takes
//! it out of its own ring, and sends it over. Nobody ever touches another CPU's ring, and two threads that wake
//! each other in turn are never torn apart, since neither waits that long.
//!
//! Halting is not announced to `sync::epoch` as idleness: an interrupt handler on a halted CPU reads shared memory before
//! anybody could announce its end. A grace period ends by an interrupt there too.
//! Source: dissertation, section 5.3.1 (marking before taking).

use crate::block;
use crate::flags::MARK;
use crate::local::{IDLE, Local, here, local};
use crate::tte::Tte;
use crate::{kick, spawn, timer};
use core::sync::atomic::Ordering;
use machine::clock::{now_ns, tsc};
use machine::cpu::{Cpu, cpus, irq_disable, irq_enable};

/// How long an idle CPU waits before it looks again for the end of a grace period, nanoseconds.
const GRACE_NS: u64 = 1_000_000;

/// The idle thread of the running CPU.
pub(crate) fn run() -> ! {
    loop {
        spawn::bury();
        sync::epoch::collect();
        irq_disable();
        let (cpu, local, me) = here();
        if local.ring.ready() == 0 {
            // One frame at a time with interrupts on, so that a wake-up waits for nobody.
            irq_enable();
            if vm::frame::idle_zero() {
                continue;
            }
            irq_disable();
        }
        wait(cpu, local, me);
        irq_enable();
    }
}

/// Runs others, or halts until an interrupt. With interrupts off, also on return.
pub(crate) fn wait(cpu: &Cpu, local: &Local, me: &Tte) {
    block::receive(local, me);
    if local.ring.ready() > 0 {
        return block::switch(cpu, me);
    }
    let bit = 1 << cpu.number();
    IDLE.fetch_or(bit, Ordering::SeqCst);
    if let Some(busy) = busiest(cpu.number()) {
        kick::send(busy);
    }
    if sync::epoch::pending() > 0 {
        kick::send_to_others();
        timer::arm(local, now_ns() + GRACE_NS);
    }
    machine::cpu::wait_for_interrupt();
    irq_disable();
    IDLE.fetch_and(!bit, Ordering::SeqCst);
}

/// The CPU was idle and will run something: it wants nothing any more.
pub(crate) fn awake(cpu: &Cpu) {
    IDLE.fetch_and(!(1 << cpu.number()), Ordering::SeqCst);
}

/// An idle CPU, which does not count as idle from now on.
pub(crate) fn claim() -> Option<usize> {
    let mut idle = IDLE.load(Ordering::Relaxed);
    while idle != 0 {
        let lowest = idle & idle.wrapping_neg();
        match IDLE.compare_exchange_weak(idle, idle & !lowest, Ordering::AcqRel, Ordering::Relaxed)
        {
            Ok(_) => return Some(lowest.trailing_zeros() as usize),
            Err(now) => idle = now,
        }
    }
    None
}

/// Gives a thread that has waited long to an idle CPU, if there are both. With interrupts off.
pub(crate) fn serve(local: &Local, me: &Tte) {
    if local.ring.ready() < 2 || IDLE.load(Ordering::Relaxed) == 0 {
        return;
    }
    let Some(spare) = local.ring.spare(me) else {
        return;
    };
    let waited = tsc().wrapping_sub(spare.in_at.load(Ordering::Relaxed));
    if timer::ticks_to_ns(waited) < spare.quantum_ns() {
        return;
    }
    let Some(thief) = claim() else { return };
    spare.state.fetch_or(MARK, Ordering::AcqRel);
    local.ring.remove(me, spare);
    spare.cpu.store(thief as u32, Ordering::Release);
    spare.state.fetch_and(!MARK, Ordering::AcqRel);
    local
        .given
        .store(local.given.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    block::send_home(spare);
}

fn busiest(me: usize) -> Option<usize> {
    (0..cpus())
        .filter(|&cpu| cpu != me)
        .max_by_key(|&cpu| local(cpu).ring.ready())
        .filter(|&cpu| local(cpu).ring.ready() >= 2)
}
