//! The small generators at the bottom of the hierarchy, which the descriptor routines share.
//!
//! Source: dissertation, section 3.1 (generators that call smaller generators).

use crate::kit::variant::Variant;
use codegen::harden::{below, hardening};
use codegen::idioms::Reg;
use codegen::{Draft, Hole, Label, dynasm};
use sync::monitor::CONTENDED;

/// Bytes that a routine copies at most, with interrupts off, where its queue holds more.
pub(crate) const MOST: i32 = 8192;

/// Turns on access to user memory. Emits nothing where the CPU does not guard it.
pub(crate) fn open_user(d: &mut Draft, guarded: bool) {
    if guarded {
        dynasm!(d ; .arch x64 ; stac);
    }
}

/// Turns off access to user memory.
pub(crate) fn close_user(d: &mut Draft, guarded: bool) {
    if guarded {
        dynasm!(d ; .arch x64 ; clac);
    }
}

/// With the Spectre v1 mitigation: sets `reg` to 0 unless it is below the word at `bound`, also under
/// speculation past an earlier comparison. Changes `scratch` and flags.
#[allow(clippy::useless_conversion, reason = "in dynasm's expansion")]
pub(crate) fn inside(d: &mut Draft, reg: Reg, scratch: Reg, bound: i32) {
    if hardening().masks() {
        let number = reg as u8;
        dynasm!(d ; .arch x64 ; cmp Rq(number), [bound]);
        below(d, reg, scratch);
    }
}

/// Copies edx bytes from where rsi points to where rdi points, eight at a time. Changes rcx, rsi, rdi. For
/// counts that are mostly multiples of eight.
pub(crate) fn copy_edx(d: &mut Draft) {
    dynasm!(d ; .arch x64
        ; mov ecx, edx
        ; shr ecx, 3
        ; rep movsq
        ; test dl, 7
        ; jz >even
        ; mov ecx, edx
        ; and ecx, 7
        ; rep movsb
        ; even:
    );
}

/// Copies ecx bytes from where rsi points to where rdi points. Changes rax, rcx, rsi, rdi.
pub(crate) fn copy_ecx(d: &mut Draft) {
    dynasm!(d ; .arch x64
        ; mov eax, ecx
        ; shr ecx, 3
        ; rep movsq
        ; mov ecx, eax
        ; and ecx, 7
        ; rep movsb
    );
}

/// Takes the monitor whose word is at `word`, or goes to `busy`. Changes rax and rcx.
pub(crate) fn take_monitor(d: &mut Draft, word: i32, busy: Label) {
    dynasm!(d ; .arch x64
        ; xor eax, eax
        ; mov ecx, 1
        ; lock cmpxchg [word], ecx
        ; jne =>busy
    );
}

/// For a variant that takes the monitor: as [`take_monitor`], where rcx alone is on the stack; it is taken
/// off before `leave`.
pub(crate) fn enter(d: &mut Draft, v: Variant, word: i32, leave: Label) {
    if v.takes_monitor() {
        let busy = d.label();
        take_monitor(d, word, busy);
        dynasm!(d ; .arch x64 ; jmp >taken ; =>busy ; pop rcx ; jmp =>leave ; taken:);
    }
}

/// For a variant that looks at the monitor: goes to `busy` unless it is free.
pub(crate) fn look(d: &mut Draft, v: Variant, word: i32, busy: Label) {
    if v.looks_at_monitor() {
        look_at_monitor(d, word, busy);
    }
}

/// For a variant that takes the monitor: as [`give_monitor`].
pub(crate) fn give(d: &mut Draft, v: Variant, word: i32, wake_next: Hole) {
    if v.takes_monitor() {
        give_monitor(d, word, wake_next);
    }
}

/// Goes to `busy` unless the monitor is free.
pub(crate) fn look_at_monitor(d: &mut Draft, word: i32, busy: Label) {
    dynasm!(d ; .arch x64 ; cmp DWORD [word], 0 ; jne =>busy);
}

/// Releases the monitor, and wakes the next waiter through the callback stub `wake_next`. Changes rcx only.
pub(crate) fn give_monitor(d: &mut Draft, word: i32, wake_next: Hole) {
    dynasm!(d ; .arch x64
        ; xor ecx, ecx
        ; xchg [word], ecx
        ; test ecx, CONTENDED as i32
        ; je >given
        ; push rax
        ; mov rax, word
        ; call extern wake_next
        ; pop rax
        ; given:
    );
}

/// The slow exit: the whole call again, by its number, in ordinary Rust.
pub(crate) fn leave_slowly(d: &mut Draft, number: usize, slow: Hole) {
    if number == 0 {
        dynasm!(d ; .arch x64 ; xor eax, eax);
    } else {
        dynasm!(d ; .arch x64 ; mov eax, number as i32);
    }
    d.jmp_abs(slow);
}

/// After a publication (with several CPUs a locked instruction, or followed by one): goes to `tell` if a
/// thread waits in the list whose word is at `list`.
pub(crate) fn look_for_waiters(d: &mut Draft, list: i32, tell: Label) {
    dynasm!(d ; .arch x64 ; cmp QWORD [list], 0 ; jne =>tell);
}

/// Wakes the threads in the list at `list` by the routine at `wake_all`, at any depth of the stack. Changes
/// rax only.
pub(crate) fn wake_waiters(d: &mut Draft, list: i32, wake_all: usize) {
    dynasm!(d ; .arch x64 ; mov rax, list);
    d.call_abs(wake_all);
}
