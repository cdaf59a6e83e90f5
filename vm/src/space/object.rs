//! What an object that is kept elsewhere does about the pages of it that spaces have mapped shared.
//!
//! *Interface*: [`AddressSpace::shield`] before the object looks whether its pages are written again;
//! [`AddressSpace::shared_from`] finds the pagers of a range.
//!
//! To shield is a change of the space. A fault that had asked its pager before, and would enter a writable
//! page behind it, finds the space changed, and asks again; so each first write behind a shield comes to the
//! pager. A fork leaves such pages out: the child asks for itself.

use super::AddressSpace;
use super::area::{Area, Content};
use super::gather::Gather;
use super::pager::Pager;
use crate::memory::Memory;
use crate::table::{PRESENT, WRITE};
use abi::layout::PAGE;
use alloc::sync::Arc;
use core::ops::Range;
use core::sync::atomic::Ordering;

impl Area {
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

    /// The addresses of the object's `pages` in this area, which starts at `start`, if it shows object `id`.
    fn shows(&self, start: usize, id: (u64, u64), pages: &Range<u64>) -> Option<(usize, usize)> {
        let (pager, first) = self.followed()?;
        let count = ((self.end - start) / PAGE) as u64;
        let low = pages.start.saturating_sub(first).min(count);
        let high = pages.end.saturating_sub(first).min(count);
        let at = |page: u64| start + page as usize * PAGE;
        (low < high && pager.object() == id).then(|| (at(low), at(high)))
    }
}

impl<M: Memory> AddressSpace<M> {
    /// Who writes one of `pages` of the object `id` from now on, by a shared mapping of which its pager
    /// follows writes, faults, and the pager is asked.
    pub fn shield(&self, id: (u64, u64), pages: Range<u64>) {
        let shows = |(start, area): &(usize, Area)| area.shows(*start, id, &pages);
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
        let mut gather = Gather::new(self.memory, self.root);
        for (from, to) in inner.areas.all().iter().filter_map(shows) {
            self.tables().each_entry(from, to, |address, word, entry| {
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
