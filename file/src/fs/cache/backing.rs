//! Where the pages of a cached file come from and go to.
//!
//! *Interface*: [`Backing`], implemented by whoever keeps the file: a file server, a disk, a test.

use abi::errno::Result;
use alloc::sync::Arc;
use core::any::Any;
use vm::frame::FrameRef;

/// The most pages that one fill or store moves.
pub const UNIT: usize = 16;

/// What keeps a file's bytes. Its methods may sleep, and take nothing of the cache's.
pub trait Backing: Any + Send + Sync {
    /// Pages that one fill or store moves, at most [`UNIT`].
    fn unit(&self) -> usize;

    /// Fills `pages`, which nobody else knows yet, with what begins at byte `offset`, a multiple of the
    /// page's size; with zeros behind the end of what there is. EIO; EINTR: the caller has been killed.
    fn fill(&self, offset: u64, pages: &[FrameRef]) -> Result<()>;

    /// Stores the first `count` bytes of `pages` at byte `offset`. Programs may change the bytes meanwhile;
    /// then they are stored again later. EIO, ENOSPC.
    fn store(&self, offset: u64, pages: &[FrameRef], count: usize) -> Result<()>;

    /// All that was dirty was stored: what was kept for that may go.
    fn stored(&self) {}

    /// The concrete type, for whoever made it.
    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}
