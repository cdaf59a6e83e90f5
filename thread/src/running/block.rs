//! Blocking and waking: the token protocol joined to the ready rings.
//!
//! *Interface*: [`suspend`], [`resume`], [`yield_now`], [`start`]; for the rest of the room
//! [`preempt`].
//!
//! A thread belongs to one CPU's ring, its home, and only that CPU puts it in or takes it out, with
//! interrupts off. Between marking itself asleep and the end of `sw_out` a thread's home is busy switching it
//! out; so a waker on another CPU, which can only send the thread home through the inbox, never finds a
//! half-switched thread.
//! Source: dissertation, section 5.3.2; Table 5.2.

use crate::balance;
use crate::balance::cpu_time_sampling;
use crate::balance::real_time_push::spread;
use crate::ring::inbox::send_home;
use crate::ring::per_cpu::{PerCpu, TICKING, here, local};
use crate::ring::ready::End;
use crate::ring::{granularity, reschedule_ipi};
use crate::running::handover::switch;
use crate::running::{idle, procedures};
use crate::time::quanta;
use crate::tte::flags::{ASLEEP, PENDING, POKED, STOPME};
use crate::tte::token::{Given, Taken};
use crate::tte::{Tte, token};
use core::sync::atomic::Ordering;
use machine::cpu::{Cpu, irq_disable, irq_enable, irq_restore, irq_save};

/// The running thread consumes its token, or sleeps until it is given one. May return spuriously: look at the
/// condition again. Thread context.
pub fn suspend() {
    // Bound: three words of a ring and a switch; `receive` one insertion for each thread in the inbox.
    irq_disable();
    let (cpu, local, me) = here();
    if !me.on_ring.is_some() {
        if !token::take(&me.state) {
            idle::wait(cpu, local, me);
        }
    } else if token::take_or_sleep(&me.state) == Taken::Sleeps {
        local.ring.remove(me, me);
        switch(cpu, me);
    }
    if me.state.load(Ordering::Relaxed) & (POKED | STOPME | PENDING) != 0 {
        procedures::woken(me);
    }
    irq_enable();
}

/// [`suspend`] for a program's thread, `me`, with interrupts off before and after. If the thread is marked
/// `POKED` then, it has procedures to run, and the caller calls [`procedures::woken`].
#[inline(never)]
pub(crate) extern "C" fn nap(me: &Tte) {
    if token::take_or_sleep(&me.state) == Taken::Sleeps {
        let (cpu, local, _) = here();
        if !local.ring.leave(me) {
            return nap_last(me);
        }
        switch(cpu, me);
    }
}

/// The end of [`nap`] for the last thread of its level.
#[inline(never)]
fn nap_last(me: &Tte) {
    let (cpu, local, _) = here();
    local.ring.remove(me, me);
    switch(cpu, me);
}

/// Gives `tte` its token and wakes it if it sleeps. From anywhere: interrupt handlers, other CPUs.
#[inline]
pub fn resume(tte: &Tte) {
    resume_address(tte.address());
}

/// Interrupts the CPU of an idle thread, which may have halted before it got its token: idle threads are
/// never put into a ring.
#[cold]
fn rouse(tte: &Tte) {
    let home = tte.cpu();
    if core::ptr::eq(local(home).ring.idle.load(Ordering::Relaxed), tte) {
        reschedule_ipi::send(home);
    }
}

/// Puts a thread that the caller has woken in front.
#[inline(always)]
pub(crate) fn wake(tte: &Tte) {
    // Bound: three words of a ring and a switch; `receive` one insertion for each thread in the inbox.
    let irq = irq_save();
    let (cpu, local, me) = here();
    if tte.cpu.load(Ordering::Relaxed) != cpu.id.load(Ordering::Relaxed)
        || !local.ring.insert_next(me, tte)
    {
        return place_in_front(tte, irq);
    }
    if local.ticking.load(Ordering::Relaxed) != TICKING {
        return joined(tte, irq);
    }
    go_on(cpu, irq);
}

/// A thread was put in front; interrupts go back to `irq`.
#[inline(always)]
fn go_on(cpu: &Cpu, irq: usize) {
    if irq == 0 {
        cpu.need_resched.store(1, Ordering::Relaxed);
    } else {
        irq_enable();
    }
}

/// The end of [`wake`] in the rare cases: another CPU, or several levels.
#[inline(never)]
fn place_in_front(tte: &Tte, irq: usize) {
    let (cpu, local, me) = here();
    place(cpu, local, me, tte, End::Front, irq);
}

