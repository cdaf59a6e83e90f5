//! Which pages of an area are present: for `/proc/PID/smaps` and `pagemap`, and for `mincore`.
//!
//! *Interface*: [`AddressSpace::for_each_area_with_pages`], [`AddressSpace::in_memory`],
//! [`AddressSpace::pages`]; [`AddressSpace::forget_use`] and [`AddressSpace::forget_most`] begin to count
//! anew; [`AddressSpace::pager_of`].

use super::area::{Area, AreaInfo, Content};
use super::mmu_gather::MmuGather;
use super::pager::Pager;
use super::unshare_tables::For;
use super::{AddressSpace, Inner, Machine};
use crate::frame::FrameBatch;
use crate::table::{ACCESSED, ALONG, DIRTY, frame_of, occupied};
use abi::layout::{PAGE, USER_END};
use alloc::sync::Arc;
use core::sync::atomic::Ordering;

/// Pages of an area that are present.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AreaPages {
    /// Unshared pages: not changed, and changed.
    pub private: [usize; 2],
    /// Others map them, too.
    pub shared: [usize; 2],
    /// Were used.
    pub accessed: usize,
    /// Are this space's own, of no object.
    pub own: usize,
    /// All of them, each divided by how many have it; in parts of a page, [`AreaPages::PARTS`] each.
    pub parts: u64,
}

impl AreaPages {
    /// Parts of a page.
    pub const PARTS: u64 = 1 << 12;

    /// All.
    pub fn all(&self) -> usize {
        let pairs = [self.private, self.shared];
        pairs.iter().flatten().sum()
    }
}

/// A page that a space has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PagemapEntry {
    /// It is an object's.
    pub of_object: bool,
    /// No other space has it.
    pub alone: bool,
}

impl<M: Machine> AddressSpace<M> {
    /// The pages from `address` on that are present, an element of `found` each.
    pub fn pages(&self, address: usize, found: &mut [Option<PagemapEntry>]) {
        found.fill(None);
        let inner = self.held();
        let frames = self.memory.frames();
        let end = address.saturating_add(found.len().saturating_mul(PAGE));
        let first = inner.areas.above(address);
        for (start, area) in inner.areas.all().iter().skip(first) {
            let (from, to) = ((*start).max(address), area.end.min(end));
            if from >= to {
                break;
            }
            let object = matches!(area.content, Content::Pager { .. });
            self.tables().each_entry(from, to, |at, _, entry| {
                let place = found.get_mut((at - address) / PAGE);
                if let (true, Some(place)) = (occupied(entry), place) {
                    let of_object = object && !(area.private() && entry & DIRTY != 0);
                    // The object itself has its pages; that is no mapping.
                    let others = u64::from(frames.others(frame_of(entry)));
                    *place = Some(PagemapEntry {
                        of_object,
                        alone: others + self.sharers(&inner, at) <= u64::from(of_object),
                    });
                }
            });
        }
    }

    /// Shows the areas that end above `address`, in order, with what of them is present, until `show` answers
    /// `false`. The space's monitor is held meanwhile.
    pub fn for_each_area_with_pages(
        &self,
        address: usize,
        mut show: impl FnMut(AreaInfo, AreaPages) -> bool,
    ) {
        let inner = self.held();
        let first = inner.areas.above(address);
        for (start, area) in inner.areas.all().iter().skip(first) {
            if !show(area.info(*start), self.present(&inner, *start, area)) {
                return;
            }
        }
    }

    /// Which pages from `start` on are present, one for each of `found`.
    pub fn present_in(&self, start: usize, found: &mut [bool]) {
        found.fill(false);
        let _still = self.held();
        let end = start + found.len() * PAGE;
        self.tables().each_entry(start, end, |address, _, entry| {
            if occupied(entry)
                && let Some(page) = found.get_mut((address - start) / PAGE)
            {
                *page = true;
            }
        });
    }

