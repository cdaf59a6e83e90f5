//! Pages of a cached file for mappings: the same pages that `read` and `write` use.
//!
//! *Interface*: [`PagesPager`], through [`Pager`].

use abi::errno::{Errno, Result};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::any::Any;
use core::sync::atomic::AtomicU32;
use vm::fallible::try_box;
use vm::frame::{BatchSlots, FrameRef};
use vm::space::{Pager, PagerInfo, PagerLabel};

use super::CachedFile;
use crate::fs::inode::Inode;
use crate::fs::write_count::WriteAccess;

/// Pages that a fault asks the backing for.
const AROUND: u64 = 8;

/// A mapping's reference to the file's storage, so its pages can be filled and stored.
pub trait CacheUser: Send + Sync {
    /// A mapping that wrote is about to go, and something may be left to store.
    fn leave_late(&self) {}
}

/// Where a file is kept as long as it is there, nothing need be held.
impl CacheUser for () {}

/// The pages that are kept of a file.
pub struct PagesPager<U: CacheUser> {
    inode: Arc<dyn Inode>,
    pages: Arc<CachedFile>,
    path: Arc<String>,
    /// A shared mapping that may write.
    writes: bool,
    /// Store errors that were reported by `msync`.
    reported_error: AtomicU32,
    user: U,
    _writing: Option<WriteAccess>,
}

impl<U: CacheUser> PagesPager<U> {
    /// The `pages` of `inode`, for a mapping that `writes` them or not. Their keeper has `user` for as long
    /// as the mapping is.
    pub fn new(
        inode: Arc<dyn Inode>,
        pages: Arc<CachedFile>,
        user: U,
        path: Arc<String>,
        writing: Option<WriteAccess>,
        writes: bool,
    ) -> PagesPager<U> {
        pages.map();
        if writes {
            pages.map_to_write(true);
        }
        let reported_error = AtomicU32::new(pages.errors().begin());
        PagesPager {
            inode,
            pages,
            path,
            writes,
            reported_error,
            user,
            _writing: writing,
        }
    }
}

impl<U: CacheUser> Drop for PagesPager<U> {
    fn drop(&mut self) {
        if self.writes {
            self.pages.map_to_write(false);
            // Written pages are stored without the mapping.
            self.user.leave_late();
        }
    }
}

impl<U: CacheUser> Pager for PagesPager<U> {
    fn frame(&self, index: u64, write: bool) -> Result<FrameRef> {
        let page = match write {
            true => self.pages.page_to_write(index)?,
            false => self.pages.page(index, AROUND)?,
        };
        page.ok_or(Errno::EFAULT)
    }

    fn resident(&self, first: u64, found: &mut BatchSlots<'_>) {
        self.pages.pages_now(first, found);
    }

    fn object(&self) -> (u64, u64) {
        self.pages.id()
    }

    fn follows_writes(&self) -> bool {
        self.writes
    }

    fn store(&self) -> Result<()> {
        self.pages.flush();
        self.pages.errors().tell(&self.reported_error)
    }

    fn file(&self) -> Option<Box<dyn Any>> {
        Some(try_box(self.inode.clone()).ok()?)
    }

    fn describe(&self) -> PagerInfo {
        let (device, inode) = self.pages.id();
        PagerInfo {
            path: PagerLabel::Path(self.path.clone()),
            device,
            inode,
        }
    }
}
