//! The pages of a tmpfs file: an array with holes.
//!
//! *Interface.* [`PageStore::read`], [`PageStore::write`], [`PageStore::append`] and [`PageStore::resize`]
//! are the plain paths; [`PageStore::core`] is the data of generated routines (`quaject::fsmap`);
//! [`PageStore::page`] hands a page to a mapping. Offsets and sizes in bytes. Errors: `ENOSPC` without
//! memory, `EFBIG` past [`MAX_SIZE`].
//!
//! Two monitors: `writers` is held for the length of one write or resize, `table` only while the array is
//! read or changed, never across a copy from or to user memory. A fault during such a copy may need a page of
//! the same file; it takes only `table`. Pages are counted frames, so a page being copied or mapped outlives
//! its removal; arrays and pages that a generated routine may still be using go through `sync::epoch`.
//!
//! Bytes of the last page beyond the size are zero unless a write stopped at a fault (`FileCore::take_torn`),
//! and the size is never beyond the array (`quaject::fsmap` builds on both).
//!
//! A short file's array is part of the store, which stays where it is from the first page on.
//!
//! *Unsafe*: the array that routines read, published; garbage of a grace period.

use abi::errno::{Errno, Result};
use abi::layout::PAGE;
use abi::linux::{F_SEAL_FUTURE_WRITE, F_SEAL_GROW, F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_WRITE};
use account::caller;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use codegen::fault_injection::refused;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use quaject::fsmap::FileCore;
use sync::{Monitor, epoch};
use vm::frame::{self, BatchSlots, Frame, FrameRef};

use super::budget::{FsCharge, FsLimits, PAGES};
use crate::io::IoBuf;
use vm::fallible::try_reserve_kept;

/// Seals against writing.
const WRITES: u32 = F_SEAL_WRITE | F_SEAL_FUTURE_WRITE;

/// The most pages an array may have.
const MAX_PAGES: usize = 1 << 24;
/// The largest size in bytes, 64 GiB: an array of pages covers all of it.
pub const MAX_SIZE: u64 = (MAX_PAGES * PAGE) as u64;
const FIRST_CAPACITY: usize = 4;
/// Units of 512 bytes in a page, as `stat` counts.
const SECTORS: u64 = 8;

/// The pages and size of one file.
pub struct PageStore {
    /// The limits of its file system.
    purse: Arc<FsLimits>,
    core: FileCore,
    writers: Monitor<()>,
    table: Monitor<Table>,
    /// Memory in use, in units of 512 bytes: written while the table is held.
    blocks: AtomicU64,
    /// `F_SEAL_*`.
    seals: AtomicU32,
    /// The array of a short file.
    first: [AtomicU64; FIRST_CAPACITY],
    /// Shared mappings that may write.
    writable_maps: AtomicU32,
}

/// The array that `core` points to.
#[derive(Default)]
enum Array {
    /// There is none.
    #[default]
    Nothing,
    /// The store's own.
    First,
    /// This one. The last contents of the store's own array mean nothing then.
    Larger(Box<[AtomicU64]>),
}

/// The array of the pages.
#[derive(Default)]
struct Table {
    array: Array,
}

/// A share of the page of `word` if it is not a hole. With the table locked.
#[inline]
fn share(word: &AtomicU64) -> Option<FrameRef> {
    page_at(word).map(FrameRef::share)
}

/// The page of `word` if it is not a hole.
#[inline]
fn page_at(word: &AtomicU64) -> Option<Frame> {
    let address = word.load(Ordering::Acquire);
    (address != 0).then(|| Frame::from_routines(address))
}

impl PageStore {
    /// An empty file of a file system with `purse`.
    pub fn new(purse: &Arc<FsLimits>) -> PageStore {
        PageStore {
            purse: purse.clone(),
            core: FileCore::new(),
            writers: Monitor::new(()),
            table: Monitor::new(Table::default()),
            blocks: AtomicU64::new(0),
            seals: AtomicU32::new(F_SEAL_SEAL),
            first: [const { AtomicU64::new(0) }; FIRST_CAPACITY],
            writable_maps: AtomicU32::new(0),
        }
    }

