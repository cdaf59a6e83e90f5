//! `/dev/kmsg`: the kernel's log by records, and a way to write into it.
//!
//! *Interface*: [`open`], for the device number [`LOG`] of major number 1. A read gives one record, as
//! `facility and level, number, microseconds, -; text`, and waits for one at the end. The offset of a
//! description is a position in the log.
//!
//! Source: Linux, Documentation/ABI/testing/dev-kmsg.

use abi::errno::{Errno, Result};
use abi::linux::{O_ACCMODE, O_WRONLY, POLLERR, POLLPRI, SEEK_DATA, SEEK_END, SEEK_SET};
use alloc::sync::Arc;
use core::fmt::{self, Write};
use core::sync::atomic::Ordering;
use machine::log::{LINES, MOST, READERS};
use sync::journal::Look;
use vm::fallible::try_arc;

use super::inode::OpenRequest;
use crate::fs::file::{File, OpenFile};
use crate::fs::klog::{self, LogRecord};
use crate::io::IoBuf;
use crate::poll::{PollTable, READS};
use account::{Capability, caller};

/// The minor number.
pub const LOG: u32 = 11;

/// The level of a line that names none: a warning.
const LEVEL: u16 = 4;
/// The facility of programs.
const USER: u16 = 1;

/// Opens it; a description begins at the oldest record. EPERM, ENOMEM.
pub fn open(how: OpenRequest) -> Result<Arc<OpenFile>> {
    if how.flags & O_ACCMODE != O_WRONLY {
        // It holds addresses of the kernel.
        caller::cred().need(Capability::Syslog)?;
    }
    let of = how.finish(try_arc(Kmsg)?);
    of.put_offset(|_| Ok(LINES.first(0)))?;
    Ok(of)
}

struct Kmsg;

/// The position of `of`.
fn position(of: &OpenFile) -> u64 {
    of.cursor.offset.load(Ordering::Relaxed)
}

impl File for Kmsg {
    fn read(&self, of: &OpenFile, buf: &mut IoBuf) -> Result<usize> {
        let mut entry = LogRecord::blank();
        loop {
            let (mut found, mut lost) = (false, false);
            of.put_offset(|at| {
                let mut to = at;
                found = klog::next(&mut to, &mut entry);
                lost = to != at;
                Ok(match found && !lost {
                    true => entry.record.next,
                    false => to,
                })
            })?;
            if lost {
                return Err(Errno::EPIPE);
            }
            if found {
                return put(&entry, buf);
            }
            if of.nonblocking() {
                return Err(Errno::EAGAIN);
            }
            READERS
                .wait_interruptible(|| LINES.is_there(position(of)).then_some(()))
                .map_err(|_| Errno::ERESTARTSYS)?;
        }
    }

    fn write(&self, _of: &OpenFile, buf: &mut IoBuf) -> Result<usize> {
        let count = buf.remaining();
        let mut line = [0; MOST];
        let line = line.get_mut(..count).ok_or(Errno::EINVAL)?;
        let taken = buf.take(line)?;
        let (kind, text) = parse(&line[..taken]);
        machine::log::write(kind, text);
        Ok(count)
    }

    fn read_at(&self, of: &OpenFile, _offset: u64, buf: &mut IoBuf) -> Result<usize> {
        self.read(of, buf)
    }

    fn write_at(&self, of: &OpenFile, _offset: u64, buf: &mut IoBuf) -> Result<usize> {
        self.write(of, buf)
    }

    fn lseek(&self, of: &OpenFile, offset: i64, whence: u32) -> Result<u64> {
        if offset != 0 {
            return Err(Errno::ESPIPE);
        }
        let to = match whence as i32 {
            SEEK_SET => LINES.first(0),
            SEEK_DATA => LINES.first(klog::cleared()),
            SEEK_END => LINES.end(),
            _ => return Err(Errno::EINVAL),
        };
        of.put_offset(|_| Ok(to))?;
        Ok(0)
    }

    /// There is always room for a line, which Linux does not tell.
    fn poll<'a>(&'a self, of: &'a OpenFile, events: u32, table: Option<&mut PollTable<'a>>) -> u32 {
        if let Some(table) = table {
            table.watch(&READERS);
        }
        match LINES.read(position(of), &mut []) {
            Look::Record(_) => events & READS,
            Look::Gone => POLLERR | events & (READS | POLLPRI),
            Look::Nothing => 0,
        }
    }

    fn can_be_watched(&self) -> bool {
        true
    }

    fn wakes_each_time(&self) -> bool {
        true
    }
}

/// Facility and level that a line names in angle brackets, and the rest of it. Programs are not the kernel.
fn parse(line: &[u8]) -> (u16, &[u8]) {
    let end = line.iter().position(|byte| *byte == 0);
    let line = &line[..end.unwrap_or(line.len())];
    let named = line.strip_prefix(b"<").and_then(|rest| {
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let text = rest[digits..].strip_prefix(b">")?;
        let number = rest[..digits].iter().fold(0_u64, |number, digit| {
            number
                .wrapping_mul(10)
                .wrapping_add(u64::from(digit - b'0'))
        });
        Some((number as u16 & 0x7ff, text))
    });
    let (kind, text) = named.unwrap_or((LEVEL, line));
    match kind >> 3 {
        0 => (USER << 3 | kind, text),
        _ => (kind, text),
    }
}

/// Hands a record to `take` in pieces, as a read gives it.
fn pieces(entry: &LogRecord, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let (record, mut failed) = (&entry.record, Ok(()));
    let mut out = Out(|piece: &[u8]| {
        failed = take(piece);
        failed.is_ok()
    });
    let us = record.stamp / 1000;
    let _ = write!(out, "{},{},{us},-;", record.kind, record.number).and_then(|()| {
        for part in entry.text().chunk_by(|a, b| shows(*a) && shows(*b)) {
            match part {
                [byte] if !shows(*byte) => write!(out, "\\x{byte:02x}")?,
                _ => out.push(part)?,
            }
        }
        out.push(b"\n")
    });
    failed
}

/// Whether a byte stands for itself.
fn shows(byte: u8) -> bool {
    (b' '..0x7f).contains(&byte) && byte != b'\\'
}

/// A receiver of formatted text that may refuse it.
struct Out<F>(F);

impl<F: FnMut(&[u8]) -> bool> Out<F> {
    fn push(&mut self, piece: &[u8]) -> fmt::Result {
        match (self.0)(piece) {
            true => Ok(()),
            false => Err(fmt::Error),
        }
    }
}

impl<F: FnMut(&[u8]) -> bool> Write for Out<F> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text.as_bytes())
    }
}

/// A record as a read gives it. EINVAL: it does not fit; EFAULT.
fn put(entry: &LogRecord, buf: &mut IoBuf) -> Result<usize> {
    let mut length = 0;
    pieces(entry, |piece| {
        length += piece.len();
        Ok(())
    })?;
    if length > buf.remaining() {
        return Err(Errno::EINVAL);
    }
    pieces(entry, |piece| buf.put(piece).map(drop))?;
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_its_facility_and_level() {
        assert_eq!(parse(b"text\n"), (12, &b"text\n"[..]));
        assert_eq!(parse(b"<3>text"), (11, &b"text"[..]));
        assert_eq!(parse(b"<30>text\0more"), (30, &b"text"[..]));
        assert_eq!(parse(b"<>text"), (8, &b"text"[..]));
        assert_eq!(parse(b"<3 text"), (12, &b"<3 text"[..]));
        assert_eq!(parse(b""), (12, &b""[..]));
    }
}
