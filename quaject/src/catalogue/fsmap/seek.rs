//! The routine behind `lseek` of a file in memory. Other origins than beginning, position and end, and
//! negative results, take the slow exit.
//!
//! *Unsafe*: safety contract of the routine.

use super::piece::fill;
use super::{Cursor, FileCore, offset};
use crate::kit::emit;
use crate::kit::routine_env::{DescFn, RoutineEnv, RoutineError, Sharing, templates};
use crate::kit::variant::{VARIANTS, Variant};
use abi::linux::{SEEK_CUR, SEEK_END};
use codegen::{Class, Draft, Hole, Routine, Template, dynasm};

static CLASS: Class = Class::new("file lseek");

static TEMPLATES: [Template<4>; VARIANTS] = templates!(&CLASS, usual);

/// The routine behind `lseek` for `file` at `cursor`.
///
/// # Errors
/// [`RoutineError`]; the caller then leaves the slow stub in place.
///
/// # Safety
/// As [`synthesize_read`](super::synthesize_read).
pub unsafe fn synthesize_lseek(
    file: &FileCore,
    cursor: &Cursor,
    env: &RoutineEnv,
    sharing: Sharing,
) -> Result<Routine<DescFn>, RoutineError> {
    // SAFETY: the code below keeps the contract of a descriptor routine; the rest is the caller's promise.
    unsafe { fill(&TEMPLATES, "lseek", (file, Some(cursor)), env, sharing) }
}

fn usual(d: &mut Draft, &[core, cursor, slow, wake_next]: &[Hole; 4], variant: u8) {
    let v = Variant::new(variant);
    let size = core.imm32() + offset::SIZE;
    let [at, monitor] = [offset::AT, offset::MONITOR].map(|field| cursor.imm32() + field);
    if !v.takes_monitor() {
        d.spare(wake_next);
    }
    let leave = d.label();
    emit::look(d, v, monitor, leave);
    if v.takes_monitor() {
        let busy = d.label();
        dynasm!(d ; .arch x64 ; push rcx);
        emit::take_monitor(d, monitor, busy);
        dynasm!(d ; .arch x64 ; pop rcx ; jmp >taken ; =>busy ; pop rcx ; jmp =>leave ; taken:);
    }
    dynasm!(d ; .arch x64
        ; test edx, edx
        ; jnz >elsewhere
        ; mov rax, rsi
        ; move_to:
        ; test rax, rax
        ; js >wrong
        ; mov [at], rax
    );
    give(d, v, monitor, wake_next);
    dynasm!(d ; .arch x64
        ; ret
        ; elsewhere:
        ; mov rax, [at]
        ; cmp edx, SEEK_CUR
        ; je >add
        ; mov rax, [size]
        ; cmp edx, SEEK_END
        ; jne >wrong
        ; add:
        ; add rax, rsi
        ; jmp <move_to
        ; wrong:
    );
    give(d, v, monitor, wake_next);
    dynasm!(d ; .arch x64 ; =>leave);
    emit::leave_slowly(d, abi::nr::LSEEK, slow);
}

fn give(d: &mut Draft, v: Variant, monitor: i32, wake_next: Hole) {
    if v.takes_monitor() {
        dynasm!(d ; .arch x64 ; push rcx);
        emit::give_monitor(d, monitor, wake_next);
        dynasm!(d ; .arch x64 ; pop rcx);
    }
}