/// The end of [`wake`] when the timer does not keep quanta yet.
#[cold]
fn joined(tte: &Tte, irq: usize) {
    let (cpu, local, me) = here();
    quanta::on_enqueue(local, me, tte);
    go_on(cpu, irq);
}

/// [`resume`] by the address that `Tte::address` gave. Stale addresses are harmless.
pub fn resume_address(address: usize) {
    if address == 0 {
        return;
    }
    // SAFETY: callers pass addresses of entries, and those are never unmapped.
    let tte = unsafe { &*(address as *const Tte) };
    if token::rouse(&tte.state) {
        wake(tte);
    } else {
        give(tte);
    }
}

/// [`resume`] of a thread that was not asleep.
#[inline(never)]
fn give(tte: &Tte) {
    if token::give(&tte.state, 0) == Given::Wake {
        wake(tte);
    } else if tte.pinned.load(Ordering::Relaxed) {
        rouse(tte);
    }
}

/// Starts a new thread: an idle CPU takes it, or this one in its turn. False: it had been started before.
pub fn start(tte: &Tte) -> bool {
    // The count that the running thread holds of itself, given up by its undertaker.
    tte.count.fetch_add(1, Ordering::Relaxed);
    if token::start(&tte.state) == Given::Token {
        tte.count.fetch_sub(1, Ordering::Relaxed);
        return false;
    }
    let irq = irq_save();
    let (cpu, local, me) = here();
    granularity::stir(local);
    if !tte.pinned.load(Ordering::Relaxed) {
        if balance::begin(cpu, local, me, tte) {
            irq_restore(irq);
            return true;
        }
        if tte.cpu() != cpu.number() {
            tte.move_to(cpu.number());
        }
        if irq != 0 && local.ring.insert_last(me, tte) {
            if local.ticking.load(Ordering::Relaxed) != TICKING {
                quanta::on_enqueue(local, me, tte);
            }
            irq_restore(irq);
            return true;
        }
    }
    place(cpu, local, me, tte, End::Back, irq);
    true
}

/// Lets the next ready thread run, if there is one. Thread context.
pub fn yield_now() {
    irq_disable();
    let (cpu, local, me) = here();
    preempt(cpu, local, me);
    if me.state.load(Ordering::Relaxed) & (STOPME | PENDING) != 0 {
        procedures::woken(me);
    }
    irq_enable();
}

/// Puts a thread that is in no ring, and that the caller alone has to put there, into its home's ring. With
/// interrupts off; puts them back to `irq`.
#[inline(never)]
fn place(cpu: &Cpu, local: &PerCpu, me: &Tte, tte: &Tte, end: End, irq: usize) {
    if tte.cpu() == cpu.number() {
        // In an interrupt the thread gets the CPU when the interrupt ends; a thread that wakes another keeps
        // it.
        if irq == 0 || !me.on_ring.is_some() {
            cpu.need_resched.store(1, Ordering::Relaxed);
        }
        if spread(local, me, tte) {
            return irq_restore(irq);
        }
        local.ring.insert(me, tte, end);
        if local.ticking.load(Ordering::Relaxed) != TICKING {
            quanta::on_enqueue(local, me, tte);
        }
        if tte.is_urgent() && local.ring.urges(me) {
            if irq != 0 {
                preempt(cpu, local, me);
            } else if !local.in_timer.load(Ordering::Relaxed) {
                // A routine may have woken it, which returns to its caller without a look.
                reschedule_ipi::send(cpu.number());
            }
        }
    } else {
        // Here nothing else is left to do: the thread may come if its home has, or if it fits.
        let alone = local.ring.ready() <= 1 && !local.ring.steal_queue.is_used();
        let invited = match alone {
            true => balance::invite(cpu.number(), me, tte),
            false => 0,
        };
        tte.invited.store(invited, Ordering::Relaxed);
        send_home(tte);
    }
    irq_restore(irq);
}

/// Switches if another thread is ready. At the end of an interrupt this is the asynchronous switch: the trap
/// frame holds the thread's other registers.
#[inline]
pub(crate) fn preempt(cpu: &Cpu, local: &PerCpu, me: &Tte) {
    cpu.need_resched.store(0, Ordering::Relaxed);
    let nothing_else = if me.on_ring.is_some() {
        local.ring.is_alone(me)
    } else {
        local.ring.ready() == 0
    };
    if !nothing_else {
        if me.on_ring.is_some() {
            me.note_rseq();
            me.preempted.store(
                me.preempted.load(Ordering::Relaxed).wrapping_add(1),
                Ordering::Relaxed,
            );
        } else {
            cpu_time_sampling::begin(local);
        }
        switch(cpu, me);
    }
}

const _: () = assert!(ASLEEP & POKED == 0);