    /// The pages, by address; 0 for a hole.
    fn pages<'a>(&'a self, table: &'a Table) -> &'a [AtomicU64] {
        match &table.array {
            Array::Nothing => &[],
            Array::First => &self.first,
            Array::Larger(pages) => pages,
        }
    }

    /// A share of page `index` if it is not a hole.
    fn page_in(&self, table: &Table, index: u64) -> Option<FrameRef> {
        share(self.pages(table).get(usize::try_from(index).ok()?)?)
    }

    /// Its seals.
    pub fn seals(&self) -> u32 {
        self.seals.load(Ordering::SeqCst)
    }

    /// Gives a new, still unknown file its first seals.
    pub fn start_with(&self, seals: u32) {
        self.seals.store(seals, Ordering::SeqCst);
    }

    /// Adds `seals`; from then on no call and no routine does what they forbid. EPERM: it cannot be sealed
    /// any more; EBUSY: it has a writable mapping.
    pub fn seal(&self, seals: u32) -> Result<()> {
        // Bound: one `write`, truncation or hole of this file, or a change of its set-id bits with a grace
        // period, **as long as it is**; page faults may sleep inside.
        let _turn = self.writers.lock();
        let old = self.seals();
        if old & F_SEAL_SEAL != 0 {
            return Err(Errno::EPERM);
        }
        // Before the check of the mappings: a new mapping is first counted, and then checks the seals.
        self.seals.store(old | seals, Ordering::SeqCst);
        if seals & !old & F_SEAL_WRITE != 0 && self.writable_maps.load(Ordering::SeqCst) != 0 {
            self.seals.store(old, Ordering::SeqCst);
            return Err(Errno::EBUSY);
        }
        if self.holds_routines() {
            self.close(true);
        }
        Ok(())
    }

    /// Whether there are seals that writing routines know nothing of.
    fn holds_routines(&self) -> bool {
        self.seals() & (WRITES | F_SEAL_GROW) != 0
    }

    /// Adds or removes a writable shared mapping. EPERM: none is permitted.
    pub fn map_to_write(&self, more: bool) -> Result<()> {
        if !more {
            self.writable_maps.fetch_sub(1, Ordering::SeqCst);
            return Ok(());
        }
        self.writable_maps.fetch_add(1, Ordering::SeqCst);
        if self.seals() & WRITES != 0 {
            self.writable_maps.fetch_sub(1, Ordering::SeqCst);
            return Err(Errno::EPERM);
        }
        Ok(())
    }

    /// Whether it may become `size` bytes long. EPERM.
    fn admit_size(&self, size: u64) -> Result<()> {
        let now = self.size();
        let forbidden = (if size < now { F_SEAL_SHRINK } else { 0 })
            | (if size > now { F_SEAL_GROW } else { 0 });
        if self.seals() & forbidden != 0 {
            return Err(Errno::EPERM);
        }
        Ok(())
    }

    /// Bytes that may be written from `at` on, of `wanted`: all, or whole pages below a size that may not
    /// grow. EPERM.
    fn admit_write(&self, at: u64, wanted: usize) -> Result<usize> {
        let seals = self.seals();
        if seals & WRITES != 0 {
            return Err(Errno::EPERM);
        }
        let size = self.size();
        if seals & F_SEAL_GROW == 0 || at.saturating_add(wanted as u64) <= size {
            return Ok(wanted);
        }
        let whole = size - size % PAGE as u64;
        match whole.checked_sub(at) {
            None | Some(0) => Err(Errno::EPERM),
            Some(room) => Ok(wanted.min(room as usize)),
        }
    }

    /// The data of this file's generated routines.
    pub fn core(&self) -> &FileCore {
        &self.core
    }

    /// Calls `act` while no call writes or changes the size.
    pub fn alone<R>(&self, act: impl FnOnce() -> R) -> R {
        let _turn = self.writers.lock();
        act()
    }

