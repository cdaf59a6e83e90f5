//! Walks over what is mapped: the parts of a range that may have entries, and the entries in them.
//!
//! *Interface*: [`Tables::each_part`] and its neighbours visit a range, [`Tables::is_clear`] tells whether it
//! has any entry. [`each_set`], [`any_set`] and [`empty_before`] look through words of one table.

use super::{ADDRESS, LARGE, PRESENT, SHARED};
use super::{ENTRIES, PART, SPAN, Tables, index, shift};
use crate::frame::PhysMemory;
use core::sync::atomic::{AtomicU64, Ordering};

impl<M: PhysMemory> Tables<'_, M> {
    /// Calls `visit` with the address of the first page and the words of each stretch of `start..end` that
    /// may have entries, in order; none reaches from one leaf table into another. Both bounds are
    /// page-aligned.
    #[inline]
    pub fn each_part(&self, start: usize, end: usize, visit: impl FnMut(usize, &[AtomicU64])) {
        self.each_part_on(&mut Last::default(), start, end, visit);
    }

    /// As [`each_part`](Self::each_part), for one range after another, while no table is removed.
    #[inline(always)]
    pub fn each_part_on(
        &self,
        last: &mut Last,
        start: usize,
        end: usize,
        visit: impl FnMut(usize, &[AtomicU64]),
    ) {
        self.each_part_of::<false>(last, start, end, visit);
    }

    /// As [`each_part_on`](Self::each_part_on); with `OWN` without the tables that other spaces have too.
    #[inline(always)]
    fn each_part_of<const OWN: bool>(
        &self,
        last: &mut Last,
        start: usize,
        end: usize,
        mut visit: impl FnMut(usize, &[AtomicU64]),
    ) {
        let mut address = start;
        while address < end {
            let (physical, level) = match last.leaf_table(address) {
                Some(physical) => (physical, 1),
                None => self.descend::<OWN>(address),
            };
            if level != 1 {
                let entry;
                (address, entry) = self.skip(physical, level, address, end);
                let not = if OWN { LARGE | SHARED } else { LARGE };
                if level == 2 && entry & (PRESENT | not) == PRESENT {
                    last.note(address, entry & ADDRESS);
                }
                continue;
            }
            // Where the span of this leaf table ends.
            let span = 1usize << shift(2);
            let next = match (address & !(span - 1)).checked_add(span) {
                Some(next) if next < end => next,
                _ => end,
            };
            last.note(address, physical);
            let first = index(address, 1);
            let end = first + ((next - address) >> shift(1));
            let words = self.table(physical);
            each_run(self.marks(physical), |from, to| {
                let (from, to) = (from.max(first), to.min(end));
                if from < to {
                    visit(address + ((from - first) << shift(1)), &words[from..to]);
                }
            });
            address = next;
        }
    }

    /// The first address behind `address`, whose entry is missing in the table of `level` at `physical`, that
    /// has an entry there, and the entry; that table's end, or `end`, and 0, if that comes first.
    pub(super) fn skip(
        &self,
        physical: u64,
        level: u32,
        address: usize,
        end: usize,
    ) -> (usize, u64) {
        let floor = address >> shift(level) << shift(level);
        // As many of those behind it as `end` leaves, and then the table.
        let wanted = (end - 1 - floor) >> shift(level);
        let behind = &self.table(physical)[index(address, level)..][1..];
        let looked_at = &behind[..behind.len().min(wanted)];
        let after = |entries: usize| floor.checked_add((entries + 1) << shift(level));
        let mut entries = looked_at.iter().map(|entry| entry.load(Ordering::Acquire));
        match entries.position(|entry| entry != 0) {
            Some(place) => {
                let entry = looked_at[place].load(Ordering::Acquire);
                (after(place).unwrap_or(end), entry)
            }
            None => (after(looked_at.len()).map_or(end, |next| next.min(end)), 0),
        }
    }

    /// The table of `address` that lies lowest, and 1; or the one whose entry for it is missing, and its
    /// level. With `OWN`, a leaf table that other spaces have too counts as missing.
    #[inline(always)]
    pub(super) fn descend<const OWN: bool>(&self, address: usize) -> (u64, u32) {
        let not = if OWN { LARGE | SHARED } else { LARGE };
        let mut physical = self.root;
        for level in [4, 3, 2] {
            let entry = self.table(physical)[index(address, level)].load(Ordering::Acquire);
            if entry & (PRESENT | not) != PRESENT {
                return (physical, level);
            }
            physical = entry & ADDRESS;
        }
        (physical, 1)
    }

    /// Calls `visit` with the address and the word of each page in `start..end` whose entry is not zero, in
    /// order.
    #[inline]
    pub fn each_entry(
        &self,
        start: usize,
        end: usize,
        mut visit: impl FnMut(usize, &AtomicU64, u64),
    ) {
        self.each_part(start, end, |base, words| {
            each_set(words, |i, word, entry| {
                visit(base + (i << shift(1)), word, entry)
            });
        });
    }

    /// The same, to change the entries: without the tables that other spaces have too.
    #[inline]
    pub fn each_own_entry(
        &self,
        start: usize,
        end: usize,
        mut visit: impl FnMut(usize, &AtomicU64, u64),
    ) {
        self.each_own_part(start, end, |base, words| {
            each_set(words, |i, word, entry| {
                visit(base + (i << shift(1)), word, entry)
            });
        });
    }

    /// As [`each_part`](Self::each_part), to change the entries: without the tables that other spaces have
    /// too.
    #[inline]
    pub fn each_own_part(&self, start: usize, end: usize, visit: impl FnMut(usize, &[AtomicU64])) {
        self.each_part_of::<true>(&mut Last::default(), start, end, visit);
    }

    /// Whether no page of `start..end` has an entry that is not zero. Entries that others set meanwhile may
    /// be seen or not.
    pub fn is_clear(&self, start: usize, end: usize) -> bool {
        let mut address = start;
        while address < end {
            let Some(middle) = self.middle_table(address) else {
                let (physical, level) = self.descend::<false>(address);
                address = self.skip(physical, level, address, end).0;
                continue;
            };
            // The entries that lead to `address..end`, as far as they are in this table.
            let base = address & !(SPAN - 1);
            let first = index(address, 2);
            let count = ((end - 1 - base) >> shift(2)).wrapping_add(1);
            let entries = &self.table(middle)[first..][..count.min(ENTRIES - first)];
            let mut at = 0usize;
            let set = |entry: &AtomicU64| entry.load(Ordering::Acquire) != 0;
            while let Some(empty) = entries[at..].iter().position(set) {
                at = at.wrapping_add(empty);
                let from = base.wrapping_add(at << shift(2)).max(address);
                if !self.is_clear_below(&entries[at], from, end) {
                    return false;
                }
                at = at.wrapping_add(1);
            }
            match ((address >> shift(3)).wrapping_add(1)).checked_mul(1 << shift(3)) {
                Some(next) => address = next,
                None => return true,
            }
        }
        true
    }

    /// The table of leaf tables of `address`, if it exists.
    #[inline(always)]
    pub(super) fn middle_table(&self, address: usize) -> Option<u64> {
        let mut physical = self.root;
        for level in [4, 3] {
            let entry = self.table(physical)[index(address, level)].load(Ordering::Acquire);
            if entry & (PRESENT | LARGE) != PRESENT {
                return None;
            }
            physical = entry & ADDRESS;
        }
        Some(physical)
    }

    /// Whether the leaf table that `entry` leads to, which is that of `start`, has no entry from there to
    /// before `end`.
    #[inline(never)]
    fn is_clear_below(&self, entry: &AtomicU64, start: usize, end: usize) -> bool {
        let entry = entry.load(Ordering::Acquire);
        if entry & (PRESENT | LARGE) != PRESENT {
            return false;
        }
        let first = index(start, 1);
        let end = first.saturating_add((end - start) >> shift(1));
        // From the first part that was ever asked for to the last.
        let marks = self.marks(entry & ADDRESS);
        let first = first.max(marks.trailing_zeros() as usize * PART);
        let end = end.min((u32::BITS - marks.leading_zeros()) as usize * PART);
        let Some(words) = self.table(entry & ADDRESS).get(first..end) else {
            return true;
        };
        let (fours, rest) = words.as_chunks::<4>();
        let zero = |word: &AtomicU64| word.load(Ordering::Relaxed) == 0;
        !fours.iter().any(any_set) && rest.iter().all(zero)
    }

    /// Calls `visit` with each four entries of the leaf table at `physical` of which not all are zero, and
    /// how many fours are before them.
    #[inline(always)]
    pub(super) fn each_four(&self, physical: u64, visit: impl FnMut(usize, &[AtomicU64; 4])) {
        self.each_four_of(physical, self.marks(physical), visit);
    }

    /// The same of the parts `marks` of any table.
    #[inline(always)]
    pub(super) fn each_four_of(
        &self,
        physical: u64,
        mut marks: u32,
        mut visit: impl FnMut(usize, &[AtomicU64; 4]),
    ) {
        let (fours, _) = self.table(physical).as_chunks::<4>();
        while marks != 0 {
            let first = marks.trailing_zeros() as usize * (PART / 4);
            for (i, four) in fours[first..first + PART / 4].iter().enumerate() {
                if any_set(four) {
                    visit(first + i, four);
                }
            }
            marks &= marks - 1;
        }
    }
}

