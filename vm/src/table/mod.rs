//! Four-level page tables: a walker over atomic words.
//!
//! *Interface*: [`Tables::leaf`] and [`Tables::leaf_or_make`] find the word that maps one page;
//! [`Tables::each_part`] visits what of a range may have entries, [`Tables::is_clear`] tells whether any has;
//! [`Tables::prune`] takes tables out that map nothing any more, [`Tables::take_apart`] all. Tables are built
//! by compare-and-swap, so that two CPUs may build at once: the loser gives its table back. A table whose
//! entries are all clear again is a frame of zeros, and goes back to the stock as one.
//!
//! A table's frame is not shared as a page is, so its share count is free for two other things (`owners`). It
//! says which parts of the table were ever asked for: a bit (32 entries) is set before
//! [`Tables::leaf_or_make`] gives a word of them, and all are cleared when the table is taken out. Most
//! tables have entries in one or two such parts, and walks skip the others. (Above the leaves it says which
//! entries, if they are few: `noted`.) And it counts how many other spaces have the table: [`Tables::give`]
//! lets another have a leaf table, which nobody changes from then on, since both reach it by an entry with
//! [`SHARED`]. A space that is to change it gets its own one first ([`Tables::change_leaf`] says so,
//! [`Tables::each_shared`] and [`Tables::disown`] are the steps); the last one that has it takes it over.
//!
//! Progress: lock-free. The owner decides when clearing and pruning are safe against walks (a space holds its
//! monitor).
//! Source: Massalin and Pu 1991, "virtual memory management" (compare-and-swap into a null entry); layout:
//! AMD64 Architecture Programmer's Manual, volume 2, section 5.3.

mod entry;
mod owners;
mod prot;
mod ptdump;
mod used_entries;
mod walk;

pub use entry::*;
pub use prot::Prot;
pub use ptdump::Mapping;
pub use walk::{Last, any_set, each_set, empty_before};

use crate::frame::{Frame, PhysMemory};
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use owners::MARKS;
use used_entries::UsedEntries;

/// Entries in a table.
pub const ENTRIES: usize = 512;

/// Entries for which a leaf table's frame has a bit.
const PART: usize = ENTRIES / MARKS.count_ones() as usize;

/// Bytes that a leaf table maps.
pub const SPAN: usize = 1 << shift(2);

/// log2 of the bytes that one entry of a table of `level` maps (1: leaf table, 4: top table).
#[inline]
const fn shift(level: u32) -> u32 {
    // No level is so high that this wraps.
    level.wrapping_mul(9).wrapping_add(3)
}

/// The index of `address` in its table of `level`.
#[inline]
pub const fn index(address: usize, level: u32) -> usize {
    (address >> shift(level)) & (ENTRIES - 1)
}

/// Why there is no word to change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Missing {
    /// No memory for a table, or a large page.
    PhysMemory,
    /// Other spaces have the table too.
    SharedAnonymous,
}

/// The page tables under one top table.
#[derive(Clone, Copy)]
pub struct Tables<'a, M> {
    root: u64,
    /// A second top table with the same lower half; 0: none.
    second: u64,
    memory: M,
    /// Tables below the top ones.
    count: Option<&'a AtomicUsize>,
}

impl<'a, M: PhysMemory> Tables<'a, M> {
    /// The tables under `root`, a frame's physical address.
    ///
    /// # Safety
    /// `root` is a top table, and stays one while the result is in use.
    pub unsafe fn new(root: u64, memory: M) -> Self {
        Tables {
            root,
            second: 0,
            memory,
            count: None,
        }
    }

    /// These tables, and from now on what they have of the lower half under `second` as well; 0: nothing.
    ///
    /// # Safety
    /// `second` is 0, or a top table as the root is.
    pub unsafe fn with_second(self, second: u64) -> Self {
        Tables { second, ..self }
    }

    /// These tables; those that are made and taken out from now on count.
    pub fn counted(self, count: &'a AtomicUsize) -> Self {
        Tables {
            count: Some(count),
            ..self
        }
    }

    /// The entries of the table at `physical`.
    #[inline]
    fn table(&self, physical: u64) -> &[AtomicU64; ENTRIES] {
        // SAFETY: only tables under a valid root are asked for, and a frame holds one table of words that are
        // only accessed atomically.
        unsafe { &*self.memory.virt(physical).cast() }
    }

    /// The word that maps the page of `address`, if its leaf table exists.
    #[inline]
    pub fn leaf(&self, address: usize) -> Option<&AtomicU64> {
        let mut physical = self.root;
        for level in [4, 3, 2] {
            let entry = self.table(physical)[index(address, level)].load(Ordering::Acquire);
            if entry & (PRESENT | LARGE) != PRESENT {
                return None;
            }
            physical = entry & ADDRESS;
        }
        Some(&self.table(physical)[index(address, 1)])
    }

