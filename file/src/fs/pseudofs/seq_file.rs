//! An open text of a pseudo file system (Linux: `seq_file`).
//!
//! *Interface.* [`SeqFile`]. A reading makes what it needs in pieces of a page and keeps no more than the
//! rest of the last one: the position where the text continues, and at most a page. A read at another offset
//! (`pread`, `lseek`) makes the text again from its start, up to there.

use abi::errno::{Errno, Result};
use abi::layout::PAGE;
use account::{Cred, caller};
use alloc::sync::Arc;
use alloc::vec::Vec;
use sync::Monitor;

use super::WriteSetting;
use super::source::{TextPiece, TextSource};
use crate::fs::file::{File, OpenFile};
use crate::io::IoBuf;

/// The longest setting.
const MAX_SETTING: usize = 256;

/// The behaviour of an open text.
pub(super) struct SeqFile {
    source: Arc<dyn TextSource>,
    set: Option<(WriteSetting, Arc<Cred>)>,
    reading: Monitor<Reading>,
}

/// How far the readers of an open text have come.
#[derive(Default)]
struct Reading {
    /// Offset of the byte that comes next.
    offset: u64,
    /// The position of the text behind `rest`.
    place: u64,
    /// Bytes of the record there that were read before: of one longer than a page, which is not kept.
    passed: usize,
    /// The made bytes; those from `at` on were not read.
    rest: Vec<u8>,
    at: usize,
    /// The position where `rest` began.
    began: u64,
}

impl Reading {
    /// The unread bytes; makes a piece of about `limit` bytes if there are none. Empty at the end.
    fn rest(&mut self, source: &dyn TextSource, limit: usize) -> Result<&[u8]> {
        while self.at == self.rest.len() {
            let mut piece = TextPiece::new(self.place, limit.clamp(1, PAGE))?;
            source.write(self.place, &mut piece)?;
            let (made, next) = piece.finish()?;
            if made.is_empty() && next == self.place {
                (self.rest, self.at) = (Vec::new(), 0);
                break;
            }
            self.began = self.place;
            self.place = next;
            // The record may have become shorter.
            self.at = core::mem::take(&mut self.passed).min(made.len());
            self.rest = made;
        }
        Ok(&self.rest[self.at..])
    }

    /// `count` bytes of the rest were read.
    fn pass(&mut self, count: usize) {
        self.offset += count as u64;
        self.at += count;
        if self.at == self.rest.len() {
            (self.rest, self.at) = (Vec::new(), 0);
        }
    }

    /// No read is in progress: bytes beyond the limit are made again later.
    fn pause(&mut self) {
        // More than a page is one record.
        if self.rest.len() > PAGE {
            self.passed = self.at;
            self.place = self.began;
            (self.rest, self.at) = (Vec::new(), 0);
        }
    }

    fn read(&mut self, source: &dyn TextSource, offset: u64, buf: &mut IoBuf) -> Result<usize> {
        if offset == 0 || offset < self.offset {
            *self = Reading::default();
        }
        while self.offset < offset {
            if caller::is_dying() {
                return Err(Errno::EINTR);
            }
            let rest = self.rest(source, PAGE)?.len();
            if rest == 0 {
                return Ok(0);
            }
            let wanted = usize::try_from(offset - self.offset).unwrap_or(usize::MAX);
            self.pass(rest.min(wanted));
        }
        let mut total = 0;
        while buf.remaining() > 0 {
            let step = self
                .rest(source, buf.remaining())
                .and_then(|rest| Ok((rest.is_empty(), buf.put(rest)?)));
            match step {
                Ok((true, _)) => break,
                Ok((false, count)) => {
                    total += count;
                    self.pass(count);
                }
                Err(_) if total > 0 => break,
                Err(e) => return Err(e),
            }
        }
        Ok(total)
    }
}

impl SeqFile {
    /// A reader of `source`; `set` handles writes, with the identity of the opener.
    pub(super) fn new(
        source: &Arc<dyn TextSource>,
        set: Option<(WriteSetting, Arc<Cred>)>,
    ) -> Result<SeqFile> {
        let source = source.open()?.unwrap_or_else(|| source.clone());
        Ok(SeqFile {
            source,
            set,
            reading: Monitor::new(Reading::default()),
        })
    }
}

impl File for SeqFile {
    fn is_always_ready(&self) -> bool {
        true
    }

    fn read(&self, of: &OpenFile, buf: &mut IoBuf) -> Result<usize> {
        of.onward(|at| self.read_at(of, at, buf))
    }

    fn read_at(&self, _of: &OpenFile, offset: u64, buf: &mut IoBuf) -> Result<usize> {
        // Bound: one reading of a text of `/proc` or `/syn`; a read at another offset makes all of the text
        // before it; a page fault may sleep inside.
        let mut reading = self.reading.lock();
        let result = reading.read(&*self.source, offset, buf);
        reading.pause();
        result
    }

    fn write(&self, _of: &OpenFile, buf: &mut IoBuf) -> Result<usize> {
        let (set, opener) = self.set.as_ref().ok_or(Errno::EINVAL)?;
        let mut bytes = [0; MAX_SETTING];
        let count = buf.take(&mut bytes)?;
        if buf.remaining() > 0 {
            return Err(Errno::EINVAL);
        }
        let value = core::str::from_utf8(&bytes[..count]).map_err(|_| Errno::EINVAL)?;
        set(opener, value.trim_end_matches('\n'))?;
        Ok(count)
    }

    /// A write that does not begin at offset 0 is accepted and changes nothing.
    fn write_at(&self, of: &OpenFile, offset: u64, buf: &mut IoBuf) -> Result<usize> {
        match &self.set {
            None => Err(Errno::ESPIPE),
            Some(_) if offset != 0 => Ok(buf.remaining()),
            Some(_) => self.write(of, buf),
        }
    }

    fn lseek(&self, of: &OpenFile, offset: i64, whence: u32) -> Result<u64> {
        // The end is unknown before it was read.
        of.sought(offset, whence, || None)
    }
}