/// The leaf table that was found last, for walks from one address to the next.
#[derive(Default)]
pub struct Last {
    /// The first address of its span, plus one; 0: none.
    span: usize,
    physical: u64,
}

impl Last {
    /// The leaf table of `address`, if it is this.
    #[inline(always)]
    pub(super) fn leaf_table(&self, address: usize) -> Option<u64> {
        (self.span == Self::span(address)).then_some(self.physical)
    }

    #[inline(always)]
    pub(super) fn note(&mut self, address: usize, physical: u64) -> u64 {
        (self.span, self.physical) = (Self::span(address), physical);
        physical
    }

    #[inline(always)]
    fn span(address: usize) -> usize {
        address >> shift(2) << shift(2) | 1
    }
}

/// Calls `visit` with the bounds of each run of entries whose parts are in `marks`.
#[inline]
fn each_run(marks: u32, mut visit: impl FnMut(usize, usize)) {
    let mut marks = u64::from(marks);
    while marks != 0 {
        let first = marks.trailing_zeros();
        let end = first.wrapping_add((marks >> first).trailing_ones());
        visit(first as usize * PART, end as usize * PART);
        // At most 32 bits are gone.
        marks &= u64::MAX << end;
    }
}

/// How many words at the beginning, in eights, are zero; all of them if none is set.
#[inline]
pub fn empty_before(words: &[AtomicU64]) -> usize {
    let (parts, rest) = words.as_chunks::<8>();
    match parts.iter().position(any_set) {
        Some(part) => part.wrapping_mul(8),
        None if rest.iter().all(|word| word.load(Ordering::Relaxed) == 0) => words.len(),
        None => words.len().wrapping_sub(rest.len()),
    }
}

