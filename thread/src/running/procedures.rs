//! Supervisor procedures: a thread that was woken for them, or has them when it gets the CPU back, runs them.
//!
//! *Interface*: [`woken`] after a sleep; [`run_supervisor`] at a return to user mode.
//!
//! The marks are set by `native::ops`, on behalf of other threads.
//! Source: dissertation, section 4.3.2.

use crate::ring::per_cpu::here;
use crate::running::handover::switch;
use crate::tte::flags::{PENDING, POKED};
use crate::tte::signal::Mode;
use crate::tte::token::Taken;
use crate::tte::{Tte, token};
use core::sync::atomic::Ordering;
use machine::cpu::{irq_disable, irq_enable};

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
