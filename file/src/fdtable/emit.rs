//! Code that finds a descriptor's routine in a table whose address it has.
//!
//! *Interface*: emitters for the dispatchers of the threads that use the table. Interrupts are off where the
//! code runs, and the running thread is one of the table's, so that what is found stays.

use super::FdTable;
use super::kpt::KptView;
use super::slots::{self, CLOEXEC};
use crate::fs::file::operation::{self, Operation};
use codegen::{Draft, Label, dynasm};
use core::mem::offset_of;

/// Emits the way from a table, whose address is in rax, to the routine for `operation` of the description
/// behind edi, into rax; to `none` where the call is to be made plainly. Changes rcx. Interrupts are off, and
/// the running thread is one of the table's, so that what is found stays.
pub fn emit_operation(d: &mut Draft, operation: Operation, none: Label) {
    if operation.writes() {
        let bounded = offset_of!(FdTable, bounded) as i32;
        dynasm!(d ; .arch x64 ; cmp BYTE [rax + bounded], 0 ; jne =>none);
    }
    let slots = offset_of!(FdTable, slots) as i32;
    dynasm!(d ; .arch x64 ; add rax, slots);
    slots::emit(d, none);
    operation::emit(d, operation, none);
}

/// The same for the callentry whose number is in rdx, of the quaject behind edi.
pub fn emit_callentry(d: &mut Draft, none: Label) {
    let slots = offset_of!(FdTable, slots) as i32;
    dynasm!(d ; .arch x64 ; add rax, slots);
    slots::emit(d, none);
    operation::emit_callentry(d, none);
}

/// The same for an operation of descriptor `fd`, below `SLOTS`, of the table at
/// `view`, where both are known. Changes rax only.
pub fn emit_resolved(d: &mut Draft, view: &KptView, fd: usize, operation: Operation, none: Label) {
    let files = view.slots.addr() - offset_of!(FdTable, slots) - slots::FIRST;
    if operation.writes() {
        let bounded = (files + offset_of!(FdTable, bounded)) as i32;
        dynasm!(d ; .arch x64 ; cmp BYTE [bounded], 0 ; jne =>none);
    }
    let slot = (view.slots.addr() + fd * size_of::<usize>()) as i32;
    dynasm!(d
        ; .arch x64
        ; mov rax, [slot]
        ; and rax, !(CLOEXEC as i32)
        ; jz =>none
    );
    operation::emit(d, operation, none);
}

/// Emits the way from a table, whose address is in rax, to the routine that tells the events of the
/// description behind edi ([`quaject::readiness`]), into rax; to `none` if it has none, or if the table's
/// limit lets no descriptor be asked for. Changes rcx. As for [`emit_operation`], what is found stays.
pub fn emit_look(d: &mut Draft, none: Label) {
    let [limit, slots] =
        [offset_of!(FdTable, limit), offset_of!(FdTable, slots)].map(|at| at as i32);
    dynasm!(d ; .arch x64 ; cmp QWORD [rax + limit], 0 ; je =>none ; add rax, slots);
    slots::emit(d, none);
    crate::fs::file::readiness::emit(d, none);
}

/// Emits the way from a table, whose address is in rax, to its first `SLOTS` slots,
/// into rax.
pub fn emit_row(d: &mut Draft) {
    let first = (offset_of!(FdTable, slots) + slots::FIRST) as i32;
    dynasm!(d ; .arch x64 ; add rax, first);
}

/// Emits the test of a slot's word, in rax: goes on with a file that is always ready, to `other` with the
/// address of a description of which that is not known, in rax ([`emit_routine`]), and to `none` where the
/// slot is free. As for [`emit_operation`], what is found stays.
pub fn emit_ready(d: &mut Draft, other: Label, none: Label) {
    dynasm!(d ; .arch x64 ; and rax, !(CLOEXEC as i32) ; jz =>none);
    crate::fs::file::readiness::emit_always(d, other);
}

/// Emits the way from a description, whose address is in rax, to the routine that tells its events, into rax;
/// to `none` if it has none.
pub fn emit_routine(d: &mut Draft, none: Label) {
    crate::fs::file::readiness::emit(d, none);
}