    /// The same, to be changed: not in a table that other spaces have too.
    pub fn own_leaf(&self, address: usize) -> Option<&AtomicU64> {
        let (_, entry) = self.leading_to(address)?;
        (entry & SHARED == 0).then(|| &self.table(entry & ADDRESS)[index(address, 1)])
    }

    /// The first address from `address` on whose leaf table may exist; or `end`, if that comes first.
    #[inline]
    pub fn next_leaf_table(&self, address: usize, end: usize) -> usize {
        match self.descend::<false>(address) {
            (_, 1) => address,
            (physical, level) => self.skip(physical, level, address, end).0,
        }
    }

    /// The word that maps the page of `address`, with tables made as needed. `None`: out of memory, or a
    /// large page.
    // In each fault: a call and what it keeps are as much again.
    #[inline(always)]
    pub fn leaf_or_make(&self, address: usize) -> Option<&AtomicU64> {
        let (table, index) = self.change_leaf(address).ok()?;
        Some(&table[index])
    }

    /// The leaf table of `address`, made as needed, and the index there of the word that maps its page. That
    /// word may be changed, and those of the same aligned [`PART`].
    #[inline(always)]
    pub fn change_leaf(&self, address: usize) -> Result<(&[AtomicU64; ENTRIES], usize), Missing> {
        let physical = self.leaf_table_or_make(address)?;
        let index = index(address, 1);
        self.mark(physical, index);
        Ok((self.table(physical), index))
    }

    /// The leaf table of `address`, made as needed, for a caller that marks the used part of it.
    #[inline(always)]
    fn leaf_table_or_make(&self, address: usize) -> Result<u64, Missing> {
        let mut physical = self.root;
        for level in [4, 3, 2] {
            let word = &self.table(physical)[index(address, level)];
            let mut entry = word.load(Ordering::Acquire);
            if entry & PRESENT == 0 {
                self.note(physical, index(address, level));
                entry = self.make(word, address).ok_or(Missing::PhysMemory)?;
                if level == 4 {
                    self.repeat(address, entry);
                }
            }
            if entry & (LARGE | SHARED) != 0 {
                entry = self.take_over(word, entry)?;
            }
            physical = entry & ADDRESS;
        }
        Ok(physical)
    }

    /// Makes the leaf table that `word` leads to by `entry`, a shared one, this space's own, if nobody else
    /// has it any more. Answers the entry that is there now.
    #[cold]
    fn take_over(&self, word: &AtomicU64, entry: u64) -> Result<u64, Missing> {
        if entry & LARGE != 0 {
            return Err(Missing::PhysMemory);
        }
        if !self.is_sole(entry) {
            return Err(Missing::SharedAnonymous);
        }
        let own = entry & !SHARED | WRITE;
        // Of several faults that meet here, each stores the same.
        match word.compare_exchange(entry, own, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Ok(own),
            Err(now) => Ok(now),
        }
    }

    /// The word of the table that `entry` leads to.
    #[inline]
    fn word_of(&self, entry: u64) -> Option<&AtomicU32> {
        let frame = Frame::containing(entry & ADDRESS);
        self.memory.frames().word_of_table(frame)
    }

    /// Whether no other space has the leaf table that `entry` leads to.
    #[inline]
    pub fn is_sole(&self, entry: u64) -> bool {
        self.word_of(entry).is_none_or(owners::is_sole)
    }

    /// How many other spaces have the leaf table of `address`.
    pub fn sharers(&self, address: usize) -> u32 {
        let found = self.leading_to(address);
        let shared = found.filter(|(_, entry)| entry & SHARED != 0);
        let word = shared.and_then(|(_, entry)| self.word_of(entry));
        word.map_or(0, owners::others)
    }

    /// The word that leads to the leaf table of `address`, and its entry, if there is one.
    #[inline]
    pub fn leading_to(&self, address: usize) -> Option<(&AtomicU64, u64)> {
        let word = &self.table(self.middle_table(address)?)[index(address, 2)];
        let entry = word.load(Ordering::Acquire);
        (entry & (PRESENT | LARGE) == PRESENT).then_some((word, entry))
    }

    /// How many entries of the leaf table that `entry` leads to have a bit of `bits`.
    #[inline]
    pub fn count(&self, entry: u64, bits: u64) -> usize {
        let mut count = 0usize;
        self.each_four(entry & ADDRESS, |_, four| {
            for word in four {
                let set = word.load(Ordering::Relaxed) & bits != 0;
                count = count.wrapping_add(usize::from(set));
            }
        });
        count
    }

