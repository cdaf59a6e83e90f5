//! Reading directories.
//!
//! *Interface.* [`CALLS`]. Entries are laid out in kernel memory first, so that no directory is held while
//! user memory is touched.

use abi::errno::{Errno, Result};
use abi::linux::{DIRENT64_NAME, IN_ACCESS};
use abi::nr;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;

use super::Caller;
use crate::call::{Args, Handler};
use file::fs::inode::DirEntry;
use file::fs::watch;
use vm::fallible::try_reserve;

/// Calls of this family.
pub const CALLS: &[(usize, Handler)] = &[(nr::GETDENTS, getdents), (nr::GETDENTS64, getdents64)];

/// The most bytes that one call lays out.
const MAX_LAYOUT: usize = 32 << 10;

#[expect(clippy::disallowed_methods, reason = "`read` has made room for all")]
fn getdents(args: &mut Args) -> Result<usize> {
    read(args, |out, entry, room| {
        // ino, offset, length, name, NUL; the kind is the last byte.
        let length = (8 + 8 + 2 + entry.name.len() + 2).next_multiple_of(8);
        if length > room {
            return false;
        }
        let start = out.len();
        out.extend_from_slice(&entry.ino.to_le_bytes());
        out.extend_from_slice(&entry.next.to_le_bytes());
        out.extend_from_slice(&(length as u16).to_le_bytes());
        out.extend_from_slice(entry.name);
        out.resize(start + length - 1, 0);
        out.push(entry.kind);
        true
    })
}

#[expect(clippy::disallowed_methods, reason = "`read` has made room for all")]
fn getdents64(args: &mut Args) -> Result<usize> {
    read(args, |out, entry, room| {
        let length = (DIRENT64_NAME + entry.name.len() + 1).next_multiple_of(8);
        if length > room {
            return false;
        }
        let start = out.len();
        out.extend_from_slice(&entry.ino.to_le_bytes());
        out.extend_from_slice(&entry.next.to_le_bytes());
        out.extend_from_slice(&(length as u16).to_le_bytes());
        out.push(entry.kind);
        out.extend_from_slice(entry.name);
        out.resize(start + length, 0);
        true
    })
}

fn read(args: &Args, lay: fn(&mut Vec<u8>, &DirEntry, usize) -> bool) -> Result<usize> {
    let of = Caller::current().files.opened(args.int(0))?;
    if !of.readable() {
        return Err(Errno::EBADF);
    }
    let size = (args.uint(2) as usize).min(MAX_LAYOUT);
    let before = of.cursor.offset.load(Ordering::Relaxed);
    let mut out = Vec::new();
    try_reserve(&mut out, size)?;
    let mut refused = false;
    of.file().readdir(&of, &mut |entry: DirEntry<'_>| {
        let room = size - out.len();
        let taken = lay(&mut out, &entry, room);
        refused |= !taken;
        taken
    })?;
    watch::tell(&of, IN_ACCESS);
    if out.is_empty() && refused {
        return Err(Errno::EINVAL);
    }
    if let Err(e) = vm::user::copy_out(args.word(1), &out) {
        of.cursor.offset.store(before, Ordering::Relaxed);
        return Err(e);
    }
    Ok(out.len())
}
