//! The backing of a 9p file's pages: `Tread` fills them, `Twrite` stores them.
//!
//! *Interface*: [`P9Backing`], through [`Backing`]; [`P9Backing::attach`] lends it a server's handle for as
//! long as there is a [`BackingUser`].
//!
//! The handles are those of the first descriptions that could read, and write. They stay while any
//! description or mapping uses the file, and behind a mapping that wrote until nothing is left to store.

use abi::errno::{Errno, Result};
use abi::layout::PAGE;
use alloc::sync::Arc;
use sync::Monitor;
use vm::frame::FrameRef;

use super::session::{Fid, Session};
use super::transport::Use;
use crate::page_cache::{self, Backing, UNIT};
use vm::fallible::try_arc;

/// The keeper of one file of a share.
pub struct P9Backing {
    session: Arc<Session>,
    handles: Monitor<Handles>,
}

/// Open handles of the server's.
#[derive(Default)]
struct Handles {
    read: Option<Arc<Fid>>,
    write: Option<Arc<Fid>>,
    /// Descriptions and mappings.
    users: usize,
    /// Something may be left to store by one that has gone.
    late: bool,
}

/// One that uses the file: the handles stay as long as it is.
pub struct BackingUser(Arc<P9Backing>);

impl P9Backing {
    /// The host of a file of `session`. ENOMEM.
    pub fn new(session: Arc<Session>) -> Result<Arc<P9Backing>> {
        try_arc(P9Backing {
            session,
            handles: Monitor::new(Handles::default()),
        })
    }

    /// One more uses the file, who has it open as `fid`, which reads or writes or both.
    pub fn attach(self: &Arc<P9Backing>, fid: &Arc<Fid>, reads: bool, writes: bool) -> BackingUser {
        // Bound: copying or taking two counted handles.
        let mut handles = self.handles.lock();
        handles.users += 1;
        if reads && handles.read.is_none() {
            handles.read = Some(fid.clone());
        }
        if writes && handles.write.is_none() {
            handles.write = Some(fid.clone());
        }
        drop(handles);
        BackingUser(self.clone())
    }

    fn take(handles: &mut Handles) -> [Option<Arc<Fid>>; 2] {
        [handles.read.take(), handles.write.take()]
    }
}

impl page_cache::CacheUser for BackingUser {
    /// The handles stay until that is done.
    fn leave_late(&self) {
        // Bound: copying or taking two counted handles.
        self.0.handles.lock().late = true;
    }
}

impl BackingUser {
    /// One more, who uses the same handles.
    pub fn more(&self) -> BackingUser {
        self.0.handles.lock().users += 1;
        BackingUser(self.0.clone())
    }
}

impl Drop for BackingUser {
    fn drop(&mut self) {
        let mut handles = self.0.handles.lock();
        handles.users -= 1;
        let idle = handles.users == 0 && !handles.late;
        let gone = idle.then(|| P9Backing::take(&mut handles));
        drop(handles);
        drop(gone);
    }
}

impl Backing for P9Backing {
    fn unit(&self) -> usize {
        (self.session.unit() / PAGE).clamp(1, UNIT)
    }

    fn fill(&self, offset: u64, pages: &[FrameRef]) -> Result<()> {
        let handle = self.handles.lock().read.clone();
        let handle = handle.ok_or(Errno::EBADF)?;
        let total = pages.len() * PAGE;
        let unit = self.session.unit();
        let mut at = 0;
        while at < total {
            let want = unit.min(total - at);
            let from = offset.saturating_add(at as u64);
            let came = self
                .session
                .read(Use::Page, &handle, from, want as u32, &mut |data| {
                    pieces(pages, at, data.len(), |page, within, done, count| {
                        let bytes = data.get(done..done + count).ok_or(Errno::EIO)?;
                        page.bytes(within..within + count)?.write(0, bytes)
                    })?;
                    Ok(data.len())
                })?;
            at += came;
            if came < want {
                break;
            }
        }
        pieces(pages, at, total - at, |page, within, _, count| {
            page.bytes(within..within + count)?.zero();
            Ok(())
        })
    }

    fn store(&self, offset: u64, pages: &[FrameRef], count: usize) -> Result<()> {
        let handle = self.handles.lock().write.clone();
        let handle = handle.ok_or(Errno::EBADF)?;
        let unit = self.session.unit();
        let mut at = 0;
        while at < count {
            let want = unit.min(count - at);
            let to = offset.saturating_add(at as u64);
            let wrote = self
                .session
                .write(Use::Store, &handle, to, want as u32, &mut |room| {
                    let here = room.len().min(want);
                    pieces(pages, at, here, |page, within, done, count| {
                        let into = room.get_mut(done..done + count).ok_or(Errno::EIO)?;
                        page.bytes(within..within + count)?.read(0, into)
                    })?;
                    Ok(here)
                })?;
            match wrote {
                (0, _) => return Err(Errno::EIO),
                (written, _) => at += written,
            }
        }
        Ok(())
    }

    fn stored(&self) {
        let mut handles = self.handles.lock();
        handles.late = false;
        let idle = handles.users == 0;
        let gone = idle.then(|| P9Backing::take(&mut handles));
        drop(handles);
        drop(gone);
    }
}

/// Calls `each(page, byte in the page, bytes before, count)` for the pieces of `count` bytes from byte `at`
/// of `pages` on.
fn pieces(
    pages: &[FrameRef],
    at: usize,
    count: usize,
    mut each: impl FnMut(&FrameRef, usize, usize, usize) -> Result<()>,
) -> Result<()> {
    let mut done = 0;
    while done < count {
        let within = (at + done) % PAGE;
        let here = (PAGE - within).min(count - done);
        let page = pages.get((at + done) / PAGE).ok_or(Errno::EIO)?;
        each(page, within, done, here)?;
        done += here;
    }
    Ok(())
}