    /// Takes `bit` away from all entries of the leaf table that `entry` leads to, which is this space's own.
    pub fn strip(&self, entry: u64, bit: u64) {
        self.each_four(entry & ADDRESS, |_, four| {
            for word in four {
                let entry = word.load(Ordering::Relaxed);
                if entry & bit != 0 {
                    word.store(entry & !bit, Ordering::Relaxed);
                }
            }
        });
    }

    /// Lets the space of `theirs` have the leaf table that `word` leads to by `entry`, at the same `address`.
    /// No entry of it may be written to, and nobody changes it from now on. False: it has as many owners as
    /// can be counted. `None`: out of memory.
    #[inline]
    pub fn give(
        &self,
        word: &AtomicU64,
        entry: u64,
        theirs: &Self,
        address: usize,
    ) -> Option<bool> {
        let place = theirs.leading_to_or_make(address)?;
        if !self.word_of(entry).is_some_and(owners::join) {
            return Some(false);
        }
        let shared = entry & !WRITE | SHARED;
        if shared != entry {
            word.store(shared, Ordering::Release);
        }
        place.store(shared, Ordering::Release);
        if let Some(count) = theirs.count {
            count.fetch_add(1, Ordering::Relaxed);
        }
        Some(true)
    }

    /// The word that is to lead to the leaf table of `address`, which is not there, with the tables above
    /// made as needed.
    fn leading_to_or_make(&self, address: usize) -> Option<&AtomicU64> {
        let mut physical = self.root;
        for level in [4, 3] {
            let word = &self.table(physical)[index(address, level)];
            let mut entry = word.load(Ordering::Acquire);
            if entry & PRESENT == 0 {
                self.note(physical, index(address, level));
                entry = self.make(word, address)?;
                if level == 4 {
                    self.repeat(address, entry);
                }
            }
            physical = entry & ADDRESS;
        }
        self.note(physical, index(address, 2));
        Some(&self.table(physical)[index(address, 2)])
    }

    /// Calls `visit` with the first address, the word and the entry of each leaf table of `start..end` that
    /// other spaces have, or had, until it answers false.
    pub fn each_shared(
        &self,
        start: usize,
        end: usize,
        mut visit: impl FnMut(usize, &AtomicU64, u64) -> bool,
    ) {
        let mut address = start;
        while address < end {
            let Some(middle) = self.middle_table(address) else {
                let (physical, level) = self.descend::<false>(address);
                address = self.skip(physical, level, address, end).0;
                continue;
            };
            let word = &self.table(middle)[index(address, 2)];
            let entry = word.load(Ordering::Acquire);
            let base = address & !(SPAN - 1);
            if entry & (PRESENT | SHARED) == PRESENT | SHARED && !visit(base, word, entry) {
                return;
            }
            match base.checked_add(SPAN) {
                Some(next) => address = next,
                None => return,
            }
        }
    }

    /// Makes `copy`, a frame of zeros, a copy of the leaf table that `entry` leads to, and calls `page` with
    /// each entry. Answers the entry that leads to it.
    pub fn copy_leaf(&self, entry: u64, copy: Frame, mut page: impl FnMut(u64)) -> u64 {
        let (from, to) = (entry & ADDRESS, copy.address());
        let (words, _) = self.table(to).as_chunks::<4>();
        self.each_four(from, |at, four| {
            for (word, theirs) in words[at].iter().zip(four) {
                let entry = theirs.load(Ordering::Relaxed);
                if entry != 0 {
                    page(entry);
                    word.store(entry, Ordering::Relaxed);
                }
            }
        });
        if let Some(marks) = self.memory.frames().word_of_table(copy) {
            marks.store(self.marks(from), Ordering::Relaxed);
        }
        to | TABLE | USER
    }

    /// The space has the shared leaf table that `entry` leads to no more. If it was the last, `page` gets
    /// each entry, and `gone` the table, all zero.
    #[inline]
    pub fn disown(&self, entry: u64, page: &mut impl FnMut(u64), gone: &mut impl FnMut(Frame)) {
        if self.word_of(entry).is_none_or(owners::leave) {
            let table = entry & ADDRESS;
            self.clear_parts(table, self.marks(table), |_, entry| page(entry));
            gone(Frame::containing(entry & ADDRESS));
        }
    }

    /// Entry `index` of the table at `physical`, which is above the leaves, may be set from now on.
    #[cold]
    fn note(&self, physical: u64, index: usize) {
        if let Some(word) = self.word_of(physical) {
            used_entries::note(word, index);
        }
    }

