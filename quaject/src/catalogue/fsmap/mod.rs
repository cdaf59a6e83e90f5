//! Reads and writes of files: FSmap for a file in memory, the map from an offset to a page, and the
//! generators of the routines that read, write and seek it.
//!
//! *Interface*: [`FileCore`] is one file's map, [`Cursor`] one open file description's position. [`reader`]
//! and [`writer`] make descriptor routines over a pair of them, `synthesize_lseek` the one that moves the
//! position, [`synthesize_read_at`] and [`synthesize_write_at`] those that are given a position;
//! [`FileCore::read`], [`FileCore::write`], [`FileCore::lseek`], [`FileCore::read_at`] and
//! [`FileCore::write_at`] are their reference implementations. Holes, growth beyond the pages that exist,
//! accesses of more than [`LARGEST`] bytes and all unusual cases go through the slow exit to the file's
//! owner.
//!
//! There may be a second array for routines that write, in which a page is 0 if its first write must be
//! noticed: that write takes the slow exit, later writes do not, and no routine needs an extra instruction
//! for it.
//!
//! The owner's invariants: `size` is at most [`FileCore::capacity`]; a page array that is replaced by a
//! larger one holds the same pages and is retired with `sync::epoch`, as are pages that are taken out; the
//! bytes of the last page beyond `size` are zero, unless [`FileCore::take_torn`] says otherwise; page zero of
//! every user space faults, so an address of 0 in the array needs no test; a file with read-only pages has no
//! writing routine.
//!
//! Source: dissertation, table 4.2 (FSmap) and section 3.2.1 (`open` as F_create, `read` as F_small).
//!
//! *Unsafe*: bytes of pages by address; routines that keep what they name.

mod piece;
mod read;
mod seek;
pub mod slot;
mod write;

pub use read::{synthesize_read, synthesize_read_at};
pub use seek::synthesize_lseek;
pub use write::{synthesize_write, synthesize_write_at};

use crate::kit::routine_env::{DescFn, RoutineEnv, RoutineError, Sharing};
use abi::layout::NOWHERE;
use abi::linux::{SEEK_CUR, SEEK_END, SEEK_SET};
use alloc::sync::Arc;
use codegen::Routine;
use core::any::Any;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use sync::monitor::RawMonitor;

#[cfg(not(loom))]
mod quaject {
    use crate::kit::signature::Event;

    crate::quaject! {
        /// File to flat storage mapping
        presence FsmapQuaject = "FSmap" {
            callentry {
                READ = "read", WRITE = "write", LSEEK = "lseek",
                READ_AT = "pread64", WRITE_AT = "pwrite64",
            }
            callout {
                CA_READ: Event = "ca_read" ("leave by the slow exit at a hole"),
                CA_WRITE: Event = "ca_write" ("leave by the slow exit beyond the pages"),
            }
        }
    }
}

/// Finds the file and the position inside their owner; for one owner always the same ones.
pub type Parts<T> = fn(&T) -> (&FileCore, &Cursor);

/// The routine behind `read` for the file and position that `owner`, which it keeps alive, holds. An
/// exclusive one is plugged only where one thread reaches the position.
///
/// # Errors
/// [`RoutineError`]; the caller then leaves the slow stub in place.
pub fn reader<T: Any + Send + Sync>(
    owner: &Arc<T>,
    parts: Parts<T>,
    env: &RoutineEnv,
    sharing: Sharing,
) -> Result<Routine<DescFn>, RoutineError> {
    let (file, cursor) = parts(owner);
    // SAFETY: the image keeps the owner of the words that it names.
    Ok(unsafe { synthesize_read(file, cursor, env, sharing)? }.keeping(owner.clone()))
}

/// The routine behind `write`; as [`reader`]. Every page of the file may be written; `append` for `O_APPEND`.
///
/// # Errors
/// [`RoutineError`].
pub fn writer<T: Any + Send + Sync>(
    owner: &Arc<T>,
    parts: Parts<T>,
    env: &RoutineEnv,
    sharing: Sharing,
    append: bool,
) -> Result<Routine<DescFn>, RoutineError> {
    let (file, cursor) = parts(owner);
    // SAFETY: as above.
    Ok(unsafe { synthesize_write(file, cursor, env, sharing, append)? }.keeping(owner.clone()))
}

