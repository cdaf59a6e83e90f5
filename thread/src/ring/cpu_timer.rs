//! A CPU's timer, armed for its alarms, its samples and the ends of quanta.
//!
//! *Interface*: [`set`] an alarm; [`arm_for`], [`arm`]. On that CPU, with interrupts off.

use crate::alarm::Key;
use crate::ring::per_cpu::PerCpu;
use core::sync::atomic::Ordering;

/// Calls `call(argument)` at `at_ns`, in the timer's interrupt; it is `now`, or a moment later. `None`: no
/// memory.
#[inline(always)]
pub(crate) fn set(
    local: &PerCpu,
    now: u64,
    at_ns: u64,
    call: fn(usize),
    argument: usize,
) -> Option<Key> {
    // SAFETY: on this CPU with interrupts off; the borrow ends here.
    let key = unsafe { local.alarms() }.add(at_ns, call, argument)?;
    arm_for(local, at_ns, now);
    Some(key)
}

/// Has the timer fire no later than `at_ns`, for an alarm or a sample; it is `now`. With interrupts off.
#[inline(always)]
pub(crate) fn arm_for(local: &PerCpu, at_ns: u64, now: u64) {
    if at_ns < local.soonest_ns.load(Ordering::Relaxed) {
        local.soonest_ns.store(at_ns, Ordering::Relaxed);
    }
    arm(local, at_ns, now);
}

/// Has the timer fire no later than `at_ns`; it is `now`. With interrupts off.
pub(crate) fn arm(local: &PerCpu, at_ns: u64, now: u64) {
    if at_ns < local.armed_ns.load(Ordering::Relaxed) {
        local.armed_ns.store(at_ns, Ordering::Relaxed);
        machine::apic::timer_arm_ns(at_ns.saturating_sub(now));
    }
}
