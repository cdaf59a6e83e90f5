//! The running thread attends to its marks: it runs supervisor procedures, and waits until it is released.
//!
//! *Interface*: [`woken`] after a sleep, [`safe_point`] for a kernel thread; [`run_supervisor`] and
//! [`stop_here`] at a crossing into user mode.
//!
//! The marks are set by `native::ops`, on behalf of other threads.
//! Source: dissertation, sections 4.3.2 and 5.3.2.

use crate::ring::local::here;
use crate::running::block::{suspend, switch};
use crate::tte::flags::{CALL, HELD, KILLED, PENDING, POKED, SIGNAL, STEP, STOPME, STOPPED, TOKEN};
use crate::tte::signal::Mode;
use crate::tte::token::Taken;
use crate::tte::{Tte, current, token};
use core::sync::atomic::Ordering;
use machine::cpu::{irq_disable, irq_enable};

/// Where a kernel thread stops or is suspended on request. It holds nothing here that others may wait for.
/// Interrupts on.
#[inline]
pub fn safe_point() {
    let me = current();
    if me.flags() & (PENDING | STOPME | HELD) != 0 {
        attend(me);
    }
}

#[cold]
fn attend(me: &Tte) {
    loop {
        if me.flags() & PENDING != 0 {
            run_supervisor(me);
        }
        if !waits(me.flags()) {
            return;
        }
        stop_here(me);
    }
}

/// Whether the marks `flags` say that their thread waits until it is released.
fn waits(flags: u32) -> bool {
    let held = flags & (HELD | PENDING | CALL | SIGNAL | STEP) == HELD;
    flags & KILLED == 0 && (flags & STOPME != 0 || held)
}

/// Handles the marks of a thread that was woken or got the CPU back. With interrupts off, also on return.
#[cold]
pub(crate) extern "C" fn woken(me: &Tte) {
    if me.flags() & POKED != 0 {
        poked(me);
    }
    if me.is_kernel() && me.flags() & PENDING != 0 {
        irq_enable();
        run_supervisor(me);
        // Bound: a look at the CPU’s number, or the thread’s state word and a switch.
        irq_disable();
    }
}

/// Woken, or kept awake, for supervisor procedures alone: runs them and goes to sleep.
fn poked(me: &Tte) {
    loop {
        me.state.fetch_and(!POKED, Ordering::AcqRel);
        irq_enable();
        run_supervisor(me);
        irq_disable();
        match token::take_or_sleep(&me.state) {
            Taken::Token => return,
            Taken::Work => {}
            Taken::Sleeps => {
                let (cpu, local, me) = here();
                local.ring.remove(me, me);
                switch(cpu, me);
                if me.flags() & POKED == 0 {
                    return;
                }
            }
        }
    }
}

/// Runs pending supervisor procedures. With interrupts on.
pub(crate) fn run_supervisor(me: &Tte) {
    me.state.fetch_and(!PENDING, Ordering::AcqRel);
    while let Some(address) = me.signals.pop(Mode::Supervisor) {
        // SAFETY: `Mode::Supervisor` promises a `fn()` of the kernel.
        let call = unsafe { core::mem::transmute::<usize, fn()>(address) };
        call();
    }
}

/// The running thread waits until it is released. Interrupts on.
pub(crate) fn stop_here(me: &Tte) {
    me.state.fetch_or(STOPPED, Ordering::AcqRel);
    let mut took = false;
    while waits(me.flags()) {
        suspend();
        took = true;
    }
    me.state.fetch_and(!STOPPED, Ordering::AcqRel);
    if took {
        // A token that came for another reason must not be lost; an extra token does no harm.
        me.state.fetch_or(TOKEN, Ordering::AcqRel);
    }
}
