//! Donating the CPU: the running thread's turn, and its level, go to another thread.
//!
//! *Interface*: [`donate`], a callout of `sync`'s helping lock. Source: Hohmuth and Härtig 2001, section 3.3 (priority inheritance
//! without a scheduler that knows of locks).

use crate::block::{preempt, switch};
use crate::flags::{PENDING, STOPME};
use crate::local::here;
use crate::ops;
use crate::tte::Tte;
use core::sync::atomic::Ordering;
use machine::cpu::{irq_disable, irq_enable};

/// Runs the thread with this address (as `Tte::address` gave it) here and now, in the caller's place; returns when the caller's turn has come
/// again. False, and nothing done, when that thread is not ready on this CPU: it sleeps, or is another CPU's. Thread context.
pub(crate) fn donate(address: usize) -> bool {
    if address == 0 {
        return false;
    }
    // SAFETY: callers pass addresses of entries, and those are never unmapped.
    let to = unsafe { &*(address as *const Tte) };
    irq_disable();
    let (cpu, local, me) = here();
    let ready_here = me.on_ring.load(Ordering::Relaxed)
        && to.cpu() == cpu.number()
        && to.on_ring.load(Ordering::Relaxed)
        && !to.is(me);
    if ready_here {
        if to.level.load(Ordering::Relaxed) < me.level.load(Ordering::Relaxed) {
            // It has the better level of the two: its turn comes of itself.
            preempt(cpu, local, me);
        } else {
            local.ring.hand_over(me, to);
            switch(cpu, me);
        }
        if me.state.load(Ordering::Relaxed) & (STOPME | PENDING) != 0 {
            ops::woken(me);
        }
    }
    irq_enable();
    ready_here
}
