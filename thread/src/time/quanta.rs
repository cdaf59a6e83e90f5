//! Quanta: when a CPU's timer keeps them, and when it looks at a turn.
//!
//! *Interface*: [`begin`] when a second thread becomes ready, [`joined`] when one has joined a ring whose
//! timer is not just ticking; [`contended`], [`patient`], [`look_at`] for the timer's handler
//! (`entry/timer.rs`).
//!
//! A CPU with at most one ready thread has no quanta; it is interrupted only for samples
//! (`cpu_time_sampling.rs`) and alarms. A running timer is not stopped when the ring shrinks to one thread:
//! it fires once more and finds nothing to do. So two threads that wake each other in turn arm it once in
//! each quantum, not at each wake-up. Source: dissertation, section 4.3.3.

use crate::ring::cpu_timer::arm;
use crate::ring::per_cpu::{PerCpu, STILL, TICKING};
use crate::ring::ready::End;
use crate::tte::Tte;
use crate::tte::code::SwitchKind;
use core::sync::atomic::Ordering;
use machine::clock::now_ns;
use machine::cpu::present;

/// Whether another thread waits for this CPU. With interrupts off.
pub(crate) fn contended(local: &PerCpu) -> bool {
    local.ring.ready() >= 2 || local.ring.steal_queue.is_used() && local.ring.steal_queue.sweep()
}

/// Starts the quanta if another thread is ready. With interrupts off.
#[cold]
#[inline(never)]
pub(crate) fn begin(local: &PerCpu, me: &Tte) {
    if contended(local) {
        let now = now_ns();
        local.ticking.store(TICKING, Ordering::Relaxed);
        local.turn_ns.store(now, Ordering::Relaxed);
        look_at(local, now + patient(local, me.look_ns()), now);
    }
}

/// Has the timer look at the quantum at `at_ns`; it is `now`.
pub(crate) fn look_at(local: &PerCpu, at_ns: u64, now: u64) {
    local.look_ns.store(at_ns, Ordering::Relaxed);
    arm(local, at_ns, now);
}

/// When a turn that begins now is looked at, from now. With one CPU that is at its end, however many quanta
/// it has; several look at each quantum, for balancing.
pub(crate) fn patient(local: &PerCpu, quantum: u64) -> u64 {
    let patience = 1 << local.patience.load(Ordering::Relaxed);
    let times = match present() {
        1 => local.granularity.times().max(patience),
        _ => patience,
    };
    quantum * times
}

/// After `tte` has joined a ring whose timer is not just ticking: starts it, or sends `tte` to the back when
/// the waiting threads have waited long enough. A thread that an alarm woke keeps its place at the front, and
/// so does a thread that a kernel thread wakes on an alarm's behalf. With interrupts off.
#[cold]
#[inline(never)]
pub(crate) fn joined(local: &PerCpu, me: &Tte, tte: &Tte) {
    if local.ticking.load(Ordering::Relaxed) == STILL {
        begin(local, me);
    } else if SwitchKind::from_bits(me.kind.load(Ordering::Relaxed)).contains(SwitchKind::USER) {
        local.ring.remove(me, tte);
        local.ring.insert(me, tte, End::Back);
        local.ticking.store(TICKING, Ordering::Relaxed);
        local.turn_ns.store(now_ns(), Ordering::Relaxed);
    }
}
