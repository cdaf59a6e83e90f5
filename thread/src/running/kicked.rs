//! The work of a CPU that another one has interrupted: it looks at its inbox, its running thread, and the
//! thread that the other one wants to run.
//!
//! *Interface*: [`kicked`] is the handler of `ring::kick`.

use crate::ring::kick;
use crate::ring::local::here;
use crate::running::{donate, handover};
use core::sync::atomic::Ordering;
use machine::trap::TrapFrame;

/// The handler.
pub(crate) fn kicked(_: &mut TrapFrame) {
    let (cpu, local, me) = here();
    kick::hear(cpu.number());
    if handover::receive(local, me) || local.ring.urges(me) {
        cpu.need_resched.store(1, Ordering::Relaxed);
    }
    donate::favour(cpu, local, me);
}
