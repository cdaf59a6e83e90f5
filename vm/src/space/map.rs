//! Changing what is mapped: areas are cut, joined, moved and removed, and the table follows.
//!
//! *Interface*: the methods of [`AddressSpace`] that `mmap`, `munmap`, `mprotect`, `mremap`, `madvise` and
//! `brk` need.

use super::area::{Area, AreaAdvice, Backing, Content, MemoryLock, Placement, Role};
use super::limits::SpaceLimits;
use super::locking::LockedSpace;
use super::mmu_gather::MmuGather;
use super::rss::UNDER_MONITOR;
use super::shared_anonymous::SharedAnonymous;
use super::unshare_tables::For;
use super::{Access, AddressSpace, FaultError, Inner, Machine, Remap};
use crate::table::{self, PRESENT, Prot};
use abi::errno::Errno;
use abi::layout::{PAGE, USER_END, USER_MMAP_TOP, USER_START, page_ceil, page_floor};
use alloc::sync::Arc;
use core::sync::atomic::Ordering;

/// Frames that must be left beyond the kernel's reserve before areas are made or cut.
const SLACK: usize = 8;

/// Bytes of a new stack's area; the rest appears as the stack grows.
const STACK_START: usize = 32 * PAGE;

/// A page-aligned range in a program's half; its length rounded up.
fn range(address: usize, length: usize) -> Result<(usize, usize), Errno> {
    if !address.is_multiple_of(PAGE) {
        return Err(Errno::EINVAL);
    }
    let length = page_ceil(length).ok_or(Errno::EINVAL)?;
    match address.checked_add(length) {
        Some(end) if end <= USER_END => Ok((address, end)),
        _ => Err(Errno::EINVAL),
    }
}

/// The rights that an area may ever have.
fn possible(may_write: bool, may_exec: bool) -> Prot {
    let either = |has: bool, right: Prot| if has { right } else { Prot::NONE };
    Prot::READ
        .or(either(may_write, Prot::WRITE))
        .or(either(may_exec, Prot::EXEC))
}

impl<M: Machine> AddressSpace<M> {
    /// Maps `length` bytes. Answers the address. Errors: `EINVAL` (zero length, unaligned), `ENOMEM` (no
    /// room, above the top, or more private memory than the machine has), `EEXIST`.
    pub fn map(
        &self,
        place: Placement,
        length: usize,
        prot: Prot,
        backing: Backing,
    ) -> Result<usize, Errno> {
        self.map_within(
            place,
            length,
            prot,
            backing,
            MemoryLock::No,
            &SpaceLimits::NONE,
        )
    }

    /// As [`map`](Self::map), locked so at least, where that stays within `bounds`. Errors: also `ENOMEM`,
    /// and `EAGAIN` if it would be locked and that is too much.
    pub fn map_within(
        &self,
        place: Placement,
        length: usize,
        prot: Prot,
        backing: Backing,
        lock: MemoryLock,
        bounds: &SpaceLimits,
    ) -> Result<usize, Errno> {
        if length == 0 {
            return Err(Errno::EINVAL);
        }
        let length = page_ceil(length).ok_or(Errno::ENOMEM)?;
        if length > USER_END {
            return Err(Errno::ENOMEM);
        }
        let role = match backing {
            Backing::Growing => Role::Growing,
            _ => Role::Plain,
        };
        let content = self.content(backing, length, prot)?;
        let area = Area {
            end: 0,
            prot,
            role,
            lock,
            wishes: AreaAdvice::default(),
            content,
        };
        self.map_content(place, length, area, bounds)
    }

    /// Maps the stack of a new program, up to `top`, growing down on demand to `length` bytes. Errors as
    /// `map`.
    pub fn map_stack(&self, top: usize, length: usize, prot: Prot) -> Result<(), Errno> {
        let length = page_ceil(length).ok_or(Errno::ENOMEM)?;
        let floor = top.checked_sub(length).ok_or(Errno::ENOMEM)?;
        let start = floor.max(top - STACK_START.min(length));
        let place = Placement::FixedNoReplace(start);
        let area = Area {
            end: 0,
            prot,
            role: Role::Stack { floor },
            lock: MemoryLock::No,
            wishes: AreaAdvice::default(),
            content: Content::Zeros,
        };
        self.map_content(place, top - start, area, &SpaceLimits::NONE)?;
        Ok(())
    }

