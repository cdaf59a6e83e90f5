//! The interrupt by which one CPU makes another look at its inbox, the shelves and its running thread.
//!
//! *Interface*: [`send`]; [`init`] once. Every interrupt is a quiescent point, so this one also ends
//! grace periods.

use crate::running::asked::Asked;
use crate::running::local::here;
use crate::running::{block, donate};
use core::sync::atomic::{AtomicU8, Ordering};
use machine::cpu::MAX_CPUS;
use machine::trap::TrapFrame;

static ASKED: [Asked; MAX_CPUS] = [const { Asked::new() }; MAX_CPUS];
static VECTOR: AtomicU8 = AtomicU8::new(0);

/// Takes a vector; panics when there is none left this early.
pub(crate) fn init() {
    match machine::irq::alloc_vector() {
        Some(vector) => {
            VECTOR.store(vector, Ordering::Relaxed);
            machine::irq::set_handler(vector, kicked);
        }
        None => panic!("no interrupt vector for the thread room"),
    }
}

/// Interrupts CPU number `cpu`, unless an interrupt that it has not begun to handle is on its way already.
pub(crate) fn send(cpu: usize) {
    ASKED[cpu].ask(|| machine::apic::ipi(cpu, VECTOR.load(Ordering::Relaxed)));
}

fn kicked(_: &mut TrapFrame) {
    let (cpu, local, me) = here();
    ASKED[cpu.number()].hear();
    if block::receive(local, me) || local.ring.urges(me) {
        cpu.need_resched.store(1, Ordering::Relaxed);
    }
    donate::favour(cpu, local, me);
}
