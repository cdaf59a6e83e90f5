//! Pages of a long 9p file for mappings.
//!
//! *Interface*: [`P9Pager`], through [`Pager`], for a file that is too long for its pages to be kept.
//!
//! Pages are read when they are first touched, and are the mapping's own from then on: a fault reads a window
//! of pages by one message; those that were not asked for wait in the pager for the faults of their
//! neighbours. A page that is there does not show later changes by the host.

use abi::errno::{Errno, Result};
use abi::layout::PAGE;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::any::Any;
use sync::Monitor;
use vm::fallible::try_box;
use vm::frame::{self, FrameRef};
use vm::space::{Pager, PagerInfo, PagerLabel};

use super::node::P9Inode;
use super::session::Fid;
use super::transport::Use;
use crate::fs::inode::Inode;
use crate::fs::write_count::WriteAccess;

/// Pages of a window, less than a message holds.
const WINDOW: usize = 8;

/// The description, for people, of a mapping of `node`.
fn described(node: &P9Inode, path: &Arc<String>) -> PagerInfo {
    let (device, inode) = node.id();
    PagerInfo {
        path: PagerLabel::Path(path.clone()),
        device,
        inode,
    }
}

/// A file's pages, where none are kept.
pub struct P9Pager {
    node: Arc<P9Inode>,
    fid: Arc<Fid>,
    path: Arc<String>,
    _writing: Option<WriteAccess>,
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

impl P9Pager {
    /// Pages of the open file `fid`.
    pub fn new(
        node: Arc<P9Inode>,
        fid: Arc<Fid>,
        path: Arc<String>,
        writing: Option<WriteAccess>,
    ) -> P9Pager {
        P9Pager {
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

impl Pager for P9Pager {
    fn frame(&self, index: u64, _write: bool) -> Result<FrameRef> {
        // Bound: copying or exchanging eight counted handles.
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
