//! The copy that `fork` makes: areas are copied, pages are shared until written.
//!
//! *Interface*: [`AddressSpace::fork`], [`AddressSpace::join`], [`AddressSpace::leave`]. One pass over the
//! leaf tables that exist. The child gets a table itself, if it has only private pages, of which no side will
//! write one soon: none was written since the last fork, or more than a few were, which then stop being
//! writable. The side that changes it first copies it (`own`). So what a fork costs follows from what was
//! written, and not from what there is.
//!
//! Of any other table the child gets a copy, in which each private page that was writable stops being so on
//! both sides. A page of a file that came along with a neighbour's fault and was never used is left out: the
//! pager still has it, should the child want it.
//!
//! A page that is writable has been written since the last fork: the stack, and a few words of the C library.
//! Both sides will write it again at once, and fault. So when such pages are few the child gets copies of
//! them now, and no side loses a right; and so it does of those that earlier children wrote first
//! (`fork_precopy`), unless they are a file's yet. Every sixteenth time all are shared, so that those which
//! are no longer written drop out. Only while one thread runs in the space: of what others write meanwhile
//! the child must not see a later part without an earlier one.

use super::area::Area;
use super::fork_precopy::{FEW, PrecopyHints};
use super::mmu_gather::MANY;
use super::rss::UNDER_MONITOR;
use super::{AddressSpace, Inner, Machine};
use crate::frame::Frames;
use crate::table::{
    self, DIRTY, FRAME, Last, PRESENT, Prot, SHARED, SPAN, Tables, WRITE, any_set, empty_before,
    frame_of, is_unused,
};
use abi::errno::Errno;
use abi::layout::PAGE;
use alloc::sync::Arc;
use core::slice::from_ref;
use core::sync::atomic::{AtomicU64, Ordering};

/// Every so many forks all pages lose their right to write, and it shows anew which are written.
const ANEW: u8 = 16;

impl<M: Machine> AddressSpace<M> {
    /// Another thread is going to run in the space, of this process or of another. By one that runs there.
    pub fn join(&self) {
        self.threads.fetch_add(1, Ordering::Relaxed);
    }

    /// The last thread of a process runs in the space no more, or none will after all.
    pub fn leave(&self) {
        // A thread that is alone stays alone: another would have come through it.
        if !self.one_thread() {
            self.threads.fetch_sub(1, Ordering::Release);
        }
    }

    /// Whether one thread at most runs in the space. The writes of others before they left are visible.
    fn one_thread(&self) -> bool {
        self.threads.load(Ordering::Acquire) == 1
    }

    /// A copy, as `fork` makes it: private pages are shared until one side writes. Error: `ENOMEM`.
    pub fn fork(&self) -> Result<Arc<Self>, Errno> {
        self.admit()?;
        let mut child = Self::new_in(self.memory)?;
        let Some(copy) = Arc::get_mut(&mut child) else {
            return Err(Errno::ENOMEM);
        };
        let mut inner = self.change();
        inner.forks = inner.forks.wrapping_add(1);
        let habits = inner
            .habits
            .get_or_insert_with(|| Arc::new(PrecopyHints::new()));
        copy.habits_of_family = Some(habits.clone());
        copy.set_mark(self.mark());
        if let Some(kept) = self.kept.get() {
            copy.keep(kept.clone());
        }
        let foresee = self.one_thread() && !inner.forks.is_multiple_of(ANEW);
        let mut lost = Lost {
            spared: if foresee { FEW } else { 0 },
            ..Lost::default()
        };
        inner.shares = true;
        let copied = self.copy_into(&inner, copy, &mut lost);
        // Also when it failed half-way.
        lost.forget(self.memory, self.root);
        drop(inner);
        copied.map(|()| child)
    }

