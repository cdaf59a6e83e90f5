//! The idle CPUs, and the calls to them when a thread is in a steal queue.
//!
//! *Interface*: [`IDLE`]; [`wake_one`] after a thread was put in a steal queue, [`left`] when a thread gives
//! the CPU to one from there. With interrupts off.

use crate::ring::ready::ReadyRing;
use crate::ring::reschedule_ipi;
use crate::ring::steal_queue::{IdleCpus, StealQueue};
use crate::tte::Tte;
use core::sync::atomic::{AtomicU32, Ordering};

/// CPUs that want work.
pub(crate) static IDLE: IdleCpus = IdleCpus(AtomicU32::new(0));

/// Wakes an idle CPU, if there is one, for a thread in this CPU's steal queue. Whether it did.
pub(crate) fn left(ring: &ReadyRing) -> bool {
    IDLE.any()
        && ring.steal_queue.is_used()
        && ring.steal_queue.sweep()
        && wake_one(wanted_by(&ring.steal_queue))
}

/// Interrupts an idle CPU, if there is one `among` these, for a thread that was put in a steal queue.
pub(crate) fn wake_one(among: u32) -> bool {
    let idle = IDLE.claim(among);
    if let Some(idle) = idle {
        reschedule_ipi::send(idle);
    }
    idle.is_some()
}

/// Whether a thread in a steal queue may run on CPU number `cpu`.
pub(crate) fn may_run(tte: *mut Tte, cpu: usize) -> bool {
    // SAFETY: steal queues hold entries, which are never unmapped.
    unsafe { &*tte }.may_run_on(cpu)
}

/// The CPUs on which at least one of the threads of `steal_queue` may run.
pub(crate) fn wanted_by<const N: usize>(steal_queue: &StealQueue<Tte, N>) -> u32 {
    let mut wanted = 0;
    steal_queue.each(|tte| {
        // SAFETY: steal queues hold entries, which are never unmapped.
        wanted |= unsafe { &*tte }.allowed.load(Ordering::Relaxed);
    });
    wanted
}
