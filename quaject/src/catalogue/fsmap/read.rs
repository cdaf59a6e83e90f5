//! The routines behind `read` and `pread64` of a file in memory.
//!
//! Three paths, from narrow to wide: one byte; a piece of one page; pieces of several pages, and reads that
//! the end of the file shortens. Each ends by moving the offset, its only publication; a `pread64` publishes
//! nothing.
//!
//! *Unsafe*: safety contract of the routine.

use super::piece::{Position, Side, copy_pages, fill};
use super::{Cursor, FileCore, LARGEST, offset};
use crate::kit::emit;
use crate::kit::routine_env::{DescFn, RoutineEnv, RoutineError, Sharing, templates};
use crate::kit::variant::{VARIANTS, Variant};
use codegen::harden::{below, clamp, foreign_address, user_address};
use codegen::idioms::Reg;
use codegen::{Class, Draft, Hole, Routine, Template, dynasm};

static CLASS: Class = Class::new("file read");

static TEMPLATES: [Template<4>; VARIANTS] = templates!(&CLASS, usual);
static AT: [Template<4>; VARIANTS] = templates!(&CLASS, at);

/// The routine behind `read` for `file` at `cursor`.
///
/// # Errors
/// [`RoutineError`]; the caller then leaves the slow stub in place.
///
/// # Safety
/// `file` and `cursor` stay in place until a grace period after the last handle to the routine is gone. An
/// exclusive routine is plugged only where one thread reaches the cursor.
pub unsafe fn synthesize_read(
    file: &FileCore,
    cursor: &Cursor,
    env: &RoutineEnv,
    sharing: Sharing,
) -> Result<Routine<DescFn>, RoutineError> {
    // SAFETY: the code below keeps the contract of a descriptor routine; the rest is the caller's promise.
    unsafe { fill(&TEMPLATES, "read", (file, Some(cursor)), env, sharing) }
}

/// The routine behind `pread64` for `file`, with the position in r10.
///
/// # Errors
/// [`RoutineError`].
///
/// # Safety
/// `file` stays in place until a grace period after the last handle to the routine is gone.
pub unsafe fn synthesize_read_at(
    file: &FileCore,
    env: &RoutineEnv,
) -> Result<Routine<DescFn>, RoutineError> {
    // SAFETY: as above; there is no cursor.
    unsafe { fill(&AT, "pread64", (file, None), env, Sharing::Exclusive) }
}

fn usual(d: &mut Draft, holes: &[Hole; 4], variant: u8) {
    generate(d, Variant::new(variant), Position::cursor(holes[1]), holes);
}

fn at(d: &mut Draft, holes: &[Hole; 4], variant: u8) {
    d.spare(holes[1]);
    generate(d, Variant::new(variant), Position::Argument, holes);
}

