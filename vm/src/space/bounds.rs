//! The limits of a space: its size, its data, its locked pages; and locking.
//!
//! *Interface*: the caller of a change passes its [`SpaceLimits`]; [`MemoryLock`] is how an area stays in
//! memory, which is where everything is anyway: so it is counted, and its pages are fetched by the caller.
//! [`AddressSpace::lock`], [`AddressSpace::lock_all`], [`AddressSpace::sizes`].

use super::area::{Area, Content, MemoryLock};
use super::limits::SpaceLimits;
use super::{AddressSpace, Areas, Inner, Machine};
use crate::table::Prot;
use abi::errno::Errno;
use abi::layout::{page_ceil, page_floor};
use core::sync::atomic::Ordering;

/// Bytes of a space's areas, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceSizes {
    /// All.
    pub all: usize,
    /// Private ones that may be written, stacks left out.
    pub data: usize,
    /// Stacks.
    pub stacks: usize,
    /// Locked ones.
    pub locked: usize,
}

impl Area {
    /// Whether it counts as data, with rights `prot`.
    fn is_data(&self, prot: Prot) -> bool {
        prot.contains(Prot::WRITE) && self.private() && self.role.floor().is_none()
    }
}

impl Inner {
    fn bytes(&self, which: impl Fn(&Area) -> bool) -> usize {
        let all = self.areas.all().iter().filter(|(_, area)| which(area));
        all.fold(0, |sum: usize, (start, area)| {
            sum.saturating_add(area.end.saturating_sub(*start))
        })
    }

    /// Bytes of the range that areas of this kind have.
    fn bytes_in(&self, start: usize, end: usize, which: impl Fn(&Area) -> bool) -> usize {
        let touching = self.areas.touching(start, end).iter();
        touching
            .filter(|(_, area)| which(area))
            .fold(0, |sum: usize, (from, area)| {
                sum.saturating_add(area.end.min(end).saturating_sub((*from).max(start)))
            })
    }

    /// Whether there may be `more` bytes like `area` in the range `start..end`, which takes the place of what
    /// is there. Errors: `EAGAIN` (locked), `ENOMEM`.
    pub(super) fn admit_area(
        &self,
        bounds: &SpaceLimits,
        area: &Area,
        start: usize,
        end: usize,
    ) -> Result<(), Errno> {
        let more = end.saturating_sub(start);
        let replaced = self.bytes_in(start, end, |_| true);
        self.admit_bytes(bounds, area, more, more.saturating_sub(replaced))
    }

    /// Whether there may be `more` bytes like `area`, of which `added` are not in the place of others. Errors
    /// as [`Inner::admit_area`].
    pub(super) fn admit_bytes(
        &self,
        bounds: &SpaceLimits,
        area: &Area,
        more: usize,
        added: usize,
    ) -> Result<(), Errno> {
        if area.lock != MemoryLock::No && bounds.locked != usize::MAX {
            let locked = self.bytes(|area| area.lock != MemoryLock::No);
            if locked.saturating_add(more) > bounds.locked {
                return Err(Errno::EAGAIN);
            }
        }
        if self.size.saturating_add(added) > bounds.size {
            return Err(Errno::ENOMEM);
        }
        match area.is_data(area.prot) && added != 0 {
            true => self.admit_data(bounds, added),
            false => Ok(()),
        }
    }

    /// Whether there may be `added` bytes of data more. `ENOMEM`.
    fn admit_data(&self, bounds: &SpaceLimits, added: usize) -> Result<(), Errno> {
        if bounds.data == usize::MAX {
            return Ok(());
        }
        let data = self.bytes(|area| area.is_data(area.prot));
        if data.saturating_add(added) > bounds.data {
            return Err(Errno::ENOMEM);
        }
        Ok(())
    }

    /// Whether the areas of the range may get the rights `prot`. `ENOMEM`: there would be too much data.
    pub(super) fn admit_rights(
        &self,
        bounds: &SpaceLimits,
        start: usize,
        end: usize,
        prot: Prot,
    ) -> Result<(), Errno> {
        if bounds.data == usize::MAX || !prot.contains(Prot::WRITE) {
            return Ok(());
        }
        let becomes = |area: &Area| area.is_data(prot) && !area.is_data(area.prot);
        match self.bytes_in(start, end, becomes) {
            0 => Ok(()),
            more => self.admit_data(bounds, more),
        }
    }
}

