//! An open regular file of the trials' file system: all through the page cache.
//!
//! *Interface*: [`FaultyFile`], through [`File`].
//!
//! *Unsafe*: as `file/src/page_cache/routines.rs`.

use abi::errno::{Errno, Result};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU32, Ordering};
use file::fs::file::{DescRoutine, DescRoutines};
use file::io::IoBuf;
use file::page_cache::{CachedFile, PagesPager, routines};
use file::{File, OpenFile};
use quaject::{RoutineEnv, Sharing};
use vm::Pager;
use vm::fallible::try_arc;

use super::FaultyInode;
use super::disk::LENGTH;

/// An open file.
pub struct FaultyFile {
    node: Arc<FaultyInode>,
    pages: Arc<CachedFile>,
    /// The last errors that were reported to its description: of its own file, and of all.
    reported_error: AtomicU32,
    reported_fs_error: AtomicU32,
}

impl FaultyFile {
    /// Of `node`, a regular file.
    pub fn new(node: Arc<FaultyInode>) -> Result<FaultyFile> {
        let pages = node.pages().ok_or(Errno::EINVAL)?.clone();
        Ok(FaultyFile {
            reported_error: AtomicU32::new(pages.errors().begin()),
            reported_fs_error: AtomicU32::new(node.world.errors.begin()),
            node,
            pages,
        })
    }

    fn pager_that(&self, of: &OpenFile, writes: bool) -> Result<Arc<dyn Pager>> {
        let path = try_arc(of.path()?)?;
        let pages = self.pages.clone();
        let pager = PagesPager::new(self.node.clone(), pages, (), path, None, writes);
        Ok(try_arc(pager)?)
    }
}

impl File for FaultyFile {
    fn read(&self, of: &OpenFile, buf: &mut IoBuf) -> Result<usize> {
        of.onward(|at| self.pages.read(at, buf))
    }

    fn read_at(&self, _of: &OpenFile, offset: u64, buf: &mut IoBuf) -> Result<usize> {
        self.pages.read(offset, buf)
    }

    fn write(&self, of: &OpenFile, buf: &mut IoBuf) -> Result<usize> {
        let _turn = of.turn();
        let at = of.cursor.offset.load(Ordering::Relaxed);
        let at = (!of.appending()).then_some(at);
        let (end, count) = self.pages.write(at, buf, LENGTH)?;
        of.cursor.offset.store(end, Ordering::Relaxed);
        Ok(count)
    }

    fn write_at(&self, of: &OpenFile, offset: u64, buf: &mut IoBuf) -> Result<usize> {
        let at = (!of.appending()).then_some(offset);
        self.pages.write(at, buf, LENGTH).map(|(_, count)| count)
    }

    fn lseek(&self, of: &OpenFile, offset: i64, whence: u32) -> Result<u64> {
        of.sought(offset, whence, || Some(self.pages.size()))
    }

    fn truncate(&self, _of: &OpenFile, size: u64) -> Result<()> {
        self.node.resize(size)
    }

    fn sync(&self, _of: &OpenFile, _data: bool) -> Result<()> {
        self.pages.flush();
        self.pages.errors().tell(&self.reported_error)
    }

    fn take_fs_error(&self, _of: &OpenFile) -> Result<()> {
        self.node.world.errors.tell(&self.reported_fs_error)
    }

    fn synthesize_against(
        &self,
        of: &OpenFile,
        sharing: Sharing,
        env: &RoutineEnv,
    ) -> Result<DescRoutines> {
        // SAFETY: the description keeps this, which keeps the pages.
        unsafe { routines::make(self.pages.core(), of, sharing, env) }
    }

    fn synthesize_at(&self, of: &OpenFile, writes: bool) -> Result<Option<DescRoutine>> {
        // SAFETY: as above.
        unsafe { routines::make_at(self.pages.core(), of, writes) }
    }

    fn pager(&self, of: &OpenFile) -> Result<Arc<dyn Pager>> {
        self.pager_that(of, false)
    }

    fn shared_pager(&self, of: &OpenFile, writes: bool) -> Result<(Arc<dyn Pager>, bool)> {
        match (of.writable(), writes) {
            (true, _) => Ok((self.pager_that(of, true)?, true)),
            (false, true) => Err(Errno::EACCES),
            (false, false) => Ok((self.pager(of)?, false)),
        }
    }
}
