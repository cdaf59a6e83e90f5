//! Moving bytes: the plain paths of `read`, `write` and `lseek`, and their vector, positional and in-kernel
//! forms.
//!
//! *Interface.* [`CALLS`]; what [`super::splice`] needs of it. A call gets here when a descriptor has no
//! generated routine or its routine took the slow exit; it does the whole call, and then lets the table plug
//! better code if there is any (`Files::warm`).

#![deny(clippy::arithmetic_side_effects)]

use abi::errno::{Errno, Result};
use abi::linux::{IN_ACCESS, IN_MODIFY, IOV_MAX, Iovec, O_PATH};
use abi::nr;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;

use super::unsigned;
use crate::call::{Args, Handler};
use file::event::marks;
use file::filters::Direction;
use file::fs::FileKind;
use file::io::IoBuf;
use file::page_cache::index;
use file::{OpenFile, Operation};
use process::{Process, Task};
use vm::fallible::try_filled;

/// Calls of this family.
pub const CALLS: &[(usize, Handler)] = &[
    (nr::READ, read),
    (nr::WRITE, write),
    (nr::LSEEK, lseek),
    (nr::READV, readv),
    (nr::WRITEV, writev),
    (nr::PREAD64, pread64),
    (nr::PWRITE64, pwrite64),
    (nr::PREADV, preadv),
    (nr::PWRITEV, pwritev),
    (nr::PREADV2, preadv2),
    (nr::PWRITEV2, pwritev2),
    (nr::COPY_FILE_RANGE, copy_file_range),
    (nr::FSYNC, fsync),
    (nr::FDATASYNC, fdatasync),
    (nr::SYNC, sync),
    (nr::SYNCFS, syncfs),
    (nr::FADVISE64, fadvise64),
    (nr::READAHEAD, readahead),
    (nr::SYNC_FILE_RANGE, sync_file_range),
];

/// Which way bytes move.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Read,
    Write,
}

/// Where in the file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum At {
    Offset,
    Position(u64),
}

/// Whether `count` bytes from `offset` on end at an offset that there is. EINVAL.
pub(super) fn ends(offset: u64, count: usize) -> Result<()> {
    let end = offset.checked_add(count as u64);
    match end.and_then(|end| i64::try_from(end).ok()) {
        Some(_) => Ok(()),
        None => Err(Errno::EINVAL),
    }
}

/// Whether `of` is open for that, and its bytes pass no filter. EBADF; EINVAL: they do.
#[inline]
pub(super) fn check(of: &OpenFile, way: Way) -> Result<()> {
    let plainly = match way {
        Way::Read => of.reads_plainly(),
        Way::Write => of.writes_plainly(),
    };
    if plainly { Ok(()) } else { Err(why(of, way)) }
}

/// Why the bytes of `of` do not move plainly.
#[cold]
fn why(of: &OpenFile, way: Way) -> Errno {
    let open = match way {
        Way::Read => of.readable(),
        Way::Write => of.writable(),
    };
    if open { Errno::EINVAL } else { Errno::EBADF }
}

/// As [`transfer`], where [`check`] has refused with `error`: through the filters, if that is the reason.
#[cold]
fn filtered<'a>(
    of: &'a Arc<OpenFile>,
    way: Way,
    at: At,
    error: Errno,
    buffer: impl Fn() -> Result<IoBuf<'a>>,
) -> Result<usize> {
    if error != Errno::EINVAL {
        return Err(error);
    }
    let buf = buffer()?;
    let course = match way {
        Way::Read => Direction::Incoming,
        Way::Write => Direction::Outgoing,
    };
    let passage = of.passage(course)?;
    let mut buf = match passage {
        Some(passage) => buf.through(passage),
        None => buf,
    };
    let result = transfer(of, way, at, &mut buf);
    told(of, way, &result);
    result
}

