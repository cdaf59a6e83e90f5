//! Open files of 9p: a regular file, and a directory.
//!
//! *Interface*: [`P9File`] and [`P9Dir`], through [`File`]; [`admit_length`].
//!
//! The contents of a regular file are in pages ([`CachedFile`]), which generated code reads and writes;
//! written data reaches the host when a descriptor is closed, or at `fsync`. An open, and a request for
//! attributes, see the host's current state.
//!
//! Each description has a handle of the server's, opened for it alone. A file that is too long for its pages
//! to be kept, and a description that writes synchronously, or may not read what it writes, have none of
//! this: each read and write is a question to the host, from and to the program's memory, which takes a place
//! of its own on the way (`device/src/virtio/p9_transport.rs`).
//!
//! *Unsafe*: as `file/src/page_cache/routines.rs`.

use abi::errno::{Errno, Result};
use abi::linux::{SEEK_DATA, SEEK_HOLE};
use alloc::sync::Arc;
use core::any::Any;
use core::sync::atomic::{AtomicU32, Ordering};
use quaject::Sharing;
use vm::space::Pager;

use super::backing::{BackingUser, P9Backing};
use super::node::P9Inode;
use super::pager::P9Pager;
use super::session::Fid;
use super::transport::Use;
use crate::fs::attr::Attr;
use crate::fs::file::{DescRoutine, DescRoutines, File, OpenFile, RoutineEnv};
use crate::fs::file_size_limit;
use crate::fs::inode::{DirSink, Inode};
use crate::io::IoBuf;
use crate::page_cache::{CachedFile, PagesPager, WritebackErrors, routines};
use vm::fallible::try_arc;

/// No file is longer.
const MAX_SIZE: u64 = i64::MAX as u64;

/// Whether the running process may make a file of `now` bytes `size` bytes long. EFBIG, and SIGXFSZ.
pub fn admit_length(now: u64, size: u64) -> Result<()> {
    let most = file_size_limit::most();
    let refused = size > now && size > most;
    let admitted = if refused { Err(Errno::EFBIG) } else { Ok(()) };
    file_size_limit::signal_xfsz(admitted, most, MAX_SIZE)
}

/// An open file of the server's.
pub struct P9Handle {
    /// The server's handle.
    pub fid: Arc<Fid>,
    /// Bytes that one message moves.
    pub unit: u32,
    /// It may be read by it.
    pub reads: bool,
    /// It may be written by it.
    pub writes: bool,
}

/// An open regular file.
pub struct P9File {
    node: Arc<P9Inode>,
    fid: Arc<Fid>,
    unit: u32,
    /// Its pages, unless it is too long for them.
    pages: Option<Arc<CachedFile>>,
    /// Calls read and write the pages, and not the host.
    through: bool,
    /// The last error of a store that was reported to its description ([`WritebackErrors`]).
    reported_error: AtomicU32,
    /// The same for the errors of all files of the share.
    reported_fs_error: AtomicU32,
    user: Option<BackingUser>,
}

impl P9File {
    /// `node`, open as `handle`. Reads and writes go `through` the `pages`, or to the host at once.
    pub fn new(
        node: Arc<P9Inode>,
        handle: P9Handle,
        pages: Option<Arc<CachedFile>>,
        through: bool,
    ) -> P9File {
        let host = pages.as_ref().and_then(|pages| host(pages));
        let user = host.map(|host| host.attach(&handle.fid, handle.reads, handle.writes));
        let told = pages.as_ref().map_or(0, |pages| pages.errors().begin());
        P9File {
            reported_fs_error: AtomicU32::new(node.shared.errors.begin()),
            node,
            fid: handle.fid,
            unit: handle.unit,
            pages,
            through,
            reported_error: AtomicU32::new(told),
            user,
        }
    }

    /// Whether it is one of the file with these pages.
    pub fn is_of(&self, pages: &Arc<CachedFile>) -> bool {
        self.pages
            .as_ref()
            .is_some_and(|own| Arc::ptr_eq(own, pages))
    }

