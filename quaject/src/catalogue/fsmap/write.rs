//! The routines behind `write` and `pwrite64` of a file in memory.
//!
//! One byte inside the file; a piece of one of its pages; pieces of several pages, and writes that extend the
//! file inside its existing pages. An appending routine begins at the size instead of the offset, and also
//! holds the file's own monitor, since the size that it assumes belongs to all writers. A `pwrite64` stays
//! inside the file: one that would extend it takes the slow exit.
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

static CLASS: Class = Class::new("file write");

static PLAIN: [Template<4>; VARIANTS] = templates!(&CLASS, plain);
static APPEND: [Template<4>; VARIANTS] = templates!(&CLASS, append);
static AT: [Template<4>; VARIANTS] = templates!(&CLASS, at);

/// The routine behind `write` for `file` at `cursor`; `append` for a description opened with `O_APPEND`.
///
/// # Errors
/// [`RoutineError`]; the caller then leaves the slow stub in place.
///
/// # Safety
/// `file` and `cursor` stay in place until a grace period after the last handle to the routine is gone, and
/// every page of the file may be written. An exclusive routine is plugged only where one thread reaches the
/// cursor.
pub unsafe fn synthesize_write(
    file: &FileCore,
    cursor: &Cursor,
    env: &RoutineEnv,
    sharing: Sharing,
    append: bool,
) -> Result<Routine<DescFn>, RoutineError> {
    let (templates, name) = if append {
        (&APPEND, "append")
    } else {
        (&PLAIN, "write")
    };
    // SAFETY: the code below keeps the contract of a descriptor routine; the rest is the caller's promise.
    unsafe { fill(templates, name, (file, Some(cursor)), env, sharing) }
}

/// The routine behind `pwrite64` for `file`, with the position in r10: for a description without `O_APPEND`.
///
/// # Errors
/// [`RoutineError`].
///
/// # Safety
/// `file` stays in place until a grace period after the last handle to the routine is gone, and every page of
/// the file may be written.
pub unsafe fn synthesize_write_at(
    file: &FileCore,
    env: &RoutineEnv,
) -> Result<Routine<DescFn>, RoutineError> {
    // SAFETY: as above; there is no cursor.
    unsafe { fill(&AT, "pwrite64", (file, None), env, Sharing::Exclusive) }
}

fn plain(d: &mut Draft, holes: &[Hole; 4], variant: u8) {
    let to = Position::cursor(holes[1]);
    generate(d, Variant::new(variant), false, to, holes);
}

fn append(d: &mut Draft, holes: &[Hole; 4], variant: u8) {
    let to = Position::cursor(holes[1]);
    generate(d, Variant::new(variant), true, to, holes);
}

fn at(d: &mut Draft, holes: &[Hole; 4], variant: u8) {
    d.spare(holes[1]);
    generate(d, Variant::new(variant), false, Position::Argument, holes);
}