/// Bytes have moved plainly, and `of` stands apart: tells who watches; and if there is a filter since, what
/// was read passes it. `buffer` makes the buffer once more.
#[cold]
fn behind<'a>(
    of: &'a Arc<OpenFile>,
    way: Way,
    result: &Result<usize>,
    buffer: impl Fn() -> Result<IoBuf<'a>>,
) {
    told(of, way, result);
    if let (Way::Read, &Ok(count)) = (way, result) {
        of.passed_late(count, buffer);
    }
}

/// The same of a place in the file: who has no places says that first.
fn check_at(of: &OpenFile, way: Way, at: At) -> Result<()> {
    if at != At::Offset && has_no_places(of) {
        return Err(Errno::ESPIPE);
    }
    check(of, way)
}

pub(super) fn has_no_places(of: &OpenFile) -> bool {
    of.published().is_none() && !of.file().has_places(of)
}

pub(super) fn transfer(of: &OpenFile, way: Way, at: At, buf: &mut IoBuf) -> Result<usize> {
    match (way, at) {
        (Way::Read, At::Offset) => of.file().read(of, buf),
        (Way::Write, At::Offset) => {
            let written = of.file().write(of, buf);
            if buf.remaining() > 0 {
                of.note_short_transfer();
            }
            written
        }
        (Way::Read, At::Position(offset)) => of.file().read_at(of, offset, buf),
        (Way::Write, At::Position(offset)) => of.file().write_at(of, offset, buf),
    }
}

/// Tells who watches the file of `of` that bytes have moved.
#[inline]
pub(super) fn told(of: &Arc<OpenFile>, way: Way, result: &Result<usize>) {
    if of.tells() && result.as_ref().is_ok_and(|&count| count > 0) {
        let event = match way {
            Way::Read => IN_ACCESS,
            Way::Write => IN_MODIFY,
        };
        marks::tell(of, event);
    }
}

/// The open file behind `fd`, and whether its table could hold better code.
#[inline]
fn open_file(fd: i32) -> Result<(Arc<OpenFile>, bool)> {
    Task::here(|task| task.process.files.with(|files| files.get_cold(fd))).ok_or(Errno::EBADF)?
}

fn simple(args: &Args, way: Way) -> Result<usize> {
    let fd = args.int(0);
    let (of, cold) = open_file(fd)?;
    let buffer = || IoBuf::user(args.word(1), args.word(2));
    if let Err(error) = check(&of, way) {
        let result = filtered(&of, way, At::Offset, error, buffer);
        if cold && error == Errno::EINVAL {
            Process::current().files.get().warm(fd, &of);
        }
        return result;
    }
    let mut buf = buffer()?;
    let result = transfer(&of, way, At::Offset, &mut buf);
    if of.stands_apart() {
        behind(&of, way, &result, buffer);
    }
    if cold {
        Process::current().files.get().warm(fd, &of);
    }
    result
}

fn read(args: &mut Args) -> Result<usize> {
    simple(args, Way::Read)
}

fn write(args: &mut Args) -> Result<usize> {
    simple(args, Way::Write)
}

fn lseek(args: &mut Args) -> Result<usize> {
    let fd = args.int(0);
    let (of, cold) = open_file(fd)?;
    if of.flags() & abi::linux::O_PATH != 0 {
        return Err(Errno::EBADF);
    }
    let result = of.file().lseek(&of, args.long(1), args.uint(2));
    if cold {
        Process::current().files.get().warm(fd, &of);
    }
    result.map(|offset| offset as usize)
}

const RWF_HIPRI: u32 = 1;
const RWF_DSYNC: u32 = 2;
const RWF_SYNC: u32 = 4;
const RWF_NOWAIT: u32 = 8;
const RWF_APPEND: u32 = 16;

/// Whether one call for `of` may have `flags` (`RWF_…`). EOPNOTSUPP.
fn check_call_flags(of: &OpenFile, way: Way, flags: u32) -> Result<()> {
    if flags & !(RWF_HIPRI | RWF_DSYNC | RWF_SYNC | RWF_NOWAIT | RWF_APPEND) != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    let [reads, writes] = of.file().takes_flags(of);
    let plain = (way == Way::Read && !reads) || (way == Way::Write && !writes);
    let waits = of.kind() != Some(FileKind::Char) || !of.file().is_always_ready();
    if (plain && flags & !RWF_HIPRI != 0) || (waits && flags & RWF_NOWAIT != 0) {
        return Err(Errno::EOPNOTSUPP);
    }
    Ok(())
}