fn generate(d: &mut Draft, v: Variant, from: Position, &[core, _, slow, wake_next]: &[Hole; 4]) {
    let [size, pages] = [offset::SIZE, offset::PAGES].map(|field| core.imm32() + field);
    let monitor = from.monitor();
    if !v.takes_monitor() {
        d.spare(wake_next);
    }
    let [leave, foreign, unlock, fault, byte_fault] = core::array::from_fn(|_| d.label());
    let [many, near_end, out] = core::array::from_fn(|_| d.label());

    if !v.takes_monitor() {
        dynasm!(d ; .arch x64 ; cmp rdx, BYTE 1 ; jne >general);
        emit::look(d, v, monitor, leave);
        user_address(d, Reg::Rsi, foreign, leave);
        from.load(d, Reg::Rax);
        dynasm!(d ; .arch x64 ; cmp rax, [size] ; jae >general);
        below(d, Reg::Rax, Reg::Rdx);
        dynasm!(d ; .arch x64
            ; shr rax, 12
            ; mov rdx, [pages]
            ; mov rdx, [rdx + rax * 8]
        );
        from.load_low(d, Reg::Rax);
        dynasm!(d ; .arch x64 ; and eax, 0xfff);
        // A hole is address 0, and page zero faults, always.
        d.fault_begin();
        dynasm!(d ; .arch x64 ; movzx eax, BYTE [rdx + rax] ; mov edx, 1);
        emit::open_user(d, v.guarded_user);
        dynasm!(d ; .arch x64 ; mov [rsi], al);
        d.fault_end(byte_fault);
        emit::close_user(d, v.guarded_user);
        from.advance(d);
        dynasm!(d ; .arch x64 ; mov eax, edx ; ret);
        foreign_address(d, Reg::Rsi, foreign, leave);
        dynasm!(d ; .arch x64 ; general:);
    }

    emit::look(d, v, monitor, leave);
    // No count of 0, none with the top bit but the very lowest, no kernel address.
    dynasm!(d ; .arch x64
        ; lea rax, [rdx - 1]
        ; or rax, rsi
    );
    from.join_sign(d);
    dynasm!(d ; .arch x64 ; js =>leave ; push rcx);
    clamp(d, Reg::Rsi);
    emit::enter(d, v, monitor, leave);
    from.load(d, Reg::Rcx);
    dynasm!(d ; .arch x64
        ; lea rax, [rcx + rdx]
        ; cmp rax, [size]
        ; ja =>near_end
        ; push rsi
        ; push rdi
        ; mov rdi, rsi
        ; mov eax, ecx
        ; and eax, 0xfff
        ; lea rsi, [rax + rdx]
        ; cmp rsi, 0x1000
        ; ja >several
    );
    emit::inside(d, Reg::Rcx, Reg::Rsi, size);
    // A piece of one page, rdx bytes from byte eax of page rcx / 4096 on.
    dynasm!(d ; .arch x64
        ; shr rcx, 12
        ; mov rsi, [pages]
        ; mov rsi, [rsi + rcx * 8]
        ; add rsi, rax
    );
    emit::open_user(d, v.guarded_user);
    d.fault_begin();
    emit::copy_edx(d);
    d.fault_end(fault);
    emit::close_user(d, v.guarded_user);
    from.advance(d);
    dynasm!(d ; .arch x64 ; mov eax, edx ; =>out ; pop rdi ; pop rsi);
    emit::give(d, v, monitor, wake_next);
    dynasm!(d ; .arch x64 ; pop rcx ; ret);

    // As much as there is to the end of the file, rcx = offset, rax = end of what was asked for.
    dynasm!(d ; .arch x64 ; =>near_end);
    if matches!(from, Position::Argument) {
        // An end that is no offset is an error, wherever the file ends.
        dynasm!(d ; .arch x64 ; test rax, rax ; js =>unlock);
    }
    dynasm!(d ; .arch x64
        ; mov rax, [size]
        ; sub rax, rcx
        ; jbe >end
        ; push rsi
        ; push rdi
        ; push rdx
        ; mov rdi, rsi
        ; cmp rdx, rax
        ; cmova rdx, rax
        ; mov eax, ecx
        ; and eax, 0xfff
        ; jmp =>many
        ; end:
        ; xor eax, eax
    );
    emit::give(d, v, monitor, wake_next);
    dynasm!(d ; .arch x64 ; pop rcx ; ret);

    // Several pages: rdx = bytes, r8 = bytes left, r9 = offset, eax = offset within the page.
    let [many_fault, too_many] = core::array::from_fn(|_| d.label());
    dynasm!(d ; .arch x64
        ; several:
        ; push rdx
        ; =>many
        ; cmp rdx, LARGEST as i32
        ; ja =>too_many
        ; push r8
        ; push r9
    );
    emit::inside(d, Reg::Rcx, Reg::R8, size);
    dynasm!(d ; .arch x64
        ; mov r8, rdx
        ; mov r9, rcx
    );
    emit::open_user(d, v.guarded_user);
    d.fault_begin();
    copy_pages(d, pages, Side::Source);
    d.fault_end(many_fault);
    emit::close_user(d, v.guarded_user);
    from.store(d, Reg::R9);
    dynasm!(d ; .arch x64
        ; mov rax, rdx
        ; pop r9
        ; pop r8
        ; pop rdx
        ; jmp =>out
        ; =>many_fault
    );
    emit::close_user(d, v.guarded_user);
    dynasm!(d ; .arch x64 ; pop r9 ; pop r8 ; =>too_many ; pop rdx ; =>fault);
    emit::close_user(d, v.guarded_user);
    dynasm!(d ; .arch x64 ; pop rdi ; pop rsi ; =>unlock);
    emit::give(d, v, monitor, wake_next);
    dynasm!(d ; .arch x64 ; pop rcx ; =>leave);
    emit::leave_slowly(d, from.number(abi::nr::READ, abi::nr::PREAD64), slow);
    dynasm!(d ; .arch x64 ; =>byte_fault);
    emit::close_user(d, v.guarded_user);
    dynasm!(d ; .arch x64 ; mov edx, 1 ; jmp =>leave);
}
