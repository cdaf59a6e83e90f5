//! Write protection of the pages of a cached object in shared mappings, so that the next write is noticed.
//!
//! *Interface*: [`AddressSpace::shield`] before the object looks whether its pages are written again;
//! [`AddressSpace::forget_spare`] when memory is short; [`AddressSpace::shared_from`] finds the pagers of a
//! range.
//!
//! To shield is a change of the space. A fault that had asked its pager before, and would enter a writable
//! page behind it, finds the space changed, and asks again; so each first write behind a shield comes to the
//! pager. A fork leaves such pages out: the child asks for itself.

use super::area::{Area, Content, MemoryLock};
use super::mmu_gather::MmuGather;
use super::pager::Pager;
use super::rss::UNDER_MONITOR;
use super::unshare_tables::For;
use super::{AddressSpace, Machine};
use crate::frame::FrameRef;
use crate::table::{ACCESSED, PRESENT, WRITE, frame_of, occupied};
use abi::layout::PAGE;
use alloc::sync::Arc;
use core::ops::Range;
use core::sync::atomic::Ordering;

/// Pages that an object could evict if they were not mapped.
pub struct Spare<'a> {
    /// The object, as [`Pager::object`] has it.
    pub object: (u64, u64),
    /// The first page.
    pub first: u64,
    /// A share of each from there on, so that none becomes another meanwhile; of none that stays.
    pub pages: &'a [Option<FrameRef>],
    /// Those that programs have used since they were looked at last go, too.
    pub used: bool,
}

impl Spare<'_> {
    /// The numbers of the pages.
    fn range(&self) -> Range<u64> {
        self.first..self.first.saturating_add(self.pages.len() as u64)
    }
}

impl Area {
    /// The pager of an area, and the object's page at the area's start.
    fn paged(&self) -> Option<(&Arc<dyn Pager>, u64)> {
        match &self.content {
            Content::Pager { pager, first, .. } => Some((pager, *first)),
            Content::Zeros => None,
        }
    }

    /// The pager of a shared area that wants to know of first writes, and the object's page at the area's
    /// start.
    pub(super) fn followed(&self) -> Option<(&Arc<dyn Pager>, u64)> {
        match &self.content {
            Content::Pager {
                pager,
                first,
                shared: true,
                ..
            } if pager.follows_writes() => Some((pager, *first)),
            _ => None,
        }
    }

    /// Whether a child gets its pages at the fork; those of an object that follows writes it asks for itself.
    pub(super) fn is_inherited(&self) -> bool {
        self.wishes.inherits() && self.followed().is_none()
    }

    /// Whether a child gets its pages, to be copied when they are written.
    #[inline]
    pub(super) fn goes_on(&self) -> bool {
        self.private() && self.wishes.inherits()
    }

    /// The addresses of the `pages` of object `id` in this area, which starts at `start` and shows what
    /// `of` says, if that is the object.
    fn shows(
        &self,
        start: usize,
        of: Option<(&Arc<dyn Pager>, u64)>,
        id: (u64, u64),
        pages: &Range<u64>,
    ) -> Option<(usize, usize)> {
        let (pager, first) = of?;
        let count = ((self.end - start) / PAGE) as u64;
        let low = pages.start.saturating_sub(first).min(count);
        let high = pages.end.saturating_sub(first).min(count);
        let at = |page: u64| start + page as usize * PAGE;
        (low < high && pager.object() == id).then(|| (at(low), at(high)))
    }
}

impl<M: Machine> AddressSpace<M> {
    /// From now on a write to one of `pages` of the object `id`, by a shared mapping whose pager follows
    /// writes, faults and asks the pager.
    pub fn shield(&self, id: (u64, u64), pages: Range<u64>) {
        let shows = |(start, area): &(usize, Area)| area.shows(*start, area.followed(), id, &pages);
        let any = self
            .held()
            .areas
            .all()
            .iter()
            .any(|entry| shows(entry).is_some());
        if !any {
            return;
        }
        let inner = self.change();
        let mut gather = MmuGather::new(self.memory, self.root);
        for (from, to) in inner.areas.all().iter().filter_map(shows) {
            // A table that other spaces have too has no page of a shared area.
            self.tables()
                .each_own_entry(from, to, |address, word, entry| {
                    if entry & WRITE != 0 {
                        word.store(entry & !WRITE, Ordering::Release);
                        if entry & PRESENT != 0 {
                            gather.changed(address);
                        }
                    }
                });
        }
        gather.finish();
    }

    /// Unmaps the `spare` pages of an object where they are mapped here read-only, so a later access asks the
    /// pager. Locked pages stay, and so do the space's own copies.
    pub fn forget_spare(&self, spare: &Spare) {
        let pages = spare.range();
        let shows = |(start, area): &(usize, Area)| {
            let free = area.lock == MemoryLock::No;
            let shown = free.then(|| area.shows(*start, area.paged(), spare.object, &pages));
            let (from, to) = shown.flatten()?;
            // The first of them, in the object.
            Some((from, to, pages.start.max(area.paged()?.1)))
        };
        let any = self
            .held()
            .areas
            .all()
            .iter()
            .any(|entry| shows(entry).is_some());
        if !any {
            return;
        }
        let inner = self.change();
        let mut gather = MmuGather::new(self.memory, self.root);
        let mut gone = 0;
        for (from, to, first) in inner.areas.all().iter().filter_map(shows) {
            // Without memory for a table its pages stay.
            let _some_stay = self.unshare_tables(&inner, from, to, For::Less);
            self.tables()
                .each_own_entry(from, to, |address, word, entry| {
                    let at = first - pages.start + ((address - from) / PAGE) as u64;
                    let page = spare.pages.get(at as usize).and_then(Option::as_ref);
                    let is = |page: &FrameRef| occupied(entry) && frame_of(entry) == page.frame();
                    if entry & WRITE != 0 || !page.is_some_and(is) {
                        return;
                    }
                    // The machine marks a page when it is used, whatever else happens.
                    if entry & ACCESSED != 0 && !spare.used {
                        word.fetch_and(!ACCESSED, Ordering::Relaxed);
                        return;
                    }
                    let entry = word.swap(0, Ordering::AcqRel);
                    gather.page(address, frame_of(entry));
                    gone += 1;
                });
        }
        gather.finish();
        if gone != 0 {
            self.resident.note_most();
        }
        self.resident.add(UNDER_MONITOR, -gone);
    }

    /// The pager of the first area from `address` on and before `end` that is shared and follows writes, and
    /// where that area ends.
    pub fn shared_from(&self, address: usize, end: usize) -> Option<(Arc<dyn Pager>, usize)> {
        let inner = self.held();
        let first = inner.areas.above(address);
        let areas = inner.areas.all().iter().skip(first);
        areas
            .take_while(|(start, _)| *start < end)
            .find_map(|(_, area)| Some((area.followed()?.0.clone(), area.end)))
    }
}
