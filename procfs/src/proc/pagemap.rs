//! `/proc/PID/pagemap`: which pages a process has, eight bytes for each.
//!
//! *Interface*: [`PagemapFile`]. It says what Linux says who may not know where in memory a page is: that it
//! is there, whether it is an object's, and whether anybody else has it.

use abi::errno::{Errno, Result};
use abi::layout::{PAGE, USER_END};
use alloc::sync::Arc;

use account::Cred;
use file::fs::pseudofs::PseudoFile;
use file::io::IoBuf;
use file::{File, OpenFile};
use process::Process;
use process::access::{AccessSnapshot, PtraceMode};
use vm::fallible::try_arc;
use vm::space::PagemapEntry;

/// Bytes of an entry.
const ENTRY: usize = 8;
/// Entries that are made at a time.
const SOME: usize = 64;

const PRESENT: u64 = 1 << 63;
const OF_OBJECT: u64 = 1 << 61;
const ALONE: u64 = 1 << 56;

/// The file of a process.
pub struct PagemapFile(pub Arc<Process>);

impl PseudoFile for PagemapFile {
    fn open(&self, _opener: &Arc<Cred>) -> Result<Arc<dyn File>> {
        let sight = AccessSnapshot::of(&self.0, PtraceMode::See).map_err(|_| Errno::EACCES)?;
        Ok(try_arc(Seen(sight))?)
    }

    fn permissions(&self) -> u32 {
        0o400
    }
}

/// The file, opened.
struct Seen(AccessSnapshot);

fn entry(page: Option<PagemapEntry>) -> u64 {
    let Some(page) = page else {
        return 0;
    };
    let bit = |has: bool, bit: u64| if has { bit } else { 0 };
    PRESENT | bit(page.of_object, OF_OBJECT) | bit(page.alone, ALONE)
}

impl File for Seen {
    fn read(&self, of: &OpenFile, buf: &mut IoBuf) -> Result<usize> {
        of.onward(|at| self.read_at(of, at, buf))
    }

    fn read_at(&self, _of: &OpenFile, offset: u64, buf: &mut IoBuf) -> Result<usize> {
        let whole = |count: u64| count.is_multiple_of(ENTRY as u64);
        if !whole(offset) || !whole(buf.remaining() as u64) {
            return Err(Errno::EINVAL);
        }
        let Some(space) = self.0.space() else {
            return Ok(0);
        };
        let mut page = usize::try_from(offset).map_err(|_| Errno::EINVAL)? / ENTRY;
        let mut done = 0;
        while buf.remaining() > 0 {
            let left = (USER_END / PAGE).saturating_sub(page);
            let mut found = [None; SOME];
            let count = left.min(SOME).min(buf.remaining() / ENTRY);
            let found = found.get_mut(..count).unwrap_or_default();
            if found.is_empty() {
                break;
            }
            space.pages(page * PAGE, found);
            page += count;
            let mut entries = [0; SOME];
            for (to, page) in entries.iter_mut().zip(found.iter()) {
                *to = entry(*page);
            }
            let bytes = bytemuck::cast_slice(&entries);
            match buf.put(bytes.get(..count * ENTRY).unwrap_or_default()) {
                Ok(put) => done += put,
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(done)
    }

    fn lseek(&self, of: &OpenFile, offset: i64, whence: u32) -> Result<u64> {
        of.sought(offset, whence, || None)
    }
}
