//! `/proc/PID/mem`: a process's memory as a file, whose offsets are addresses.
//!
//! *Interface*: [`MemFile`]. A process that may trace this one may open it; the open file shows the program
//! that ran at the open.

use abi::errno::{Errno, Result};
use abi::layout::PAGE;
use abi::linux::{SEEK_CUR, SEEK_SET};
use alloc::sync::Arc;

use account::Cred;
use file::fs::pseudofs::PseudoFile;
use file::io::IoBuf;
use file::{File, OpenFile};
use process::access::{AccessSnapshot, PtraceMode};
use process::{Process, remote_write};
use vm::AddressSpace;
use vm::fallible::{try_arc, try_filled};

/// The file of a process.
pub struct MemFile(pub Arc<Process>);

impl PseudoFile for MemFile {
    fn open(&self, _opener: &Arc<Cred>) -> Result<Arc<dyn File>> {
        let sight = AccessSnapshot::of(&self.0, PtraceMode::Steer).map_err(|_| Errno::EACCES)?;
        Ok(try_arc(Seen(sight))?)
    }
}

/// The file, opened.
struct Seen(AccessSnapshot);

/// How much of `left` bytes from `address` on lies in its page.
fn piece(address: u64, left: usize) -> usize {
    left.min(PAGE - (address as usize & (PAGE - 1)))
}

impl Seen {
    fn address(at: u64) -> Result<usize> {
        usize::try_from(at).map_err(|_| Errno::EIO)
    }

    /// Moves the bytes from `offset` on by `moves`, a page's at a time, until `buf` is through or one fails.
    /// A process without memory has no bytes.
    fn by_pages(
        &self,
        offset: u64,
        buf: &mut IoBuf,
        moves: impl Fn(&Arc<AddressSpace>, usize, &mut [u8], &mut IoBuf) -> Result<usize>,
    ) -> Result<usize> {
        let Some(space) = self.0.space() else {
            return Ok(0);
        };
        let mut page = try_filled(0, PAGE)?;
        let mut done = 0;
        while buf.remaining() > 0 {
            let at = offset.wrapping_add(done as u64);
            let some = page
                .get_mut(..piece(at, buf.remaining()))
                .ok_or(Errno::EIO)?;
            match Self::address(at).and_then(|address| moves(&space, address, some, buf)) {
                Ok(count) => done += count,
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(done)
    }
}

impl File for Seen {
    fn read(&self, of: &OpenFile, buf: &mut IoBuf) -> Result<usize> {
        of.onward(|at| self.read_at(of, at, buf))
    }

    fn write(&self, of: &OpenFile, buf: &mut IoBuf) -> Result<usize> {
        of.onward(|at| self.write_at(of, at, buf))
    }

    fn read_at(&self, _of: &OpenFile, offset: u64, buf: &mut IoBuf) -> Result<usize> {
        self.by_pages(offset, buf, |space, address, some, buf| {
            space.peek_at(address, some).map_err(|_| Errno::EIO)?;
            buf.put(some)
        })
    }

    fn write_at(&self, _of: &OpenFile, offset: u64, buf: &mut IoBuf) -> Result<usize> {
        self.by_pages(offset, buf, |space, address, some, buf| {
            let count = buf.take(some)?;
            let some = some.get(..count).ok_or(Errno::EIO)?;
            remote_write::write(space, address, some).map(|()| count)
        })
    }

    /// Every number is an offset.
    fn lseek(&self, of: &OpenFile, offset: i64, whence: u32) -> Result<u64> {
        of.put_offset(|at| match whence as i32 {
            SEEK_SET => Ok(offset as u64),
            SEEK_CUR => Ok(at.wrapping_add(offset as u64)),
            _ => Err(Errno::EINVAL),
        })
    }
}