/// Size of a page, in bytes.
pub const PAGE: usize = 4096;

/// The most bytes that a routine moves, since nothing can interrupt it.
pub const LARGEST: usize = 64 * 1024;

/// One file: its size and the addresses of its pages.
#[repr(C)]
pub struct FileCore {
    /// Size in bytes.
    pub size: AtomicU64,
    pages: AtomicPtr<AtomicU64>,
    /// The same for routines that write, or [`NOWHERE`] while none may.
    for_writing: AtomicPtr<AtomicU64>,
    /// Pages that the array has places for, times [`PAGE`].
    capacity: AtomicU64,
    /// A routine wrote since [`take_touched`](Self::take_touched).
    touched: AtomicU32,
    /// A routine stopped between copying and publishing.
    torn: AtomicU32,
    /// Excludes appending writers from each other.
    appending: RawMonitor,
    #[cfg(not(loom))]
    _tally: crate::kit::class::Tally,
}

impl FileCore {
    /// An empty file without places for pages.
    pub fn new() -> FileCore {
        FileCore {
            size: AtomicU64::new(0),
            pages: AtomicPtr::new(ptr::null_mut()),
            for_writing: AtomicPtr::new(ptr::null_mut()),
            capacity: AtomicU64::new(0),
            touched: AtomicU32::new(0),
            torn: AtomicU32::new(0),
            appending: RawMonitor::new(),
            #[cfg(not(loom))]
            _tally: quaject::CLASS.tally(),
        }
    }

    /// Bytes that the page array has places for.
    pub fn capacity(&self) -> u64 {
        self.capacity.load(Ordering::Acquire)
    }

    /// The page array: an address for each page, 0 for a hole.
    pub fn pages(&self) -> *mut AtomicU64 {
        self.pages.load(Ordering::Acquire)
    }

    /// Replaces the page array, and the one for routines that write: the same, or one in which a page that
    /// may not be written without more ado is 0. Retire the old ones, of which the first is returned, with
    /// `sync::epoch`.
    ///
    /// # Safety
    /// Both hold the same pages as before and then some, `count` in all, none fewer than before; each entry
    /// is 0 or the address of a page that stays until a grace period after it was taken out of the array.
    pub unsafe fn replace_pages(
        &self,
        pages: *mut AtomicU64,
        for_writing: *mut AtomicU64,
        count: usize,
    ) -> *mut AtomicU64 {
        let old = self.pages.swap(pages, Ordering::AcqRel);
        if !self.is_closed() {
            self.for_writing.store(for_writing, Ordering::Release);
        }
        self.capacity
            .store((count * PAGE) as u64, Ordering::Release);
        old
    }

    /// Keeps routines of a file with one array from writing, or permits it again: a writing routine then
    /// takes the slow exit, at the cost of a fault. A routine that has begun before continues until a grace
    /// period has ended. Not at the same time as this or [`replace_pages`](Self::replace_pages).
    pub fn close(&self, closed: bool) {
        let pages = match closed {
            true => ptr::without_provenance_mut(NOWHERE),
            false => self.pages(),
        };
        self.for_writing.store(pages, Ordering::Release);
    }

    /// Whether routines are kept from writing.
    pub fn is_closed(&self) -> bool {
        self.for_writing.load(Ordering::Acquire).addr() == NOWHERE
    }

    /// Whether a routine wrote since the last time; for the modification time.
    pub fn take_touched(&self) -> bool {
        self.touched.swap(0, Ordering::Relaxed) != 0
    }

    /// Whether a routine wrote since the last [`take_touched`](Self::take_touched).
    pub fn is_touched(&self) -> bool {
        self.touched.load(Ordering::Relaxed) != 0
    }

