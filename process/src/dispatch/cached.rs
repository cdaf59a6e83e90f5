//! Cached procedures: operations of descriptors that a program calls by numbers of its own.
//!
//! *Interface*: [`cache`] gives an [`CachedOperation`] descriptor a number, from [`native::CACHED`] on, and
//! [`uncache`] takes it back; [`find`] says for the slow path which operation has a number. The numbers are
//! the program's: all its threads have them, a fork's child too, and `exec` ends them.
//!
//! The dispatchers of the program's threads begin with a comparison for each number
//! (`thread/src/dispatch/mod.rs`). Behind it the code loads the word that leads to the routine: its
//! address is a constant, since descriptor and operation are known, so nothing is searched, checked or
//! masked. The word is the one that every call of the operation uses. So a descriptor that closes, is opened
//! anew, or gets other routines needs no care here; a table that moves has the dispatchers generated anew
//! anyway.
//!
//! Source: dissertation, section 3.3.4 (`cache_procedure`).

use abi::errno::{Errno, Result};
use abi::{native, nr};
use codegen::{Draft, dynasm, harden};
use file::Operation;
use file::fdtable::{KptView, SLOTS, emit_resolved};
use thread::dispatch::{rest, way_out};

use crate::process::Process;
use crate::process::cached_operations::{CachedOperation, change, of};

/// Gives `of` a number, or finds the number that it has. ENOSPC: all are taken. ENOMEM.
pub fn cache(process: &Process, of: CachedOperation) -> Result<usize> {
    let place = change(process, |cached| {
        let mut places = cached.iter();
        let there = places.position(|place| *place == Some(of));
        let free = || cached.iter().position(Option::is_none);
        let at = there.or_else(free).ok_or(Errno::ENOSPC)?;
        if let Some(place) = cached.get_mut(at) {
            *place = Some(of);
        }
        Ok(at)
    })?;
    if let Err(error) = super::renew_all(process) {
        // Some threads may go on knowing it.
        let _ = uncache(process, native::CACHED + place);
        return Err(error);
    }
    Ok(native::CACHED + place)
}

/// Takes `number` back. EINVAL: no operation has it. ENOMEM.
pub fn uncache(process: &Process, number: usize) -> Result<()> {
    let place = number.checked_sub(native::CACHED);
    change(process, |cached| {
        let place = place.and_then(|place| cached.get_mut(place));
        let taken = place.and_then(Option::take);
        taken.map(|_| ()).ok_or(Errno::EINVAL)
    })?;
    super::renew_all(process)
}

/// The operation with this number.
pub fn find(process: &Process, number: usize) -> Option<CachedOperation> {
    *of(process)?
        .places()
        .get(number.checked_sub(native::CACHED)?)?
}

/// Emits the call of `of` from the stack base, in a dispatcher for the table at `view`.
pub(crate) fn emit(d: &mut Draft, of: CachedOperation, view: Option<&KptView>) {
    let fd = of.fd as usize;
    if let Some(number) = of.callentry() {
        if let Some(operation) = Operation::OWN.get(number) {
            by_description(d, *operation, fd, view);
        }
        dynasm!(d
            ; .arch x64
            ; mov edi, native::INVOKE as i32
            ; mov esi, fd as i32
            ; mov edx, number as i32
        );
        d.jmp_abs(thread::direct::entry());
        return;
    }
    dynasm!(d ; .arch x64 ; mov edi, fd as i32);
    match of.operation as usize {
        nr::READ => by_table(d, fd, view, |view| view.read),
        nr::WRITE => by_table(d, fd, view, |view| view.write),
        nr::LSEEK => by_table(d, fd, view, |view| view.lseek),
        nr::PREAD64 => by_description(d, Operation::ReadAt, fd, view),
        nr::PWRITE64 => by_description(d, Operation::WriteAt, fd, view),
        nr::READV => by_description(d, Operation::ReadSegment, fd, view),
        nr::WRITEV => by_description(d, Operation::WriteSegment, fd, view),
        nr::SENDTO => by_description(d, Operation::Send, fd, view),
        nr::RECVFROM => by_description(d, Operation::Receive, fd, view),
        _ => {}
    }
    dynasm!(d ; .arch x64 ; mov eax, of.operation as i32);
    d.jmp_abs(rest());
}

/// Emits the call of the routine in the kernel procedure table, if the descriptor has its place there.
fn by_table(
    d: &mut Draft,
    fd: usize,
    view: Option<&KptView>,
    array: impl FnOnce(&KptView) -> *const u64,
) {
    if let Some(view) = view.filter(|view| fd < view.len) {
        let word = (array(view).addr() + fd * size_of::<u64>()) as i32;
        dynasm!(d ; .arch x64 ; movsxd rax, DWORD [word]);
        call(d);
    }
}

/// Emits the call of the routine that the description behind `fd` has for `operation`, if there is one.
fn by_description(d: &mut Draft, operation: Operation, fd: usize, view: Option<&KptView>) {
    if let Some(view) = view.filter(|_| fd < SLOTS) {
        let none = d.label();
        emit_resolved(d, view, fd, operation, none);
        call(d);
        d.bind(none);
    }
}

/// Calls the routine at the address in rax, and returns to the program.
fn call(d: &mut Draft) {
    harden::call(
        d,
        |d| dynasm!(d ; .arch x64 ; call rax),
        |d| dynasm!(d ; .arch x64 ; push rax),
    );
    way_out(d);
}