    fn content(&self, backing: Backing, length: usize, prot: Prot) -> Result<Content, Errno> {
        let first_page = |offset: u64| {
            let pages = (length / PAGE) as u64;
            if !offset.is_multiple_of(PAGE as u64) {
                return Err(Errno::EINVAL);
            }
            let first = offset / PAGE as u64;
            first
                .checked_add(pages)
                .map(|_| first)
                .ok_or(Errno::EOVERFLOW)
        };
        Ok(match backing {
            Backing::Anonymous | Backing::Growing => {
                let machine = self.memory.frames().total();
                if prot.contains(Prot::WRITE) && length / PAGE > machine {
                    return Err(Errno::ENOMEM);
                }
                Content::Zeros
            }
            Backing::Unreserved => Content::Zeros,
            Backing::AnonymousShared { may_write } => Content::Pager {
                pager: Arc::new(SharedAnonymous::new(self.memory, (length / PAGE) as u64)),
                first: 0,
                shared: true,
                may: possible(may_write, true),
            },
            Backing::FilePrivate {
                pager,
                offset,
                may_exec,
            } => Content::Pager {
                pager,
                first: first_page(offset)?,
                shared: false,
                may: possible(true, may_exec),
            },
            Backing::FileShared {
                pager,
                offset,
                may_write,
                may_exec,
            } => {
                if prot.contains(Prot::WRITE) && !may_write {
                    return Err(Errno::EACCES);
                }
                let first = first_page(offset)?;
                Content::Pager {
                    pager,
                    first,
                    shared: true,
                    may: possible(may_write, may_exec),
                }
            }
        })
    }

    fn map_content(
        &self,
        place: Placement,
        length: usize,
        mut area: Area,
        bounds: &SpaceLimits,
    ) -> Result<usize, Errno> {
        self.admit()?;
        let mut inner = self.change();
        if area.lock == MemoryLock::No {
            area.lock = inner.future_lock;
        }
        self.note_lock(area.lock);
        inner.areas.admit_another()?;
        inner.areas.reserve()?;
        let fits = |inner: &Inner, start: usize| {
            start >= USER_START
                && start.checked_add(length).is_some_and(|end| end <= USER_END)
                && inner.areas.is_free(start, start + length)
        };
        let place = match place {
            Placement::Hint(hint) => Placement::Hint(page_floor(hint)),
            Placement::HintBelow(hint, limit) => Placement::HintBelow(page_floor(hint), limit),
            sure => sure,
        };
        let start = match place {
            Placement::Fixed(start) | Placement::FixedNoReplace(start) => {
                let (start, end) = match range(start, length) {
                    Ok(range) => range,
                    Err(_) if start.is_multiple_of(PAGE) => return Err(Errno::ENOMEM),
                    Err(error) => return Err(error),
                };
                if start < USER_START {
                    return Err(Errno::EPERM);
                }
                if !inner.areas.is_free(start, end) {
                    if matches!(place, Placement::FixedNoReplace(_)) {
                        return Err(Errno::EEXIST);
                    }
                    inner.admit_area(bounds, &area, start, end)?;
                    inner.areas.admit_hole(start, end)?;
                    self.unshare_tables(&inner, start, end, For::Less)?;
                    self.clear(&mut inner, start, end);
                    inner.areas.reserve()?;
                }
                start
            }
            Placement::Hint(start) if fits(&inner, start) => start,
            Placement::HintBelow(start, limit)
                if fits(&inner, start) && start + length <= limit =>
            {
                start
            }
            Placement::Hint(_) | Placement::Anywhere => inner
                .areas
                .room(length, USER_START, USER_MMAP_TOP)
                .ok_or(Errno::ENOMEM)?,
            Placement::Below(limit) | Placement::HintBelow(_, limit) => inner
                .areas
                .room(length, USER_START, page_floor(limit).min(USER_MMAP_TOP))
                .ok_or(Errno::ENOMEM)?,
        };
        area.end = start + length;
        inner.admit_area(bounds, &area, start, area.end)?;
        inner.add(start, area);
        Ok(start)
    }