impl<M: Machine> AddressSpace<M> {
    /// Whether all that there is, and the data, stays within `bounds`.
    pub fn is_within(&self, bounds: &SpaceLimits) -> bool {
        let inner = self.held();
        inner.size <= bounds.size && inner.admit_data(bounds, 0).is_ok()
    }

    /// Bytes of the areas.
    pub fn sizes(&self) -> SpaceSizes {
        let inner = self.held();
        SpaceSizes {
            all: inner.size,
            data: inner.bytes(|area| area.is_data(area.prot)),
            stacks: inner.bytes(|area| area.role.floor().is_some()),
            locked: inner.bytes(|area| area.lock != MemoryLock::No),
        }
    }

    /// Locks the pages of a range, or lets go of them. Errors: `EINVAL` (it wraps round), `ENOMEM` (more than
    /// `bounds.locked`; or a hole: what is before that is done).
    pub fn lock(
        &self,
        address: usize,
        length: usize,
        how: MemoryLock,
        bounds: &SpaceLimits,
    ) -> Result<(), Errno> {
        let start = page_floor(address);
        let length = length.saturating_add(address - start);
        let end = page_ceil(length).and_then(|length| start.checked_add(length));
        let end = end.ok_or(Errno::EINVAL)?;
        let mut inner = self.change();
        if how != MemoryLock::No {
            let locked = inner.bytes(|area| area.lock != MemoryLock::No);
            let again = inner.bytes_in(start, end, |area| area.lock != MemoryLock::No);
            let more = (end - start).saturating_sub(again);
            if locked.saturating_add(more) > bounds.locked {
                return Err(Errno::ENOMEM);
            }
        }
        self.note_lock(how);
        if start == end {
            return Ok(());
        }
        inner.areas.reserve()?;
        let reached = inner.areas.covered_from(start).min(end);
        inner.areas.admit_cuts(start, reached)?;
        if reached > start {
            let first = inner.areas.cut(start);
            let last = inner.areas.cut(reached);
            for index in first..last {
                inner.areas.get_mut(index).1.lock = how;
            }
            inner.areas.join(first, last);
        }
        if reached < end {
            return Err(Errno::ENOMEM);
        }
        Ok(())
    }

    /// Locks all areas so (`None`: leaves them as they are), and from now on each new one as `future` says.
    /// `ENOMEM`: there is more than `bounds.locked`.
    pub fn lock_all(
        &self,
        now: Option<MemoryLock>,
        future: MemoryLock,
        bounds: &SpaceLimits,
    ) -> Result<(), Errno> {
        let mut inner = self.change();
        if now.is_some_and(|how| how != MemoryLock::No) && inner.size > bounds.locked {
            return Err(Errno::ENOMEM);
        }
        inner.future_lock = future;
        self.note_lock(future);
        if let Some(how) = now {
            self.note_lock(how);
            let count = inner.areas.all().len();
            for index in 0..count {
                inner.areas.get_mut(index).1.lock = how;
            }
            inner.areas.join(1, count);
        }
        Ok(())
    }

    /// Whether anything of it has been locked.
    pub fn locks(&self) -> bool {
        self.ever_locked.load(Ordering::Relaxed)
    }

    /// Whether a page of the range is locked.
    pub fn any_locked(&self, address: usize, length: usize) -> bool {
        let end = address.saturating_add(length);
        let locked = |area: &Area| area.lock != MemoryLock::No;
        self.locks() && self.held().bytes_in(address, end, locked) != 0
    }

    /// From now on something is.
    pub(super) fn note_lock(&self, how: MemoryLock) {
        if how != MemoryLock::No {
            self.ever_locked.store(true, Ordering::Relaxed);
        }
    }

    /// Nothing is locked in the copy `areas`, which is for a child.
    pub(super) fn unlock_copy(&self, areas: &mut Areas) {
        if self.locks() {
            for index in 0..areas.all().len() {
                areas.get_mut(index).1.lock = MemoryLock::No;
            }
        }
    }

    /// The part from `from` on, before `end`, that is to be fetched: the next area that is locked as a whole;
    /// its rights, and whether it is private. Inaccessible pages are among them.
    pub fn next_locked(&self, from: usize, end: usize) -> Option<(usize, usize, Prot, bool)> {
        let inner = self.held();
        let mut all = inner.areas.touching(from, end).iter();
        let (start, area) = all.find(|(start, area)| {
            area.lock == MemoryLock::All && area.end > from && *start < end && from < end
        })?;
        let start = (*start).max(from);
        let private = !matches!(area.content, Content::Pager { shared: true, .. });
        Some((start, area.end.min(end), area.prot, private))
    }
}
