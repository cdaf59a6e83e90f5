//! The storage of a cached file's pages.
//!
//! *Interface*: [`Backing`], implemented by the file's storage: a file server, a disk, a test.

use abi::errno::Result;
use core::any::Any;
use vm::frame::FrameRef;

/// The most pages that one fill or store moves.
pub const UNIT: usize = 16;

/// The storage of a file's bytes. Its methods may sleep, and take no lock of the cache.
pub trait Backing: Any + Send + Sync {
    /// Pages that one fill or store moves, at most [`UNIT`].
    fn unit(&self) -> usize;

    /// Fills `pages`, which no other thread knows yet, with the bytes from `offset` on, a multiple of the
    /// page size, and with zeros behind the end of the data. EIO; EINTR: the caller has been killed.
    fn fill(&self, offset: u64, pages: &[FrameRef]) -> Result<()>;

    /// Stores the first `count` bytes of `pages` at byte `offset`. Programs may change the bytes meanwhile;
    /// then they are stored again later. EIO, ENOSPC.
    fn store(&self, offset: u64, pages: &[FrameRef], count: usize) -> Result<()>;

    /// All dirty pages were stored: resources for storing may be released.
    fn stored(&self) {}
}
