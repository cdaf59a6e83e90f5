//! The operations that one thread does on another.
//!
//! *Interface*: methods of [`Tte`]: `hold`, `release`, `stop`, `step`, `interrupt`, `signal`, `set_signal`,
//! `notify`, `alert`, `kill`; [`wait`], [`wait_interruptible`] and [`hold_self`] for the running thread,
//! [`safe_point`] for a kernel thread. Any thread may call the methods on any other thread it holds a handle
//! of, from any CPU; none of them waits.
//!
//! The steps are the dissertation's: mark the intention on the entry; do the operation, or make the CPU that
//! can do it check the mark; the party that finds the mark completes the operation. A thread in user mode
//! finds its mark at the next crossing, which an interrupt forces if it runs on another CPU. A kernel thread
//! finds its mark at a safe point, where it holds nothing that others may need. The dissertation's *suspend*
//! and *resume* are `hold` and `release` here: [`suspend`] and [`resume`] handle only the token, which wait
//! lists and alarms give too, so a wake-up never restarts a suspended or stopped thread.
//! Source: dissertation, sections 4.3.2 and 5.3.2.

use crate::running::block::{resume, suspend, switch, wake};
use crate::running::kick;
use crate::running::local::here;
use crate::tte;
use crate::tte::flags::{
    ASLEEP, CALL, HELD, KILLED, PENDING, POKED, SIGNAL, STEP, STOPME, STOPPED, TOKEN,
};
use crate::tte::signal::{Mode, Procedure, Refused};
use crate::tte::token::{Given, Taken};
use crate::tte::{Tte, current, token};
use abi::native;
use core::sync::atomic::Ordering;
use machine::cpu::{irq_disable, irq_enable};

/// Number of events that [`wait`] and `notify` know.
pub const EVENTS: u32 = 64;

impl Tte {
    /// Suspends the thread: from its next crossing into user mode (a kernel thread: from its next
    /// [`safe_point`]) it runs nothing but interrupt procedures, until [`Tte::release`].
    #[inline]
    pub fn hold(&self) {
        token::hold(&self.state);
        self.look();
    }

    /// Resumes the thread from the suspended or the stopped state. If it is in neither, its next
    /// [`hold_self`] ends at once.
    #[inline]
    pub fn release(&self) {
        if token::release(&self.state) == Given::Wake {
            wake(self);
        }
    }

    /// Asks the thread to stop: it executes nothing more, procedures neither, from its next crossing into
    /// user mode (a kernel thread: from its next [`safe_point`]) until [`Tte::release`].
    #[inline]
    pub fn stop(&self) {
        self.state.fetch_or(STOPME, Ordering::AcqRel);
        self.look();
    }

    /// Whether the thread waits, suspended or stopped, to be released.
    pub fn is_stopped(&self) -> bool {
        self.flags() & STOPPED != 0
    }

    /// Whether the thread will execute no instruction in user mode before it is released: it has stopped, or
    /// sleeps in a call and is marked.
    pub fn is_halted(&self) -> bool {
        let flags = self.flags();
        flags & (STOPPED | ASLEEP) != 0 && flags & (STOPME | HELD) != 0 && flags & STEP == 0
    }

    /// The thread's state as programs see it: a sum of `abi::native`'s `STATE_…`.
    pub fn shown_state(&self) -> u32 {
        let flags = self.flags();
        let when = |condition: bool, bit: u32| if condition { bit } else { 0 };
        when(flags & HELD != 0, native::STATE_SUSPENDED)
            | when(flags & STOPME != 0, native::STATE_STOP)
            | when(self.is_halted(), native::STATE_HALTED)
            | when(flags & ASLEEP != 0, native::STATE_ASLEEP)
            | when(self.is_kernel(), native::STATE_KERNEL)
    }

    /// Makes the thread look at a mark: its CPU by an interrupt, a sleeping thread of the kernel by a
    /// wake-up, which it must expect anyway.
    #[inline]
    fn look(&self) {
        if self.is_kernel() {
            resume(self);
        }
        self.nudge();
    }

    /// Lets a stopped user thread execute one instruction and stop again. False when it is not stopped, has
    /// no user mode, or another step is under way (the advisory lock).
    pub fn step(&self) -> bool {
        if self.is_kernel() {
            return false;
        }
        if !token::begin_step(&self.state) {
            return false;
        }
        resume(self);
        true
    }

