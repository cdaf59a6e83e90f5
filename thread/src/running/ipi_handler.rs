//! The work of a CPU that another one has interrupted: it looks at its inbox, its running thread, and the
//! thread that the other one wants to run.
//!
//! *Interface*: [`on_reschedule_ipi`] is the handler of `ring::reschedule_ipi`.

use crate::ring::per_cpu::here;
use crate::ring::reschedule_ipi;
use crate::running::{donation, handover};
use core::sync::atomic::Ordering;
use machine::trap::TrapFrame;

/// The handler.
pub(crate) fn on_reschedule_ipi(_: &mut TrapFrame) {
    let (cpu, local, me) = here();
    reschedule_ipi::acknowledge(cpu.number());
    if handover::receive(local, me) || local.ring.urges(me) {
        cpu.need_resched.store(1, Ordering::Relaxed);
    }
    donation::run_next(cpu, local, me);
}
