//! How many areas a space may have (`vm.max_map_count`).
//!
//! *Interface*: [`AREAS_MAX`] is for all spaces (`vm.max_map_count`). Code that adds or splits areas asks
//! first: [`Areas::admit_another`], [`Areas::admit_more`], [`Areas::admit_hole`], [`Areas::admit_cuts`],
//! [`Areas::admit_rights`]; each answers `ENOMEM` when there would be too many. As on Linux a new one may be
//! one more than that, and one that becomes two may not.

use super::area::Area;
use super::areas::{Areas, Entry};
use crate::table::Prot;
use abi::errno::Errno;
use core::sync::atomic::{AtomicUsize, Ordering};

/// So many areas may be cut; root may set it.
pub static AREAS_MAX: AtomicUsize = AtomicUsize::new(65_530);

fn most() -> usize {
    AREAS_MAX.load(Ordering::Relaxed)
}

impl Areas {
    /// Whether there may be one more, in a free place.
    pub(super) fn admit_another(&self) -> Result<(), Errno> {
        allow(self.all().len() <= most())
    }

    /// Whether `more` may come of a move.
    pub(super) fn admit_more(&self, more: usize) -> Result<(), Errno> {
        allow(self.all().len().saturating_add(more) < most())
    }

    /// Whether the range may be taken out: that may make two of one.
    pub(super) fn admit_hole(&self, start: usize, end: usize) -> Result<(), Errno> {
        if self.all().len() < most() {
            return Ok(());
        }
        let around = |(first, area): &Entry| *first < start && end < area.end;
        allow(start >= end || !self.find(start).is_some_and(|(_, entry)| around(entry)))
    }

    /// The area that reaches across `at`.
    fn across(&self, at: usize) -> Option<(usize, &Entry)> {
        self.find(at).filter(|(_, (start, _))| *start < at)
    }

    /// Whether the range may come apart from what is around it.
    pub(super) fn admit_cuts(&self, start: usize, end: usize) -> Result<(), Errno> {
        let count = self.all().len();
        if count.saturating_add(2) <= most() || start >= end {
            return Ok(());
        }
        let cuts = [start, end]
            .into_iter()
            .filter(|at| self.across(*at).is_some());
        let cuts = cuts.count();
        allow(cuts == 0 || count.saturating_add(cuts) <= most())
    }

    /// Whether the range, which is covered, may get the rights `prot`. Where only the border between two
    /// areas moves, none is cut.
    pub(super) fn admit_rights(&self, start: usize, end: usize, prot: Prot) -> Result<(), Errno> {
        let count = self.all().len();
        if count.saturating_add(2) <= most() {
            return Ok(());
        }
        let differs = |(_, (_, area)): &(usize, &Entry)| area.prot != prot;
        let changed = |area: &Area| Area {
            prot,
            ..area.clone()
        };
        let first = self.across(start).filter(differs);
        let last = self.across(end).filter(differs);
        let moves_up = first.is_some_and(|(index, (from, area))| {
            let next = self.all().get(index.saturating_add(1));
            area.end <= end
                && next
                    .is_some_and(|(at, next)| *at == area.end && changed(area).joins(*from, next))
        });
        let moves_down = last.is_some_and(|(index, (from, area))| {
            let before = index.checked_sub(1).and_then(|below| self.all().get(below));
            *from >= start
                && before.is_some_and(|(at, before)| {
                    let before = if *from > start {
                        changed(before)
                    } else {
                        before.clone()
                    };
                    before.end == *from && before.joins(*at, &changed(area))
                })
        });
        let cuts = usize::from(first.is_some() && !moves_up)
            .saturating_add(usize::from(last.is_some() && !moves_down));
        allow(cuts == 0 || count.saturating_add(cuts) <= most())
    }
}

fn allow(good: bool) -> Result<(), Errno> {
    match good {
        true => Ok(()),
        false => Err(Errno::ENOMEM),
    }
}