    /// Copies areas and entries; adds the pages of this space that have lost their right to write to `lost`.
    fn copy_into(&self, inner: &Inner, child: &mut Self, lost: &mut Lost) -> Result<(), Errno> {
        let frames = self.memory.frames();
        let copy = child.inner.get_mut();
        // Areas first: whatever pages the child gets are freed by way of them.
        copy.areas = inner.areas.try_clone()?;
        self.unlock_copy(&mut copy.areas);
        let left_out = match inner.wished {
            true => copy.areas.leave_out(),
            false => 0,
        };
        (copy.wished, copy.shares) = (inner.wished, true);
        *child.areas_bytes.get_mut() = copy.areas.bytes();
        (copy.size, copy.own_data) = (inner.size - left_out, inner.own_data);
        (copy.brk_start, copy.brk) = (inner.brk_start, inner.brk);
        let (tables, child_tables) = (self.tables(), child.tables());
        let (mut last, mut their_last) = (Last::default(), Last::default());
        let habits = inner.habits.as_ref().filter(|_| lost.spared != 0);
        let choice = Choice {
            plain: inner.areas.all().iter().all(|(_, area)| area.goes_on()),
            habits: habits.map_or([usize::MAX; FEW], |habits| habits.spans()),
        };
        // Pages that the child does not get.
        let mut less = 0;
        // Everything below the one has been given as a whole; the other is the first address of a table that
        // has not.
        let (mut given, mut refused) = (0, usize::MAX);
        for (start, area) in inner.areas.all() {
            if !choice.plain && !area.is_inherited() {
                tables.each_entry(*start, area.end, |_, _, _| less += 1);
                continue;
            }
            let mut address = (*start).max(given);
            while address < area.end {
                let base = address & !(SPAN - 1);
                let next = base.saturating_add(SPAN);
                if base != refused
                    && let Some((word, entry)) = tables.leading_to(address)
                {
                    if self.is_to_be_given(inner, &choice, base, entry, lost) {
                        let done = tables.give(word, entry, &child_tables, address);
                        if done.ok_or(Errno::ENOMEM)? {
                            (given, address) = (next, next);
                            continue;
                        }
                    }
                    refused = base;
                }
                if base != refused {
                    address = tables.next_leaf_table(address, area.end);
                    continue;
                }
                let strip = if area.private() { WRITE } else { 0 };
                let mut failed = false;
                let end = next.min(area.end);
                tables.each_part_on(&mut last, address, end, |base, words| {
                    let empty = empty_before(words);
                    let Some(words) = words.get(empty..).filter(|words| !words.is_empty()) else {
                        return;
                    };
                    let base = base + empty * PAGE;
                    let Some(theirs) =
                        child_tables.leaves_or_make(&mut their_last, base, words.len())
                    else {
                        failed = true;
                        return;
                    };
                    less += share_entries(frames, base, words, theirs, strip, lost);
                });
                if failed {
                    return Err(Errno::ENOMEM);
                }
                address = next;
            }
        }
        self.settle(&child_tables, lost);
        if let Some(habits) = &inner.habits {
            match lost.spared {
                0 => habits.forget(),
                _ => self.anticipate(inner, habits, &child_tables),
            }
        }
        let pages = self.resident.pages() as isize;
        child.resident.add(UNDER_MONITOR, pages - less);
        Ok(())
    }

    /// Whether the child is to get the leaf table at `base` itself, to which `entry` leads. Then nobody may
    /// write its pages.
    fn is_to_be_given(
        &self,
        inner: &Inner,
        choice: &Choice,
        base: usize,
        entry: u64,
        lost: &mut Lost,
    ) -> bool {
        if choice.habits.contains(&base) {
            return false;
        }
        let end = base.saturating_add(SPAN);
        let goes_on = |(_, area): &(usize, Area)| area.goes_on();
        if !choice.plain && !inner.areas.touching(base, end).iter().all(goes_on) {
            return false;
        }
        if entry & SHARED != 0 {
            return true;
        }
        let tables = self.tables();
        match tables.count(entry, WRITE) {
            0 => true,
            1..=FEW => false,
            many => {
                tables.strip(entry, WRITE);
                lost.add_many(many);
                true
            }
        }
    }

    /// The treatment of the spared pages: copies if there are no more, else they are shared like the rest.
    fn settle(&self, theirs: &Tables<'_, M>, lost: &mut Lost) {
        let (tables, frames) = (self.tables(), self.memory.frames());
        let few = lost.count <= lost.spared;
        let mut all_copied = few;
        for page in &lost.pages[..lost.left] {
            let (Some(mine), Some(theirs)) = (tables.leaf(*page), theirs.leaf(*page)) else {
                continue;
            };
            let entry = mine.load(Ordering::Relaxed);
            let copy = few.then(|| self.copy_of(frame_of(entry)).ok()).flatten();
            if let Some(copy) = copy {
                theirs.store(entry & !FRAME | copy.address(), Ordering::Relaxed);
            } else {
                all_copied = false;
                // It is among the lost already.
                let noted = &mut Lost::default();
                share_entries(
                    frames,
                    *page,
                    from_ref(mine),
                    from_ref(theirs),
                    WRITE,
                    noted,
                );
            }
        }
        if all_copied {
            lost.count = 0;
        }
    }