    /// The pages, of a file that is not too long for them.
    fn pages(&self) -> Option<&Arc<CachedFile>> {
        self.pages.as_ref().filter(|pages| !pages.is_long())
    }

    /// The same, if reads and writes go through them.
    fn kept(&self) -> Option<&Arc<CachedFile>> {
        self.pages().filter(|_| self.through)
    }

    fn pager_that(&self, of: &OpenFile, writes: bool) -> Result<Arc<dyn Pager>> {
        let path = try_arc(of.path()?)?;
        let writing = of.writing()?;
        let node = self.node.clone();
        Ok(match (self.kept(), &self.user) {
            (Some(pages), Some(user)) => {
                let (pages, user) = (pages.clone(), user.more());
                try_arc(PagesPager::new(node, pages, user, path, writing, writes))?
            }
            _ => try_arc(P9Pager::new(node, self.fid.clone(), path, writing))?,
        })
    }

    fn size(&self) -> Result<u64> {
        match self.kept() {
            Some(pages) => Ok(pages.size()),
            None => self.node.refresh(&self.fid, false).map(|attr| attr.size),
        }
    }

    fn read_from(&self, at: u64, buf: &mut IoBuf) -> Result<usize> {
        match (self.kept(), self.pages()) {
            (Some(pages), _) => pages.read(at, buf),
            (None, Some(pages)) => pages.around(at, false, || self.ask(at, buf)),
            (None, None) => self.ask(at, buf),
        }
    }