    /// Keeps generated routines from writing, or permits it again. Closing waits until all routines that have
    /// begun before have ended. The caller is [`alone`](Self::alone) or the only one to know the file.
    pub fn close(&self, closed: bool) {
        let closed = closed || self.holds_routines();
        // Bound: one page; **linear** in the pages for growing and truncating.
        let table = self.table.lock();
        let changes = self.core.is_closed() != closed;
        if changes {
            self.core.close(closed);
        }
        let used = !self.pages(&table).is_empty();
        drop(table);
        if changes && closed && used {
            // Bound: a grace period, asleep: each CPU’s next interrupt, switch or idle moment.
            epoch::synchronize();
        }
    }

    /// The size in bytes.
    pub fn size(&self) -> u64 {
        self.core.size.load(Ordering::Acquire)
    }

    /// Memory in use, in units of 512 bytes.
    pub fn blocks(&self) -> &AtomicU64 {
        &self.blocks
    }

    /// There are so many pages more, or fewer; the caller holds the table.
    fn count_pages(&self, more: isize) {
        let blocks = self.blocks.load(Ordering::Relaxed);
        let blocks = blocks.saturating_add_signed(more as i64 * SECTORS as i64);
        self.blocks.store(blocks, Ordering::Relaxed);
    }

    /// A share of page `index` if it is not a hole.
    pub fn page(&self, index: u64) -> Option<FrameRef> {
        self.page_in(&self.table.lock(), index)
    }

    /// Shares of at most `count` pages from `first` on that are not holes, one for each place of `found`,
    /// without sleeping: none while the table is being changed.
    pub fn pages_now(&self, first: u64, count: usize, found: &mut BatchSlots<'_>) {
        if let Some(table) = self.table.try_lock() {
            let first = usize::try_from(first).unwrap_or(usize::MAX);
            let pages = self.pages(&table).get(first..).unwrap_or_default();
            found.share(pages[..count.min(pages.len())].iter().map(page_at));
        }
    }

    /// A share of page `index`, which becomes a page of zeros if it is a hole. `ENOSPC`, `EFBIG`.
    pub fn page_or_zeros(&self, index: u64) -> Result<FrameRef> {
        if let Some(page) = self.page(index) {
            return Ok(page);
        }
        let taken = self.purse.pages.take(1, &PAGES)?;
        let fresh = frame::alloc_user_zeroed().ok_or(Errno::ENOSPC)?;
        self.publish(index, FrameRef::own(fresh), taken)
    }

    /// Replaces the hole `index` by `fresh`. If another thread's page came first, it is the result instead.
    fn publish(&self, index: u64, fresh: FrameRef, taken: FsCharge<'_>) -> Result<FrameRef> {
        let index = usize::try_from(index)
            .ok()
            .filter(|i| *i < MAX_PAGES)
            .ok_or(Errno::EFBIG)?;
        let mut table = self.table.lock();
        if index >= self.pages(&table).len() {
            self.grow(&mut table, index + 1)?;
        }
        let slot = &self.pages(&table)[index];
        let there = slot.load(Ordering::Acquire);
        if there != 0 {
            return Ok(FrameRef::share(Frame::from_routines(there)));
        }
        let ours = fresh.clone();
        slot.store(ours.into_frame().for_routines(), Ordering::Release);
        self.count_pages(1);
        taken.keep();
        Ok(fresh)
    }

