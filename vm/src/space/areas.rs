//! The areas of a space: a sorted array, so that neighbours are beside each other and nothing is allocated
//! for one area.
//!
//! *Interface*: [`Areas`]. Indices are valid until the next change. Adding needs room, which
//! [`Areas::reserve`] gets first: that is the only step that can fail.

use super::area::Area;
use abi::errno::Errno;
use abi::layout::PAGE;
use alloc::vec::Vec;
use codegen::fault_injection::refused;
use core::sync::atomic::{AtomicUsize, Ordering};

/// More entries than one operation can add: a cut at each end, and a new one.
const MARGIN: usize = 3;

/// Free addresses that stay between a growing stack and the area below it.
pub(super) const STACK_GAP: usize = 256 * PAGE;

/// An area and where it starts.
pub(super) type Entry = (usize, Area);

#[derive(Default)]
pub(super) struct Areas {
    list: Vec<Entry>,
    /// Index of the area that was found last; a hint.
    recent: AtomicUsize,
}

impl Areas {
    /// Makes sure that one operation can add what it may need. Error: `ENOMEM`.
    #[expect(clippy::disallowed_methods, reason = "may be refused")]
    pub(super) fn reserve(&mut self) -> Result<(), Errno> {
        let has_room = self.list.capacity() - self.list.len() >= MARGIN;
        if has_room || (!refused() && self.list.try_reserve(MARGIN).is_ok()) {
            return Ok(());
        }
        Err(Errno::ENOMEM)
    }

    /// Bytes that the list takes.
    pub(super) fn bytes(&self) -> usize {
        self.list.capacity() * size_of::<Entry>()
    }

