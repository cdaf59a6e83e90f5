//! The entry of `syscall` on one CPU: a generated jump through the word that holds the running thread's
//! dispatcher.
//!
//! *Interface*: [`synthesize`], on each CPU when the code space is there. Until then an assembled jump of the
//! same effect serves. Source: docs/architecture.md, "Entering the kernel"; dissertation, section 3.3.4.

use codegen::{Class, Draft, OutOfCode, Routine, dynasm};

use crate::cpu::{self, Cpu};
use crate::entry_mitigations;

/// The stub that `LSTAR` points at: entered by `syscall`, leaves by a jump.
pub type Entry = unsafe extern "C" fn() -> !;

static CLASS: Class = Class::new("machine.syscall_entry");

/// Generates this CPU's entry and makes `syscall` use it. Called with interrupts off.
///
/// # Errors
/// No code space; the assembled entry stays in use.
pub fn synthesize() -> Result<(), OutOfCode> {
    let cpu = cpu::this_cpu();
    let word = (cpu.address() + Cpu::DISPATCHER) as i32;
    let mut d = Draft::new(&CLASS, "syscall entry");
    if entry_mitigations::enters_on_kernel_stack() {
        entry_mitigations::enter_kernel(&mut d, cpu);
        entry_mitigations::jump_through(&mut d, word);
    } else {
        dynasm!(d ; .arch x64 ; jmp QWORD [DWORD word]);
    }
    d.owner(cpu.number() as u64);
    // SAFETY: one jump through a word that always holds a dispatcher's entry; a `Cpu` lives for ever.
    let entry = unsafe { Routine::<Entry>::from(d.seal()?) };
    #[cfg(target_os = "none")]
    // SAFETY: runs on this CPU with interrupts off, and the routine jumps through this CPU's word.
    unsafe {
        crate::segments::set_syscall_entry(cpu, entry.entry());
    }
    // A CPU never gives its entry back.
    core::mem::forget(entry);
    Ok(())
}