    /// Makes room for `needed` pages: a larger array, published before the old one is retired.
    #[expect(
        clippy::disallowed_methods,
        reason = "room may be refused, and is exact"
    )]
    fn grow(&self, table: &mut Table, needed: usize) -> Result<()> {
        let have = self.pages(table).len();
        if have == 0 && needed <= FIRST_CAPACITY {
            let array = self.first.as_ptr().cast_mut();
            // SAFETY: it holds holes, and stays where it is as long as the file, which routines keep.
            unsafe { self.core.replace_pages(array, array, FIRST_CAPACITY) };
            table.array = Array::First;
            return Ok(());
        }
        let capacity = (have * 2).clamp(FIRST_CAPACITY, MAX_PAGES).max(needed);
        let more = pages_of_array(capacity) - pages_of_array(have);
        let taken = self.purse.pages.take(more, &PAGES)?;
        let mut larger: Vec<AtomicU64> = Vec::new();
        if refused() || larger.try_reserve_exact(capacity).is_err() {
            return Err(Errno::ENOSPC);
        }
        larger.extend(
            self.pages(table)
                .iter()
                .map(|p| AtomicU64::new(p.load(Ordering::Relaxed))),
        );
        larger.resize_with(capacity, || AtomicU64::new(0));
        let larger = larger.into_boxed_slice();
        // SAFETY: it holds what the old array held, and holes; pages leave an array by `resize` and `punch`,
        // which retire them.
        unsafe {
            let array = larger.as_ptr().cast_mut();
            self.core.replace_pages(array, array, larger.len())
        };
        taken.keep();
        let old = core::mem::replace(&mut table.array, Array::Larger(larger));
        if let Array::Larger(old) = old {
            retire(old);
        }
        Ok(())
    }

    /// Fills `buf` from `offset`; stops at the end of the file.
    pub fn read(&self, offset: u64, buf: &mut IoBuf) -> Result<usize> {
        let mut at = offset;
        let mut total = 0;
        loop {
            let within = (at % PAGE as u64) as usize;
            let left = self.size().saturating_sub(at);
            let want = ((PAGE - within) as u64)
                .min(left)
                .min(buf.remaining() as u64) as usize;
            if want == 0 {
                return Ok(total);
            }
            let moved = match self.page(at / PAGE as u64) {
                Some(page) => page
                    .bytes(within..within + want)
                    .and_then(|bytes| buf.put_page(&bytes)),
                None => buf.put_zeros(want),
            };
            match moved {
                Ok(n) => {
                    total += n;
                    at += n as u64;
                    if n < want {
                        return Ok(total);
                    }
                }
                Err(e) => return if total > 0 { Ok(total) } else { Err(e) },
            }
        }
    }

    /// Stores all of `buf` at `offset`, or as much as there is memory for.
    pub fn write(&self, offset: u64, buf: &mut IoBuf) -> Result<usize> {
        self.write_within(offset, buf, MAX_SIZE)
    }

    /// As [`write`](Self::write), of what lies before byte `most`. EFBIG: nothing does.
    pub fn write_within(&self, offset: u64, buf: &mut IoBuf, most: u64) -> Result<usize> {
        let _turn = self.writers.lock();
        self.write_at(offset, buf, most)
    }

    /// Stores all of `buf` that lies before byte `most` at the end; answers the offset after it and the
    /// count. EFBIG.
    pub fn append(&self, buf: &mut IoBuf, most: u64) -> Result<(u64, usize)> {
        let _turn = self.writers.lock();
        // Bound: the waiting signals of one thread, at most 1024.
        self.core.appending().lock();
        let end = self.size();
        let result = self.write_at(end, buf, most);
        self.core.appending().unlock();
        let count = result?;
        Ok((end + count as u64, count))
    }

    fn write_at(&self, offset: u64, buf: &mut IoBuf, most: u64) -> Result<usize> {
        let room = most.min(MAX_SIZE).saturating_sub(offset);
        if room == 0 && buf.remaining() > 0 {
            return Err(Errno::EFBIG);
        }
        buf.limit(usize::try_from(room).unwrap_or(usize::MAX));
        if buf.remaining() > 0 {
            let sealed = self.admit_write(offset, buf.remaining())?;
            buf.limit(sealed);
        }
        if offset > self.size() {
            self.mend();
        }
        let mut at = offset;
        let mut total = 0;
        while buf.remaining() > 0 {
            match self.write_page(at, buf) {
                Ok(n) => {
                    total += n;
                    at += n as u64;
                    self.core.size.fetch_max(at, Ordering::AcqRel);
                    if n == 0 {
                        break;
                    }
                }
                Err(e) => return if total > 0 { Ok(total) } else { Err(e) },
            }
        }
        Ok(total)
    }

    /// Stores bytes into the one page that `at` lies in.
    fn write_page(&self, at: u64, buf: &mut IoBuf) -> Result<usize> {
        let index = at / PAGE as u64;
        let within = (at % PAGE as u64) as usize;
        let want = (PAGE - within).min(buf.remaining());
        if let Some(page) = self.page(index) {
            let bytes = page.bytes(within..within + want)?;
            // Some may have been copied before a fault.
            return buf.take_page(&bytes).inspect_err(|_| self.core.tear());
        }
        if index >= MAX_PAGES as u64 {
            return Err(Errno::EFBIG);
        }
        let taken = self.purse.pages.take(1, &PAGES)?;
        // A hole: the page is filled before it becomes visible, so the written part need not be cleared
        // first.
        let fresh = FrameRef::own(frame::alloc_user().ok_or(Errno::ENOSPC)?);
        let n = buf.take_page(&fresh.bytes(within..within + want)?)?;
        for rest in [0..within, within + n..PAGE] {
            if !rest.is_empty() {
                fresh.bytes(rest)?.zero();
            }
        }
        let filled = fresh.clone();
        let page = self.publish(index, fresh, taken)?;
        if page.frame() != filled.frame() {
            // A mapping made the page first; it holds only others' writes, so this write goes on top.
            page.bytes(within..within + n)?
                .copy_from(&filled.bytes(within..within + n)?)?;
        }
        Ok(n)
    }

    /// Clears the last page beyond the size if a write that stopped at a fault may have left bytes there.
    fn mend(&self) {
        let size = self.size();
        let within = (size % PAGE as u64) as usize;
        if self.core.take_torn()
            && within != 0
            && let Some(page) = self.page(size / PAGE as u64)
            && let Ok(rest) = page.bytes(within..PAGE)
        {
            rest.zero();
        }
    }

    /// Sets the size: pages beyond it are removed, and new bytes inside read as zeros.
    pub fn resize(&self, size: u64) -> Result<()> {
        if size > MAX_SIZE {
            return Err(Errno::EFBIG);
        }
        let _turn = self.writers.lock();
        self.admit_size(size)?;
        let keep = size.div_ceil(PAGE as u64) as usize;
        if size > self.size() {
            self.mend();
            let mut table = self.table.lock();
            if keep > self.pages(&table).len() {
                self.grow(&mut table, keep)?;
            }
        }
        let old = self.core.size.swap(size, Ordering::AcqRel);
        if size >= old {
            return Ok(());
        }
        let mut gone = Pages(Vec::new());
        let mut count = 0;
        let table = self.table.lock();
        let within = (size % PAGE as u64) as usize;
        if within != 0
            && let Some(page) = self.page_in(&table, size / PAGE as u64)
        {
            page.bytes(within..PAGE)?.zero();
        }
        for slot in self.pages(&table).iter().skip(keep) {
            let address = slot.swap(0, Ordering::AcqRel);
            if address != 0 {
                count += 1;
                gone.push(address);
            }
        }
        self.count_pages(-(count as isize));
        drop(table);
        self.purse.pages.give(count, &PAGES);
        if !gone.0.is_empty() {
            retire(gone);
        }
        Ok(())
    }

    /// Makes pages of zeros of the holes in `from..to` (`fallocate`). `ENOSPC`.
    pub fn fill_holes(&self, from: u64, to: u64) -> Result<()> {
        let _turn = self.writers.lock();
        for index in from / PAGE as u64..to.div_ceil(PAGE as u64) {
            if caller::is_dying() {
                return Err(Errno::EINTR);
            }
            self.page_or_zeros(index)?;
        }
        Ok(())
    }

    /// Makes `from..to` read as zeros as far as it lies in the file; whole pages become holes
    /// (`FALLOC_FL_PUNCH_HOLE`). EPERM: sealed.
    pub fn punch(&self, from: u64, to: u64) -> Result<()> {
        let _turn = self.writers.lock();
        if self.seals() & WRITES != 0 {
            return Err(Errno::EPERM);
        }
        let to = to.min(self.size());
        if from >= to {
            return Ok(());
        }
        let mut gone = Pages(Vec::new());
        let mut count = 0;
        let table = self.table.lock();
        let first = usize::try_from(from / PAGE as u64).unwrap_or(usize::MAX);
        for (index, slot) in self.pages(&table).iter().enumerate().skip(first) {
            let start = (index * PAGE) as u64;
            if start >= to {
                break;
            }
            let address = slot.load(Ordering::Acquire);
            if address == 0 {
                continue;
            }
            let first = from.saturating_sub(start) as usize;
            let end = (to - start).min(PAGE as u64) as usize;
            if (first, end) == (0, PAGE) {
                slot.store(0, Ordering::Release);
                count += 1;
                gone.push(address);
            } else {
                // `from < to`, so this is a range inside the page; were it none, nothing would be cleared.
                let page = FrameRef::share(Frame::from_routines(address));
                if let Ok(bytes) = page.bytes(first..end) {
                    bytes.zero();
                }
            }
        }
        self.count_pages(-(count as isize));
        drop(table);
        self.purse.pages.give(count, &PAGES);
        if !gone.0.is_empty() {
            retire(gone);
        }
        Ok(())
    }

    /// The next offset from `offset` on, below the size, whose page is a hole (`hole`) or is not; `None` at
    /// the end.
    pub fn seek(&self, offset: u64, hole: bool) -> Option<u64> {
        let size = self.size();
        let table = self.table.lock();
        if offset >= size {
            return None;
        }
        let first = usize::try_from(offset / PAGE as u64).ok()?;
        let from_there = self.pages(&table).get(first..).unwrap_or_default();
        let wanted = |page: &AtomicU64| (page.load(Ordering::Relaxed) == 0) == hole;
        match from_there.iter().position(wanted) {
            Some(0) => Some(offset),
            Some(further) => Some(((first + further) * PAGE) as u64).filter(|at| *at < size),
            None => None,
        }
        // The end of a file counts as a hole.
        .or(hole.then_some(size))
    }
}

