//! Removal of pages from the cache: a file is truncated or replaced, or memory is short.
//!
//! *Interface*: [`CachedFile::resize`], [`CachedFile::around`], [`CachedFile::empty`], [`CachedFile::evict`].

use abi::errno::Result;
use abi::layout::PAGE;
use core::sync::atomic::Ordering;
use sync::epoch;
use vm::frame::{self, Frame};
use vm::space::Spare;

use super::unmap;
use super::{CachedFile, DIRTY};
use crate::callout;

/// Pages that go together, behind one grace period.
const HELD: usize = 128;

/// Pages that eviction looks at together.
const PASS: usize = 64;

/// The pages that may be taken when memory is short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvictScope {
    /// Pages that no program has mapped.
    Unmapped,
    /// Those too that programs have mapped and not used since they were asked last.
    Unused,
    /// All that are not locked.
    Mapped,
}

impl CachedFile {
    /// Sets the size, here and by `there` at the backing: pages beyond it are removed, and new bytes inside
    /// read as zeros. EFBIG, ENOMEM: no room for the arrays; the error of `there`.
    pub fn resize(&self, size: u64, there: impl FnOnce() -> Result<()>) -> Result<()> {
        // Bound: one truncation of this file, or a read or write that goes to its backing, **as long as it
        // is**; page faults may sleep inside.
        let _turn = self.writers.lock();
        // Bound: **linear** in the dirty pages of this file, each as long as its backing takes; asleep.
        let _storing = self.flushing.lock();
        let end = size.div_ceil(PAGE as u64);
        // Bound: **linear** in the pages for truncating, 64 of them at a time for evicting.
        let reached = self.table.lock().reach(&self.core, end);
        reached?;
        if size > self.size() {
            self.mend();
        }
        there()?;
        let mut gone = EvictedPages::default();
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
            unmap::forget_beyond(self.id, size);
        }
        self.touched();
        Ok(())
    }

    /// Calls `act`, which reads or writes the backing directly, from byte `at` on, while no call writes;
    /// dirty pages are stored first. If it `writes`, it returns the number of bytes written, whose pages are
    /// removed here.
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
            let mut gone = EvictedPages::default();
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

    /// Stores dirty pages, and removes all pages: the file is [long](Self::set_long), and no routine is left.
    pub fn empty(&self) {
        let _turn = self.writers.lock();
        self.flush();
        let _storing = self.flushing.lock();
        let mut gone = EvictedPages::default();
        let mut table = self.table.lock();
        table.generation += 1;
        let dirty = table.dirty;
        let capacity = table.capacity() as u64;
        (0..capacity).for_each(|index| gone.push(table.take(index)));
        DIRTY.fetch_sub(dirty, Ordering::Relaxed);
    }

    /// Removes clean pages, at most `most`, or somewhat more of mapped ones: as far as `reach` allows, and
    /// none with another user. Returns their number. It continues where it stopped the last time. While pages
    /// are being stored it waits.
    pub fn evict(&self, most: usize, reach: EvictScope) -> usize {
        let _turn = self.flushing.lock();
        let mut gone = EvictedPages::default();
        let mapped = reach != EvictScope::Unmapped && self.mapped.load(Ordering::SeqCst);
        let mut left = self.table.lock().capacity();
        while left > 0 && gone.count < most {
            let count = left.min(PASS);
            left -= count;
            let first = self.table.lock().pass(count);
            if mapped {
                self.unmap(first, count, reach == EvictScope::Mapped);
            }
            let mut table = self.table.lock();
            for index in first..first + count as u64 {
                if gone.count == most && !mapped {
                    break;
                }
                gone.push(table.evict(index));
            }
        }
        gone.count
    }

    /// All address spaces forget the clean ones of the `count` pages from page `first` on, [`PASS`] at most;
    /// with `used` also pages that a program has used since the last look.
    #[inline(never)]
    fn unmap(&self, first: u64, count: usize, used: bool) {
        let mut pages = [const { None }; PASS];
        let pages = &mut pages[..count];
        if self.table.lock().mapped(first, pages) {
            let spare = Spare {
                object: self.id,
                first,
                pages,
                used,
            };
            callout::each_space(&mut |space| space.forget_spare(&spare));
        }
    }
}

/// Pages that can no longer be found: their shares are dropped a grace period later, in pieces, without
/// allocation.
pub(super) struct EvictedPages {
    addresses: [u64; HELD],
    held: usize,
    count: usize,
}

impl Default for EvictedPages {
    fn default() -> EvictedPages {
        EvictedPages {
            addresses: [0; HELD],
            held: 0,
            count: 0,
        }
    }
}

impl EvictedPages {
    /// Adds one, unless its address is 0.
    pub fn push(&mut self, address: u64) {
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
        // Bound: a grace period, asleep, before up to 128 pages are freed.
        epoch::synchronize();
        for address in &self.addresses[..self.held] {
            frame::release(Frame::from_routines(*address));
        }
        self.held = 0;
    }
}

impl Drop for EvictedPages {
    fn drop(&mut self) {
        self.release();
    }
}
