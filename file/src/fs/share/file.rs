//! Open files of a share: a regular file, and a directory.
//!
//! *Interface*: [`Opened`] and [`Listing`], through [`File`]; [`admit_length`].
//!
//! Each description has a handle of the server's, opened for it alone, and what it asks takes a place of its own on the way (`device/src/virtio/share.rs`): reads and writes by several threads are at the server
//! at the same time, and nothing is kept here of what a file holds. So there is nothing for generated code to copy: `read` and `write` take the slow exit.

use abi::errno::{Errno, Result};
use abi::linux::{SEEK_DATA, SEEK_HOLE};
use alloc::sync::Arc;
use core::any::Any;
use core::sync::atomic::Ordering;
use vm::space::Pager;

use super::link::Use;
use super::node::Node;
use super::pager::SharePager;
use super::session::Fid;
use crate::file::{File, OpenFile};
use crate::fs::attr::Attr;
use crate::fs::inode::{DirSink, Inode};
use crate::fs::length;
use crate::io::IoBuf;
use vm::fallible::try_arc;

/// No file is longer.
const MAX_SIZE: u64 = i64::MAX as u64;

/// Whether the running process may make a file of `now` bytes `size` bytes long. EFBIG, and SIGXFSZ.
pub fn admit_length(now: u64, size: u64) -> Result<()> {
    let most = length::most();
    let refused = size > now && size > most;
    let admitted = if refused { Err(Errno::EFBIG) } else { Ok(()) };
    length::tell(admitted, most, MAX_SIZE)
}

/// An open regular file.
pub struct Opened {
    node: Arc<Node>,
    fid: Arc<Fid>,
    /// Bytes that one message moves.
    unit: u32,
}

impl Opened {
    /// `fid` is open.
    pub fn new(node: Arc<Node>, fid: Arc<Fid>, unit: u32) -> Opened {
        Opened { node, fid, unit }
    }

    fn size(&self) -> Result<u64> {
        self.node.refresh(&self.fid).map(|attr| attr.size)
    }

    fn read_from(&self, at: u64, buf: &mut IoBuf) -> Result<usize> {
        let session = &self.node.shared.session;
        let mut total = 0;
        while buf.remaining() > 0 {
            let want = buf.remaining().min(self.unit as usize);
            let from = at.saturating_add(total as u64);
            let mut came = 0;
            let read = session.read(Use::Call, &self.fid, from, want as u32, &mut |data| {
                came = data.len();
                buf.put(data)
            });
            match read {
                Ok(count) => total += count,
                Err(_) if total > 0 => break,
                Err(error) => return Err(error),
            }
            if came < want || total == 0 {
                break;
            }
        }
        Ok(total)
    }

    /// Writes at `at`, as far as the running process may.
    fn write_to(&self, at: u64, buf: &mut IoBuf) -> Result<usize> {
        let most = length::most();
        let room = most.min(MAX_SIZE).saturating_sub(at);
        if room == 0 && buf.remaining() > 0 {
            return length::tell(Err(Errno::EFBIG), most, MAX_SIZE);
        }
        buf.limit(usize::try_from(room).unwrap_or(usize::MAX));
        let session = &self.node.shared.session;
        let mut total = 0;
        while buf.remaining() > 0 {
            let want = buf.remaining().min(self.unit as usize);
            let to = at.saturating_add(total as u64);
            let wrote = session.write(&self.fid, to, want as u32, &mut |room| buf.take(room));
            match wrote {
                Ok((written, given)) => {
                    total += written;
                    if written < given || given == 0 {
                        break;
                    }
                }
                Err(_) if total > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(total)
    }
}

impl File for Opened {
    fn read(&self, of: &OpenFile, buf: &mut IoBuf) -> Result<usize> {
        of.onward(|at| self.read_from(at, buf))
    }

    fn write(&self, of: &OpenFile, buf: &mut IoBuf) -> Result<usize> {
        let _turn = of.turn();
        let at = match of.appending() {
            // The host puts it at the end in any case, if the file was opened so.
            true => self.size()?,
            false => of.cursor.offset.load(Ordering::Relaxed),
        };
        let count = self.write_to(at, buf)?;
        of.cursor
            .offset
            .store(at.saturating_add(count as u64), Ordering::Relaxed);
        Ok(count)
    }

    fn read_at(&self, _of: &OpenFile, offset: u64, buf: &mut IoBuf) -> Result<usize> {
        self.read_from(offset, buf)
    }

    fn write_at(&self, of: &OpenFile, offset: u64, buf: &mut IoBuf) -> Result<usize> {
        let at = if of.appending() { self.size()? } else { offset };
        self.write_to(at, buf)
    }

    fn lseek(&self, of: &OpenFile, offset: i64, whence: u32) -> Result<u64> {
        let inside = |size: u64| u64::try_from(offset).ok().filter(|at| *at < size);
        match whence as i32 {
            // Where holes are the host does not say: it is all data.
            SEEK_DATA => of.put_offset(|_| inside(self.size()?).ok_or(Errno::ENXIO)),
            SEEK_HOLE => of.put_offset(|_| {
                let size = self.size()?;
                inside(size).map(|_| size).ok_or(Errno::ENXIO)
            }),
            _ => of.sought(offset, whence, || self.size().ok()),
        }
    }

    fn stat(&self, _of: &OpenFile) -> Attr {
        // Of a file that has no name any more the server may know nothing.
        let asked = self.node.refresh(&self.fid);
        asked.unwrap_or_else(|_| self.node.attr())
    }

    fn truncate(&self, _of: &OpenFile, size: u64) -> Result<()> {
        admit_length(self.node.attr().size, size)?;
        self.node.resize(&self.fid, size)
    }

    fn allocate(&self, _of: &OpenFile, _mode: u32, _offset: u64, _len: u64) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    fn sync(&self, _of: &OpenFile, data: bool) -> Result<()> {
        self.node.shared.session.fsync(&self.fid, data)
    }

    fn pager(&self, of: &OpenFile) -> Result<Arc<dyn Pager>> {
        let path = try_arc(of.path()?)?;
        let pager = SharePager::new(self.node.clone(), self.fid.clone(), path, of.writing()?);
        Ok(try_arc(pager)?)
    }

    /// What others write is not seen, and nothing is written back.
    fn shared_pager(&self, of: &OpenFile, writes: bool) -> Result<(Arc<dyn Pager>, bool)> {
        match writes {
            true => Err(Errno::EINVAL),
            false => Ok((self.pager(of)?, false)),
        }
    }

    fn is_bounded(&self) -> bool {
        true
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// An open directory.
pub struct Listing {
    fid: Arc<Fid>,
}

impl Listing {
    /// `fid` is open.
    pub fn new(fid: Arc<Fid>) -> Listing {
        Listing { fid }
    }
}

impl File for Listing {
    fn read(&self, _of: &OpenFile, _buf: &mut IoBuf) -> Result<usize> {
        Err(Errno::EISDIR)
    }

    fn read_at(&self, _of: &OpenFile, _offset: u64, _buf: &mut IoBuf) -> Result<usize> {
        Err(Errno::EISDIR)
    }

    fn lseek(&self, of: &OpenFile, offset: i64, whence: u32) -> Result<u64> {
        of.sought(offset, whence, || None)
    }

    fn readdir(&self, of: &OpenFile, sink: &mut dyn DirSink) -> Result<()> {
        of.put_offset(|from| self.fid.session().readdir(&self.fid, from, sink))
            .map(drop)
    }

    fn sync(&self, _of: &OpenFile, data: bool) -> Result<()> {
        self.fid.session().fsync(&self.fid, data)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