/// Is any of them not zero?
#[inline]
pub fn any_set<const N: usize>(part: &[AtomicU64; N]) -> bool {
    let or = |any, word: &AtomicU64| any | word.load(Ordering::Relaxed);
    part.iter().fold(0, or) != 0
}

/// Calls `visit` with the index, the word and the entry of each word that is not zero. Most are, so eight are
/// looked at at a time.
#[inline]
pub fn each_set(words: &[AtomicU64], mut visit: impl FnMut(usize, &AtomicU64, u64)) {
    let mut look = |index: usize, word: &AtomicU64| {
        let entry = word.load(Ordering::Relaxed);
        if entry != 0 {
            visit(index, word, entry);
        }
    };
    let (parts, rest) = words.as_chunks::<8>();
    let mut index = 0usize;
    for part in parts {
        if any_set(part) {
            for (i, word) in part.iter().enumerate() {
                look(index.wrapping_add(i), word);
            }
        }
        // An index into a slice does not wrap.
        index = index.wrapping_add(part.len());
    }
    let any = |any, word: &AtomicU64| any | word.load(Ordering::Relaxed);
    if rest.iter().fold(0, any) != 0 {
        for (i, word) in rest.iter().enumerate() {
            look(index.wrapping_add(i), word);
        }
    }
}