    /// Unmaps whatever is in the range. Errors: `EINVAL`; `ENOMEM` (no memory to split an area, or too many).
    pub fn unmap(&self, address: usize, length: usize) -> Result<(), Errno> {
        let (start, end) = range(address, length)?;
        if start == end {
            return Err(Errno::EINVAL);
        }
        let mut inner = self.change();
        inner.areas.admit_hole(start, end)?;
        inner.areas.reserve()?;
        self.unshare_tables(&inner, start, end, For::Less)?;
        self.clear(&mut inner, start, end);
        Ok(())
    }

    /// Removes all areas from the range, whose tables are the space's own, and their pages. Room for cuts is
    /// reserved.
    pub(super) fn clear(&self, inner: &mut Inner, start: usize, end: usize) {
        let first = inner.areas.cut(start);
        let mut gather = MmuGather::new(self.memory, self.root);
        if inner.areas.shorten(first, start, end) {
            inner.size -= end - start;
            self.zap(start, end, &mut gather);
        } else {
            let last = inner.areas.cut(end);
            for index in first..last {
                let (start, area) = inner.areas.get(index);
                inner.size -= area.end - start;
                self.zap(*start, area.end, &mut gather);
            }
            inner.areas.remove(first, last);
        }
        let floor = inner.areas.end_before(first);
        let ceiling = inner.areas.start_of(first, USER_END + PAGE);
        self.tables()
            .prune(start, end, floor, ceiling, &mut |frame| gather.table(frame));
        gather.finish();
    }

    /// Clears the entries of the range, but for those of tables that other spaces have too. In a change.
    fn zap(&self, start: usize, end: usize, gather: &mut MmuGather<M>) {
        let mut gone = 0;
        self.tables().each_own_part(start, end, |base, words| {
            gone += gather.clear(base, words);
        });
        if gone != 0 {
            self.resident.note_most();
        }
        self.resident.add(UNDER_MONITOR, -gone);
    }

    /// Changes the rights of the range. Errors: `EINVAL`, `ENOMEM` (a hole in it), `EACCES` (rights that
    /// an area may not have: a shared file opened for reading, a file on a mount without execution); what is
    /// before such a place has the rights.
    pub fn protect(&self, address: usize, length: usize, prot: Prot) -> Result<(), Errno> {
        self.protect_within(address, length, prot, &SpaceLimits::NONE)
    }

    /// As [`protect`](Self::protect), where that stays within `bounds` (`ENOMEM`).
    pub fn protect_within(
        &self,
        address: usize,
        length: usize,
        prot: Prot,
        bounds: &SpaceLimits,
    ) -> Result<(), Errno> {
        let (start, end) = range(address, length)?;
        if start == end {
            return Ok(());
        }
        self.admit()?;
        let mut inner = self.change();
        inner.areas.reserve()?;
        let (end, outcome) = inner.may_protect(start, end, prot);
        if start == end {
            return outcome;
        }
        inner.admit_rights(bounds, start, end, prot)?;
        inner.areas.admit_rights(start, end, prot)?;
        self.unshare_tables(&inner, start, end, For::More)?;
        let first = inner.areas.cut(start);
        let last = inner.areas.cut(end);
        for index in first..last {
            inner.areas.get_mut(index).1.prot = prot;
        }
        let mut gather = MmuGather::new(self.memory, self.root);
        self.tables()
            .each_own_entry(start, end, |address, word, entry| {
                // A page that is not writable yet becomes so by a fault, which knows whether to copy.
                let entry_now = table::with_rights(entry, prot);
                if entry_now != entry {
                    word.store(entry_now, Ordering::Release);
                    if entry & PRESENT != 0 {
                        gather.changed(address);
                    }
                }
            });
        gather.finish();
        inner.areas.join(first, last);
        outcome
    }