    /// Entry `index` of the leaf table at `physical` may be set from now on.
    #[inline]
    fn mark(&self, physical: u64, index: usize) {
        let bit = 1 << (index / PART);
        if let Some(marks) = self
            .memory
            .frames()
            .word_of_table(Frame::containing(physical))
            && marks.load(Ordering::Relaxed) & bit == 0
        {
            marks.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// The parts of the leaf table at `physical` that may have entries, a bit each.
    #[inline]
    fn marks(&self, physical: u64) -> u32 {
        let marks = self
            .memory
            .frames()
            .word_of_table(Frame::containing(physical));
        marks.map_or(MARKS, |marks| marks.load(Ordering::Acquire) & MARKS)
    }

    /// The table at `physical`, of zeros, is going to be given back.
    #[inline]
    fn unmark(&self, physical: u64) {
        if let Some(marks) = self
            .memory
            .frames()
            .word_of_table(Frame::containing(physical))
        {
            marks.store(0, Ordering::Relaxed);
        }
    }

    /// The word that maps the page of `address`, large pages on the way made small ones first, with the same
    /// rights. For tables of the kernel, which stay. `None`: nothing is mapped there, or out of memory.
    pub fn leaf_or_split(&self, address: usize) -> Option<&'static AtomicU64> {
        let mut physical = self.root;
        for level in [4, 3, 2] {
            let word = &self.table(physical)[index(address, level)];
            let mut entry = word.load(Ordering::Acquire);
            if entry & PRESENT == 0 {
                return None;
            }
            while entry & LARGE != 0 {
                entry = self.split(word, entry, level)?;
            }
            physical = entry & ADDRESS;
        }
        let word = core::ptr::from_ref(&self.table(physical)[index(address, 1)]);
        // SAFETY: the caller's promise: the tables stay.
        Some(unsafe { &*word })
    }

    /// Hangs a table of smaller pages with the rights of `entry` into `word`, which held that, unless another
    /// was faster: another split, or the processor, which sets an accessed bit. Answers the entry that is
    /// there now.
    #[cold]
    fn split(&self, word: &AtomicU64, entry: u64, level: u32) -> Option<u64> {
        let frame = self.memory.frames().alloc()?;
        let step = 1u64 << shift(level - 1);
        let small = if level == 2 { entry & !LARGE } else { entry };
        for (i, part) in self.table(frame.address()).iter().enumerate() {
            part.store(small + i as u64 * step, Ordering::Relaxed);
        }
        let table = frame.address() | TABLE;
        match word.compare_exchange(entry, table, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                // It is a part of the kernel from now on, as those that were made at boot.
                self.memory.frames().forget_one();
                Some(table)
            }
            Err(theirs) => {
                self.memory.frames().release(frame);
                Some(theirs)
            }
        }
    }

    /// The `count` words from that of `address` on, as far as they lie in one leaf table, which is made as
    /// needed. `None`: out of memory, or a large page.
    #[inline]
    pub fn leaves_or_make(
        &self,
        last: &mut Last,
        address: usize,
        count: usize,
    ) -> Option<&[AtomicU64]> {
        let physical = match last.leaf_table(address) {
            Some(physical) => physical,
            None => last.note(address, self.leaf_table_or_make(address).ok()?),
        };
        let first = index(address, 1);
        let end = first.saturating_add(count).min(ENTRIES);
        let mut at = first;
        while at < end {
            self.mark(physical, at);
            at = (at | (PART - 1)).wrapping_add(1);
        }
        Some(&self.table(physical)[first..end])
    }

    /// Entry `index` of the top table.
    pub fn top(&self, index: usize) -> u64 {
        self.table(self.root)[index].load(Ordering::Acquire)
    }

    /// Sets the entry of `address`, a program's, in the second top table. The loser of a race stores the
    /// same.
    #[cold]
    fn repeat(&self, address: usize, entry: u64) {
        if self.second != 0 && address <= abi::layout::USER_END {
            self.table(self.second)[index(address, 4)].store(entry, Ordering::Release);
        }
    }

    /// Sets entry `index` of the top table. The caller owns the tables.
    pub fn set_top(&self, index: usize, entry: u64) {
        self.table(self.root)[index].store(entry, Ordering::Release);
    }

