//! Quanta: when the CPU's timer enforces quanta, and when it checks a turn.
//!
//! *Interface*: [`begin`] starts the quanta when a second thread becomes ready; [`on_enqueue`] is called when
//! a thread has joined a ring whose timer is not just ticking. For the timer's handler (`entry/timer.rs`):
//! [`contended`] tells whether another thread waits, [`next_check_delay`] when to check a turn, and
//! [`arm_check`] arms the timer for that.
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
        arm_check(local, now + next_check_delay(local, me.look_ns()), now);
    }
}

/// Has the timer check the turn at `at_ns`; it is `now`.
pub(crate) fn arm_check(local: &PerCpu, at_ns: u64, now: u64) {
    local.look_ns.store(at_ns, Ordering::Relaxed);
    arm(local, at_ns, now);
}

/// The time from now to the next check of a turn that begins now. With one CPU that is at its end, however
/// many quanta it has; several CPUs check each quantum, for balancing.
pub(crate) fn next_check_delay(local: &PerCpu, quantum: u64) -> u64 {
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
pub(crate) fn on_enqueue(local: &PerCpu, me: &Tte, tte: &Tte) {
    if local.ticking.load(Ordering::Relaxed) == STILL {
        begin(local, me);
    } else if SwitchKind::from_bits(me.kind.load(Ordering::Relaxed)).contains(SwitchKind::USER) {
        local.ring.remove(me, tte);
        local.ring.insert(me, tte, End::Back);
        local.ticking.store(TICKING, Ordering::Relaxed);
        local.turn_ns.store(now_ns(), Ordering::Relaxed);
    }
}
