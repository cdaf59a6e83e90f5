//! `splice`, `tee`, `vmsplice`, `sendfile`: bytes between two files without a program's memory in between.
//!
//! *Interface*: [`CALLS`].
//!
//! Between a pipe's queue and a file in memory, another pipe or a program's memory bytes are copied once,
//! from the one into the other, with the end of the queue held. A file that may make its reader wait (a
//! socket, a terminal) is read into a buffer first, so that nobody waits for it with the end held; one that
//! is written to may make the readers of the pipe wait, as on Linux.

#![deny(clippy::arithmetic_side_effects)]

use abi::errno::{Errno, Result};
use abi::linux::{IOV_MAX, Iovec, SEEK_CUR};
use abi::nr;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use quaject::pipe::{ReadEnd, WriteEnd};

use super::io::{
    At, Way, at, check, copy, ends as within, has_no_places, put_back, told, transfer,
};
use crate::call::{Args, Handler};
use abi::linux::POLLIN;
use file::fs::FileKind;
use file::io::{IoBuf, MAX_COUNT};
use file::pipe::bytes;
use file::pipe::ends::{self, SpliceEnd};
use file::{OpenFile, SpliceKind};
use process::Process;
use vm::fallible::try_filled;

/// Calls of this family.
pub const CALLS: &[(usize, Handler)] = &[
    (nr::SPLICE, splice),
    (nr::TEE, tee),
    (nr::VMSPLICE, vmsplice),
    (nr::SENDFILE, sendfile),
];

const SPLICE_F_NONBLOCK: u32 = 2;
/// `MOVE`, `NONBLOCK`, `MORE`, `GIFT`.
const SPLICE_F_ALL: u32 = 15;

/// Bytes of the buffer for a file that may make its reader wait.
const BOUNCE: usize = 16 << 10;

/// Whether positions in it can be named.
fn can_seek(of: &OpenFile) -> bool {
    of.file().lseek(of, 0, SEEK_CUR as u32).is_ok()
}

/// Where in `of`, which is not a pipe, a move of `count` bytes begins: as the offset at `addr` says, or by
/// its own. EFAULT, EINVAL.
fn place(addr: usize, of: &OpenFile, count: usize) -> Result<At> {
    if addr == 0 {
        let start = of.cursor.offset.load(Ordering::Relaxed);
        within(start, count)?;
        return Ok(At::Offset);
    }
    let offset: i64 = vm::user::get(addr)?;
    if !can_seek(of) {
        return Err(Errno::EINVAL);
    }
    let start = u64::try_from(offset).map_err(|_| Errno::EINVAL)?;
    within(start, count)?;
    Ok(At::Position(start))
}

/// Reads at `at` and moves it; a file's own offset is that of a description, which nobody holds meanwhile.
fn moved(of: &OpenFile, way: Way, at: &mut At, buf: &mut IoBuf) -> Result<usize> {
    if *at == At::Offset && of.file().splices(of) != SpliceKind::AtOnce {
        return transfer(of, way, *at, buf);
    }
    let start = match *at {
        At::Position(start) => start,
        At::Offset => of.cursor.offset.load(Ordering::Relaxed),
    };
    let count = transfer(of, way, At::Position(start), buf)?;
    let end = start.saturating_add(count as u64);
    match at {
        At::Position(offset) => *offset = end,
        At::Offset => of.cursor.offset.store(end, Ordering::Relaxed),
    }
    Ok(count)
}

/// Moves up to `count` bytes of `from` into a pipe: as many as it has room for.
pub(super) fn into_pipe(
    from: &OpenFile,
    at: &mut At,
    to: &SpliceEnd,
    count: usize,
    wait: bool,
) -> Result<usize> {
    match from.file().splices(from) {
        SpliceKind::Never => Err(Errno::EINVAL),
        SpliceKind::AtOnce => to.give(wait, |end| {
            if end.free() == 0 {
                return Ok(None);
            }
            end.fill(count, |place| {
                moved(from, Way::Read, at, &mut IoBuf::fill(place))
            })
            .map(Some)
        }),
        SpliceKind::Waits => {
            let room = to.give(wait, |end| Ok(Some(end.free()).filter(|&free| free > 0)))?;
            let mut buffer = try_filled(0, count.min(room).min(BOUNCE))?;
            if !wait && from.inode().is_none() && from.ready_events() & POLLIN == 0 {
                return Err(Errno::EAGAIN);
            }
            let got = moved(from, Way::Read, at, &mut IoBuf::fill(&mut buffer))?;
            let mut rest = IoBuf::drain(buffer.get(..got).unwrap_or_default());
            while rest.remaining() > 0 {
                // Other writers may have taken the room that was seen.
                let put = to.give(true, |end| copy_in(end, &mut rest));
                if put.is_err() {
                    break;
                }
            }
            Ok(rest.done())
        }
    }
}