/// Stores what a call with `flags` wrote, if it is to be stored at once.
fn store(of: &OpenFile, flags: u32) -> Result<()> {
    match flags & (RWF_DSYNC | RWF_SYNC) {
        0 => Ok(()),
        flags => of.file().sync(of, flags & RWF_SYNC == 0),
    }
}

fn vector(args: &Args, way: Way, at: At, flags: u32) -> Result<usize> {
    let of = Process::current().files.get().opened(args.int(0))?;
    let plainly = check_at(&of, way, at);
    if plainly.is_err() && plainly != Err(Errno::EINVAL) {
        plainly?;
    }
    if args.uint(2) > IOV_MAX as u32 {
        return Err(Errno::EINVAL);
    }
    let pieces: Vec<Iovec> = vm::user::array(args.word(1), args.uint(2) as usize)?;
    let appends = way == Way::Write && flags & RWF_APPEND != 0;
    let buffer = || {
        let buf = IoBuf::scattered(&pieces)?;
        Ok(if appends { buf.to_end() } else { buf })
    };
    let mut buf = buffer()?;
    let [reads, writes] = of.file().moves();
    if (way == Way::Read && !reads) || (way == Way::Write && !writes) {
        return Err(Errno::EINVAL);
    }
    if buf.remaining() == 0 {
        return Ok(0);
    }
    if let At::Position(offset) = at {
        ends(offset, buf.remaining())?;
    }
    if flags != 0 {
        check_call_flags(&of, way, flags)?;
    }
    if let Err(error) = plainly {
        return filtered(&of, way, at, error, buffer);
    }
    let result = transfer(&of, way, at, &mut buf);
    if of.stands_apart() {
        behind(&of, way, &result, buffer);
    }
    if way == Way::Write && result.is_ok() {
        store(&of, flags)?;
    }
    if at == At::Offset && pieces.len() == 1 && result.is_ok() {
        of.used_plainly(match way {
            Way::Read => Operation::ReadSegment,
            Way::Write => Operation::WriteSegment,
        });
    }
    result
}

fn readv(args: &mut Args) -> Result<usize> {
    vector(args, Way::Read, At::Offset, 0)
}

fn writev(args: &mut Args) -> Result<usize> {
    vector(args, Way::Write, At::Offset, 0)
}

fn positional(args: &Args, way: Way) -> Result<usize> {
    let offset = unsigned(args.long(3))?;
    let of = Process::current().files.get().opened(args.int(0))?;
    let buffer = || IoBuf::user(args.word(1), args.word(2));
    if let Err(error) = check_at(&of, way, At::Position(offset)) {
        ends(offset, args.word(2))?;
        return filtered(&of, way, At::Position(offset), error, buffer);
    }
    let mut buf = buffer()?;
    ends(offset, args.word(2))?;
    let result = transfer(&of, way, At::Position(offset), &mut buf);
    if of.stands_apart() {
        behind(&of, way, &result, buffer);
    }
    if result.is_ok() {
        of.used_plainly(match way {
            Way::Read => Operation::ReadAt,
            Way::Write => Operation::WriteAt,
        });
    }
    result
}

fn pread64(args: &mut Args) -> Result<usize> {
    positional(args, Way::Read)
}

fn pwrite64(args: &mut Args) -> Result<usize> {
    positional(args, Way::Write)
}

fn preadv(args: &mut Args) -> Result<usize> {
    let offset = unsigned(args.long(3))?;
    vector(args, Way::Read, At::Position(offset), 0)
}

fn pwritev(args: &mut Args) -> Result<usize> {
    let offset = unsigned(args.long(3))?;
    vector(args, Way::Write, At::Position(offset), 0)
}

fn vector2(args: &Args, way: Way) -> Result<usize> {
    let flags = args.uint(5);
    match args.long(3) {
        -1 => vector(args, way, At::Offset, flags),
        offset => vector(args, way, At::Position(unsigned(offset)?), flags),
    }
}