    /// Makes the thread call a procedure, as if an interrupt had happened. A suspended thread runs it and is
    /// suspended again after it; a thread that sleeps in a call makes the call again after a user procedure.
    ///
    /// # Errors
    /// Too many are pending.
    pub fn interrupt(&self, procedure: Procedure) -> Result<(), Refused> {
        self.signals.push(procedure)?;
        match procedure.mode {
            Mode::Supervisor => {
                if token::poke(&self.state) == Given::Wake {
                    wake(self);
                }
                self.nudge();
            }
            // The signal ends a sleep in a call, which is made again after the procedure.
            Mode::User => self.attention(CALL | SIGNAL),
        }
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

    /// Tells the thread that event `event` (below [`EVENTS`]) has occurred, and resumes it if it waits for
    /// that.
    pub fn notify(&self, event: u32) {
        self.events
            .fetch_or(1 << (event % EVENTS), Ordering::SeqCst);
        if self.awaited.load(Ordering::SeqCst) & 1 << (event % EVENTS) != 0 {
            resume(self);
        }
    }

    /// Sets the `SIGNAL` flag: interruptible sleeps end, and the room above is asked at the next crossing
    /// into user mode.
    pub fn alert(&self) {
        self.attention(SIGNAL);
    }

    /// Takes the `SIGNAL` flag back. The thread itself, once it has looked.
    pub fn clear_alert(&self) {
        self.state.fetch_and(!SIGNAL, Ordering::AcqRel);
    }

    /// Marks the thread killed: interruptible sleeps end, a suspended or stopped thread continues, and at its
    /// next crossing into user mode it must `exit`.
    pub fn kill(&self) {
        self.attention(KILLED);
    }

    /// Whether the thread is marked killed.
    pub fn is_killed(&self) -> bool {
        self.flags() & KILLED != 0
    }

    /// If it is in one, it is to look at once: the next interrupt of its CPU makes it do so.
    pub fn interrupt_sequence(&self) {
        self.note_sequence();
        self.nudge();
    }

    fn attention(&self, mark: u32) {
        if token::give(&self.state, mark) == Given::Wake {
            wake(self);
        }
        self.nudge();
    }

    /// Makes the thread's CPU look at the thread's marks, if the thread may be running there.
    pub(crate) fn nudge(&self) {
        if self.on_ring.is_some() && machine::cpu::cpus() > 1 {
            // Bound: a look at the CPU’s number, or the thread’s state word and a switch.
            let irq = machine::cpu::irq_save();
            let elsewhere = self.cpu() != here().0.number();
            machine::cpu::irq_restore(irq);
            if elsewhere {
                kick::send(self.cpu());
            }
        }
    }
}

/// Waits until `event` (below [`EVENTS`]) has occurred, and consumes the occurrence. An event notified before
/// is remembered.
pub fn wait(event: u32) {
    let me = current();
    let bit = 1 << (event % EVENTS);
    me.awaited.store(bit, Ordering::SeqCst);
    while me.events.fetch_and(!bit, Ordering::SeqCst) & bit == 0 {
        suspend();
    }
    me.awaited.store(0, Ordering::SeqCst);
}

/// [`wait`] that a signal ends. False: it did.
pub fn wait_interruptible(event: u32) -> bool {
    let me = current();
    let bit = 1 << (event % EVENTS);
    me.awaited.store(bit, Ordering::SeqCst);
    let come = loop {
        // Before the check, so a procedure that came together with the signal counts.
        let interrupted = me.flags() & (SIGNAL | KILLED) != 0;
        if me.events.fetch_and(!bit, Ordering::SeqCst) & bit != 0 {
            break true;
        }
        if interrupted {
            break false;
        }
        suspend();
    };
    me.awaited.store(0, Ordering::SeqCst);
    come
}

/// The running thread suspends itself at its next crossing until it is resumed; not if a resume has already
/// come.
pub fn hold_self() {
    token::hold_self(&current().state);
}

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

/// The handle of the thread with this serial number, if it has not ended.
pub fn find(serial: u64) -> Option<tte::Thread> {
    let mut found = None;
    tte::for_each(|thread| {
        if thread.serial() == serial {
            found = Some(thread.clone());
        }
    });
    found
}
