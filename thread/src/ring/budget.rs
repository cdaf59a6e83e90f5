//! Budgets: threads that are promised so much time in each period (SCHED_DEADLINE).
//!
//! *Interface*: [`Tte::promise`] admits a thread to a CPU (`tte/budget.rs`), and
//! `policy::real_time::SchedClass::Promised` puts it among the urgent ones. The ring of these asks [`admits`]
//! and calls [`watch`]; the timer asks [`is_spent`], [`demote`] and [`end_ns`];
//! `policy::real_time::apply_policy` waits for the next period.
//!
//! Such a thread is an urgent one whose urgency is the complement of its deadline, so the earliest deadline
//! is the first. Nothing is added to a switch: a thread's clock runs anyway, and its budget is the reading of
//! that clock at which it is spent (`Budget::limit`). The timer is set for the end of the budget of the
//! first thread in the ring. One whose budget is spent goes among the usual threads for what it still has to
//! do in the kernel, where it may hold what others wait for, and sleeps before it is in user mode again. An
//! alarm brings it back when its next period begins.
//! Source: Abeni and Buttazzo 1998 (the constant bandwidth server), as Linux has it for bad cases.

use crate::ring::cpu_timer;
use crate::ring::per_cpu::{PerCpu, here};
use crate::ring::ready::{End, ReadyRing};
use crate::tte::budget::standing;
use crate::tte::cpu_time::ns_to_ticks;
use crate::tte::flags::SEQUENCE;
use crate::tte::{Tte, URGENT};
use core::sync::atomic::Ordering::{AcqRel, Relaxed};
use machine::clock::now_ns;

/// The timer looks at a budget after no less than this, nanoseconds: a thread gets on however short its
/// budgets are, and what it has overdrawn is paid back.
const SHORTEST_LOOK_NS: i64 = 20_000;

/// Whether the thread, which has a budget, may run as an urgent one now; it has a new budget then if it is
/// time. Otherwise it is marked to wait for its next period, and an alarm is set.
pub(crate) fn admits(tte: &Tte) -> bool {
    let slept = tte.budget.slept.swap(false, Relaxed);
    let at = standing(tte);
    let terms = tte.budget.terms();
    let Some(next) = terms.renewed(at, now_ns(), slept) else {
        if !at.is_spent() {
            tte.budget.limit.store(tte.ran(), Relaxed);
        }
        let next = terms.next_ns(at.due_ns);
        // Without memory for an alarm it comes back when it has had a turn as a usual thread.
        if tte.budget.alarm_ns.swap(next, Relaxed) != next {
            let _ = cpu_timer::set(here().1, now_ns(), next, come_back, tte.address());
        }
        tte.is_raised.store(true, Relaxed);
        tte.state.fetch_or(SEQUENCE, AcqRel);
        return false;
    };
    if next != at {
        let left = ns_to_ticks(next.left_ns.max(0) as u64);
        tte.budget.limit.store(tte.ran() + left, Relaxed);
        tte.budget.due_ns.store(next.due_ns, Relaxed);
    }
    tte.urgency.store(u64::MAX - next.due_ns, Relaxed);
    true
}

/// A period begins of the thread with this address: it is an urgent one again, if it is ready. Called by the
/// alarm.
fn come_back(address: usize) {
    // SAFETY: the address of an entry, which is never unmapped.
    let tte = unsafe { &*(address as *const Tte) };
    let (_, local, me) = here();
    if tte.budget.is_set()
        && tte.on_ring.is_of(local.ring.ring)
        && tte.level.load(Relaxed) != URGENT
    {
        local.ring.remove(me, tte);
        local.ring.insert(me, tte, End::Back);
    }
}

/// Another thread may be the first of the urgent ones: the timer fires at the end of its budget at the
/// latest.
pub(crate) fn watch(ring: &ReadyRing) {
    if let Some(left_ns) = left_of_first(ring) {
        #[cfg(target_os = "none")]
        {
            let (_, local, _) = here();
            let now = now_ns();
            cpu_timer::arm_for(local, now + left_ns, now);
        }
        #[cfg(not(target_os = "none"))]
        let _ = left_ns;
    }
}

#[inline]
fn left_of_first(ring: &ReadyRing) -> Option<u64> {
    // SAFETY: null, or an entry, which is never unmapped.
    let first = unsafe { ring.heads[URGENT as usize].load(Relaxed).as_ref() }?;
    first
        .budget
        .is_set()
        .then(|| standing(first).left_ns.max(SHORTEST_LOOK_NS) as u64)
}

/// When the first thread of the CPU has spent its budget, if it has one.
pub(crate) fn end_ns(local: &PerCpu, now: u64) -> u64 {
    left_of_first(&local.ring).map_or(u64::MAX, |left| now + left)
}

/// Whether the thread has a budget, and has spent it.
pub(crate) fn is_spent(tte: &Tte) -> bool {
    tte.budget.is_set() && standing(tte).is_spent()
}

/// The running thread, which is in the ring of urgent threads, has spent its budget: it goes among the usual
/// ones. With interrupts off.
pub(crate) fn demote(local: &PerCpu, me: &Tte) {
    if me.budget.due_ns.load(Relaxed) != 0 {
        me.budget.overran.store(true, Relaxed);
    }
    local.ring.remove(me, me);
    local.ring.insert(me, me, End::Back);
}

/// The running thread gives up the rest of its budget: it waits for its next period before it is in user mode
/// again.
pub(crate) fn give_up(me: &Tte) {
    me.budget.limit.store(me.ran(), Relaxed);
    me.is_raised.store(true, Relaxed);
    me.state.fetch_or(SEQUENCE, AcqRel);
}