    /// Which of the pages from `address` on, an element of `found` each, are in memory: 1 for those that this
    /// space has, and those that their object has.
    pub fn in_memory(&self, address: usize, found: &mut [u8]) {
        let inner = self.held();
        let end = address.saturating_add(found.len().saturating_mul(PAGE));
        let first = inner.areas.above(address);
        for (start, area) in inner.areas.all().iter().skip(first) {
            let (from, to) = ((*start).max(address), area.end.min(end));
            if from >= to {
                break;
            }
            if let Content::Pager { pager, first, .. } = &area.content {
                for at in (from..to).step_by(PAGE) {
                    let mut frame = FrameBatch::<1>::new(self.memory.frames());
                    let index = first + ((at - start) / PAGE) as u64;
                    pager.resident(index, &mut frame.first(1));
                    if let Some(place) = found.get_mut((at - address) / PAGE) {
                        *place = u8::from(!frame.is_empty());
                    }
                }
            }
            self.tables().each_entry(from, to, |at, _, entry| {
                if let (true, Some(place)) = (occupied(entry), found.get_mut((at - address) / PAGE))
                {
                    *place = 1;
                }
            });
        }
    }

    /// Marks the pages of memory of no object, of objects, or of both, as not used since now.
    pub fn forget_use(&self, of_none: bool, of_objects: bool) {
        let inner = self.change();
        // Without memory for a table its pages stay as they are.
        let _some_stay = self.unshare_tables(&inner, 0, USER_END, For::More);
        let mut gather = MmuGather::new(self.memory, self.root);
        for (start, area) in inner.areas.all() {
            let of_object = matches!(area.content, Content::Pager { .. });
            if !(of_object && of_objects || !of_object && of_none) {
                continue;
            }
            self.tables()
                .each_own_entry(*start, area.end, |address, word, entry| {
                    if occupied(entry) && entry & ACCESSED != 0 {
                        // The machine sets them meanwhile. A page that came along has been used once, and
                        // stays for it.
                        word.fetch_and(!(ACCESSED | ALONG), Ordering::Relaxed);
                        gather.changed(address);
                    }
                });
        }
        gather.finish();
    }

    /// The most pages that were present at a time are those of now.
    pub fn forget_most(&self) {
        let _still = self.held();
        self.resident.forget_most();
    }

    /// The pager of the area from exactly `start` to `end`, if there is one and it has an object.
    pub fn pager_of(&self, start: usize, end: usize) -> Option<Arc<dyn Pager>> {
        let inner = self.held();
        let first = inner.areas.above(start);
        match inner.areas.all().get(first)? {
            (at, area) if (*at, area.end) == (start, end) => match &area.content {
                Content::Pager { pager, .. } => Some(pager.clone()),
                _ => None,
            },
            _ => None,
        }
    }

    /// How many other spaces have the table with the page at `address`.
    fn sharers(&self, inner: &Inner, address: usize) -> u64 {
        match inner.shares {
            true => self.tables().sharers(address).into(),
            false => 0,
        }
    }

    fn present(&self, inner: &Inner, start: usize, area: &Area) -> AreaPages {
        let (frames, mut found) = (self.memory.frames(), AreaPages::default());
        let of_object = matches!(area.content, Content::Pager { .. });
        self.tables().each_entry(start, area.end, |at, _, entry| {
            if !occupied(entry) {
                return;
            }
            let dirty = entry & DIRTY != 0;
            let own = area.private() && dirty;
            let others = u64::from(frames.others(frame_of(entry))) + self.sharers(inner, at);
            // The object itself has its pages; that is no mapping.
            let mappings = 1 + others.saturating_sub(u64::from(of_object && !own));
            let kind = if mappings > 1 {
                &mut found.shared
            } else {
                &mut found.private
            };
            kind[usize::from(dirty)] += 1;
            found.accessed += usize::from(entry & ACCESSED != 0);
            found.own += usize::from(own);
            found.parts += AreaPages::PARTS / mappings;
        });
        found
    }
}
