//! The operations that one thread does on another.
//!
//! *Interface*: methods of [`Tte`]: `stop`, `proceed`, `step`, `interrupt`, `signal`, `set_signal`, `notify`, `alert`, `kill`, and
//! [`wait`] for the running thread. (`suspend` and `resume` are in [`crate::block`].) Any thread may call them on any other it holds
//! a handle of, from any CPU; none waits.
//!
//! The steps are the dissertation's: mark the intention on the entry; do it, or make the CPU that can do it look; whoever
//! finds the mark completes it. A mark on a thread in user mode is found at its next crossing, which an interrupt
//! forces if it runs on another CPU.
//! `resume` here is the token alone, so that a wake-up never starts a stopped thread again; `proceed` takes a thread out of the stopped state.
//! Source: dissertation, sections 4.3.2 and 5.3.2.

use crate::block::{enqueue, resume, suspend, switch};
use crate::flags::{CALL, KILLED, PENDING, POKED, SIGNAL, STEP, STOPME, STOPPED, TOKEN};
use crate::local::here;
use crate::ready::End;
use crate::signal::{Mode, Procedure, Refused};
use crate::token::{self, Given, Taken};
use crate::tte::{Tte, current};
use crate::{kick, tte};
use core::sync::atomic::Ordering;
use machine::cpu::{irq_disable, irq_enable};

/// Number of events that [`wait`] and `notify` know.
pub const EVENTS: u32 = 64;

impl Tte {
    /// Asks the thread to stop: it executes nothing more, signals neither, from its next crossing into user mode (a kernel
    /// thread: from its next `suspend` or `yield_now`) until [`Tte::proceed`].
    pub fn stop(&self) {
        self.state.fetch_or(STOPME, Ordering::AcqRel);
        self.nudge();
    }

    /// Whether the thread has stopped.
    pub fn is_stopped(&self) -> bool {
        self.flags() & STOPPED != 0
    }

    /// Lets a stopped thread go on.
    pub fn proceed(&self) {
        self.state.fetch_and(!STOPME, Ordering::AcqRel);
        if self.flags() & STOPPED != 0 {
            resume(self);
        }
    }

    /// Lets a stopped user thread execute one instruction and stop again. False when it is not stopped, has no user
    /// mode, or another step is under way (the advisory lock).
    pub fn step(&self) -> bool {
        if self.is_kernel() {
            return false;
        }
        let mut state = self.flags();
        loop {
            if state & STOPPED == 0 || state & STEP != 0 {
                return false;
            }
            match self.state.compare_exchange_weak(
                state,
                (state | STEP) & !STOPME,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => break,
                Err(now) => state = now,
            }
        }
        resume(self);
        true
    }

    /// Makes the thread call a procedure, as if an interrupt had happened. A suspended thread runs a supervisor procedure at once
    /// and is suspended again after it; a user procedure runs when the thread is next in user mode.
    ///
    /// # Errors
    /// Too many are pending.
    pub fn interrupt(&self, procedure: Procedure) -> Result<(), Refused> {
        self.signals.push(procedure)?;
        match procedure.mode {
            Mode::Supervisor => {
                if token::poke(&self.state) == Given::Wake {
                    enqueue(self, End::Front);
                }
            }
            Mode::User => {
                self.state.fetch_or(CALL, Ordering::AcqRel);
            }
        }
        self.nudge();
        Ok(())
    }

    /// [`Tte::interrupt`] with the procedure that the thread's signal table has for `number`.
    ///
    /// # Errors
    /// No such entry, or too many pending.
    pub fn signal(&self, number: usize) -> Result<(), Refused> {
        self.interrupt(self.signals.get(number).ok_or(Refused)?)
    }

    /// Sets or clears an entry of the thread's signal table.
    ///
    /// # Errors
    /// No such number.
    pub fn set_signal(&self, number: usize, procedure: Option<Procedure>) -> Result<(), Refused> {
        self.signals.set(number, procedure)
    }

    /// Tells the thread that event `event` (below [`EVENTS`]) has occurred, and resumes it if it waits for that.
    pub fn notify(&self, event: u32) {
        self.events
            .fetch_or(1 << (event % EVENTS), Ordering::SeqCst);
        if self.awaited.load(Ordering::SeqCst) & 1 << (event % EVENTS) != 0 {
            resume(self);
        }
    }

    /// Sets the `SIGNAL` flag: interruptible sleeps end, and the room above is asked at the next crossing into user mode.
    pub fn alert(&self) {
        self.attention(SIGNAL);
    }

    /// Takes the `SIGNAL` flag back. The thread itself, once it has looked.
    pub fn clear_alert(&self) {
        self.state.fetch_and(!SIGNAL, Ordering::AcqRel);
    }

    /// Marks the thread killed: sleeps that can be interrupted end, a stopped thread goes on, and at its next crossing
    /// into user mode it has to `exit`.
    pub fn kill(&self) {
        self.state.fetch_and(!STOPME, Ordering::AcqRel);
        self.attention(KILLED);
    }

    /// Whether the thread is marked killed.
    pub fn is_killed(&self) -> bool {
        self.flags() & KILLED != 0
    }

    fn attention(&self, mark: u32) {
        if token::give(&self.state, mark) == Given::Wake {
            enqueue(self, End::Front);
        }
        self.nudge();
    }

    /// Makes the thread's CPU look at the thread's marks, if the thread may be running there.
    pub(crate) fn nudge(&self) {
        if self.on_ring.load(Ordering::Acquire) && machine::cpu::cpus() > 1 {
            let irq = machine::cpu::irq_save();
            let elsewhere = self.cpu() != here().0.number();
            machine::cpu::irq_restore(irq);
            if elsewhere {
                kick::send(self.cpu());
            }
        }
    }
}

/// Waits until `event` (below [`EVENTS`]) has occurred, and consumes the occurrence. An event notified before is remembered.
pub fn wait(event: u32) {
    let me = current();
    let bit = 1 << (event % EVENTS);
    me.awaited.store(bit, Ordering::SeqCst);
    while me.events.fetch_and(!bit, Ordering::SeqCst) & bit == 0 {
        suspend();
    }
    me.awaited.store(0, Ordering::SeqCst);
}

/// What a thread that was woken, or had the CPU back, does about its marks. With interrupts off, also on return.
#[cold]
pub(crate) fn woken(me: &Tte) {
    if me.flags() & POKED != 0 {
        poked(me);
    }
    if me.is_kernel() && me.flags() & (STOPME | PENDING) != 0 {
        irq_enable();
        kernel_gate(me);
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

/// What a kernel thread does about its marks when it suspends or yields.
fn kernel_gate(me: &Tte) {
    run_supervisor(me);
    if me.flags() & STOPME != 0 && me.flags() & STOPPED == 0 {
        stop_here(me);
    }
}

/// The running thread stops until it is told to go on. Interrupts on.
pub(crate) fn stop_here(me: &Tte) {
    me.state.fetch_or(STOPPED, Ordering::AcqRel);
    let mut took = false;
    while me.flags() & (STOPME | KILLED) == STOPME {
        suspend();
        took = true;
    }
    me.state.fetch_and(!STOPPED, Ordering::AcqRel);
    if took {
        // A token that came for something else must not be lost; one too many does no harm.
        me.state.fetch_or(TOKEN, Ordering::AcqRel);
    }
}

/// The handle of the thread with this number, if it has not ended.
pub fn find(serial: u64) -> Option<tte::Thread> {
    let mut found = None;
    tte::for_each(|thread| {
        if thread.serial() == serial {
            found = Some(thread.clone());
        }
    });
    found
}
