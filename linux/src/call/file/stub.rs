//! The parts that the stubs of calls with a path have in common.
//!
//! *Interface*: [`save`] and [`restore`] around a short Rust function; [`copy_key`] for its path.

use codegen::harden::clamp;
use codegen::idioms::Reg;
use codegen::{Draft, Label, dynasm};
use core::mem::size_of;
use file::fs::path_cache::{KEY_WORDS, PathKey};
use quaject::UserAccess;

/// Registers that a System V function may change, rax apart: eight of them, so that the stack stays as it was
/// modulo 16.
pub(super) fn save(d: &mut Draft) {
    dynasm!(d ; .arch x64
        ; push rcx ; push rdx ; push rsi ; push rdi ; push r8 ; push r9 ; push r10 ; push r11
    );
}

pub(super) fn restore(d: &mut Draft) {
    dynasm!(d ; .arch x64
        ; pop r11 ; pop r10 ; pop r9 ; pop r8 ; pop rdi ; pop rsi ; pop rdx ; pop rcx
    );
}

/// Room for the key below the saved registers; with the return address a multiple of 16.
pub(super) const ROOM: i32 = (size_of::<PathKey>() + 8).next_multiple_of(16) as i32 - 8;
const _: () = assert!(ROOM as usize >= size_of::<PathKey>());

/// Copies the head of the path at rdi to the key on the stack. A fault leads to `fault`, user access open.
pub(super) fn copy_key(d: &mut Draft, conv: UserAccess, fault: Label) {
    clamp(d, Reg::Rdi);
    if conv == UserAccess::Kernel {
        dynasm!(d ; .arch x64 ; stac);
    }
    d.fault_begin();
    for word in 0..KEY_WORDS as i32 {
        dynasm!(d ; .arch x64 ; mov rax, [rdi + 8 * word] ; mov [rsp + 8 * word], rax);
    }
    d.fault_end(fault);
    if conv == UserAccess::Kernel {
        dynasm!(d ; .arch x64 ; clac);
    }
    dynasm!(d ; .arch x64 ; mov QWORD [rsp + 8 * KEY_WORDS as i32], 0);
}