    /// The word that is 0 while no routine has written since [`take_touched`](Self::take_touched).
    pub fn touched(&self) -> &AtomicU32 {
        &self.touched
    }

    /// Says that bytes of the last page beyond the size may not be zero.
    pub fn tear(&self) {
        self.torn.store(1, Ordering::Release);
    }

    /// Whether bytes of the last page beyond the size may not be zero, since the last time: a write stopped
    /// at a fault after it had copied some. A caller that moves the size past bytes that it did not write
    /// checks this, and then clears them.
    pub fn take_torn(&self) -> bool {
        self.torn.load(Ordering::Acquire) != 0 && self.torn.swap(0, Ordering::AcqRel) != 0
    }

    /// The monitor that appending writers take.
    pub fn appending(&self) -> &RawMonitor {
        &self.appending
    }

    /// The page that holds the byte at `offset`, which is below the capacity, by one of the arrays.
    fn page(array: *mut AtomicU64, offset: u64) -> Option<*mut u8> {
        let index = (offset / PAGE as u64) as usize;
        // SAFETY: the index is below the capacity, which the array has places for.
        let address = unsafe { &*array.add(index) }.load(Ordering::Acquire);
        (address != 0).then(|| ptr::with_exposed_provenance_mut(address as usize))
    }

    /// Calls `each` with the place in memory and the length of every piece of `offset..offset + count`, by
    /// one of the arrays. None at a hole.
    fn pieces(
        array: *mut AtomicU64,
        offset: u64,
        count: usize,
        mut each: impl FnMut(*mut u8, usize),
    ) -> Option<()> {
        let (mut offset, mut left) = (offset, count);
        while left > 0 {
            let within = (offset % PAGE as u64) as usize;
            let len = left.min(PAGE - within);
            // SAFETY: inside the page.
            each(unsafe { Self::page(array, offset)?.add(within) }, len);
            offset += len as u64;
            left -= len;
        }
        Some(())
    }

    /// Reference implementation of the reading routine. None where the routine takes the slow exit.
    pub fn read(&self, cursor: &Cursor, sharing: Sharing, into: &mut [u8]) -> Option<usize> {
        cursor.with(sharing, |offset| {
            let at = offset.load(Ordering::Relaxed);
            let count = self.read_from(at, into)?;
            if count > 0 {
                offset.store(at + count as u64, Ordering::Relaxed);
            }
            Some(count)
        })
    }

    /// Reference implementation of the routine behind `pread64`. None where the routine takes the slow exit.
    pub fn read_at(&self, at: u64, into: &mut [u8]) -> Option<usize> {
        let end = at.checked_add(into.len() as u64)?;
        let is_offset = i64::try_from(end).is_ok();
        is_offset.then(|| self.read_from(at, into))?
    }

    fn read_from(&self, at: u64, into: &mut [u8]) -> Option<usize> {
        if into.is_empty() {
            return None;
        }
        let size = self.size.load(Ordering::Acquire);
        if at >= size {
            return Some(0);
        }
        let count = into.len().min((size - at) as usize);
        if count > LARGEST {
            return None;
        }
        let mut done = 0;
        Self::pieces(self.pages(), at, count, |from, len| {
            // SAFETY: a piece of a page of the file, and `into` has `count` bytes.
            unsafe { ptr::copy_nonoverlapping(from, into[done..].as_mut_ptr(), len) };
            done += len;
        })?;
        Some(count)
    }

    /// Reference implementation of the writing routine. None where the routine takes the slow exit.
    pub fn write(
        &self,
        cursor: &Cursor,
        sharing: Sharing,
        append: bool,
        from: &[u8],
    ) -> Option<usize> {
        cursor.with(sharing, |offset| {
            if append && !self.appending.try_lock() {
                return None;
            }
            let result = self.write_on(offset, append, from);
            if append {
                self.appending.unlock();
            }
            result
        })
    }

