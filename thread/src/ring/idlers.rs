//! The idle CPUs, and the calls to them when a thread is on a shelf.
//!
//! *Interface*: [`IDLE`]; [`wake_one`] after a thread was put on a shelf, [`left`] when a thread gives the
//! CPU to one from there. With interrupts off.

use crate::ring::kick;
use crate::ring::ready::ReadyRing;
use crate::ring::shelf::{Idlers, Shelf};
use crate::tte::Tte;
use core::sync::atomic::{AtomicU32, Ordering};

/// CPUs that want work.
pub(crate) static IDLE: Idlers = Idlers(AtomicU32::new(0));

/// Wakes an idle CPU, if there is one, for a thread on this CPU's shelf. Whether it did.
pub(crate) fn left(ring: &ReadyRing) -> bool {
    IDLE.any() && ring.shelf.is_used() && ring.shelf.sweep() && wake_one(wanted_by(&ring.shelf))
}

/// Interrupts an idle CPU, if there is one `among` these, for a thread that was put on a shelf.
pub(crate) fn wake_one(among: u32) -> bool {
    let idle = IDLE.claim(among);
    if let Some(idle) = idle {
        kick::send(idle);
    }
    idle.is_some()
}

/// Whether a thread on a shelf may run on CPU number `cpu`.
pub(crate) fn may_run(tte: *mut Tte, cpu: usize) -> bool {
    // SAFETY: shelves hold entries, which are never unmapped.
    unsafe { &*tte }.may_run_on(cpu)
}

/// The CPUs on which at least one of the threads of `shelf` may run.
pub(crate) fn wanted_by<const N: usize>(shelf: &Shelf<Tte, N>) -> u32 {
    let mut wanted = 0;
    shelf.each(|tte| {
        // SAFETY: shelves hold entries, which are never unmapped.
        wanted |= unsafe { &*tte }.allowed.load(Ordering::Relaxed);
    });
    wanted
}
