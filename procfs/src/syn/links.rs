//! `/syn/links`: the words by which generated routines lead to each other, where that is not a link
//! between two quajects (`quajects` has those).
//!
//! *Interface.* [`show`]: a line for each word, with the routine whose entry is in it: the words of the
//! CPUs, the interrupt vectors, the procedures of the dispatchers, the words of each thread in the
//! ready ring, and the kernel procedure tables of the processes that the reader may look into. Nothing
//! is kept for it: what is shown is what the code jumps through.

use abi::errno::Result;
use core::fmt::Write;

use super::code::{CALLS, behind};
use super::descriptors;
use super::kptr_restrict::KptrRestrict;
use file::fdtable::FdTable;
use file::fs::pseudofs::{TextOut, TextPiece};
use file::{OpenFile, Operation};
use process::dispatch;

/// The place of the first descriptor: that of the first process.
const DESCRIPTORS: u64 = 1 << 32;

/// The text from place `from` on.
pub fn show(kptr: KptrRestrict, from: u64, piece: &mut TextPiece) -> Result<()> {
    let mut more = from > 0 || piece.record(1, |out| machine(kptr, out));
    if from < DESCRIPTORS {
        thread::for_each(|thread| {
            let next = thread.index() as u64 + 2;
            if more && next > from {
                more = piece.record(next, |out| {
                    let mut name = [0; thread::NAME_LEN];
                    let name = thread.name(&mut name);
                    for (word, entry) in thread.jump_targets() {
                        line(
                            kptr,
                            out,
                            format_args!("thread {} {name}", thread.serial()),
                            word,
                            entry,
                        );
                    }
                });
            }
        });
    }
    if !more {
        return Ok(());
    }
    let lines = |pid, fd, of: &OpenFile, files: &FdTable, out: &mut TextOut| {
        descriptor(kptr, (pid, fd), of, files, out);
    };
    descriptors::show(from.max(1), piece, &|_| (), &|_| true, &lines)
}

/// The words that all threads share.
fn machine(kptr: KptrRestrict, out: &mut TextOut) {
    for number in 0..machine::cpu::cpus() {
        for (word, entry) in thread::jump_words::of_cpu(number) {
            line(kptr, out, format_args!("cpu {number}"), word, entry);
        }
    }
    for vector in 0..=u8::MAX {
        if let Some(entry) = machine::irq::image(vector) {
            line(kptr, out, format_args!("vector {vector}"), "handler", entry);
        }
    }
    for (call, entry) in dispatch::procedures() {
        line(kptr, out, format_args!("every dispatcher"), call, entry);
    }
}

/// The words of one descriptor, and where the relays among them lead.
fn descriptor(
    kptr: KptrRestrict,
    (pid, fd): (i32, i32),
    of: &OpenFile,
    files: &FdTable,
    out: &mut TextOut,
) {
    let plugged = files.plugged(fd).unwrap_or_default();
    let further = Operation::ALL.map(|operation| {
        let entry = of.operation_entry(operation).unwrap_or_default();
        (operation.call(), entry)
    });
    for (call, entry) in CALLS.into_iter().zip(plugged).chain(further) {
        line(kptr, out, format_args!("{pid} {fd}"), call, entry);
        if entry != 0
            && let Some(routine) = behind(of, entry, call)
        {
            line(
                kptr,
                out,
                format_args!("{pid} {fd} relay"),
                call,
                routine.entry(),
            );
        }
    }
}

/// A word and the routine that it leads to; nothing where it leads to none that was generated.
fn line(kptr: KptrRestrict, out: &mut TextOut, of: core::fmt::Arguments, word: &str, entry: usize) {
    if let Some(info) = codegen::image_at(entry) {
        // `TextOut` notes by itself that memory is out.
        let _ = writeln!(
            out,
            "{of} {word} -> {} {} at {:#x}",
            info.class,
            info.name,
            kptr.address(entry)
        );
    }
}
