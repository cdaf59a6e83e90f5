//! The page cache: files whose bytes are kept elsewhere, a page at a time in memory.
//!
//! *Interface*: [`Cached`] is one file's pages; [`Backing`] is where they come from and go to.
//! [`Cached::read`], [`Cached::write`] and [`Cached::resize`] are the plain paths, [`Cached::core`] is what
//! generated routines work on (`quaject::fsmap`), [`Cached::flush`] stores what is dirty. [`index`] finds a
//! file's pages again when it is opened again, and gives them up when memory is short.
//!
//! Generated routines read and write pages that are there exactly as those of a file in memory: by an array
//! of addresses. Those that write have an array of their own, in which a clean page is 0, so the first write
//! of a page, and only that, takes the slow exit and marks it ([`quaject::fsmap::slot`]).
//!
//! Monitors, in the order in which they are taken: `writers` for the length of a write by a call and a change
//! of the size; `flushing` while pages are stored or taken away; `table` while the arrays are looked at or
//! changed, never across a copy from or to a program's memory, nor a question to the backing. A fault during
//! a copy, on a page of this very file, takes `table` alone. A page whose frame somebody has a share of is
//! not evicted; shares are taken with `table` held.
//!
//! What a fill brings is thrown away if the file was cut or replaced meanwhile (`generation`), and a page
//! that a fill is about to bring is not evicted: so an answer that is older than a store never comes back as
//! a page.
//!
//! An error of a store is noted for `fsync` ([`Errors`]), and the page stays as it is, clean: as on Linux it
//! is lost when it is evicted.

mod backing;
mod bytes;
mod errors;
mod fill;
pub mod index;
mod leave;
mod pager;
pub mod routines;
mod store;
mod table;
pub mod writer;

pub use backing::{Backing, UNIT};
pub use errors::Errors;
pub use leave::Reach;
pub use pager::{PagesPager, User};

use abi::errno::{Errno, Result};
use abi::layout::PAGE;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use quaject::fsmap::FileCore;
use sync::{Monitor, WaitList};
use vm::frame;

use super::attr::{Attr, Time};
use leave::Gone;
use table::Kept;
use vm::fallible::try_arc;

/// Dirty pages of all files.
static DIRTY: AtomicUsize = AtomicUsize::new(0);

/// Counts changes of files here: who asks a backing for a size and a time knows by it whether there was one
/// meanwhile.
static CHANGES: AtomicU64 = AtomicU64::new(0);

/// Before the backing was asked for attributes.
#[derive(Clone, Copy)]
pub struct Mark(u64);

/// Now.
pub fn mark() -> Mark {
    Mark(CHANGES.load(Ordering::SeqCst))
}

/// How many pages of all files are dirty.
pub fn dirty() -> usize {
    DIRTY.load(Ordering::Relaxed)
}

/// More dirty pages than this, and who writes stores them himself.
fn most_dirty() -> usize {
    frame::total() / 8
}

/// Guarded by the turn to write.
struct Writing;
/// Guarded by the turn to store.
struct Storing;

/// What a backing says of a file, by which a change of somebody else's is seen.
type Stamp = (Time, u64);

/// The pages of one file.
pub struct Cached {
    core: FileCore,
    backing: Arc<dyn Backing>,
    writers: Monitor<Writing>,
    flushing: Monitor<Storing>,
    table: Monitor<Kept>,
    stamp: Monitor<Option<Stamp>>,
    /// Fills that have ended.
    fills: AtomicU64,
    filled: WaitList,
    errors: Errors,
    /// Those of all files of its file system.
    all_errors: Arc<Errors>,
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

impl Cached {
    /// The pages of file `id` (file system and number), which `backing` keeps, none as yet; `all_errors` are
    /// told of what cannot be stored of any file of that file system. ENOMEM.
    pub fn new(
        id: (u64, u64),
        backing: Arc<dyn Backing>,
        all_errors: Arc<Errors>,
    ) -> Result<Arc<Cached>> {
        try_arc(Cached {
            core: FileCore::new(),
            backing,
            writers: Monitor::new(Writing),
            flushing: Monitor::new(Storing),
            table: Monitor::new(Kept::default()),
            stamp: Monitor::new(None),
            fills: AtomicU64::new(0),
            filled: WaitList::new(),
            errors: Errors::new(),
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

    /// What the generated routines of this file work on.
    pub fn core(&self) -> &FileCore {
        &self.core
    }

    /// What keeps the file.
    pub fn backing(&self) -> &Arc<dyn Backing> {
        &self.backing
    }

    /// File system and number.
    pub fn id(&self) -> (u64, u64) {
        self.id
    }

    /// Errors of stores.
    pub fn errors(&self) -> &Errors {
        &self.errors
    }

    /// The size in bytes.
    pub fn size(&self) -> u64 {
        self.core.size.load(Ordering::Acquire)
    }

    /// A change of attributes here, which is none of what the file holds, changes what the backing says.
    pub fn touched(&self) {
        self.stored.store(true, Ordering::Relaxed);
        self.changed();
    }

    /// What the backing said before now counts no more.
    fn changed(&self) {
        let now = CHANGES.fetch_add(1, Ordering::SeqCst) + 1;
        self.changed.fetch_max(now, Ordering::SeqCst);
    }

    /// Pages in memory.
    pub fn resident(&self) -> usize {
        self.table.lock().resident
    }

    /// Whether it is too long for its pages to be kept.
    pub fn is_long(&self) -> bool {
        self.long.load(Ordering::SeqCst)
    }

    /// From now on it is. Who says so sees to it that no routine of its descriptions is left.
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

    /// What the backing said of size and time of change, asked behind `seen`. If it is not as it was,
    /// somebody else has changed the file, and all pages go, unless there are changes of our own. With `ours`
    /// they are known to be our own. Whether it counted: not if there was a change here meanwhile, or one is
    /// going on. EFBIG, ENOMEM: no room for the arrays.
    pub fn heard(&self, attr: &Attr, seen: Mark, ours: bool) -> Result<bool> {
        let new = (attr.mtime, attr.size);
        let known = self.stamp.lock().is_some();
        // Who writes has the last word; before the backing has said anything nobody does.
        let turn = match known {
            true => self.writers.try_lock(),
            false => Some(self.writers.lock()),
        };
        let Some(_turn) = turn else {
            return Ok(false);
        };
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
        let mut gone = Gone::default();
        let end = table.capacity() as u64;
        (0..end).for_each(|index| gone.push(table.take(index)));
        self.core.size.store(attr.size, Ordering::Release);
        Ok(true)
    }
}

impl Drop for Cached {
    fn drop(&mut self) {
        DIRTY.fetch_sub(self.table.get_mut().dirty, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
