//! Callback stubs: from generated code, which preserves every register, into a Rust function, which does not.
//!
//! *Interface*: [`synthesize`] makes the stub of one function. It is called with its argument in rax, on any
//! stack alignment, and changes rax and the flags only.
//!
//! Source: dissertation, section 4.1.3 (the code placed into a callout saves what both sides use).
//!
//! *Unsafe*: safety contract of the stub.

use crate::kit::regs::Regs;
use codegen::idioms::Reg;
use codegen::{Class, Draft, OutOfCode, Routine, dynasm};

/// A callback stub: argument in rax, every other register preserved. Not callable from Rust.
pub type CallbackFn = extern "sysv64" fn();

static CLASS: Class = Class::new("callback");

/// The stub through which generated code calls `target`.
///
/// # Errors
/// [`OutOfCode`] when the code space is exhausted.
pub fn synthesize(
    name: &'static str,
    target: extern "sysv64" fn(usize),
) -> Result<Routine<CallbackFn>, OutOfCode> {
    let mut draft = Draft::new(&CLASS, name);
    let d = &mut draft;
    let saved = Regs::SYSV - Regs::of(&[Reg::Rax]);
    let depth = -8 * saved.len() as i32;
    dynasm!(d ; .arch x64 ; push rbp ; mov rbp, rsp);
    saved.save(d);
    dynasm!(d ; .arch x64 ; and rsp, -16 ; mov rdi, rax);
    d.call_abs(target as usize);
    dynasm!(d ; .arch x64 ; lea rsp, [rbp + depth]);
    saved.restore(d);
    dynasm!(d ; .arch x64 ; pop rbp ; ret);
    // SAFETY: it saves the registers that a System V function may change, aligns the stack, and returns.
    Ok(unsafe { Routine::from(draft.seal()?) })
}
