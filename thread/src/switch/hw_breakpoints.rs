//! Hardware breakpoints: addresses at which the processor stops a thread, for debuggers.
//!
//! *Interface*: [`Tte::watch`] sets the running thread's registers, [`Tte::take_dr6`] returns the cause of a
//! debug exception, [`Tte::dr6`] and [`Tte::set_dr6`] are DR6 as its debugger sees it; [`begin`] and
//! [`end`] are for the switch code.
//!
//! A thread without enabled registers has no cost. A thread with some gets switch code with
//! [`SwitchKind::WATCHED`], which loads them at switch-in and disables them at switch-out. A child inherits
//! none. They may hold only user addresses, so only the kernel's accesses on a program's behalf hit them, and
//! the kernel then continues (`machine::trap`). Source: Intel, Software Developer's Manual, volume 3, chapter
//! 18.

use crate::switch::lazy_fpu::FpuChange;
use crate::tte::code::SwitchKind;
use crate::tte::debug_registers::DebugRegisters;
use crate::tte::{NoMemory, Tte};
use abi::layout::USER_END;
use codegen::{Draft, dynasm};
use core::mem::offset_of;
use core::sync::atomic::Ordering;
use machine::cpu::{irq_restore, irq_save};
use machine::debug_registers::{self, ENABLED, HITS, STEP, TAKEN};

/// Loads the registers of the thread whose entry is at `tte`. Changes rcx.
pub(crate) fn begin(d: &mut Draft, tte: i32) {
    let at = |part: usize| tte + (offset_of!(Tte, watched) + part) as i32;
    let address = |number: usize| at(offset_of!(DebugRegisters, addresses) + 8 * number);
    dynasm!(d ; .arch x64
        ; mov rcx, [address(0)]
        ; mov dr0, rcx
        ; mov rcx, [address(1)]
        ; mov dr1, rcx
        ; mov rcx, [address(2)]
        ; mov dr2, rcx
        ; mov rcx, [address(3)]
        ; mov dr3, rcx
        ; mov rcx, [at(offset_of!(DebugRegisters, control))]
        ; mov dr7, rcx
    );
}

/// Disables them. Changes rax, flags.
pub(crate) fn end(d: &mut Draft) {
    dynasm!(d ; .arch x64 ; xor eax, eax ; mov dr7, rax);
}

impl Tte {
    /// The running thread, which this is, has these addresses watched as `control`, DR7, says. Addresses that
    /// are not of user mode, and bits that the processor does not take, count as 0.
    ///
    /// # Errors
    /// No memory for the switch code: it has none watched.
    pub fn watch(&self, addresses: [u64; 4], control: u64) -> Result<(), NoMemory> {
        let user = |address| {
            if address < USER_END as u64 {
                address
            } else {
                0
            }
        };
        let (addresses, control) = (addresses.map(user), control & TAKEN);
        let kind = self.kind();
        let wanted = match control & ENABLED {
            0 => kind.without(SwitchKind::WATCHED),
            _ => kind.with(SwitchKind::WATCHED),
        };
        // Bound: six registers of the CPU and as many words.
        let irq = irq_save();
        // Until all is as it should be, none.
        // SAFETY: no bit is set.
        unsafe { debug_registers::load([0; 4], 0) };
        for (word, address) in self.watched.addresses.iter().zip(addresses) {
            word.store(address, Ordering::Relaxed);
        }
        self.watched.control.store(0, Ordering::Relaxed);
        irq_restore(irq);
        if wanted != kind {
            self.replug(wanted, FpuChange::Keep)?;
        }
        let irq = irq_save();
        let control = match control & ENABLED {
            0 => 0,
            _ => control,
        };
        self.watched.control.store(control, Ordering::Relaxed);
        // SAFETY: other bits were cleared above.
        unsafe { debug_registers::load(addresses, control) };
        irq_restore(irq);
        Ok(())
    }

    /// Which of its registers the debug exception was about of which the processor tells `cause`, DR6 with
    /// set bits alone. The debugger is to see that from now on.
    pub fn take_dr6(&self, cause: u32) -> u32 {
        let control = self.watched.control.load(Ordering::Relaxed);
        let enabled = (0..4).filter(|number| control >> (2 * number) & 3 != 0);
        let hits = enabled.map(|number| 1 << number).sum::<u32>() & HITS & cause;
        self.set_dr6(hits | cause & STEP);
        hits
    }

    /// The bits of DR6 that its debugger is to see.
    pub fn dr6(&self) -> u32 {
        self.watched.told.load(Ordering::Relaxed)
    }

    /// Sets that.
    pub fn set_dr6(&self, told: u32) {
        self.watched.told.store(told, Ordering::Relaxed);
    }
}