/// Moves what fits of `buf` into a queue; `None` without room.
fn copy_in(end: &mut WriteEnd<'_>, buf: &mut IoBuf) -> Result<Option<usize>> {
    if end.free() == 0 {
        return Ok(None);
    }
    let count = buf.remaining();
    end.fill(count, |place| buf.take(place)).map(Some)
}

/// Moves up to `count` bytes of a pipe to `to`: what is there.
fn out_of_pipe(
    from: &SpliceEnd,
    to: &OpenFile,
    at: &mut At,
    count: usize,
    wait: bool,
) -> Result<usize> {
    let mut total = 0usize;
    let mut short = false;
    while total < count && !short {
        let left = count.saturating_sub(total);
        let step = from.take(wait && total == 0, |end| {
            if end.available() == 0 {
                return Ok(None);
            }
            let mut done = 0usize;
            let mut result = Ok(());
            for piece in end.pieces() {
                let wanted = piece.len().min(left.saturating_sub(done));
                let bytes = piece.get(..wanted).unwrap_or_default();
                if bytes.is_empty() {
                    continue;
                }
                match moved(to, Way::Write, at, &mut IoBuf::drain(bytes)) {
                    Ok(written) => {
                        done = done.saturating_add(written);
                        short = written < wanted;
                    }
                    Err(error) => {
                        short = true;
                        result = Err(error);
                    }
                }
                if short {
                    break;
                }
            }
            if done == 0 {
                result?;
            }
            end.consume(done);
            Ok(Some(done))
        });
        match step {
            Ok(Some(moved)) => total = total.saturating_add(moved),
            Ok(None) => break,
            Err(_) if total > 0 => break,
            Err(error) => return Err(error),
        }
    }
    Ok(total)
}

/// The outcome of a move from one queue into another.
enum Step {
    Moved(usize),
    Full,
}

/// Moves up to `count` bytes from pipe to pipe, or copies them (`keep`).
fn between(
    from: &SpliceEnd,
    to: &SpliceEnd,
    count: usize,
    keep: bool,
    wait: bool,
) -> Result<usize> {
    let copy = |source: &mut ReadEnd<'_>| {
        if source.available() == 0 {
            return Ok(None);
        }
        let step = to.give(false, |target: &mut WriteEnd<'_>| {
            let mut done = 0usize;
            for piece in source.pieces() {
                let wanted = piece.len().min(count.saturating_sub(done));
                let bytes = piece.get(..wanted).unwrap_or_default();
                let put = target.put(bytes);
                done = done.saturating_add(put);
                if put < wanted {
                    break;
                }
            }
            Ok(Some(done).filter(|&done| done > 0))
        });
        match step {
            Ok(done) => {
                if !keep {
                    source.consume(done);
                }
                Ok(Some(Step::Moved(done)))
            }
            Err(Errno::EAGAIN) => Ok(Some(Step::Full)),
            Err(error) => Err(error),
        }
    };
    loop {
        match from.take(wait, copy)? {
            Some(Step::Moved(done)) => return Ok(done),
            Some(Step::Full) => {
                to.give(wait, |end| Ok((end.free() > 0).then_some(())))?;
            }
            None => {
                // A closed reading end is reported before the end of the source.
                to.give(false, |_| Ok(Some(())))?;
                return Ok(0);
            }
        }
    }
}

fn flags(args: &Args, index: usize) -> Result<bool> {
    let flags = args.uint(index);
    if flags & !SPLICE_F_ALL != 0 {
        return Err(Errno::EINVAL);
    }
    Ok(flags & SPLICE_F_NONBLOCK == 0)
}