fn preadv2(args: &mut Args) -> Result<usize> {
    vector2(args, Way::Read)
}

fn pwritev2(args: &mut Args) -> Result<usize> {
    vector2(args, Way::Write)
}

/// Bytes that one step of an in-kernel copy moves.
const STEP: usize = 16 << 10;

/// Copies up to `count` bytes between two open files; what the destination did not take stays unread.
pub(super) fn copy(
    from: &Arc<OpenFile>,
    from_at: &mut At,
    to: &Arc<OpenFile>,
    to_at: &mut At,
    count: usize,
) -> Result<usize> {
    let mut bytes = try_filled(0, STEP.min(count))?;
    let mut total = 0;
    while total < count {
        if account::caller::is_dying() {
            return if total > 0 {
                Ok(total)
            } else {
                Err(Errno::EINTR)
            };
        }
        let step = bytes.len().min(count.saturating_sub(total));
        // The source keeps its offset until it is known what the destination took.
        let start = match *from_at {
            At::Position(offset) => offset,
            At::Offset => from.cursor.offset.load(Ordering::Relaxed),
        };
        let got = from
            .file()
            .read_at(from, start, &mut IoBuf::fill(&mut bytes[..step]));
        let got = match got {
            Ok(0) => break,
            Ok(got) => got,
            Err(_) if total > 0 => break,
            Err(e) => return Err(e),
        };
        let put = match transfer(to, Way::Write, *to_at, &mut IoBuf::drain(&bytes[..got])) {
            Ok(put) => put,
            Err(_) if total > 0 => break,
            Err(e) => return Err(e),
        };
        let end = start.saturating_add(put as u64);
        match from_at {
            At::Position(offset) => *offset = end,
            At::Offset => from.cursor.offset.store(end, Ordering::Relaxed),
        }
        if let At::Position(offset) = to_at {
            *offset = offset.saturating_add(put as u64);
        }
        total = total.saturating_add(put);
        if put < got {
            break;
        }
    }
    told(from, Way::Read, &Ok(total));
    told(to, Way::Write, &Ok(total));
    Ok(total)
}

/// Where a copy of `count` bytes begins in `of`: at the offset at user address `addr`, or the description's
/// when that is null. EFAULT, EOVERFLOW, EINVAL.
pub(super) fn at(addr: usize, of: &OpenFile, count: usize) -> Result<(At, u64)> {
    let offset = match addr {
        0 => of.cursor.offset.load(Ordering::Relaxed) as i64,
        addr => vm::user::get(addr)?,
    };
    // A negative one counts as a very large one here.
    (offset as u64)
        .checked_add(count as u64)
        .ok_or(Errno::EOVERFLOW)?;
    let start = unsigned(offset)?;
    Ok(match addr {
        0 => (At::Offset, start),
        _ => (At::Position(start), start),
    })
}

pub(super) fn put_back(addr: usize, at: At) -> Result<()> {
    match at {
        At::Position(offset) => vm::user::put(addr, &offset),
        At::Offset => Ok(()),
    }
}

fn copy_file_range(args: &mut Args) -> Result<usize> {
    let files = Process::current().files.get();
    let from = files.get(args.int(0))?;
    let to = files.get(args.int(2))?;
    if args.uint(5) != 0 {
        return Err(Errno::EINVAL);
    }
    if (from.flags() | to.flags()) & O_PATH != 0 {
        return Err(Errno::EBADF);
    }
    let kinds = [from.kind(), to.kind()];
    if kinds.contains(&Some(FileKind::Directory)) {
        return Err(Errno::EISDIR);
    }
    if kinds != [Some(FileKind::Regular); 2] {
        return Err(Errno::EINVAL);
    }
    check(&from, Way::Read)?;
    check(&to, Way::Write)?;
    if to.appending() {
        return Err(Errno::EBADF);
    }
    let count = args.word(4);
    let (mut from_at, from_start) = at(args.word(1), &from, count)?;
    let (mut to_at, to_start) = at(args.word(3), &to, count)?;
    let there = from.file().stat(&from).size.saturating_sub(from_start);
    let length = there.min(count as u64);
    if from.inode().map(|i| i.id()) == to.inode().map(|i| i.id())
        && to_start.saturating_add(length) > from_start
        && to_start < from_start.saturating_add(length)
    {
        return Err(Errno::EINVAL);
    }
    let count = count.min(file::io::MAX_COUNT);
    let done = copy(&from, &mut from_at, &to, &mut to_at, count)?;
    put_back(args.word(1), from_at)?;
    put_back(args.word(3), to_at)?;
    Ok(done)
}

