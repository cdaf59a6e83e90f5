//! The step from one thread to the next, and the threads that others have sent here.
//!
//! *Interface*: [`switch`] runs the thread's `sw_out`; [`receive`] empties the inbox into the ring.
//!
//! Source: dissertation, section 5.3.2.

use crate::balance;
use crate::balance::real_time_push::spread;
use crate::ring::per_cpu::{PerCpu, STILL};
use crate::ring::ready::End;
use crate::time::quanta;
use crate::tte::Tte;
use crate::tte::code::SwOut;
use core::sync::atomic::{Ordering, fence};
use machine::cpu::Cpu;

/// Empties the inbox into the ring, oldest first. With interrupts off. Whether there was anything.
pub(crate) fn receive(local: &PerCpu, me: &Tte) -> bool {
    if local.inbox.load(Ordering::Relaxed).is_null() {
        return false;
    }
    let mut chain = local.inbox.swap(core::ptr::null_mut(), Ordering::Acquire);
    let mut oldest_first = core::ptr::null_mut::<Tte>();
    while !chain.is_null() {
        // SAFETY: the inbox holds entries, and the chain is ours since the swap.
        let tte = unsafe { &*chain };
        chain = tte.inbox_next.load(Ordering::Relaxed);
        tte.inbox_next.store(oldest_first, Ordering::Relaxed);
        oldest_first = tte.as_ptr();
    }
    while !oldest_first.is_null() {
        // SAFETY: as above.
        let tte = unsafe { &*oldest_first };
        oldest_first = tte.inbox_next.load(Ordering::Relaxed);
        if !balance::follow(local, me, tte) && !spread(local, me, tte) {
            local.ring.insert(me, tte, End::Front);
        }
    }
    // As after `ReadyRing::join`, for threads that another CPU has taken from its steal queue.
    fence(Ordering::SeqCst);
    if local.ticking.load(Ordering::Relaxed) == STILL {
        quanta::begin(local, me);
    }
    true
}

/// Runs the thread's `sw_out`. With interrupts off; returns, perhaps on another CPU, when the thread runs
/// again.
#[inline(always)]
pub(crate) fn switch(cpu: &Cpu, me: &Tte) {
    cpu.need_resched.store(0, Ordering::Relaxed);
    me.switches.store(
        me.switches.load(Ordering::Relaxed).wrapping_add(1),
        Ordering::Relaxed,
    );
    let sw_out = me.sw_out.load(Ordering::Relaxed);
    // SAFETY: a running thread has switch code, whose `sw_out` keeps the contract in `switch`.
    let sw_out = unsafe { core::mem::transmute::<usize, SwOut>(sw_out) };
    sw_out(cpu);
}
