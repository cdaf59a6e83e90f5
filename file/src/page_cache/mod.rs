//! The page cache: pages in memory of files that are stored elsewhere.
//!
//! *Interface*: [`CachedFile`] is one file's pages; [`Backing`] is their storage. [`CachedFile::read`],
//! [`CachedFile::write`] and [`CachedFile::resize`] are the plain paths, [`CachedFile::core`] is the data of
//! generated routines (`quaject::fsmap`), [`CachedFile::flush`] stores dirty pages. [`index`] finds a file's
//! pages when it is reopened, and evicts them when memory is short.
//!
//! Generated routines read and write present pages exactly as those of a file in memory: through an array of
//! addresses. Writing routines have a separate array, in which a clean page is 0, so only the first write of
//! a page takes the slow exit and marks it dirty ([`quaject::fsmap::slot`]).
//!
//! Monitors, in the order in which they are taken: `writers` for the length of a write by a call and a change
//! of the size; `flushing` while pages are stored or removed; `table` while the arrays are read or changed,
//! never across a copy from or to a program's memory, nor a request to the backing. A fault during a copy, on
//! a page of the same file, takes only `table`. A page whose frame has another share is not evicted; shares
//! are taken with `table` held.
//!
//! The result of a fill is discarded if the file was truncated or replaced meanwhile (`generation`), and a
//! page with a fill in progress is not evicted: so data older than a store never becomes a page.
//!
//! An error of a store is noted for `fsync` ([`WritebackErrors`]), and the page counts as clean: as on Linux
//! its data is lost when it is evicted.

mod backing;
mod evict;
mod fill;
pub mod flusher;
pub mod index;
mod pager;
mod read_write;
pub mod routines;
mod table;
pub(crate) mod unmap;
mod writeback;
mod writeback_errors;

pub use backing::{Backing, UNIT};
pub use evict::EvictScope;
pub use pager::{CacheUser, PagesPager};
pub use writeback_errors::WritebackErrors;

use abi::errno::{Errno, Result};
use abi::layout::PAGE;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use quaject::fsmap::FileCore;
use sync::{Monitor, WaitList};
use vm::frame;

use crate::fs::attr::{Attr, FileTime};
use evict::EvictedPages;
use table::PageArrays;
use vm::fallible::try_arc;

/// Dirty pages of all files.
static DIRTY: AtomicUsize = AtomicUsize::new(0);

/// Counts changes of files here: a caller that asks a backing for size and time uses it to detect a change
/// meanwhile.
static CHANGES: AtomicU64 = AtomicU64::new(0);

/// Before the backing was asked for attributes.
#[derive(Clone, Copy)]
pub struct ChangeMark(u64);

/// Now.
pub fn mark() -> ChangeMark {
    ChangeMark(CHANGES.load(Ordering::SeqCst))
}

/// How many pages of all files are dirty.
pub fn dirty() -> usize {
    DIRTY.load(Ordering::Relaxed)
}

/// With more dirty pages than this, a writer stores them itself.
fn most_dirty() -> usize {
    frame::total() / 8
}

/// Guarded by the turn to write.
struct Writing;
/// Guarded by the turn to store.
struct Storing;

/// A backing's report of a file, which shows changes by others.
type Stamp = (FileTime, u64);

/// The pages of one file.
pub struct CachedFile {
    core: FileCore,
    backing: Arc<dyn Backing>,
    writers: Monitor<Writing>,
    flushing: Monitor<Storing>,
    table: Monitor<PageArrays>,
    stamp: Monitor<Option<Stamp>>,
    /// Fills that have ended.
    fills: AtomicU64,
    filled: WaitList,
    errors: WritebackErrors,
    /// Those of all files of its file system.
    all_errors: Arc<WritebackErrors>,
    /// It became so long that there is no room for its arrays: nothing is kept of it any more.
    long: AtomicBool,
    /// File system and number, as mappings have it.
    id: (u64, u64),
    /// Shared mappings that may write.
    writable_maps: AtomicUsize,
    /// It was mapped.
    mapped: AtomicBool,
    /// Used since eviction came by the last time.
    used: AtomicBool,
    /// The last change here.
    changed: AtomicU64,
    /// Something was stored since the backing was asked for its attributes.
    stored: AtomicBool,
}