    /// Forgets the pages of the range (`MADV_DONTNEED`): private zeros read as zero again. Where no page is
    /// present, as below the used part of most threads' stacks, no change begins, and no other CPU is
    /// interrupted. Errors: `EINVAL`, `ENOMEM` (a hole, or no memory for a table).
    pub fn discard(&self, address: usize, length: usize) -> Result<(), Errno> {
        let (start, end) = range(address, length)?;
        if start == end {
            return Ok(());
        }
        let held = self.held();
        let whole = held.areas.covers(start, end);
        if self.tables().is_clear(start, end) {
            drop(held);
        } else {
            self.empty(held, start, end)?;
        }
        if whole { Ok(()) } else { Err(Errno::ENOMEM) }
    }

    /// Takes away the pages of the range.
    #[inline(never)]
    fn empty(&self, held: LockedSpace<M>, start: usize, end: usize) -> Result<(), Errno> {
        let change = held.change();
        self.unshare_tables(&change, start, end, For::Less)?;
        let mut gather = MmuGather::new(self.memory, self.root);
        self.zap(start, end, &mut gather);
        gather.finish();
        Ok(())
    }

    /// Takes all pages of private mappings away at once, where programs run here no more: later reads find
    /// the object's pages, or zeros. Where there is no memory for a table, pages stay that other spaces have
    /// too.
    pub fn give_up(&self) {
        let inner = self.change();
        let _some_stay = self.unshare_tables(&inner, 0, USER_END, For::Less);
        let mut gather = MmuGather::new(self.memory, self.root);
        for (start, area) in inner.areas.all() {
            if area.private() {
                self.zap(*start, area.end, &mut gather);
            }
        }
        gather.finish();
    }

    /// Is every page of the range mapped (`msync`, `madvise`, `mincore`)?
    pub fn covers(&self, address: usize, length: usize) -> bool {
        range(page_floor(address), length)
            .is_ok_and(|(start, end)| self.held().areas.covers(start, end))
    }

    /// [`remap_within`](Self::remap_within) without bounds.
    #[cfg(test)]
    pub fn remap(
        &self,
        address: usize,
        old: usize,
        new: usize,
        how: Remap,
    ) -> Result<usize, Errno> {
        self.remap_within(address, old, new, how, &SpaceLimits::NONE)
    }