fn splice(args: &mut Args) -> Result<usize> {
    let count = args.word(4);
    if count == 0 {
        return Ok(0);
    }
    let wait = flags(args, 5)?;
    let files = Process::current().files.get();
    let (from, to) = (files.get(args.int(0))?, files.get(args.int(2))?);
    let (from_addr, to_addr) = (args.word(1), args.word(3));
    let (source, target) = (ends::of_bytes(&from)?, ends::of_bytes(&to)?);
    if (source.is_some() && from_addr != 0) || (target.is_some() && to_addr != 0) {
        return Err(Errno::ESPIPE);
    }
    check(&from, Way::Read)?;
    check(&to, Way::Write)?;
    let done = match (source, target) {
        (Some(source), Some(target)) => {
            if source.is(&target) {
                return Err(Errno::EINVAL);
            }
            let wait = wait && !from.nonblocking() && !to.nonblocking();
            between(&source, &target, count.min(MAX_COUNT), false, wait)?
        }
        (Some(source), None) => {
            let mut at = place(to_addr, &to, count)?;
            if to.appending() || to.file().splices(&to) == SpliceKind::Never {
                return Err(Errno::EINVAL);
            }
            let wait = wait && !from.nonblocking();
            let done = out_of_pipe(&source, &to, &mut at, count.min(MAX_COUNT), wait)?;
            put_back(to_addr, at)?;
            done
        }
        (None, Some(target)) => {
            let mut at = place(from_addr, &from, count)?;
            let wait = wait && !to.nonblocking();
            let done = into_pipe(&from, &mut at, &target, count.min(MAX_COUNT), wait)?;
            put_back(from_addr, at)?;
            done
        }
        (None, None) => return Err(Errno::EINVAL),
    };
    told(&from, Way::Read, &Ok(done));
    told(&to, Way::Write, &Ok(done));
    Ok(done)
}

fn tee(args: &mut Args) -> Result<usize> {
    let wait = flags(args, 3)?;
    let count = args.word(2);
    if count == 0 {
        return Ok(0);
    }
    let files = Process::current().files.get();
    let (from, to) = (files.get(args.int(0))?, files.get(args.int(1))?);
    check(&from, Way::Read)?;
    check(&to, Way::Write)?;
    let (Some(source), Some(target)) = (ends::of_bytes(&from)?, ends::of_bytes(&to)?) else {
        return Err(Errno::EINVAL);
    };
    if source.is(&target) {
        return Err(Errno::EINVAL);
    }
    let wait = wait && !from.nonblocking() && !to.nonblocking();
    let done = between(&source, &target, count.min(MAX_COUNT), true, wait)?;
    told(&to, Way::Write, &Ok(done));
    Ok(done)
}

fn vmsplice(args: &mut Args) -> Result<usize> {
    let wait = flags(args, 3)?;
    let of: Arc<OpenFile> = Process::current().files.get().get(args.int(0))?;
    let way = match (check(&of, Way::Write), check(&of, Way::Read)) {
        (Ok(()), _) => Way::Write,
        (_, Ok(())) => Way::Read,
        (Err(Errno::EBADF), Err(error)) | (Err(error), Err(_)) => return Err(error),
    };
    if args.word(2) > IOV_MAX as usize {
        return Err(Errno::EINVAL);
    }
    let pieces: Vec<Iovec> = vm::user::array(args.word(1), args.word(2))?;
    let mut buf = IoBuf::scattered(&pieces)?;
    if buf.remaining() == 0 {
        return Ok(0);
    }
    let pipe = ends::of_bytes(&of)?.ok_or(Errno::EBADF)?;
    let result = match way {
        Way::Write => pipe.give(wait, |end| copy_in(end, &mut buf)),
        Way::Read => pipe
            .take(wait, |end| bytes::take(end, &mut buf, false))
            .map(Option::unwrap_or_default),
    };
    told(&of, way, &result);
    result
}

fn sendfile(args: &mut Args) -> Result<usize> {
    let files = Process::current().files.get();
    let from = files.get(args.int(1))?;
    check(&from, Way::Read)?;
    if args.word(2) != 0 && has_no_places(&from) {
        return Err(Errno::ESPIPE);
    }
    let to = files.get(args.int(0))?;
    check(&to, Way::Write)?;
    let count = usize::try_from(args.long(3)).map_err(|_| Errno::EINVAL)?;
    let (mut from_at, start) = at(args.word(2), &from, 0)?;
    within(start, count)?;
    let count = count.min(MAX_COUNT);
    let done = match ends::of_bytes(&to)? {
        Some(pipe) => {
            let wait = !to.nonblocking();
            let done = into_pipe(&from, &mut from_at, &pipe, count, wait);
            told(&from, Way::Read, &done);
            told(&to, Way::Write, &done);
            done?
        }
        None => {
            if from.kind() != Some(FileKind::Regular) || to.appending() {
                return Err(Errno::EINVAL);
            }
            if count == 0 {
                return Ok(0);
            }
            if to.file().splices(&to) == SpliceKind::Never {
                return Err(Errno::EINVAL);
            }
            copy(&from, &mut from_at, &to, &mut At::Offset, count)?
        }
    };
    put_back(args.word(2), from_at)?;
    Ok(done)
}