    /// Puts a new table into `word` unless another thread was faster; returns the current entry.
    #[cold]
    fn make(&self, word: &AtomicU64, address: usize) -> Option<u64> {
        let (frame, rights) = if address <= abi::layout::USER_END {
            (self.memory.zeroed_user()?, TABLE | USER)
        } else {
            (self.memory.zeroed()?, TABLE)
        };
        let entry = frame.address() | rights;
        match word.compare_exchange(0, entry, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                if let Some(count) = self.count {
                    count.fetch_add(1, Ordering::Relaxed);
                }
                if address > abi::layout::USER_END {
                    // As one that was made at boot: it stays.
                    self.memory.frames().forget_one();
                }
                Some(entry)
            }
            Err(theirs) => {
                self.memory.frames().release_zeroed(frame);
                Some(theirs)
            }
        }
    }

    /// Takes out the tables under `start..end` whose whole span lies in `floor..ceiling`, where nothing is
    /// mapped any more, and hands each, all zero, to `gone`. The top table stays.
    pub fn prune(
        &self,
        start: usize,
        end: usize,
        floor: usize,
        ceiling: usize,
        gone: &mut impl FnMut(Frame),
    ) {
        if start < end {
            self.prune_level(self.root, 4, start, end, (floor, ceiling), gone);
        }
    }

    fn prune_level(
        &self,
        physical: u64,
        level: u32,
        start: usize,
        end: usize,
        gap: (usize, usize),
        gone: &mut impl FnMut(Frame),
    ) {
        let span = 1usize << shift(level);
        let mut address = start;
        while address < end {
            let base = address & !(span - 1);
            let next = base.checked_add(span).map_or(end, |next| next.min(end));
            let word = &self.table(physical)[index(address, level)];
            let entry = word.load(Ordering::Acquire);
            // A space that clears the entries of a shared table gets its own one first.
            if entry & (PRESENT | LARGE | SHARED) == PRESENT {
                let child = entry & ADDRESS;
                if level > 2 {
                    self.prune_level(child, level - 1, address, next, gap, gone);
                }
                if gap.0 <= base && base + span <= gap.1 {
                    word.store(0, Ordering::Release);
                    if level == 4 {
                        self.repeat(base, 0);
                    }
                    if let Some(count) = self.count {
                        count.fetch_sub(1, Ordering::Relaxed);
                    }
                    self.unmark(child);
                    gone(Frame::containing(child));
                }
            }
            address = next;
        }
    }

    /// Clears the lower half: hands each page's entry to `page` and each table, all zero, to `gone`. The top
    /// table stays; after this it may be given back.
    #[inline]
    pub fn take_apart(&self, page: &mut impl FnMut(u64), gone: &mut impl FnMut(Frame)) {
        self.take_tables(self.root, 4, page, gone);
    }

    fn take_tables(
        &self,
        physical: u64,
        level: u32,
        page: &mut impl FnMut(u64),
        gone: &mut impl FnMut(Frame),
    ) {
        let mut clear = |at: usize, entry: u64| {
            if level == 4 {
                self.repeat(at << shift(4), 0);
            }
            let below = entry & ADDRESS;
            if entry & SHARED != 0 {
                return self.disown(entry, page, gone);
            }
            if level > 2 {
                self.take_tables(below, level - 1, page, gone);
            } else {
                self.clear_parts(below, self.marks(below), |_, entry| page(entry));
            }
            gone(Frame::containing(below));
        };
        let word = self.word_of(physical);
        match word.map(|word| UsedEntries::of(word.load(Ordering::Acquire))) {
            Some(UsedEntries::Few(indices, count)) => {
                for index in indices.into_iter().take(count) {
                    let word = &self.table(physical)[index];
                    let entry = word.load(Ordering::Relaxed);
                    if entry != 0 {
                        word.store(0, Ordering::Relaxed);
                        clear(index, entry);
                    }
                }
                self.unmark(physical);
            }
            noted => {
                // Nothing of the kernel's half was asked for, and it stays.
                let half = if level == 4 { MARKS >> 8 } else { MARKS };
                let marks = match noted {
                    Some(UsedEntries::Parts(marks)) => marks & half,
                    _ => half,
                };
                self.clear_parts(physical, marks, clear);
            }
        }
    }

    /// Clears the parts `marks` of the table at `physical`, and the marks; `clear` gets the index and the
    /// entry of each that was there.
    #[inline(always)]
    fn clear_parts(&self, physical: u64, marks: u32, mut clear: impl FnMut(usize, u64)) {
        self.each_four_of(physical, marks, |at, four| {
            for (j, word) in four.iter().enumerate() {
                let entry = word.load(Ordering::Relaxed);
                if entry != 0 {
                    word.store(0, Ordering::Relaxed);
                    clear(at * 4 + j, entry);
                }
            }
        });
        self.unmark(physical);
    }
}

#[cfg(test)]
mod tests;