impl CachedFile {
    /// The pages of file `id` (file system and number), which `backing` keeps, none as yet; `all_errors` are
    /// told of what cannot be stored of any file of that file system. ENOMEM.
    pub fn new(
        id: (u64, u64),
        backing: Arc<dyn Backing>,
        all_errors: Arc<WritebackErrors>,
    ) -> Result<Arc<CachedFile>> {
        try_arc(CachedFile {
            core: FileCore::new(),
            backing,
            writers: Monitor::new(Writing),
            flushing: Monitor::new(Storing),
            table: Monitor::new(PageArrays::default()),
            stamp: Monitor::new(None),
            fills: AtomicU64::new(0),
            filled: WaitList::new(),
            errors: WritebackErrors::new(),
            all_errors,
            long: AtomicBool::new(false),
            id,
            writable_maps: AtomicUsize::new(0),
            mapped: AtomicBool::new(false),
            used: AtomicBool::new(true),
            changed: AtomicU64::new(0),
            stored: AtomicBool::new(false),
        })
    }

    /// The data of this file's generated routines.
    pub fn core(&self) -> &FileCore {
        &self.core
    }

    /// The file's storage.
    pub fn backing(&self) -> &Arc<dyn Backing> {
        &self.backing
    }

    /// File system and number.
    pub fn id(&self) -> (u64, u64) {
        self.id
    }

    /// Errors of stores.
    pub fn errors(&self) -> &WritebackErrors {
        &self.errors
    }

    /// The size in bytes.
    pub fn size(&self) -> u64 {
        self.core.size.load(Ordering::Acquire)
    }

    /// A change of attributes here, which does not change the contents, changes the backing's report.
    pub fn touched(&self) {
        self.stored.store(true, Ordering::Relaxed);
        self.changed();
    }

    /// Earlier reports of the backing are no longer valid.
    fn changed(&self) {
        let now = CHANGES.fetch_add(1, Ordering::SeqCst) + 1;
        self.changed.fetch_max(now, Ordering::SeqCst);
    }

    /// Pages in memory.
    pub fn resident(&self) -> usize {
        // Bound: **linear** in the pages for growing, and when all go.
        self.table.lock().resident
    }

    /// Whether it is too long for its pages to be kept.
    pub fn is_long(&self) -> bool {
        self.long.load(Ordering::SeqCst)
    }

    /// Marks it as long. The caller ensures that its descriptions have no routines left.
    pub fn set_long(&self) {
        self.long.store(true, Ordering::SeqCst);
    }

    /// Makes room for `size` bytes. EFBIG, ENOMEM: it has to be [long](Self::set_long).
    pub fn admit(&self, size: u64) -> Result<()> {
        if Self::would_be_long(size) {
            return Err(Errno::EFBIG);
        }
        let mut table = self.table.lock();
        table.reach(&self.core, size.div_ceil(PAGE as u64))
    }

    /// Whether a file of `size` bytes is: its arrays would take more than a 64th of memory.
    pub fn would_be_long(size: u64) -> bool {
        size.div_ceil(PAGE as u64) > 4 * frame::total() as u64
    }

    /// Takes the backing's answer about size and time of change, asked behind `seen`. If it is not as it was,
    /// somebody else has changed the file, and all pages go, unless there are changes of our own. With `ours`
    /// they are known to be our own. Whether it counted: not if there was a change here meanwhile, or one is
    /// going on. EFBIG, ENOMEM: no room for the arrays.
    pub fn revalidate(&self, attr: &Attr, seen: ChangeMark, ours: bool) -> Result<bool> {
        let new = (attr.mtime, attr.size);
        // Bound: two words.
        let known = self.stamp.lock().is_some();
        // Local writes override the host's change; before the first report there is nothing to override.
        let turn = match known {
            true => self.writers.try_lock(),
            // Bound: as in `evict.rs`.
            false => Some(self.writers.lock()),
        };
        let Some(_turn) = turn else {
            return Ok(false);
        };
        // Bound: as in `evict.rs`.
        let _storing = self.flushing.lock();
        let mut table = self.table.lock();
        if table.dirty != 0 || self.changed.load(Ordering::SeqCst) > seen.0 {
            return Ok(false);
        }
        table.reach(&self.core, attr.size.div_ceil(PAGE as u64))?;
        let old = self.stamp.lock().replace(new);
        let ours = self.stored.swap(false, Ordering::Relaxed) && ours;
        if (old == Some(new) || ours) && self.size() == attr.size {
            return Ok(true);
        }
        table.generation += 1;
        let mut gone = EvictedPages::default();
        let end = table.capacity() as u64;
        (0..end).for_each(|index| gone.push(table.take(index)));
        self.core.size.store(attr.size, Ordering::Release);
        Ok(true)
    }
}

impl Drop for CachedFile {
    fn drop(&mut self) {
        DIRTY.fetch_sub(self.table.get_mut().dirty, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