    /// Gives the child its own copies of what children write first.
    fn anticipate(&self, inner: &Inner, habits: &PrecopyHints, theirs: &Tables<'_, M>) {
        for page in habits.each() {
            let Some(area) = inner.areas.at(page) else {
                continue;
            };
            let (_, area) = inner.areas.get(area);
            let Some(word) = theirs.own_leaf(page) else {
                continue;
            };
            let entry = word.load(Ordering::Relaxed);
            // A page that still belongs to a file shows others' writes, also to the child.
            let own = area.private() && entry & (PRESENT | WRITE | DIRTY) == PRESENT | DIRTY;
            if !own || !area.prot.contains(Prot::WRITE) {
                continue;
            }
            let Ok(copy) = self.copy_of(frame_of(entry)) else {
                return;
            };
            word.store(table::page(copy, area.prot, true), Ordering::Relaxed);
            self.memory.frames().release(frame_of(entry));
        }
    }
}

/// The pages that have lost their right to write, or are to be settled: the first few, and how many there
/// are.
#[derive(Default)]
struct Lost {
    pages: [usize; MANY],
    count: usize,
    /// So many of the first may be left for [`AddressSpace::settle`].
    spared: usize,
    /// So many are.
    left: usize,
}

/// The grounds on which a table is given to a child or not.
struct Choice {
    /// All areas have private pages that a child gets.
    plain: bool,
    /// The first addresses of the tables with pages that children write first; `usize::MAX` for none.
    habits: [usize; FEW],
}

impl Lost {
    /// Adds a page; answers whether it is left for later.
    #[cold]
    fn add(&mut self, page: usize) -> bool {
        if let Some(place) = self.pages.get_mut(self.count) {
            *place = page;
        }
        self.count += 1;
        let left = self.count <= self.spared;
        self.left += usize::from(left);
        left
    }

    /// Adds so many pages, more than are forgotten one by one or left for later.
    #[cold]
    fn add_many(&mut self, count: usize) {
        self.count += count.max(MANY + 1);
    }

    /// CPUs forget the old rights: those pages' if they are few, else all. A program that forks again and
    /// again has written to a few pages since.
    fn forget<M: Machine>(&self, memory: M, root: u64) {
        match self.pages.get(..self.count) {
            Some([]) => {}
            Some(pages) => memory.forget_each(root, pages),
            None => memory.forget(root, 0, usize::MAX),
        }
    }
}

/// Copies the entries `mine`, of the pages from `base` on, to the empty `theirs`, without the bit `strip` on
/// either side; each frame gets another owner. Answers how many it has left out for good, and adds the pages
/// that had the bit to `lost`, which leaves some for later.
#[inline]
fn share_entries(
    frames: &Frames,
    base: usize,
    mine: &[AtomicU64],
    theirs: &[AtomicU64],
    strip: u64,
    lost: &mut Lost,
) -> isize {
    let mut less = 0;
    let mut share = |at: usize, mine: &AtomicU64, theirs: &AtomicU64| {
        let mut entry = mine.load(Ordering::Relaxed);
        if entry == 0 {
            return;
        }
        if is_unused(entry) {
            less += 1;
            return;
        }
        if entry & strip != 0 {
            // The page is one of the table's: its address does not wrap.
            if lost.add(base.wrapping_add(at.wrapping_mul(PAGE))) {
                return;
            }
            entry &= !strip;
            mine.store(entry, Ordering::Relaxed);
        }
        frames.share(frame_of(entry));
        theirs.store(entry, Ordering::Relaxed);
    };
    // Most entries are empty or most are not: four at a time.
    let (parts, rest) = mine.as_chunks::<4>();
    let (their_parts, their_rest) = theirs.as_chunks::<4>();
    let mut at = 0usize;
    for (part, their_part) in parts.iter().zip(their_parts) {
        if any_set(part) {
            share(at, &part[0], &their_part[0]);
            share(at.wrapping_add(1), &part[1], &their_part[1]);
            share(at.wrapping_add(2), &part[2], &their_part[2]);
            share(at.wrapping_add(3), &part[3], &their_part[3]);
        }
        at = at.wrapping_add(4);
    }
    for (mine, theirs) in rest.iter().zip(their_rest) {
        share(at, mine, theirs);
        at = at.wrapping_add(1);
    }
    less
}
