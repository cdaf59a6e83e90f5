//! The *turn* routine of a CPU: it chooses the next thread when several levels are populated.
//!
//! *Interface*: [`synthesize`] makes it for one CPU's [`ReadyRing`]. It is entered by a jump from a `sw_out`
//! (rdi = `Cpu`, rax = time stamp, everything else saved) and leaves by a jump to the chosen thread's `sw_in`
//! or `sw_in_mm`.
//!
//! The first urgent thread has the next turn, unless that is marked as one of the others. Their turns follow
//! the table. Turns of empty levels go to the others in proportion: the counter advances by the stride, the
//! lowest populated level's distance in the table, so at most one table entry is skipped. When only one level
//! is left, the routine corrects the outgoing thread's link, which then leads directly to its successor.
//! Source: dissertation, section 5.3.1.

use crate::ring::ready::ReadyRing;
use crate::tte::{Tte, URGENT};
use codegen::{Class, Draft, OutOfCode, Routine, dynasm, harden};
use core::mem::offset_of;
use machine::cpu::Cpu;

static TURN: Class = Class::new("thread.turn");

/// Entered by a jump, so no function type fits; Rust never calls it.
pub struct Jump;

/// The turn routine of the CPU whose rings are `ring`, at an address that a 32-bit field can hold.
pub fn synthesize(ring: &ReadyRing, cpu: u64) -> Result<Routine<Jump>, OutOfCode> {
    let at = |offset: usize| (core::ptr::from_ref(ring) as usize + offset) as i32;
    let heads = at(offset_of!(ReadyRing, heads));
    let counter = at(offset_of!(ReadyRing, counter));
    let mut draft = Draft::new(&TURN, ("turn", cpu));
    let d = &mut draft;
    dynasm!(d
        ; .arch x64
        ; turn:
        ; mov rsi, [rdi + Cpu::CURRENT as i32]
        ; cmp BYTE [rsi + offset_of!(Tte, on_ring) as i32], 0
        ; je >placed
        ; movzx ecx, BYTE [rsi + offset_of!(Tte, level) as i32]
        ; cmp ecx, i32::from(URGENT)
        ; je >placed
        ; mov rdx, [rsi + offset_of!(Tte, next) as i32]
        ; mov [heads + rcx * 8], rdx
        ; placed:
        ; mov rdx, [heads + 8 * i32::from(URGENT)]
        ; test rdx, rdx
        ; jnz >urgent
        ; mov ecx, [at(offset_of!(ReadyRing, populated))]
        ; lea edx, [rcx - 1]
        ; test ecx, edx
        ; jz >single
        ; next:
        ; mov ecx, [counter]
        ; add ecx, [at(offset_of!(ReadyRing, stride))]
        ; mov [counter], ecx
        ; movzx ecx, cl
        ; movzx ecx, BYTE [at(offset_of!(ReadyRing, table)) + rcx]
        ; mov rdx, [heads + rcx * 8]
        ; test rdx, rdx
        ; jz <next
        ; found:
        ; lea r8, [<turn]
        ; mov [rdx + offset_of!(Tte, link) as i32], r8
        ; mov r8, [rdx + offset_of!(Tte, root) as i32]
        ; cmp r8, [rsi + offset_of!(Tte, root) as i32]
        ; jne >other_space
    );
    through(d, offset_of!(Tte, sw_in) as i32);
    dynasm!(d ; .arch x64 ; other_space:);
    through(d, offset_of!(Tte, sw_in_mm) as i32);
    dynasm!(d
        ; .arch x64
        ; urgent:
        ; cmp BYTE [at(offset_of!(ReadyRing, pass))], 0
        ; je <found
        ; mov BYTE [at(offset_of!(ReadyRing, pass))], 0
        ; test BYTE [at(offset_of!(ReadyRing, populated))], -1
        ; jnz <next
        ; jmp <found
        ; single:
        ; mov rdx, [at(offset_of!(ReadyRing, idle))]
        ; bsf ecx, ecx
        ; jz >chosen
        ; mov rdx, [heads + rcx * 8]
        ; chosen:
        ; mov r8, [rdx + offset_of!(Tte, sw_in) as i32]
        ; mov r9, [rdx + offset_of!(Tte, root) as i32]
        ; cmp r9, [rsi + offset_of!(Tte, root) as i32]
        ; cmovne r8, [rdx + offset_of!(Tte, sw_in_mm) as i32]
        ; mov [rsi + offset_of!(Tte, link) as i32], r8
    );
    harden::jump(
        d,
        |d| dynasm!(d ; .arch x64 ; jmp r8),
        |d| dynasm!(d ; .arch x64 ; push r8),
    );
    let sealed = draft.seal()?;
    // SAFETY: `Jump` promises nothing to Rust callers; the ring is the CPU's own and lives for ever, as
    // threads' entries do.
    Ok(unsafe { Routine::from(sealed) })
}

/// Through the word at `offset` of the entry at rdx.
fn through(d: &mut Draft, offset: i32) {
    harden::jump(
        d,
        |d| dynasm!(d ; .arch x64 ; jmp QWORD [rdx + offset]),
        |d| dynasm!(d ; .arch x64 ; push QWORD [rdx + offset]),
    );
}

#[cfg(test)]
#[path = "pick_next_tests.rs"]
mod tests;
