//! The thread operations that `sync` and the log need, linked at boot.
//!
//! *Interface*: [`link`]. Source: dissertation, section 4.1.3.

use crate::life::grace;
use crate::ring::chain::chain;
use crate::ring::reschedule_ipi;
use crate::running::block::{resume_address, suspend, yield_now};
use crate::running::donation::{donate, runs_elsewhere};
use crate::tte::flags::INTERRUPTS;
use crate::tte::{Tte, current_opt};
use core::sync::atomic::Ordering;
use machine::cpu::{StackBase, irq_restore, irq_save, this_cpu};
use sync::callout::Callouts;

static CALLOUTS: Callouts = Callouts {
    current: || current_opt().map_or(0, Tte::address),
    suspend,
    resume: resume_address,
    interrupted: || current_opt().is_some_and(|me| me.flags() & INTERRUPTS != 0),
    yield_now,
    cpu: || this_cpu().number(),
    irq_save,
    irq_restore,
    nudge: reschedule_ipi::send,
    has_turns: || current_opt().is_some_and(|me| me.on_ring.is_some()),
    soon: grace::soon,
    donate,
    runs_elsewhere,
    thread_of_stack,
};

/// Kernel stacks are never unmapped, so a stale address at worst names a thread that has the stack now.
fn thread_of_stack(address: usize) -> usize {
    if address == 0 {
        return 0;
    }
    let base = StackBase::address_of(address);
    // SAFETY: callers pass addresses that once were in a kernel stack, and every one ends in a stack base.
    unsafe { &*(base as *const StackBase) }
        .tte
        .load(Ordering::Relaxed)
}

pub(crate) fn link() {
    sync::callout::link(&CALLOUTS);
    machine::log::link(|procedure| chain(procedure, 0).is_ok());
}
