//! Pages of a shared file for mappings.
//!
//! *Interface*: [`PagesPager`] for a file whose pages are kept, [`SharePager`] for one that is too long for
//! that; through [`Pager`].
//!
//! Pages that are kept are those that `read` and `write` use. Others are read when they are first touched,
//! and are the mapping's own from then on: a fault reads a window of pages by one message; those that were
//! not asked for wait in the pager for the faults of their neighbours. What the host changes later, a page
//! that is there does not show.

use abi::errno::{Errno, Result};
use abi::layout::PAGE;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::any::Any;
use core::sync::atomic::AtomicU32;
use sync::Monitor;
use vm::fallible::try_box;
use vm::frame::{self, FrameRef};
use vm::space::{Label, Pager, PagerInfo};

use super::host::User;
use super::link::Use;
use super::node::Node;
use super::session::Fid;
use crate::fs::busy::Writing;
use crate::fs::cache::Cached;
use crate::fs::inode::Inode;

/// Pages of a window, less than a message holds.
const WINDOW: usize = 8;

/// The pages that are kept of a file.
pub struct PagesPager {
    node: Arc<Node>,
    pages: Arc<Cached>,
    path: Arc<String>,
    /// A shared mapping that may write.
    writes: bool,
    /// Errors of stores that `msync` was told of.
    told: AtomicU32,
    user: User,
    _writing: Option<Writing>,
}

impl PagesPager {
    /// The `pages` of `node`, for a mapping that `writes` them or not.
    pub fn new(
        node: Arc<Node>,
        pages: Arc<Cached>,
        user: User,
        path: Arc<String>,
        writing: Option<Writing>,
        writes: bool,
    ) -> PagesPager {
        pages.map();
        if writes {
            pages.map_to_write(true);
        }
        let told = AtomicU32::new(pages.errors().begin());
        PagesPager {
            node,
            pages,
            path,
            writes,
            told,
            user,
            _writing: writing,
        }
    }
}

impl Drop for PagesPager {
    fn drop(&mut self) {
        if self.writes {
            self.pages.map_to_write(false);
            // What was written is stored without the mapping.
            self.user.leave_late();
        }
    }
}

impl Pager for PagesPager {
    fn frame(&self, index: u64, write: bool) -> Result<FrameRef> {
        let page = match write {
            true => self.pages.page_to_write(index)?,
            false => self.pages.page(index, WINDOW as u64)?,
        };
        page.ok_or(Errno::EFAULT)
    }

    fn resident(&self, first: u64, found: &mut [Option<FrameRef>]) {
        self.pages.pages_now(first, found);
    }

    fn object(&self) -> (u64, u64) {
        self.node.id()
    }

    fn follows_writes(&self) -> bool {
        self.writes
    }

    fn store(&self) -> Result<()> {
        self.pages.flush();
        self.pages.errors().tell(&self.told)
    }

    fn describe(&self) -> PagerInfo {
        described(&self.node, &self.path)
    }
}

/// What people are told of a mapping of `node`.
fn described(node: &Node, path: &Arc<String>) -> PagerInfo {
    let (device, inode) = node.id();
    PagerInfo {
        path: Label::Path(path.clone()),
        device,
        inode,
    }
}

/// A file's pages, where none are kept.
pub struct SharePager {
    node: Arc<Node>,
    fid: Arc<Fid>,
    path: Arc<String>,
    _writing: Option<Writing>,
    window: Monitor<Window>,
}

/// Neighbouring pages that were read together.
#[derive(Default)]
struct Window {
    first: u64,
    pages: [Option<FrameRef>; WINDOW],
}

impl Window {
    fn page(&self, index: u64) -> Option<FrameRef> {
        let place = usize::try_from(index.checked_sub(self.first)?).ok()?;
        self.pages.get(place)?.clone()
    }
}

impl SharePager {
    /// Pages of the open file `fid`.
    pub fn new(
        node: Arc<Node>,
        fid: Arc<Fid>,
        path: Arc<String>,
        writing: Option<Writing>,
    ) -> SharePager {
        SharePager {
            node,
            fid,
            path,
            _writing: writing,
            window: Monitor::default(),
        }
    }

    /// Reads the window that begins with page `first`. ENOMEM.
    fn fill(&self, first: u64) -> Result<Window> {
        let mut window = Window {
            first,
            ..Window::default()
        };
        let offset = first.checked_mul(PAGE as u64).ok_or(Errno::EFAULT)?;
        let count = (WINDOW * PAGE) as u32;
        let session = self.fid.session();
        session.read(Use::Page, &self.fid, offset, count, &mut |data| {
            for (at, (bytes, place)) in data.chunks(PAGE).zip(&mut window.pages).enumerate() {
                let Some(fresh) = frame::alloc_user() else {
                    // The first is what was asked for.
                    return if at == 0 { Err(Errno::ENOMEM) } else { Ok(at) };
                };
                let page = FrameRef::own(fresh);
                page.bytes(0..bytes.len())?.write(0, bytes)?;
                page.bytes(bytes.len()..PAGE)?.zero();
                *place = Some(page);
            }
            Ok(data.len())
        })?;
        Ok(window)
    }
}

impl Pager for SharePager {
    fn frame(&self, index: u64, _write: bool) -> Result<FrameRef> {
        let waiting = self.window.lock().page(index);
        if let Some(page) = waiting {
            return Ok(page);
        }
        // Asked for without the monitor: others fault meanwhile.
        let window = self.fill(index)?;
        let page = window.page(index).ok_or(Errno::EFAULT)?;
        let old = core::mem::replace(&mut *self.window.lock(), window);
        drop(old);
        Ok(page)
    }

    fn object(&self) -> (u64, u64) {
        self.node.id()
    }

    fn file(&self) -> Option<Box<dyn Any>> {
        let node: Arc<dyn Inode> = self.node.clone();
        Some(try_box(node).ok()?)
    }

    fn describe(&self) -> PagerInfo {
        described(&self.node, &self.path)
    }
}