fn generate(d: &mut Draft, v: Variant, append: bool, to: Position, holes: &[Hole; 4]) {
    let &[core, _, slow, wake_next] = holes;
    let within = matches!(to, Position::Argument);
    let [size, pages, capacity, touched, torn, appending] = [
        offset::SIZE,
        offset::FOR_WRITING,
        offset::CAPACITY,
        offset::TOUCHED,
        offset::TORN,
        offset::APPENDING,
    ]
    .map(|field| core.imm32() + field);
    let monitor = to.monitor();
    // The file's monitor is needed even when the description is not shared.
    let takes_appending = append && v.several_cpus;
    let looks_at_appending = append && !v.several_cpus;
    if !(takes_appending || v.takes_monitor()) {
        d.spare(wake_next);
    }
    let [leave, foreign, unlock, give_file, fault, byte_fault] =
        core::array::from_fn(|_| d.label());
    let [too_many, many, growing, moved] = core::array::from_fn(|_| d.label());

    if !v.takes_monitor() && !append {
        dynasm!(d ; .arch x64 ; cmp rdx, BYTE 1 ; jne >general);
        emit::look(d, v, monitor, leave);
        user_address(d, Reg::Rsi, foreign, leave);
        to.load(d, Reg::Rax);
        dynasm!(d ; .arch x64 ; cmp rax, [size] ; jae >general);
        below(d, Reg::Rax, Reg::Rdx);
        dynasm!(d ; .arch x64
            ; shr rax, 12
        );
        // Neither a hole nor a closed array is there: address 0, and page zero faults, always; nor is
        // `NOWHERE`.
        d.fault_begin();
        dynasm!(d ; .arch x64
            ; mov rdx, [pages]
            ; mov rdx, [rdx + rax * 8]
        );
        to.load_low(d, Reg::Rax);
        dynasm!(d ; .arch x64 ; and eax, 0xfff ; add rdx, rax);
        emit::open_user(d, v.guarded_user);
        dynasm!(d ; .arch x64 ; movzx eax, BYTE [rsi]);
        emit::close_user(d, v.guarded_user);
        dynasm!(d ; .arch x64 ; mov [rdx], al);
        d.fault_end(byte_fault);
        dynasm!(d ; .arch x64
            ; mov edx, 1
            ; mov [touched], edx
        );
        to.advance(d);
        dynasm!(d ; .arch x64 ; mov eax, edx ; ret);
        foreign_address(d, Reg::Rsi, foreign, leave);
        dynasm!(d ; .arch x64 ; general:);
    }

    emit::look(d, v, monitor, leave);
    if looks_at_appending {
        emit::look_at_monitor(d, appending, leave);
    }
    // No count of 0, none with the top bit but the very lowest, no kernel address.
    dynasm!(d ; .arch x64
        ; lea rax, [rdx - 1]
        ; or rax, rsi
    );
    to.join_sign(d);
    dynasm!(d ; .arch x64 ; js =>leave ; push rcx);
    clamp(d, Reg::Rsi);
    emit::enter(d, v, monitor, leave);
    if takes_appending {
        emit::take_monitor(d, appending, unlock);
    }
    if append {
        dynasm!(d ; .arch x64 ; mov rcx, [size] ; lea rax, [rcx + rdx] ; jmp =>growing);
    } else {
        to.load(d, Reg::Rcx);
        // A sum with the top bit is beyond every size.
        dynasm!(d ; .arch x64
            ; lea rax, [rcx + rdx]
            ; cmp rax, [size]
            ; ja =>growing
            ; push rsi
            ; push rdi
            ; mov eax, ecx
            ; and eax, 0xfff
            ; lea rdi, [rax + rdx]
            ; cmp rdi, 0x1000
            ; ja =>many
        );
        emit::inside(d, Reg::Rcx, Reg::Rdi, capacity);
        // A piece of one page, rdx bytes from byte eax of page rcx / 4096 on.
        dynasm!(d ; .arch x64
            ; shr rcx, 12
        );
        d.fault_begin();
        dynasm!(d ; .arch x64
            ; mov rdi, [pages]
            ; mov rdi, [rdi + rcx * 8]
            ; add rdi, rax
        );
        emit::open_user(d, v.guarded_user);
        emit::copy_edx(d);
        d.fault_end(fault);
        emit::close_user(d, v.guarded_user);
        to.advance(d);
    }
    dynasm!(d ; .arch x64 ; =>moved ; mov DWORD [touched], 1 ; pop rdi ; pop rsi);
    let give_both = |d: &mut Draft| {
        if takes_appending {
            emit::give_monitor(d, appending, wake_next);
        }
        emit::give(d, v, monitor, wake_next);
    };
    give_both(d);
    dynasm!(d ; .arch x64 ; pop rcx ; mov eax, edx ; ret);

    // Beyond the size but inside the pages' places: rcx = offset, rax = end.
    dynasm!(d ; .arch x64 ; =>growing);
    if within {
        dynasm!(d ; .arch x64 ; jmp =>give_file);
    } else {
        if !append {
            dynasm!(d ; .arch x64 ; cmp rcx, [size] ; ja =>give_file);
        }
        dynasm!(d ; .arch x64
            ; cmp rax, [capacity]
            ; ja =>give_file
            ; push rsi
            ; push rdi
            ; mov eax, ecx
            ; and eax, 0xfff
        );
    }
    // Several pages: r8 = bytes left, r9 = offset, eax = offset within the page.
    let many_fault = d.label();
    dynasm!(d ; .arch x64
        ; =>many
        ; cmp rdx, LARGEST as i32
        ; ja =>too_many
        ; push r8
        ; push r9
    );
    emit::inside(d, Reg::Rcx, Reg::R8, capacity);
    dynasm!(d ; .arch x64
        ; mov r8, rdx
        ; mov r9, rcx
    );
    emit::open_user(d, v.guarded_user);
    d.fault_begin();
    copy_pages(d, pages, Side::Target);
    d.fault_end(many_fault);
    emit::close_user(d, v.guarded_user);
    if !within {
        dynasm!(d ; .arch x64 ; cmp r9, [size] ; ja >grow ; grown:);
    }
    to.store(d, Reg::R9);
    dynasm!(d ; .arch x64 ; pop r9 ; pop r8 ; jmp =>moved ; grow:);
    if within {
        // Never longer.
    } else if v.several_cpus && !append {
        // The size only grows here; the larger value wins.
        dynasm!(d ; .arch x64
            ; mov rax, [size]
            ; again:
            ; cmp r9, rax
            ; jbe <grown
            ; lock cmpxchg [size], r9
            ; jne <again
            ; jmp <grown
        );
    } else {
        dynasm!(d ; .arch x64 ; mov [size], r9 ; jmp <grown);
    }

    dynasm!(d ; .arch x64 ; =>many_fault);
    emit::close_user(d, v.guarded_user);
    dynasm!(d ; .arch x64 ; mov DWORD [torn], 1 ; pop r9 ; pop r8 ; jmp =>too_many ; =>fault);
    emit::close_user(d, v.guarded_user);
    dynasm!(d ; .arch x64 ; =>too_many ; pop rdi ; pop rsi ; =>give_file);
    if takes_appending {
        emit::give_monitor(d, appending, wake_next);
    }
    dynasm!(d ; .arch x64 ; =>unlock);
    emit::give(d, v, monitor, wake_next);
    dynasm!(d ; .arch x64 ; pop rcx ; =>leave);
    emit::leave_slowly(d, to.number(abi::nr::WRITE, abi::nr::PWRITE64), slow);
    dynasm!(d ; .arch x64 ; =>byte_fault);
    emit::close_user(d, v.guarded_user);
    dynasm!(d ; .arch x64 ; mov edx, 1 ; jmp =>leave);
}
