//! The operations that one thread does on another.
//!
//! *Interface*: methods of [`Tte`]: `hold`, `release`, `stop`, `step`, `interrupt`, `signal`, `set_signal`,
//! `notify`, `alert`, `kill`; [`wait`], [`wait_interruptible`] and [`hold_self`] for the running thread. Any
//! thread may call the methods on any other thread it holds a handle of, from any CPU; none of them waits.
//!
//! The steps are the dissertation's: mark the intention on the entry; do the operation, or make the CPU that
//! can do it check the mark; the party that finds the mark completes the operation (`running::pending_work`).
//! A thread in user mode finds its mark at the next return to user mode, which an interrupt forces if it runs
//! on another CPU. A kernel thread finds its mark at a safe point, where it holds nothing that others may
//! need. The dissertation's *suspend* and *resume* are `hold` and `release` here: [`suspend`] and [`resume`]
//! handle only the token, which wait lists and alarms give too, so a wake-up never restarts a suspended or
//! stopped thread. Source: dissertation, sections 4.3.2 and 5.3.2.

use crate::running::block::{resume, suspend, wake};
use crate::tte;
use crate::tte::flags::{ASLEEP, CALL, HELD, KILLED, SIGNAL, STEP, STOPME, STOPPED};
use crate::tte::signal::{Mode, Procedure, Refused};
use crate::tte::token::Given;
use crate::tte::{Tte, current, token};
use abi::native;
use core::sync::atomic::Ordering;

/// Number of events that [`wait`] and `notify` know.
pub const EVENTS: u32 = 64;

impl Tte {
    /// Suspends the thread: from its next return to user mode (a kernel thread: from its next
    /// [`safe_point`](crate::safe_point)) it runs nothing but interrupt procedures, until [`Tte::release`].
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
    /// user mode (a kernel thread: from its next [`safe_point`](crate::safe_point)) until [`Tte::release`].
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

    /// Sets the `SIGNAL` flag: interruptible sleeps end, and the room above is asked at the next return to
    /// user mode into user mode.
    pub fn alert(&self) {
        self.attention(SIGNAL);
    }

    /// Takes the `SIGNAL` flag back. The thread itself, once it has looked.
    pub fn clear_alert(&self) {
        self.state.fetch_and(!SIGNAL, Ordering::AcqRel);
    }

    /// Marks the thread killed: interruptible sleeps end, a suspended or stopped thread continues, and at its
    /// next return to user mode it must `exit`.
    pub fn kill(&self) {
        self.attention(KILLED);
    }

    /// Whether the thread is marked killed.
    pub fn is_killed(&self) -> bool {
        self.flags() & KILLED != 0
    }

    /// If it is in one, it is to look at once: the next interrupt of its CPU makes it do so.
    pub fn interrupt_sequence(&self) {
        self.note_rseq();
        self.nudge();
    }

    fn attention(&self, mark: u32) {
        if token::give(&self.state, mark) == Given::Wake {
            wake(self);
        }
        self.nudge();
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