    /// Grows, shrinks or moves a mapping with its pages; with `old` 0, maps the object of a shared one from
    /// there on once more. Answers the address. Errors: `EINVAL`, `EFAULT` (not one mapping), `ENOMEM`, also
    /// where it would not stay within `bounds`; `EAGAIN` for what is locked.
    pub fn remap_within(
        &self,
        address: usize,
        old: usize,
        new: usize,
        how: Remap,
        bounds: &SpaceLimits,
    ) -> Result<usize, Errno> {
        let (start, old_end) = range(address, old)?;
        let new = page_ceil(new).ok_or(Errno::ENOMEM)?;
        if new == 0 {
            return Err(Errno::EINVAL);
        }
        if new > USER_END && !matches!(how, Remap::To(_)) {
            return Err(Errno::ENOMEM);
        }
        let old = old_end - start;
        self.admit()?;
        let mut inner = self.change();
        inner.areas.reserve()?;
        let (_, (_, area)) = inner.areas.find(start).ok_or(Errno::EFAULT)?;
        let shrinks = matches!(how, Remap::InPlace | Remap::MayMove) && new <= old;
        // A part that is only cut off may be of several areas, and have holes.
        if !shrinks {
            if old == 0 && area.private() {
                return Err(Errno::EINVAL);
            }
            if old.min(new) > area.end - start {
                return Err(Errno::EFAULT);
            }
        }
        if new > old {
            inner.admit_bytes(bounds, area, new - old, new - old)?;
        }
        if matches!(how, Remap::Leave(_) | Remap::To(_)) {
            inner.areas.admit_more(5)?;
        }
        if let Remap::Leave(target) = how {
            if new != old {
                return Err(Errno::EINVAL);
            }
            inner.admit_bytes(bounds, area, 0, old)?;
            let target = match target {
                Some(target) => {
                    let (target, target_end) = range(target, new)?;
                    if target < USER_START || (target < old_end && start < target_end) {
                        return Err(Errno::EINVAL);
                    }
                    self.unshare_tables(&inner, target, target_end, For::Less)?;
                    self.clear(&mut inner, target, target_end);
                    target
                }
                None => inner
                    .areas
                    .room(new, USER_START, USER_MMAP_TOP)
                    .ok_or(Errno::ENOMEM)?,
            };
            return self.relocate(&mut inner, start, old, target, new, true);
        }
        if let Remap::To(target) = how {
            let (target, target_end) = range(target, new)?;
            if target < USER_START || (target < old_end && start < target_end) {
                return Err(Errno::EINVAL);
            }
            self.unshare_tables(&inner, target, target_end, For::Less)?;
            self.unshare_tables(&inner, start, old_end, For::Less)?;
            self.clear(&mut inner, target, target_end);
            if new < old {
                self.clear(&mut inner, start + new, old_end);
            }
            return self.relocate(&mut inner, start, old.min(new), target, new, false);
        }
        if new <= old {
            if new < old {
                inner.areas.admit_hole(start + new, old_end)?;
                self.unshare_tables(&inner, start + new, old_end, For::Less)?;
                self.clear(&mut inner, start + new, old_end);
            }
            return Ok(start);
        }
        let new_end = start.checked_add(new).filter(|end| *end <= USER_END);
        if old != 0
            && let Some(new_end) = new_end
            && inner.areas.is_free(old_end, new_end)
        {
            let index = inner.areas.cut(start);
            inner.areas.get_mut(index).1.end = new_end;
            inner.areas.join(index, index + 1);
            inner.size += new - old;
            return Ok(start);
        }
        if how == Remap::InPlace {
            return Err(Errno::ENOMEM);
        }
        inner.areas.admit_more(3)?;
        let target = inner
            .areas
            .room(new, USER_START, USER_MMAP_TOP)
            .ok_or(Errno::ENOMEM)?;
        self.relocate(&mut inner, start, old, target, new, false)
    }

    /// Moves `old` bytes from `start` to the free range of `new` bytes at `target`, with their pages;
    /// `leaves`: the range stays mapped, without a page.
    fn relocate(
        &self,
        inner: &mut Inner,
        start: usize,
        old: usize,
        target: usize,
        new: usize,
        leaves: bool,
    ) -> Result<usize, Errno> {
        if old == 0 {
            return inner.map_again(start, target, new);
        }
        // Nothing is in the free range, and what is of the other goes only behind this.
        self.unshare_tables(inner, target, target + new, For::More)?;
        self.unshare_tables(inner, start, start + old, For::More)?;
        let tables = self.tables();
        // All tables first, so that nothing can fail half-way.
        let mut made = true;
        tables.each_entry(start, start + old, |address, _, _| {
            made = made && tables.leaf_or_make(address - start + target).is_some();
        });
        if !made {
            self.clear(inner, target, target + new);
            return Err(Errno::ENOMEM);
        }
        inner.areas.reserve()?;
        let index = inner.areas.cut(start);
        inner.areas.cut(start + old);
        let mut area = inner.areas.take(index);
        inner.size -= old;
        tables.each_own_entry(start, start + old, |address, word, entry| {
            if let Some(there) = tables.leaf(address - start + target) {
                word.store(0, Ordering::Release);
                there.store(entry, Ordering::Release);
            }
        });
        self.memory.forget(self.root, start, usize::MAX);
        let left = leaves.then(|| Area {
            lock: MemoryLock::No,
            ..area.clone()
        });
        area.end = target + new;
        inner.add(target, area);
        if let Some(left) = left {
            inner.add(start, left);
            return Ok(target);
        }
        // Nothing is left in the old place but tables.
        self.clear(inner, start, start + old);
        Ok(target)
    }

