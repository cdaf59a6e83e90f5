//! Missing pages are requested from the backing.
//!
//! *Interface*: [`CachedFile::page`], [`CachedFile::pages_now`].

use abi::errno::{Errno, Result};
use abi::layout::PAGE;
use core::sync::atomic::Ordering;
use vm::frame::{self, BatchSlots, FrameRef};

use super::backing::UNIT;
use super::table::Run;
use super::{CachedFile, index};

/// Frames that are left to others.
const SPARE: usize = 256;

impl CachedFile {
    /// Shares of the present pages from `first` on, one for each place of `found`, without sleeping: none
    /// while the table is being changed.
    pub fn pages_now(&self, first: u64, found: &mut BatchSlots<'_>) {
        let end = self.size().div_ceil(PAGE as u64);
        if let Some(table) = self.table.try_lock() {
            for (at, index) in (0..found.count()).zip(first..end) {
                if let Some(page) = table.page(index) {
                    found.put(at, page);
                }
            }
        }
    }

    /// A share of page `index`. If it is missing it is filled first, with the `wanted` pages from it on as
    /// far as one request reaches. None: it lies beyond the end. The backing's error; ENOMEM.
    pub fn page(&self, index: u64, wanted: u64) -> Result<Option<FrameRef>> {
        loop {
            // Bound: one unit of pages.
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
                // A page that was written meanwhile stays.
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
}

/// Leaves room for others, which have no caches to release.
fn spare() {
    if !frame::has_room(SPARE) {
        index::make_room(SPARE);
    }
}

/// A frame by `alloc`, for which other pages may have to go.
pub(super) fn frame_by(alloc: fn() -> Option<frame::Frame>) -> Option<FrameRef> {
    spare();
    let frame = alloc().or_else(|| {
        index::make_room(UNIT);
        alloc()
    });
    frame.map(FrameRef::own)
}
