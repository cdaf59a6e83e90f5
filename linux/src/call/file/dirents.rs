//! Reading directories.
//!
//! *Interface.* [`CALLS`]. Entries are laid out in kernel memory first, as many as one call gives, so that no
//! directory is held while user memory is touched.

use abi::errno::{Errno, Result};
use abi::linux::IN_ACCESS;
use abi::nr;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;

use crate::call::{Args, Handler};
use file::OpenFile;
use file::event::marks;
use file::fs::dirents::DirentBuf;
use file::fs::inode::{DirEntry, DirSink};
use process::Process;
use vm::fallible::try_reserve;

/// Calls of this family.
pub const CALLS: &[(usize, Handler)] = &[(nr::GETDENTS, getdents), (nr::GETDENTS64, getdents64)];

/// The most bytes that one call lays out.
const MAX_LAYOUT: usize = 32 << 10;

fn getdents(args: &mut Args) -> Result<usize> {
    let size = room(args);
    let mut out = Vec::new();
    try_reserve(&mut out, size)?;
    let mut refused = false;
    let mut lay = |entry: DirEntry<'_>| {
        // ino, offset, length, name, NUL; the kind is the last byte.
        let length = (8 + 8 + 2 + entry.name.len() + 2).next_multiple_of(8);
        refused |= length > size - out.len();
        if !refused {
            lay_out(&mut out, &entry, length);
        }
        !refused
    };
    let read = Reading::of(args, &mut lay)?;
    read.give(args, &out, refused)
}

#[expect(clippy::disallowed_methods, reason = "there is room")]
fn lay_out(out: &mut Vec<u8>, entry: &DirEntry, length: usize) {
    let start = out.len();
    out.extend_from_slice(&entry.ino.to_le_bytes());
    out.extend_from_slice(&entry.next.to_le_bytes());
    out.extend_from_slice(&(length as u16).to_le_bytes());
    out.extend_from_slice(entry.name);
    out.resize(start + length - 1, 0);
    out.push(entry.kind);
}

fn getdents64(args: &mut Args) -> Result<usize> {
    let mut records = DirentBuf::with_room(room(args))?;
    let read = Reading::of(args, &mut records)?;
    read.give(args, records.bytes(), records.refused())
}

/// Bytes to lay out.
fn room(args: &Args) -> usize {
    (args.uint(2) as usize).min(MAX_LAYOUT)
}

/// A description whose next entries were laid out.
struct Reading {
    of: Arc<OpenFile>,
    /// Where it was.
    before: u64,
}

impl Reading {
    /// Hands the next entries of the directory to `sink`.
    fn of(args: &Args, sink: &mut dyn DirSink) -> Result<Reading> {
        let of = Process::current().files.get().opened(args.int(0))?;
        let before = of.cursor.offset.load(Ordering::Relaxed);
        of.file().readdir(&of, sink)?;
        marks::tell(&of, IN_ACCESS);
        Ok(Reading { of, before })
    }

    /// Gives them to the program; `refused`: there was an entry for which there was no room.
    fn give(self, args: &Args, records: &[u8], refused: bool) -> Result<usize> {
        if records.is_empty() && refused {
            return Err(Errno::EINVAL);
        }
        match vm::user::copy_out(args.word(1), records) {
            Ok(()) => Ok(records.len()),
            Err(error) => self.give_some(args, records, error),
        }
    }

    /// Gives those for which there is memory; the next call begins with the others.
    #[cold]
    fn give_some(self, args: &Args, records: &[u8], error: Errno) -> Result<usize> {
        /// Where a record has the place of the next, and its own length.
        const NEXT: usize = 8;
        const LENGTH: usize = 16;
        let (mut done, mut next) = (0, self.before);
        while let Some(rest) = records.get(done..)
            && let Some(place) = rest.get(NEXT..).and_then(|bytes| bytes.first_chunk())
            && let Some(length) = rest.get(LENGTH..).and_then(|bytes| bytes.first_chunk())
            && let Some(record) = rest.get(..usize::from(u16::from_le_bytes(*length)))
            && let Some(at) = args.word(1).checked_add(done)
            && vm::user::copy_out(at, record).is_ok()
        {
            done += record.len();
            next = u64::from_le_bytes(*place);
        }
        self.of.cursor.offset.store(next, Ordering::Relaxed);
        match done {
            0 => Err(error),
            done => Ok(done),
        }
    }
}
