//! Priority inheritance by donation: the running thread's turn, and its level, go to another thread.
//!
//! *Interface*: [`donate`] and [`runs_elsewhere`], callouts of `sync`'s helping lock and monitor; on another
//! CPU, at the end of the requesting interrupt, [`run_next`] has that CPU run the named thread next.
//!
//! A thread in the steal queue of any CPU is taken over and runs here. For a thread that is ready in another
//! CPU's ring, that CPU is asked to run it next, at the waiter's level. Source: Hohmuth and Härtig 2001,
//! section 3.3 (priority inheritance without a scheduler that knows of locks).

use crate::ring::per_cpu::{PerCpu, here, local};
use crate::ring::ready::{End, RINGS, order};
use crate::ring::reschedule_ipi;
use crate::running::block::preempt;
use crate::running::handover::switch;
use crate::running::procedures;
use crate::tte::Tte;
use crate::tte::flags::{PENDING, STOPME};
use core::sync::atomic::Ordering;
use machine::cpu::{Cpu, irq_disable, irq_enable, online};

/// Runs the thread with this address (as `Tte::address` gave it) here and now, in the caller's place; returns
/// when the caller's turn has come again. False when that thread cannot run here: it sleeps, or is in another
/// CPU's ring, where it runs or is asked to run next. Thread context.
pub(crate) fn donate(address: usize) -> bool {
    if address == 0 {
        return false;
    }
    // SAFETY: callers pass addresses of entries, and those are never unmapped.
    let to = unsafe { &*(address as *const Tte) };
    // Bound: a dozen words of a ring and a switch.
    irq_disable();
    let (cpu, local, me) = here();
    let ready_here = me.on_ring.is_some()
        && !to.is(me)
        && (to.on_ring.is_of(local.ring.ring) || take_over(cpu, local, me, to));
    if ready_here {
        if order(to.level.load(Ordering::Relaxed)) < order(me.level.load(Ordering::Relaxed)) {
            // It has the better level of the two: its turn comes of itself.
            preempt(cpu, local, me);
        } else {
            local.ring.hand_over(me, to);
            switch(cpu, me);
        }
        if me.state.load(Ordering::Relaxed) & (STOPME | PENDING) != 0 {
            procedures::woken(me);
        }
    } else {
        ask_to_run(cpu, me, to);
    }
    irq_enable();
    ready_here
}

/// Whether the thread with this address runs on another CPU at this moment. Thread context.
pub(crate) fn runs_elsewhere(address: usize) -> bool {
    if address == 0 {
        return false;
    }
    // SAFETY: callers pass addresses of entries, and those are never unmapped.
    let to = unsafe { &*(address as *const Tte) };
    !to.is(crate::tte::current()) && runs(to, to.cpu())
}

/// Whether the thread is what CPU number `cpu` runs.
fn runs(tte: &Tte, cpu: usize) -> bool {
    let current = |cpu: &Cpu| cpu.current.load(Ordering::Relaxed) == tte.address();
    online().nth(cpu).is_some_and(current)
}

/// Takes the thread from a steal queue, if it is on one, into this CPU's ring.
fn take_over(cpu: &Cpu, here: &PerCpu, me: &Tte, to: &Tte) -> bool {
    if !local(to.cpu()).ring.steal_queue.take_thread(to.as_ptr()) {
        return false;
    }
    to.move_to(cpu.number());
    here.ring.join(me, Some(to.as_ptr()), End::Front)
}

/// If the thread waits in a ring, asks that ring's CPU to run it next.
fn ask_to_run(cpu: &Cpu, me: &Tte, to: &Tte) {
    let there = to.cpu();
    if there == cpu.number()
        || !to.on_ring.is_some()
        || online().nth(there).is_none()
        || runs(to, there)
    {
        return;
    }
    // Entries are aligned: the low bits have room for a level. A wish that is overwritten is lost, as its
    // thread has to wait like all others then.
    let level = me.level.load(Ordering::Relaxed) as usize;
    local(there)
        .run_next
        .store(to.address() | level, Ordering::Release);
    reschedule_ipi::send(there);
}

const _: () = assert!(align_of::<Tte>() >= RINGS);

/// Does what another CPU has asked for: the thread that it names is raised to the waiting one's level, or
/// runs next. With interrupts off.
pub(crate) fn run_next(cpu: &Cpu, local: &PerCpu, me: &Tte) {
    if local.run_next.load(Ordering::Relaxed) == 0 {
        return;
    }
    let wish = local.run_next.swap(0, Ordering::Acquire);
    let (address, level) = (wish & !(RINGS - 1), (wish & (RINGS - 1)) as u8);
    // SAFETY: null or the address of an entry, which is never unmapped.
    let Some(tte) = (unsafe { (address as *const Tte).as_ref() }) else {
        return;
    };
    if tte.is(me) || !me.on_ring.is_some() || !tte.on_ring.is_of(local.ring.ring) {
        return;
    }
    if order(level) <= order(me.level.load(Ordering::Relaxed)) {
        local.ring.hand_over(me, tte);
        cpu.need_resched.store(1, Ordering::Relaxed);
    } else if order(level) < order(tte.level.load(Ordering::Relaxed)) {
        local.ring.raise(me, tte, level);
    }
}