fn fsync(args: &mut Args) -> Result<usize> {
    do_sync(args.int(0), false)
}

fn fdatasync(args: &mut Args) -> Result<usize> {
    do_sync(args.int(0), true)
}

fn do_sync(fd: i32, data: bool) -> Result<usize> {
    let of = Process::current().files.get().opened(fd)?;
    match of.kind() {
        Some(FileKind::Regular | FileKind::Directory | FileKind::Block) => {
            of.file().sync(&of, data)?
        }
        _ => return Err(Errno::EINVAL),
    }
    Ok(0)
}

fn sync(_args: &mut Args) -> Result<usize> {
    index::flush_all(None);
    Ok(0)
}

fn syncfs(args: &mut Args) -> Result<usize> {
    let of = Process::current().files.get().opened(args.int(0))?;
    if let Some(inode) = of.inode() {
        let (dev, _) = inode.id();
        index::flush_all(Some(dev));
    }
    of.file().take_fs_error(&of)?;
    Ok(0)
}

fn fadvise64(args: &mut Args) -> Result<usize> {
    const POSIX_FADV_NORMAL: i32 = 0;
    const POSIX_FADV_RANDOM: i32 = 1;
    const POSIX_FADV_SEQUENTIAL: i32 = 2;
    const POSIX_FADV_WILLNEED: i32 = 3;
    const POSIX_FADV_DONTNEED: i32 = 4;
    const POSIX_FADV_NOREUSE: i32 = 5;
    let of = Process::current().files.get().opened(args.int(0))?;
    match of.kind() {
        Some(FileKind::Fifo) => Err(Errno::ESPIPE),
        _ if args.long(2) < 0 => Err(Errno::EINVAL),
        _ => match args.int(3) {
            POSIX_FADV_NORMAL
            | POSIX_FADV_RANDOM
            | POSIX_FADV_SEQUENTIAL
            | POSIX_FADV_WILLNEED
            | POSIX_FADV_DONTNEED
            | POSIX_FADV_NOREUSE => Ok(0),
            _ => Err(Errno::EINVAL),
        },
    }
}

/// All of the file that is to be stored is, where a part of it is to be.
fn sync_file_range(args: &mut Args) -> Result<usize> {
    const SYNC_FILE_RANGE_WAIT_BEFORE: u32 = 1;
    const SYNC_FILE_RANGE_WRITE: u32 = 2;
    const SYNC_FILE_RANGE_WAIT_AFTER: u32 = 4;
    let of = Process::current().files.get().opened(args.int(0))?;
    let flags = args.uint(3);
    if flags & !(SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER)
        != 0
    {
        return Err(Errno::EINVAL);
    }
    let (offset, count) = (args.long(1), args.long(2));
    if offset < 0 || offset.wrapping_add(count) < offset {
        return Err(Errno::EINVAL);
    }
    match of.kind() {
        Some(FileKind::Regular) if flags != 0 => of.file().sync(&of, true).map(|()| 0),
        Some(FileKind::Regular | FileKind::Directory) => Ok(0),
        _ => Err(Errno::ESPIPE),
    }
}

fn readahead(args: &mut Args) -> Result<usize> {
    let of = Process::current().files.get().opened(args.int(0))?;
    check(&of, Way::Read)?;
    match of.kind() {
        Some(FileKind::Regular) => Ok(0),
        _ => Err(Errno::EINVAL),
    }
}