impl Drop for PageStore {
    fn drop(&mut self) {
        let table = core::mem::take(self.table.get_mut());
        let resident = (*self.blocks.get_mut() / SECTORS) as usize;
        let pages = self.pages(&table);
        let held = resident + pages_of_array(pages.len());
        if held > 0 {
            self.purse.pages.give(held, &PAGES);
        }
        // Without a list: a file may be what filled the memory.
        for page in pages {
            let address = page.load(Ordering::Relaxed);
            if address != 0 {
                frame::release(Frame::from_routines(address));
            }
        }
    }
}

/// Whole pages that an array of `capacity` pages takes itself: a sparse file costs those.
fn pages_of_array(capacity: usize) -> usize {
    capacity * size_of::<AtomicU64>() / PAGE
}

/// Pages, by address, whose shares are dropped with this.
struct Pages(Vec<u64>);

impl Pages {
    /// Adds a page that can no longer be found. Without memory for a longer list, waits out a grace period
    /// and drops what is on it at once: giving memory back must not need any.
    fn push(&mut self, address: u64) {
        if try_reserve_kept(&mut self.0, 1).is_ok() {
            #[expect(clippy::disallowed_methods, reason = "there is room")]
            self.0.push(address);
            return;
        }
        epoch::synchronize();
        for address in self.0.drain(..).chain([address]) {
            frame::release(Frame::from_routines(address));
        }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        for address in &self.0 {
            frame::release(Frame::from_routines(*address));
        }
    }
}

/// Drops `garbage` after a grace period.
fn retire<T: 'static>(garbage: T) {
    epoch::retire(
        // SAFETY: the argument is the box made below, and the callback runs once.
        |raw| drop(unsafe { Box::from_raw(raw as *mut T) }),
        Box::into_raw(Box::new(garbage)) as usize,
    );
}