    /// Sets where the heap of a program with `own` bytes of data starts (after loading it); it is empty.
    pub fn set_brk_start(&self, start: usize, own: usize) {
        let mut inner = self.change();
        inner.own_data = own;
        let start = page_ceil(start).unwrap_or(USER_END);
        (inner.brk_start, inner.brk) = (start, start);
    }

    /// Moves the end of the heap to `end` if that is possible. Answers where the end is now, as Linux's `brk`
    /// does.
    pub fn brk(&self, end: usize, bounds: &SpaceLimits) -> usize {
        let mut inner = self.change();
        let now = inner.brk;
        let heap = end.checked_sub(inner.brk_start);
        if heap.is_none_or(|heap| heap.saturating_add(inner.own_data) > bounds.heap)
            || end > USER_END
        {
            return now;
        }
        let (Some(old), Some(new)) = (page_ceil(now), page_ceil(end)) else {
            return now;
        };
        if new > old {
            let machine = self.memory.frames().total();
            let area = Area {
                end: new,
                prot: Prot::RW,
                role: Role::Heap,
                lock: inner.future_lock,
                wishes: AreaAdvice::default(),
                content: Content::Zeros,
            };
            if new > USER_END
                || inner
                    .admit_bytes(bounds, &area, new - old, new - old)
                    .is_err()
                || (new - old) / PAGE > machine
                || self.admit().is_err()
                || inner.areas.admit_another().is_err()
                || inner.areas.reserve().is_err()
                || !inner.areas.is_free(old, new)
            {
                return now;
            }
            inner.add(old, area);
        } else if new < old {
            let admitted = inner.areas.reserve();
            if admitted
                .and_then(|()| self.unshare_tables(&inner, new, old, For::Less))
                .is_err()
            {
                return now;
            }
            self.clear(&mut inner, new, old);
        }
        inner.brk = end;
        end
    }

    /// Makes every page of the range ready for `access` (`MAP_POPULATE`).
    pub fn populate(
        &self,
        address: usize,
        length: usize,
        access: Access,
    ) -> Result<(), FaultError> {
        let end = address.saturating_add(length);
        let mut page = page_floor(address);
        while page < end {
            self.fault(page, access)?;
            page += PAGE;
        }
        Ok(())
    }

    /// Refuses new areas when only the kernel's reserve is left: the maps cannot fail softly.
    pub(super) fn admit(&self) -> Result<(), Errno> {
        if self.memory.frames().admits(SLACK) || self.memory.reclaim() {
            Ok(())
        } else {
            Err(Errno::ENOMEM)
        }
    }
}

impl Inner {
    /// How far the range may get the rights `prot`, and why no further. Errors: `ENOMEM`, `EACCES`.
    fn may_protect(&self, start: usize, end: usize, prot: Prot) -> (usize, Result<(), Errno>) {
        let reached = self.areas.covered_from(start).min(end);
        let refused = |area: &Area| match &area.content {
            Content::Zeros => false,
            Content::Pager { may, .. } => !may.contains(prot),
        };
        let mut touched = self.areas.touching(start, reached).iter();
        match touched.find(|(_, area)| refused(area)) {
            Some((at, _)) => ((*at).max(start), Err(Errno::EACCES)),
            None if reached < end => (reached, Err(Errno::ENOMEM)),
            None => (end, Ok(())),
        }
    }

    /// The object of the area at `start`, from there on, is mapped at the free range of `length` bytes at
    /// `target` too.
    fn map_again(&mut self, start: usize, target: usize, length: usize) -> Result<usize, Errno> {
        self.areas.reserve()?;
        let (_, (from, area)) = self.areas.find(start).ok_or(Errno::EFAULT)?;
        let mut again = area.clone();
        again.advance(start - from);
        again.end = target + length;
        self.add(target, again);
        Ok(target)
    }

    /// Adds an area in a free range. Room is reserved.
    pub(super) fn add(&mut self, start: usize, area: Area) {
        self.size += area.end - start;
        self.areas.insert(start, area);
    }
}