    fn write_on(&self, offset: &AtomicU64, append: bool, from: &[u8]) -> Option<usize> {
        let size = self.size.load(Ordering::Acquire);
        let at = if append {
            size
        } else {
            offset.load(Ordering::Relaxed)
        };
        let end = at.checked_add(from.len() as u64)?;
        if at > size || end > self.capacity() {
            return None;
        }
        self.write_to(at, from)?;
        self.size.fetch_max(end, Ordering::AcqRel);
        offset.store(end, Ordering::Relaxed);
        Some(from.len())
    }

    /// Reference implementation of the routine behind `pwrite64`. None where the routine takes the slow exit.
    pub fn write_at(&self, at: u64, from: &[u8]) -> Option<usize> {
        let end = at.checked_add(from.len() as u64)?;
        let within = end <= self.size.load(Ordering::Acquire);
        within.then(|| self.write_to(at, from))?
    }

    /// Writes bytes that end inside the capacity.
    fn write_to(&self, at: u64, from: &[u8]) -> Option<usize> {
        if from.is_empty() || from.len() > LARGEST || self.is_closed() {
            return None;
        }
        let mut done = 0;
        let array = self.for_writing.load(Ordering::Acquire);
        Self::pieces(array, at, from.len(), |to, len| {
            // SAFETY: a piece of a page of the file, and `from` has the bytes.
            unsafe { ptr::copy_nonoverlapping(from[done..].as_ptr(), to, len) };
            done += len;
        })?;
        self.touched.store(1, Ordering::Relaxed);
        Some(from.len())
    }

    /// Reference implementation of the seeking routine. None where the routine takes the slow exit.
    pub fn lseek(&self, cursor: &Cursor, sharing: Sharing, to: i64, whence: i32) -> Option<u64> {
        cursor.with(sharing, |offset| {
            let base = match whence {
                SEEK_SET => 0,
                SEEK_CUR => offset.load(Ordering::Relaxed),
                SEEK_END => self.size.load(Ordering::Relaxed),
                _ => return None,
            };
            let new = (base as i64).wrapping_add(to);
            if new < 0 {
                return None;
            }
            offset.store(new as u64, Ordering::Relaxed);
            Some(new as u64)
        })
    }
}

impl Default for FileCore {
    fn default() -> Self {
        Self::new()
    }
}

/// The position of one open file description.
#[repr(C)]
pub struct Cursor {
    /// Offset in bytes, at most 2^63 - 1.
    pub offset: AtomicU64,
    /// Taken to move the offset while the description is shared.
    pub monitor: RawMonitor,
}

impl Cursor {
    /// At the beginning.
    pub fn new() -> Cursor {
        Cursor {
            offset: AtomicU64::new(0),
            monitor: RawMonitor::new(),
        }
    }

    fn with<T>(&self, sharing: Sharing, f: impl FnOnce(&AtomicU64) -> Option<T>) -> Option<T> {
        if sharing == Sharing::Exclusive {
            return f(&self.offset);
        }
        if !self.monitor.try_lock() {
            return None;
        }
        let result = f(&self.offset);
        self.monitor.unlock();
        result
    }
}

impl Default for Cursor {
    fn default() -> Self {
        Self::new()
    }
}

/// Offsets of the words that routines name.
pub(crate) mod offset {
    use super::{Cursor, FileCore};
    use core::mem::offset_of;

    pub const SIZE: i32 = offset_of!(FileCore, size) as i32;
    pub const PAGES: i32 = offset_of!(FileCore, pages) as i32;
    pub const FOR_WRITING: i32 = offset_of!(FileCore, for_writing) as i32;
    pub const CAPACITY: i32 = offset_of!(FileCore, capacity) as i32;
    pub const TOUCHED: i32 = offset_of!(FileCore, touched) as i32;
    pub const TORN: i32 = offset_of!(FileCore, torn) as i32;
    pub const APPENDING: i32 = offset_of!(FileCore, appending) as i32;
    pub const AT: i32 = offset_of!(Cursor, offset) as i32;
    pub const MONITOR: i32 = offset_of!(Cursor, monitor) as i32;
}

#[cfg(all(test, not(loom)))]
mod tests;

#[cfg(all(test, loom))]
mod model;