    /// A copy. Error: `ENOMEM`.
    #[expect(
        clippy::disallowed_methods,
        reason = "room is made, which may be refused"
    )]
    pub(super) fn try_clone(&self) -> Result<Areas, Errno> {
        let mut list = Vec::new();
        if refused() || list.try_reserve(self.list.len() + MARGIN).is_err() {
            return Err(Errno::ENOMEM);
        }
        list.extend_from_slice(&self.list);
        Ok(Areas {
            list,
            recent: AtomicUsize::new(0),
        })
    }

    /// All of them, in order.
    pub(super) fn all(&self) -> &[Entry] {
        &self.list
    }

    /// Index of the first area that starts at or above `address`.
    #[inline]
    pub(super) fn from(&self, address: usize) -> usize {
        self.list.partition_point(|(start, _)| *start < address)
    }

    /// Index of the area that contains `address`.
    #[inline]
    pub(super) fn at(&self, address: usize) -> Option<usize> {
        self.find(address).map(|(index, _)| index)
    }

    /// The area that contains `address`, and its index.
    #[inline]
    pub(super) fn find(&self, address: usize) -> Option<(usize, &Entry)> {
        let contains = |(start, area): &Entry| *start <= address && address < area.end;
        let recent = self.recent.load(Ordering::Relaxed);
        if let Some(entry) = self.list.get(recent)
            && contains(entry)
        {
            return Some((recent, entry));
        }
        let index = self.from(address + 1).checked_sub(1)?;
        let entry = &self.list[index];
        contains(entry).then(|| {
            self.recent.store(index, Ordering::Relaxed);
            (index, entry)
        })
    }

    /// Index of the first area that ends above `address`.
    pub(super) fn above(&self, address: usize) -> usize {
        self.at(address).unwrap_or_else(|| self.from(address))
    }

    #[inline]
    pub(super) fn get(&self, index: usize) -> &Entry {
        &self.list[index]
    }

    #[inline]
    pub(super) fn get_mut(&mut self, index: usize) -> &mut Entry {
        &mut self.list[index]
    }

    /// Where the area before `index` ends; 0 when there is none.
    #[inline]
    pub(super) fn end_before(&self, index: usize) -> usize {
        index
            .checked_sub(1)
            .map_or(0, |below| self.list[below].1.end)
    }

    /// Where area `index` starts; `none` when there is none.
    #[inline]
    pub(super) fn start_of(&self, index: usize, none: usize) -> usize {
        self.list.get(index).map_or(none, |(start, _)| *start)
    }

    /// Is nothing mapped in the range?
    #[inline]
    pub(super) fn is_free(&self, start: usize, end: usize) -> bool {
        self.end_before(self.from(end)) <= start
    }

    /// Is everything mapped in the range?
    pub(super) fn covers(&self, start: usize, end: usize) -> bool {
        let recent = self.recent.load(Ordering::Relaxed);
        match self.list.get(recent) {
            Some((first, area)) if *first < end && end <= area.end => {
                self.reaches_down(recent, start)
            }
            _ => self.reaches_up(start, end),
        }
    }

    /// Whether `start` is in area `index`, or below it with no hole between.
    #[inline]
    fn reaches_down(&self, index: usize, start: usize) -> bool {
        let (mut first, mut index) = (self.list[index].0, index);
        while first > start {
            let Some(below) = index.checked_sub(1) else {
                return false;
            };
            let (next, area) = &self.list[below];
            if area.end != first {
                return false;
            }
            (first, index) = (*next, below);
        }
        true
    }

    /// Whether areas lead from `start` to `end` without a hole.
    fn reaches_up(&self, start: usize, end: usize) -> bool {
        let index = self.from(start + 1);
        let mut reached = self.end_before(index).max(start);
        for (first, area) in &self.list[index..] {
            if reached >= end || *first > reached {
                break;
            }
            reached = area.end;
        }
        reached >= end
    }

    /// Where what is mapped from `start` on without a hole ends; `start` if nothing is there.
    pub(super) fn covered_from(&self, start: usize) -> usize {
        let mut reached = start;
        for (first, area) in self.touching(start, usize::MAX) {
            if *first > reached {
                break;
            }
            reached = area.end;
        }
        reached
    }

    /// The areas that touch the range.
    pub(super) fn touching(&self, start: usize, end: usize) -> &[Entry] {
        let first = self.from(start);
        let first = first - usize::from(self.end_before(first) > start);
        &self.list[first..self.from(end).max(first)]
    }

    /// The highest free range of `length` bytes between `bottom` and `top`.
    pub(super) fn room(&self, length: usize, bottom: usize, top: usize) -> Option<usize> {
        let mut end = top;
        let mut index = self.from(top);
        while let Some(below) = index.checked_sub(1) {
            let (start, area) = &self.list[below];
            if area.end < end && end - area.end >= length {
                break;
            }
            let gap = area.role.floor().map_or(0, |_| STACK_GAP);
            end = end.min(start.saturating_sub(gap));
            index = below;
        }
        let start = end.checked_sub(length).filter(|start| *start >= bottom)?;
        self.is_free(start, end).then_some(start)
    }

    /// Makes sure that no area reaches across `at`; answers the index of the first that starts there or
    /// above. Room is reserved.
    #[expect(clippy::disallowed_methods, reason = "`reserve` made room")]
    pub(super) fn cut(&mut self, at: usize) -> usize {
        let index = self.from(at);
        if self.end_before(index) > at {
            let (start, area) = &mut self.list[index - 1];
            let upper = area.split(*start, at);
            self.list.insert(index, (at, upper));
        }
        index
    }

    /// Adds an area in a free range, and joins it with its neighbours. Room is reserved.
    #[expect(clippy::disallowed_methods, reason = "`reserve` made room")]
    pub(super) fn insert(&mut self, start: usize, area: Area) {
        let index = self.from(start);
        if let Some((below, lower)) = index.checked_sub(1).map(|below| &mut self.list[below])
            && lower.end == start
            && lower.joins(*below, &area)
        {
            lower.end = area.end;
            self.join(index, index);
        } else if let Some((above, upper)) = self.list.get_mut(index)
            && *above == area.end
            && area.joins(start, upper)
        {
            (*above, *upper) = (
                start,
                Area {
                    end: upper.end,
                    ..area
                },
            );
        } else {
            self.list.insert(index, (start, area));
        }
    }

    /// Takes the part before `at` away from area `index`, if that starts at `start` and reaches beyond;
    /// whether it does.
    pub(super) fn shorten(&mut self, index: usize, start: usize, at: usize) -> bool {
        match self.list.get_mut(index) {
            Some((first, area)) if *first == start && at < area.end => {
                *area = area.split(start, at);
                *first = at;
                true
            }
            _ => false,
        }
    }

    /// Takes out the areas `first..end`.
    pub(super) fn remove(&mut self, first: usize, end: usize) {
        self.list.drain(first..end);
    }

    /// Removes the areas that a child is not to have. Answers how many bytes those were.
    pub(super) fn leave_out(&mut self) -> usize {
        let mut bytes = 0;
        self.list.retain(|(start, area)| {
            if area.wishes.left_out {
                bytes += area.end - start;
            }
            !area.wishes.left_out
        });
        bytes
    }

    /// Takes out one area.
    pub(super) fn take(&mut self, index: usize) -> Area {
        self.list.remove(index).1
    }

    /// Joins each area of `first..=last` with the one before it, where they can be one.
    pub(super) fn join(&mut self, first: usize, last: usize) {
        for index in (first.max(1)..=last).rev() {
            let Some([(below, lower), (start, upper)]) = self.list.get(index - 1..=index) else {
                continue;
            };
            if lower.end == *start && lower.joins(*below, upper) {
                self.list[index - 1].1.end = upper.end;
                self.list.remove(index);
            }
        }
    }
}
