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
mod errors;
pub mod index;
pub mod routines;
mod table;
pub mod writer;

pub use backing::{Backing, UNIT};
pub use errors::Errors;

use abi::errno::{Errno, Result};
use abi::layout::PAGE;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use quaject::fsmap::FileCore;
use sync::{Monitor, WaitList, epoch};
use vm::frame::{self, Frame, FrameRef};

use super::attr::{Attr, Time};
use super::mem::mapped;
use crate::callout;
use crate::io::IoBuf;
use table::{Kept, Pages, Run};
use vm::fallible::try_arc;

/// Runs of pages that are made clean together, before one grace period.
const RUNS: usize = 32;
/// Frames that are left to others.
const SPARE: usize = 256;
/// Pages that go together, behind one grace period.
const HELD: usize = 128;

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
    /// The pages of file `id` (file system and number), which `backing` keeps, none as yet. ENOMEM.
    pub fn new(id: (u64, u64), backing: Arc<dyn Backing>) -> Result<Arc<Cached>> {
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

    /// Errors of stores.
    pub fn errors(&self) -> &Errors {
        &self.errors
    }

    /// The size in bytes.
    pub fn size(&self) -> u64 {
        self.core.size.load(Ordering::Acquire)
    }

    /// Whether there is something that the backing does not have.
    pub fn is_dirty(&self) -> bool {
        let table = self.table.lock();
        table.dirty != 0 || table.storing
    }

    /// The same, without sleeping: whether there may be.
    pub fn may_be_dirty(&self) -> bool {
        let table = self.table.try_lock();
        table.is_none_or(|table| table.dirty != 0 || table.storing)
    }

    /// Whether the backing's attributes may be others than when it was last asked, because of what was
    /// written here. Never sleeps.
    pub fn is_unsettled(&self) -> bool {
        self.may_be_dirty() || self.stored.load(Ordering::Relaxed)
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

    /// Fills `buf` from `offset`; stops at the end of the file. What the backing says; ENOMEM.
    pub fn read(&self, offset: u64, buf: &mut IoBuf) -> Result<usize> {
        self.used.store(true, Ordering::Relaxed);
        let (mut at, mut total) = (offset, 0);
        loop {
            let within = (at % PAGE as u64) as usize;
            let left = self.size().saturating_sub(at);
            let want = ((PAGE - within) as u64)
                .min(left)
                .min(buf.remaining() as u64) as usize;
            if want == 0 {
                return Ok(total);
            }
            let pages = (within + buf.remaining()).div_ceil(PAGE) as u64;
            let moved = match self.page(at / PAGE as u64, pages) {
                Ok(Some(page)) => page
                    .bytes(within..within + want)
                    .and_then(|bytes| buf.put_page(&bytes)),
                // It has become shorter.
                Ok(None) => return Ok(total),
                Err(error) => Err(error),
            };
            match moved {
                Ok(count) => {
                    total += count;
                    at += count as u64;
                    if count < want {
                        return Ok(total);
                    }
                }
                Err(_) if total > 0 => return Ok(total),
                Err(error) => return Err(error),
            }
        }
    }

    /// Stores all of `buf` that lies before byte `most` at `offset`, or at the end; answers the offset behind
    /// it and the count. EFBIG: nothing does, or there is no room for the arrays; what the backing says;
    /// ENOMEM.
    pub fn write(&self, offset: Option<u64>, buf: &mut IoBuf, most: u64) -> Result<(u64, usize)> {
        let turn = self.writers.lock();
        let result = match offset {
            Some(at) => self.write_at(at, buf, most),
            None => {
                self.core.appending().lock();
                let result = self.write_at(self.size(), buf, most);
                self.core.appending().unlock();
                result
            }
        };
        drop(turn);
        result
    }

    fn write_at(&self, offset: u64, buf: &mut IoBuf, most: u64) -> Result<(u64, usize)> {
        let room = most.saturating_sub(offset);
        if room == 0 && buf.remaining() > 0 {
            return Err(Errno::EFBIG);
        }
        buf.limit(usize::try_from(room).unwrap_or(usize::MAX));
        let end = offset.saturating_add(buf.remaining() as u64);
        let mut table = self.table.lock();
        table.reach(&self.core, end.div_ceil(PAGE as u64))?;
        drop(table);
        if offset > self.size() {
            self.mend();
        }
        let (mut at, mut total) = (offset, 0);
        while buf.remaining() > 0 {
            match self.write_page(at, buf) {
                Ok(0) => break,
                Ok(count) => {
                    total += count;
                    at += count as u64;
                    self.core.size.fetch_max(at, Ordering::AcqRel);
                    self.throttle();
                }
                Err(_) if total > 0 => break,
                Err(error) => return Err(error),
            }
        }
        self.changed();
        Ok((at, total))
    }

    /// Stores bytes into the one page that `at` lies in.
    fn write_page(&self, at: u64, buf: &mut IoBuf) -> Result<usize> {
        let index = at / PAGE as u64;
        let within = (at % PAGE as u64) as usize;
        let want = (PAGE - within).min(buf.remaining());
        let start = at - within as u64;
        // What the backing has of this page, if anything, is written over.
        let whole = within == 0 && start + want as u64 >= self.size().min(start + PAGE as u64);
        let there = self.table.lock().page(index);
        let page = match there {
            Some(page) => page,
            None if whole || start >= self.size() => {
                let fresh = frame_by(frame::alloc_user_zeroed).ok_or(Errno::ENOMEM)?;
                let count = buf.take_page(&fresh.bytes(within..within + want)?)?;
                if count < want && start < self.size() {
                    // Stopped at a fault: the rest is the backing's. It goes by a buffer, since the bytes are
                    // taken.
                    return self.lay_over(index, &fresh, count);
                }
                return self.bring_new(index, fresh, within, count);
            }
            None => match self.page(index, 1)? {
                Some(page) => page,
                None => return Err(Errno::EIO),
            },
        };
        let bytes = page.bytes(within..within + want)?;
        // Some may have been copied before a fault.
        let taken = buf.take_page(&bytes).inspect_err(|_| self.core.tear());
        // Without a share of its own the page could be another by now; with it, only a change of the size
        // takes it away, which waits for writers.
        self.dirtied(index, &page);
        taken
    }

    /// Page `index` becomes `fresh`, of which `count` bytes from `within` on were written, and the others are
    /// zero.
    fn bring_new(&self, index: u64, fresh: FrameRef, within: usize, count: usize) -> Result<usize> {
        let put = self.table.lock().put(index, fresh.clone());
        let page = put.ok_or(Errno::EFBIG)?;
        if page.frame() != fresh.frame() {
            // A mapping brought the page first.
            let range = within..within + count;
            page.bytes(range.clone())?.copy_from(&fresh.bytes(range)?)?;
        }
        self.dirtied(index, &page);
        Ok(count)
    }

    /// Lays the first `count` bytes of `fresh` over page `index` of the backing.
    fn lay_over(&self, index: u64, fresh: &FrameRef, count: usize) -> Result<usize> {
        let page = self.page(index, 1)?.ok_or(Errno::EIO)?;
        page.bytes(0..count)?.copy_from(&fresh.bytes(0..count)?)?;
        self.dirtied(index, &page);
        Ok(count)
    }

    /// Bytes of `page`, which is page `index`, were written.
    fn dirtied(&self, index: u64, page: &FrameRef) -> bool {
        let marked = self.table.lock().mark(index, page);
        if marked == Some(true) {
            DIRTY.fetch_add(1, Ordering::Relaxed);
            writer::soon();
        }
        marked.is_some()
    }

    /// Clears the last page beyond the size if a write that stopped at a fault may have left bytes there.
    fn mend(&self) {
        let size = self.size();
        let within = (size % PAGE as u64) as usize;
        if self.core.take_torn()
            && within != 0
            && let Some(page) = self.table.lock().page(size / PAGE as u64)
            && let Ok(rest) = page.bytes(within..PAGE)
        {
            rest.zero();
        }
    }

    /// Shares of the pages from `first` on that are there, an element of `found` each, without sleeping: of
    /// none while the table is being changed.
    pub fn pages_now(&self, first: u64, found: &mut [Option<FrameRef>]) {
        let end = self.size().div_ceil(PAGE as u64);
        if let Some(table) = self.table.try_lock() {
            for (index, place) in (first..end).zip(found) {
                *place = table.page(index);
            }
        }
    }

    /// A share of page `index`, which is filled first if it is not there, with the `wanted` pages from it on
    /// as far as one question reaches. None: it lies beyond the end. What the backing says; ENOMEM.
    pub fn page(&self, index: u64, wanted: u64) -> Result<Option<FrameRef>> {
        loop {
            let mut table = self.table.lock();
            if let Some(page) = table.page(index) {
                return Ok(Some(page));
            }
            let end = self.size().div_ceil(PAGE as u64);
            if index >= end {
                return Ok(None);
            }
            let ended = self.fills.load(Ordering::SeqCst);
            let unit = self.backing.unit().clamp(1, UNIT) as u64;
            let begun = table.begin(index, wanted, unit, end);
            let generation = table.generation;
            drop(table);
            match begun {
                Some(run) => {
                    if let Some(page) = self.fill(run, generation)? {
                        return Ok(Some(page));
                    }
                }
                None => {
                    let other = || (self.fills.load(Ordering::SeqCst) != ended).then_some(());
                    self.filled.wait_until(other);
                }
            }
        }
    }

    /// Does a fill that has begun. None: it is worth nothing, and the page is not there.
    fn fill(&self, (first, count): Run, generation: u64) -> Result<Option<FrameRef>> {
        let mut pages = [const { None }; UNIT];
        let filled = self.bring(first, &mut pages[..count]);
        let mut table = self.table.lock();
        if filled.is_ok() && table.generation == generation {
            for (index, page) in (first..).zip(pages.iter_mut().map_while(Option::take)) {
                // One that was written meanwhile stays.
                let _there = table.put(index, page);
            }
        }
        table.end(first);
        let page = table.page(first);
        drop(table);
        self.fills.fetch_add(1, Ordering::SeqCst);
        self.filled.wake_all();
        filled.map(|()| page)
    }

    /// Asks the backing for pages from `first` on: the first at least, all if there is memory.
    fn bring(&self, first: u64, places: &mut [Option<FrameRef>]) -> Result<()> {
        let mut pages: smallvec::SmallVec<[FrameRef; UNIT]> = smallvec::SmallVec::new();
        for at in 0..places.len() {
            let page = match at {
                0 => frame_by(frame::alloc_user),
                _ => frame::alloc_user().map(FrameRef::own),
            };
            match page {
                #[expect(clippy::disallowed_methods, reason = "there is room for a unit")]
                Some(page) => pages.push(page),
                None if at == 0 => return Err(Errno::ENOMEM),
                None => break,
            }
        }
        let offset = first.checked_mul(PAGE as u64).ok_or(Errno::EFBIG)?;
        self.backing.fill(offset, &pages)?;
        for (place, page) in places.iter_mut().zip(pages) {
            *place = Some(page);
        }
        Ok(())
    }

    /// Has the backing store all that is dirty. The errors are noted.
    pub fn flush(&self) {
        let _turn = self.flushing.lock();
        self.flush_in_turn();
    }

    /// As [`flush`](Self::flush), with the turn to store.
    fn flush_in_turn(&self) {
        let mut from = 0;
        let mut any = false;
        loop {
            let mut runs = [(0, 0); RUNS];
            let mut table = self.table.lock();
            for run in &mut runs {
                let Some((first, count)) = table.clean(from, u64::MAX) else {
                    break;
                };
                *run = (first, count);
                from = first + count as u64;
            }
            let count: usize = runs.iter().map(|run| run.1).sum();
            table.storing = count != 0;
            drop(table);
            if count == 0 {
                break;
            }
            any = true;
            self.shield(&runs);
            // A routine that found a page dirty may be writing it.
            epoch::synchronize();
            for run in runs.into_iter().filter(|run| run.1 != 0) {
                if let Err(error) = self.store(run) {
                    self.errors.note(error);
                }
            }
            DIRTY.fetch_sub(count, Ordering::Relaxed);
        }
        if any {
            self.touched();
        }
        if self.table.lock().dirty == 0 {
            self.backing.stored();
        }
    }

    /// Programs that have the pages of `runs` mapped fault when they write them again.
    fn shield(&self, runs: &[Run]) {
        if self.writable_maps.load(Ordering::SeqCst) == 0 {
            return;
        }
        let taken = || runs.iter().filter(|run| run.1 != 0);
        let ends = taken().map(|run| run.0 + run.1 as u64);
        if let (Some(first), Some(end)) = (taken().next(), ends.max()) {
            callout::each_space(&mut |space| space.shield(self.id, first.0..end));
        }
    }

    /// One more shared mapping may write, or one fewer.
    pub fn map_to_write(&self, more: bool) {
        match more {
            true => self.writable_maps.fetch_add(1, Ordering::SeqCst),
            false => self.writable_maps.fetch_sub(1, Ordering::SeqCst),
        };
    }

    /// Somebody maps it: who makes it shorter takes pages away from mappings.
    pub fn map(&self) {
        self.mapped.store(true, Ordering::SeqCst);
    }

    /// A share of page `index`, for a mapping that is about to write it: it is dirty from now on. None: it
    /// lies beyond the end. As [`page`](Self::page).
    pub fn page_to_write(&self, index: u64) -> Result<Option<FrameRef>> {
        loop {
            // Before it is marked: to store it would make the mapping ask again.
            self.throttle();
            let Some(page) = self.page(index, 1)? else {
                return Ok(None);
            };
            // It may have been cut off, and be another by now.
            if self.dirtied(index, &page) {
                return Ok(Some(page));
            }
        }
    }

    /// Stores what is dirty if there is too much of that.
    fn throttle(&self) {
        if dirty() > most_dirty() {
            self.flush();
        }
    }

    /// Stores the pages of `run`, which nobody takes away meanwhile.
    fn store(&self, run: Run) -> Result<()> {
        let pages: Pages = self.table.lock().share(run);
        let mut held: smallvec::SmallVec<[FrameRef; UNIT]> = smallvec::SmallVec::new();
        for page in pages.into_iter().map_while(|page| page) {
            #[expect(clippy::disallowed_methods, reason = "there is room for a unit")]
            held.push(page);
        }
        let pages = held;
        let offset = run.0 * PAGE as u64;
        let most = (pages.len() * PAGE) as u64;
        let count = self.size().saturating_sub(offset).min(most) as usize;
        match count {
            0 => Ok(()),
            _ => {
                let unit = self.backing.unit().clamp(1, UNIT);
                let mut at = 0;
                for part in pages.chunks(unit) {
                    let here = (count - at).min(part.len() * PAGE);
                    self.backing.store(offset + at as u64, part, here)?;
                    at += here;
                    if at == count {
                        break;
                    }
                }
                Ok(())
            }
        }
    }

    /// Sets the size, here and by `there` at the backing: pages beyond it go, and what comes to lie inside
    /// reads as zeros. EFBIG, ENOMEM: no room for the arrays; what `there` says.
    pub fn resize(&self, size: u64, there: impl FnOnce() -> Result<()>) -> Result<()> {
        let _turn = self.writers.lock();
        let _storing = self.flushing.lock();
        let end = size.div_ceil(PAGE as u64);
        let reached = self.table.lock().reach(&self.core, end);
        reached?;
        if size > self.size() {
            self.mend();
        }
        there()?;
        let mut gone = Gone::default();
        let mut table = self.table.lock();
        table.generation += 1;
        let old = self.core.size.swap(size, Ordering::AcqRel);
        if size < old {
            let within = (size % PAGE as u64) as usize;
            if within != 0
                && let Some(page) = table.page(size / PAGE as u64)
            {
                page.bytes(within..PAGE)?.zero();
            }
            let dirty = table.dirty;
            let capacity = table.capacity() as u64;
            (end..capacity).for_each(|index| gone.push(table.take(index)));
            DIRTY.fetch_sub(dirty - table.dirty, Ordering::Relaxed);
        }
        drop(table);
        drop(gone);
        if size < old && self.mapped.load(Ordering::SeqCst) {
            mapped::forget_beyond(self.id, size);
        }
        self.touched();
        Ok(())
    }

    /// Does `act`, which reads or writes the backing itself, from byte `at` on, while nobody writes by a
    /// call; what is dirty is stored before. If it `writes`, it answers how many bytes it wrote, which go
    /// from here.
    pub fn around(
        &self,
        at: u64,
        writes: bool,
        act: impl FnOnce() -> Result<usize>,
    ) -> Result<usize> {
        let _turn = writes.then(|| self.writers.lock());
        self.flush();
        let count = act()?;
        if writes && count > 0 {
            let _storing = self.flushing.lock();
            let mut gone = Gone::default();
            let mut table = self.table.lock();
            table.generation += 1;
            let end = at.saturating_add(count as u64);
            let capacity = table.capacity() as u64;
            let pages = at / PAGE as u64..end.div_ceil(PAGE as u64).min(capacity);
            for index in pages {
                if table.is_clean(index) {
                    gone.push(table.take(index));
                }
            }
            if table.reach(&self.core, end.div_ceil(PAGE as u64)).is_ok() {
                self.core.size.fetch_max(end, Ordering::AcqRel);
            }
            drop(table);
            self.touched();
        }
        Ok(count)
    }

    /// Stores what is dirty, and takes all pages away: it is [long](Self::set_long), and no routine is left.
    pub fn empty(&self) {
        let _turn = self.writers.lock();
        self.flush();
        let _storing = self.flushing.lock();
        let mut gone = Gone::default();
        let mut table = self.table.lock();
        table.generation += 1;
        let dirty = table.dirty;
        let capacity = table.capacity() as u64;
        (0..capacity).for_each(|index| gone.push(table.take(index)));
        DIRTY.fetch_sub(dirty, Ordering::Relaxed);
    }

    /// Takes away clean pages that nobody else has, `most` at most. How many. While pages are being stored it
    /// waits.
    pub fn evict(&self, most: usize) -> usize {
        let _turn = self.flushing.lock();
        let mut gone = Gone::default();
        let mut table = self.table.lock();
        for index in 0..table.capacity() as u64 {
            if gone.count >= most {
                break;
            }
            gone.push(table.evict(index));
        }
        drop(table);
        gone.count
    }
}

impl Drop for Cached {
    fn drop(&mut self) {
        DIRTY.fetch_sub(self.table.get_mut().dirty, Ordering::Relaxed);
    }
}

/// Keeps room for others, who have nothing that they could give up.
fn spare() {
    if !frame::has_room(SPARE) {
        index::make_room(SPARE);
    }
}

/// A frame by `alloc`, for which other pages may have to go.
fn frame_by(alloc: fn() -> Option<frame::Frame>) -> Option<FrameRef> {
    spare();
    let frame = alloc().or_else(|| {
        index::make_room(UNIT);
        alloc()
    });
    frame.map(FrameRef::own)
}

/// Pages that nobody finds any more: their shares go a grace period later, in pieces, without memory.
struct Gone {
    addresses: [u64; HELD],
    held: usize,
    count: usize,
}

impl Default for Gone {
    fn default() -> Gone {
        Gone {
            addresses: [0; HELD],
            held: 0,
            count: 0,
        }
    }
}

impl Gone {
    /// One more, if it is none of address 0.
    fn push(&mut self, address: u64) {
        if address == 0 {
            return;
        }
        if self.held == HELD {
            self.release();
        }
        self.addresses[self.held] = address;
        self.held += 1;
        self.count += 1;
    }

    fn release(&mut self) {
        if self.held == 0 {
            return;
        }
        epoch::synchronize();
        for address in &self.addresses[..self.held] {
            frame::release(Frame::from_routines(*address));
        }
        self.held = 0;
    }
}

impl Drop for Gone {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests;
