//! Exit to user mode: the room's work at the end of an interrupt, before user mode, and in its own
//! exceptions.
//!
//! *Interface*: [`irq_exit`] is the machine's callout of that name; [`before_user`] is the first thing in the
//! room above's `return_to_user`, [`debug_trap`] and [`crate::switch::lazy_fpu::no_fpu`] the first things in
//! its `exception`. Source: dissertation, sections 3.3.2 (asynchronous switch) and 5.3.2 (Step, Signal).

use crate::entry::protect;
use crate::ring::per_cpu::here;
use crate::running::block::preempt;
use crate::running::{idle, pending_work, procedures};
use crate::tte::flags::{ATTENTION, CALL, HELD, KILLED, PENDING, SEQUENCE, SIGNAL, STEP, STOPME};
use crate::tte::signal::Mode;
use crate::tte::{Tte, current, token};
use core::sync::atomic::Ordering;
use machine::cpu::{Cpu, irq_disable, irq_enable};
use machine::trap::{RFLAGS_IF, TrapFrame};

const RFLAGS_TF: u64 = 1 << 8;

/// The last step of every interrupt: runs the chained procedures, and switches when a thread was woken or the
/// quantum is over. Interrupts are off.
pub fn irq_exit(frame: &mut TrapFrame) {
    let (cpu, local, me) = here();
    if !me.on_ring.is_some() {
        idle::awake(cpu);
    }
    fresh_dispatcher(cpu, me);
    if !local.chain.is_still() {
        if local.chain.is_below() {
            // The requests of this interrupt are handled at the end of the one below.
            return;
        }
        cpu.prolong(|| local.chain.run());
    }
    if cpu.need_resched.load(Ordering::Relaxed) != 0 && frame.rflags & RFLAGS_IF != 0 {
        preempt(cpu, local, me);
    }
}

/// Before each return to user mode: stops, steps, and runs procedures as the thread's marks say. Returns the
/// marks that are left to the room above: `SIGNAL` and `KILLED`, or `SEQUENCE` alone. Interrupts are off
/// before and after, and on in between when there is something to do.
#[inline]
pub fn before_user(frame: &mut TrapFrame) -> u32 {
    let (cpu, _, me) = here();
    fresh_dispatcher(cpu, me);
    if me.state.load(Ordering::Relaxed) & ATTENTION == 0 {
        return 0;
    }
    attend(frame, me)
}

#[cold]
fn attend(frame: &mut TrapFrame, me: &Tte) -> u32 {
    loop {
        let flags = me.flags();
        if flags & KILLED != 0 {
            return flags & (SIGNAL | KILLED);
        }
        if flags & STOPME != 0 {
            irq_enable();
            pending_work::stop_here(me);
            // Bound: a look at the thread’s flags; all work is done with interrupts on.
            irq_disable();
            me.note_rseq();
        } else if flags & PENDING != 0 {
            irq_enable();
            procedures::run_supervisor(me);
            irq_disable();
            me.note_rseq();
        } else if flags & SIGNAL != 0 {
            // Before the procedures, so that an interrupted call is made again after them. The room above may
            // have the thread sleep.
            me.note_rseq();
            return SIGNAL;
        } else if flags & SEQUENCE != 0 {
            // Before the procedures, which are no part of the sequence.
            return SEQUENCE;
        } else if flags & CALL != 0 {
            irq_enable();
            me.state.fetch_and(!CALL, Ordering::AcqRel);
            // Those that find no room are called when one of the others has returned.
            while protect::has_room(me)
                && let Some(address) = me.signals.pop(Mode::User)
            {
                // A procedure that cannot be called is dropped.
                protect::call(frame, me, address);
            }
            irq_disable();
        } else if flags & (HELD | STEP) == HELD && !protect::is_called(me) {
            irq_enable();
            pending_work::stop_here(me);
            irq_disable();
            me.note_rseq();
        } else {
            if flags & STEP != 0 {
                // A system call was the one instruction.
                if frame.is_syscall() && frame.rflags & RFLAGS_TF != 0 {
                    end_step(frame, me);
                    continue;
                }
                frame.rflags |= RFLAGS_TF;
            }
            return 0;
        }
    }
}

/// A debug exception: true when it was the end of a step, which stops the thread again.
pub fn debug_trap(frame: &mut TrapFrame) -> bool {
    let me = current();
    if !frame.from_user() || me.flags() & STEP == 0 {
        return false;
    }
    end_step(frame, me);
    true
}

fn end_step(frame: &mut TrapFrame, me: &Tte) {
    frame.rflags &= !RFLAGS_TF;
    token::end_step(&me.state);
}

/// A dispatcher that another thread replaced is taken up at every quiescent point and every crossing, before
/// its grace period can end.
#[inline(always)]
fn fresh_dispatcher(cpu: &Cpu, me: &Tte) {
    if !me.is_kernel() {
        cpu.dispatcher
            .store(me.dispatch.load(Ordering::Acquire), Ordering::Relaxed);
    }
}
