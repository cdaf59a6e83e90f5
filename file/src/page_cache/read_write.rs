//! `read` and `write` of cached files by calls.
//!
//! *Interface*: [`CachedFile::read`], [`CachedFile::write`].

use abi::errno::{Errno, Result};
use abi::layout::PAGE;
use core::sync::atomic::Ordering;
use vm::frame::{self, FrameRef};

use super::fill::frame_by;
use super::{CachedFile, DIRTY, flusher};
use crate::io::IoBuf;

impl CachedFile {
    /// Fills `buf` from `offset`; stops at the end of the file. The backing's error; ENOMEM.
    pub fn read(&self, offset: u64, buf: &mut IoBuf) -> Result<usize> {
        self.used.store(true, Ordering::Relaxed);
        let (mut at, mut total) = (offset, 0);
        loop {
            let within = (at % PAGE as u64) as usize;
            let left = self.size().saturating_sub(at);
            let want = ((PAGE - within) as u64)
                .min(left)
                .min(buf.remaining() as u64) as usize;
            if want == 0 {
                return Ok(total);
            }
            let pages = (within + buf.remaining()).div_ceil(PAGE) as u64;
            let moved = match self.page(at / PAGE as u64, pages) {
                Ok(Some(page)) => page
                    .bytes(within..within + want)
                    .and_then(|bytes| buf.put_page(&bytes)),
                // It has become shorter.
                Ok(None) => return Ok(total),
                Err(error) => Err(error),
            };
            match moved {
                Ok(count) => {
                    total += count;
                    at += count as u64;
                    if count < want {
                        return Ok(total);
                    }
                }
                Err(_) if total > 0 => return Ok(total),
                Err(error) => return Err(error),
            }
        }
    }

    /// Stores the part of `buf` before byte `most` at `offset`, or at the end; returns the offset behind it
    /// and the count. EFBIG: there is no such part, or no room for the arrays; the backing's error; ENOMEM.
    pub fn write(&self, offset: Option<u64>, buf: &mut IoBuf, most: u64) -> Result<(u64, usize)> {
        // Bound: one `write` of this file; page faults may sleep inside.
        let turn = self.writers.lock();
        let result = match offset {
            Some(at) => self.write_at(at, buf, most),
            None => {
                // Bound: one `write` at the end of this file by a call.
                self.core.appending().lock();
                let result = self.write_at(self.size(), buf, most);
                self.core.appending().unlock();
                result
            }
        };
        drop(turn);
        result
    }

    fn write_at(&self, offset: u64, buf: &mut IoBuf, most: u64) -> Result<(u64, usize)> {
        let room = most.saturating_sub(offset);
        if room == 0 && buf.remaining() > 0 {
            return Err(Errno::EFBIG);
        }
        buf.limit(usize::try_from(room).unwrap_or(usize::MAX));
        let end = offset.saturating_add(buf.remaining() as u64);
        // Bound: a look at one page; **linear** in the pages for growing.
        let mut table = self.table.lock();
        table.reach(&self.core, end.div_ceil(PAGE as u64))?;
        drop(table);
        if offset > self.size() {
            self.mend();
        }
        let (mut at, mut total) = (offset, 0);
        while buf.remaining() > 0 {
            match self.write_page(at, buf) {
                Ok(0) => break,
                Ok(count) => {
                    total += count;
                    at += count as u64;
                    self.throttle();
                }
                Err(_) if total > 0 => break,
                Err(error) => return Err(error),
            }
        }
        self.changed();
        Ok((at, total))
    }

    /// Stores bytes into the one page that `at` lies in; the file reaches as far as they do.
    pub(super) fn write_page(&self, at: u64, buf: &mut IoBuf) -> Result<usize> {
        let index = at / PAGE as u64;
        let within = (at % PAGE as u64) as usize;
        let want = (PAGE - within).min(buf.remaining());
        let start = at - within as u64;
        // The backing's data for this page, if any, is overwritten.
        let whole = within == 0 && start + want as u64 >= self.size().min(start + PAGE as u64);
        let there = self.table.lock().page(index);
        let page = match there {
            Some(page) => page,
            None if whole || start >= self.size() => {
                let fresh = frame_by(frame::alloc_user_zeroed).ok_or(Errno::ENOMEM)?;
                let count = buf.take_page(&fresh.bytes(within..within + want)?)?;
                if count < want && start < self.size() {
                    // Stopped at a fault: the rest is the backing's. It goes by a buffer, since the bytes are
                    // taken.
                    return self.lay_over(index, &fresh, count);
                }
                return self.bring_new(index, fresh, within, count);
            }
            None => match self.page(index, 1)? {
                Some(page) => page,
                None => return Err(Errno::EIO),
            },
        };
        let bytes = page.bytes(within..within + want)?;
        // Some may have been copied before a fault.
        let taken = buf.take_page(&bytes).inspect_err(|_| self.core.tear());
        // Without a share of its own the page could be another by now; with it, only a change of the size
        // takes it away, which waits for writers.
        self.written(at, taken.unwrap_or(0), index, &page);
        taken
    }

    /// `count` bytes from byte `at` of the file on were written into `page`, which is page `index`.
    ///
    /// The size first: a page that is marked may be stored at once, as far as the size reaches, and is clean
    /// then.
    fn written(&self, at: u64, count: usize, index: u64, page: &FrameRef) {
        if count > 0 {
            self.core
                .size
                .fetch_max(at + count as u64, Ordering::AcqRel);
        }
        self.dirtied(index, page);
    }

    /// Page `index` becomes `fresh`, of which `count` bytes from `within` on were written, and the others are
    /// zero.
    fn bring_new(&self, index: u64, fresh: FrameRef, within: usize, count: usize) -> Result<usize> {
        let put = self.table.lock().put(index, fresh.clone());
        let page = put.ok_or(Errno::EFBIG)?;
        if page.frame() != fresh.frame() {
            // A mapping brought the page first.
            let range = within..within + count;
            page.bytes(range.clone())?.copy_from(&fresh.bytes(range)?)?;
        }
        self.written(index * PAGE as u64 + within as u64, count, index, &page);
        Ok(count)
    }

    /// Lays the first `count` bytes of `fresh` over page `index` of the backing.
    fn lay_over(&self, index: u64, fresh: &FrameRef, count: usize) -> Result<usize> {
        let page = self.page(index, 1)?.ok_or(Errno::EIO)?;
        page.bytes(0..count)?.copy_from(&fresh.bytes(0..count)?)?;
        self.dirtied(index, &page);
        Ok(count)
    }

    /// Bytes of `page`, which is page `index`, were written.
    pub(super) fn dirtied(&self, index: u64, page: &FrameRef) -> bool {
        let marked = self.table.lock().mark(index, page);
        if marked == Some(true) {
            DIRTY.fetch_add(1, Ordering::Relaxed);
            flusher::soon();
        }
        marked.is_some()
    }

    /// Clears the last page beyond the size if a write that stopped at a fault may have left bytes there.
    pub(super) fn mend(&self) {
        let size = self.size();
        let within = (size % PAGE as u64) as usize;
        if self.core.take_torn()
            && within != 0
            && let Some(page) = self.table.lock().page(size / PAGE as u64)
            && let Ok(rest) = page.bytes(within..PAGE)
        {
            rest.zero();
        }
    }
}
