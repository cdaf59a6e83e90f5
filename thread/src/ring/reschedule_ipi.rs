//! The reschedule IPI: the interrupt by which one CPU makes another look at its inbox, the steal queues and
//! its running thread.
//!
//! *Interface*: [`send`], and `Tte::nudge` for one thread; [`init`] once; the handler calls [`acknowledge`]
//! first. Every interrupt is a quiescent point, so this one also ends grace periods.

use crate::ring::ipi_pending::IpiPending;
use crate::ring::per_cpu::here;
use crate::tte::Tte;
use core::sync::atomic::{AtomicU8, Ordering};
use machine::cpu::{MAX_CPUS, cpus, irq_restore, irq_save};
use machine::trap::TrapFrame;

static PENDING: [IpiPending; MAX_CPUS] = [const { IpiPending::new() }; MAX_CPUS];
static VECTOR: AtomicU8 = AtomicU8::new(0);

/// Takes a vector for `handler`; panics when there is none left this early.
pub(crate) fn init(handler: fn(&mut TrapFrame)) {
    match machine::irq::alloc_vector() {
        Some(vector) => {
            VECTOR.store(vector, Ordering::Relaxed);
            machine::irq::set_handler(vector, handler);
        }
        None => panic!("no interrupt vector for the thread room"),
    }
}

/// Interrupts CPU number `cpu`, unless an interrupt that it has not begun to handle is on its way already.
pub(crate) fn send(cpu: usize) {
    PENDING[cpu].request(|| machine::apic::ipi(cpu, VECTOR.load(Ordering::Relaxed)));
}

/// The interrupt has come to CPU number `cpu`, which looks for the requests after this.
pub(crate) fn acknowledge(cpu: usize) {
    PENDING[cpu].acknowledge();
}

impl Tte {
    /// Makes the thread's CPU look at the thread's marks, if the thread may be running there.
    pub(crate) fn nudge(&self) {
        if self.on_ring.is_some() && cpus() > 1 {
            // Bound: a look at the CPU’s number.
            let irq = irq_save();
            let elsewhere = self.cpu() != here().0.number();
            irq_restore(irq);
            if elsewhere {
                send(self.cpu());
            }
        }
    }
}