    /// Reads from the host.
    fn ask(&self, at: u64, buf: &mut IoBuf) -> Result<usize> {
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

    /// Writes at `at`, or the end, as far as the running process may: the offset behind, and how much.
    fn write_to(&self, at: Option<u64>, buf: &mut IoBuf) -> Result<(u64, usize)> {
        let most = file_size_limit::most();
        if let Some(pages) = self.kept() {
            let from = at.unwrap_or_else(|| pages.size());
            let end = from.saturating_add(buf.remaining() as u64).min(most);
            if pages.admit(end).is_ok() {
                return file_size_limit::signal_xfsz(
                    pages.write(at, buf, most.min(MAX_SIZE)),
                    most,
                    MAX_SIZE,
                );
            }
            self.node.outgrow(&pages.clone());
        }
        let at = match at {
            Some(at) => at,
            None => self.size()?,
        };
        let room = most.min(MAX_SIZE).saturating_sub(at);
        if room == 0 && buf.remaining() > 0 {
            return file_size_limit::signal_xfsz(Err(Errno::EFBIG), most, MAX_SIZE);
        }
        buf.limit(usize::try_from(room).unwrap_or(usize::MAX));
        let count = match self.pages() {
            Some(pages) => pages.around(at, true, || self.tell(at, buf))?,
            None => self.tell(at, buf)?,
        };
        Ok((at.saturating_add(count as u64), count))
    }

    /// Writes to the host.
    fn tell(&self, at: u64, buf: &mut IoBuf) -> Result<usize> {
        let session = &self.node.shared.session;
        let mut total = 0;
        while buf.remaining() > 0 {
            let want = buf.remaining().min(self.unit as usize);
            let to = at.saturating_add(total as u64);
            let wrote = session.write(Use::Call, &self.fid, to, want as u32, &mut |room| {
                buf.take(room)
            });
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

/// The keeper of these pages.
fn host(pages: &CachedFile) -> Option<Arc<P9Backing>> {
    let backing: Arc<dyn Any + Send + Sync> = pages.backing().clone();
    backing.downcast().ok()
}

impl File for P9File {
    fn is_always_ready(&self) -> bool {
        true
    }

    fn read(&self, of: &OpenFile, buf: &mut IoBuf) -> Result<usize> {
        of.onward(|at| self.read_from(at, buf))
    }

    fn write(&self, of: &OpenFile, buf: &mut IoBuf) -> Result<usize> {
        let _turn = of.turn();
        let at = of.cursor.offset.load(Ordering::Relaxed);
        let (end, count) = self.write_to((!of.appending() && !buf.appends()).then_some(at), buf)?;
        of.cursor.offset.store(end, Ordering::Relaxed);
        Ok(count)
    }

    fn read_at(&self, _of: &OpenFile, offset: u64, buf: &mut IoBuf) -> Result<usize> {
        self.read_from(offset, buf)
    }

    fn write_at(&self, of: &OpenFile, offset: u64, buf: &mut IoBuf) -> Result<usize> {
        let at = (!of.appending() && !buf.appends()).then_some(offset);
        self.write_to(at, buf).map(|(_, count)| count)
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
        let asked = self.node.refresh(&self.fid, false);
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
        let stored = match self.pages() {
            Some(pages) => {
                pages.flush();
                pages.errors().tell(&self.reported_error)
            }
            None => Ok(()),
        };
        stored.and(self.node.shared.session.fsync(&self.fid, data))
    }

    fn take_fs_error(&self, _of: &OpenFile) -> Result<()> {
        self.node.shared.errors.tell(&self.reported_fs_error)
    }

    fn unsettled(&self, _of: &OpenFile) -> bool {
        self.kept().is_some_and(|pages| pages.is_unsettled())
    }

    /// At the close the data is stored, so others can see it.
    fn settle(&self, of: &OpenFile) {
        if self.unsettled(of) {
            // A failure to store is noted, and `fsync` tells it.
            let _noted = self.node.refresh(&self.fid, true);
        }
    }

    fn synthesize_against(
        &self,
        of: &OpenFile,
        sharing: Sharing,
        env: &RoutineEnv,
    ) -> Result<DescRoutines> {
        match self.kept() {
            // SAFETY: the description keeps this, which keeps the pages.
            Some(pages) => unsafe { routines::make(pages.core(), of, sharing, env) },
            None => Ok(DescRoutines::default()),
        }
    }

    fn synthesize_at(&self, of: &OpenFile, writes: bool) -> Result<Option<DescRoutine>> {
        match self.kept() {
            // SAFETY: as above.
            Some(pages) => unsafe { routines::make_at(pages.core(), of, writes) },
            None => Ok(None),
        }
    }

    /// A file that has become too long for its pages has no routines any more.
    fn stage(&self) -> u8 {
        u8::from(self.kept().is_none())
    }

    fn pager(&self, of: &OpenFile) -> Result<Arc<dyn Pager>> {
        self.pager_that(of, false)
    }

    /// Of a file that is too long for its pages what others write is not seen, and nothing is stored: EINVAL.
    fn shared_pager(&self, of: &OpenFile, writes: bool) -> Result<(Arc<dyn Pager>, bool)> {
        match (of.writable() && self.kept().is_some(), writes) {
            (true, _) => Ok((self.pager_that(of, true)?, true)),
            (false, true) => Err(Errno::EINVAL),
            (false, false) => Ok((self.pager(of)?, false)),
        }
    }

    fn is_bounded(&self) -> bool {
        true
    }
}

/// An open directory.
pub struct P9Dir {
    fid: Arc<Fid>,
    errors: Arc<WritebackErrors>,
    /// The last of these that was reported to its description.
    reported_fs_error: AtomicU32,
}

impl P9Dir {
    /// `fid` is open, of a share with these errors.
    pub fn new(fid: Arc<Fid>, errors: Arc<WritebackErrors>) -> P9Dir {
        P9Dir {
            fid,
            reported_fs_error: AtomicU32::new(errors.begin()),
            errors,
        }
    }
}

impl File for P9Dir {
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

    fn take_fs_error(&self, _of: &OpenFile) -> Result<()> {
        self.errors.tell(&self.reported_fs_error)
    }
}
