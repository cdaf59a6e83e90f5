//! Writeback: dirty pages are stored to the backing.
//!
//! *Interface*: [`CachedFile::flush`]; [`CachedFile::page_to_write`] is for mappings, which fault at the
//! first write after a store.

use abi::errno::Result;
use abi::layout::PAGE;
use core::sync::atomic::Ordering;
use sync::epoch;
use vm::frame::FrameRef;

use super::backing::UNIT;
use super::table::{Pages, Run};
use super::{CachedFile, DIRTY, dirty, most_dirty};
use crate::callout;

/// Runs of pages that are made clean together, before one grace period.
const RUNS: usize = 32;

impl CachedFile {
    /// Whether there is something that the backing does not have.
    pub fn is_dirty(&self) -> bool {
        // Bound: up to 512 pages.
        let table = self.table.lock();
        table.dirty != 0 || table.storing
    }

    /// The same, without sleeping: whether there may be.
    pub fn may_be_dirty(&self) -> bool {
        let table = self.table.try_lock();
        table.is_none_or(|table| table.dirty != 0 || table.storing)
    }

    /// Whether the backing's attributes may have changed since they were last read, because of writes here.
    /// Never sleeps.
    pub fn is_unsettled(&self) -> bool {
        self.may_be_dirty() || self.stored.load(Ordering::Relaxed)
    }

    /// Has the backing store all that is dirty. The errors are noted.
    pub fn flush(&self) {
        // Bound: as in `evict.rs`.
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
            // Bound: a grace period, asleep, before up to 512 pages are stored.
            epoch::synchronize();
            for run in runs.into_iter().filter(|run| run.1 != 0) {
                if let Err(error) = self.store(run) {
                    self.errors.note(error);
                    self.all_errors.note(error);
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

    /// Adds or removes a writable shared mapping.
    pub fn map_to_write(&self, more: bool) {
        match more {
            true => self.writable_maps.fetch_add(1, Ordering::SeqCst),
            false => self.writable_maps.fetch_sub(1, Ordering::SeqCst),
        };
    }

    /// It has mappings: a truncation unmaps pages.
    pub fn map(&self) {
        self.mapped.store(true, Ordering::SeqCst);
    }

    /// A share of page `index`, for a mapping that is about to write it: it is dirty from now on. None: it
    /// lies beyond the end. As [`page`](Self::page).
    pub fn page_to_write(&self, index: u64) -> Result<Option<FrameRef>> {
        loop {
            // Before it is marked: storing it would make the mapping fault again.
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

    /// Stores dirty pages if there are too many.
    pub(super) fn throttle(&self) {
        if dirty() > most_dirty() {
            self.flush();
        }
    }

    /// Stores the pages of `run`, which stay meanwhile.
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
}
