//! The common parts of generated interrupt handlers: their beginning, their end, and the call that wakes.
//!
//! *Interface*: [`begin`]; [`acknowledge`]; [`end`], behind which [`wake`] stands. In between a handler may
//! change rax, rcx and rdx.
//! Source: dissertation, section 3.3.3 (only what is used is saved).

use codegen::idioms::Reg;
use codegen::{Draft, dynasm};
use machine::entry_mitigations;
use quaject::assembly::Assembly;
use quaject::class::Header;
use quaject::regs::Regs;
use quaject::signature::Event;

quaject::quaject! {
    /// Answers the interrupts of a vector
    presence Vector = "Interrupt" {
        callout { COUNT: Event = "count" ("they are not counted") }
    }
}

/// The calling contract: entered by the processor through an interrupt gate.
pub type Entry = unsafe extern "C" fn();

/// The registers that a handler has to leave alone, since it saves rax, rcx and rdx alone before anything
/// else.
pub const KEPT: Regs = Regs::of(&[Reg::Rsi, Reg::Rdi, Reg::R8, Reg::R9, Reg::R10, Reg::R11]);

/// The first instructions: saves rax, rcx and rdx, and counts by what is linked to `vector`, a [`Vector`].
pub fn begin(a: &mut Assembly, vector: &'static Header) {
    entry_mitigations::enter_interrupt(a);
    dynasm!(a ; .arch x64 ; push rax ; push rcx ; push rdx);
    if let Some(link) = a.use_link(vector, COUNT.number()) {
        a.place(link, KEPT, None, &[]);
    }
}

/// Tells the interrupt controller, at address `eoi`, after everything that was stored is out: a thread enrols
/// in a list first and looks at counts then, and a handler looks at the lists behind this.
pub fn acknowledge(d: &mut Draft, eoi: usize) {
    let near = eoi as i32;
    dynasm!(d ; .arch x64 ; lock add DWORD [rsp], 0);
    if eoi as i64 == i64::from(near) {
        dynasm!(d ; .arch x64 ; mov DWORD [near], 0);
    } else {
        dynasm!(d ; .arch x64 ; mov rax, QWORD eoi as i64 ; mov DWORD [rax], 0);
    }
}

/// Returns to what was interrupted.
pub fn end(d: &mut Draft) {
    dynasm!(d ; .arch x64 ; pop rdx ; pop rcx ; pop rax);
    entry_mitigations::leave_interrupt(d);
}

/// Calls `extern "C" fn(argument)` at `wake` and leaves by the machine's interrupt tail.
pub fn wake(d: &mut Draft, wake: usize, argument: usize, tail: usize) {
    dynasm!(d ; .arch x64
        ; push rsi
        ; push rdi
        ; push r8
        ; push r9
        ; push r10
        ; push r11
        ; push rbp
        ; mov rbp, rsp
        ; and rsp, -16
        ; cld
        ; mov rdi, QWORD argument as i64
    );
    d.call_abs(wake);
    dynasm!(d ; .arch x64
        ; mov rsp, rbp
        ; pop rbp
        ; pop r11
        ; pop r10
        ; pop r9
        ; pop r8
        ; pop rdi
        ; pop rsi
        ; pop rdx
        ; pop rcx
        ; pop rax
    );
    d.jmp_abs(tail);
}
