//! The work of page faults: map a missing page, or copy a shared one on write. Their entry is in
//! `process/src/memory/fault.rs`.
//!
//! *Interface*: [`AddressSpace::fault`]; [`AddressSpace::first_fault`] for the vector of the running thread.
//!
//! A fault of the running program takes no monitor unless the space is being changed: it is pinned while it
//! looks up the area, gets a frame, fills it, and puts it into the table by compare-and-swap, having made
//! tables the same way. Of several that meet at one page one wins; the others give their frames back, and
//! their programs' accesses find what the winner made. As long as no change comes between, an entry goes one
//! way only: empty, then not writable, then writable; the frame of an entry that is not writable may be
//! exchanged for a copy. So an entry that is still what it was has not been anything else meanwhile.
//!
//! A frame that was exchanged is freed after a TLB shootdown is acknowledged by all CPUs with the space
//! loaded. A CPU with interrupts off, as while it is pinned, does not acknowledge, so a pinned copy is made
//! from a frame that stays. A copy made with the monitor alone, from outside the space, may be one of a frame
//! that was freed: then the entry is not what it was, and the copy is thrown away.
//!
//! The pager is called with no lock held and interrupts on, since it may sleep and take its own locks; if the
//! areas have changed meanwhile, all begins anew.

use super::area::{Area, Content};
use super::areas::STACK_GAP;
use super::limits::SpaceLimits;
use super::locking::PinnedView;
use super::pager::Pager;
use super::unshare_tables::For;
use super::{Access, AddressSpace, FaultError, Inner, Machine};
use crate::frame::{BatchSlots, Frame, FrameBatch, FrameRef};
use crate::table::{
    self, ENTRIES, Last, Missing, NO_EXECUTE, PRESENT, Prot, WRITE, frame_of, occupied,
};
use abi::errno::Errno;
use abi::layout::{PAGE, USER_END, page_floor};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};

/// Pages of an object that one fault maps at most: those already in memory, in an aligned block of so many.
const AROUND: usize = 16;

/// So many pages before a written one tell whether its neighbours are likely to be written too.
const BEFORE: usize = 8;

/// A question to a pager.
struct Question {
    pager: Arc<dyn Pager>,
    /// Page index of the faulting page in the object.
    index: u64,
    /// The pager is told that its own page will be written.
    write_through: bool,
    /// A private copy is wanted at once.
    copy: bool,
    prot: Prot,
    /// Neighbours from this address on, so many, with the object's index of the first.
    around: (usize, usize, u64),
    /// Changes of the space up to now.
    changes: u64,
}

/// How far a fault has come.
enum Step {
    /// The access will succeed, or fault again.
    Done,
    /// The page has another frame now; this one is still known to CPUs.
    Exchanged(Frame),
    /// A question is to be asked.
    Ask,
    /// The address is outside all areas: perhaps a stack grows.
    Outside,
    /// Other spaces have the table too, and it would be changed.
    SharedAnonymous,
}

/// How far a fault has come that may do its first step only.
pub enum First {
    /// The access will succeed, or fault again.
    Done,
    /// So it will, when CPUs have forgotten the page's former frame: [`AddressSpace::let_go`].
    Exchanged(Former),
    /// The area does not allow the access.
    Refused,
    /// There is more to do, for [`AddressSpace::rest_of_fault`].
    More(Begun),
}

/// The findings of a first step that was not the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// None, or none that hold.
    Nothing,
    /// The address is outside all areas.
    Outside,
    /// Other spaces have the table too.
    Shared,
}

/// The former frame of a page, which other CPUs may still know.
#[must_use = "the frame is to be let go"]
pub struct Former {
    page: usize,
    frame: Frame,
}

/// A pager's answer.
struct Answer {
    own: Option<FrameRef>,
    neighbours: FrameBatch<AROUND>,
}

impl<M: Machine> AddressSpace<M> {
    /// Makes the page at `address` ready for `access`. In thread context, interrupts on; may sleep in a
    /// pager.
    pub fn fault(&self, address: usize, access: Access) -> Result<(), FaultError> {
        if address >= USER_END {
            return Err(FaultError::NotMapped);
        }
        let page = page_floor(address);
        let mut question = None;
        match self.pass(|view| self.step(view, page, access, Some(&mut question))) {
            Some(Ok(Step::Done)) => Ok(()),
            Some(Err(FaultError::Protection)) => Err(FaultError::Protection),
            step => self.go_on(step, page, access, &mut question),
        }
    }

    /// The same as far as it needs no pager, no monitor and no other CPU. Interrupts are off throughout.
    #[inline]
    pub fn first_fault(&self, address: usize, access: Access) -> First {
        if address >= USER_END {
            return First::More(Begun::Nothing);
        }
        let page = page_floor(address);
        match self.pass(|view| self.step(view, page, access, None)) {
            Some(Ok(Step::Done)) => First::Done,
            Some(Ok(Step::Exchanged(frame))) => self.exchanged(Former { page, frame }),
            Some(Err(FaultError::Protection)) => First::Refused,
            Some(Ok(Step::Outside)) => First::More(Begun::Outside),
            Some(Ok(Step::SharedAnonymous)) => First::More(Begun::Shared),
            _ => First::More(Begun::Nothing),
        }
    }

    /// As [`fault`](Self::fault), behind a first step.
    pub fn rest_of_fault(
        &self,
        address: usize,
        access: Access,
        begun: Begun,
    ) -> Result<(), FaultError> {
        let step = match begun {
            Begun::Nothing => return self.fault(address, access),
            Begun::Outside => Step::Outside,
            Begun::Shared => Step::SharedAnonymous,
        };
        self.go_on(Some(Ok(step)), page_floor(address), access, &mut None)
    }

    #[inline(never)]
    fn exchanged(&self, former: Former) -> First {
        if self.memory.is_elsewhere(self.root) {
            return First::Exchanged(former);
        }
        self.memory.forget_here(self.root, former.page);
        self.memory.frames().release(former.frame);
        First::Done
    }

    /// CPUs forget the page, then its former frame loses a share. Thread context, interrupts on.
    #[cold]
    pub fn let_go(&self, former: Former) {
        self.memory.forget(self.root, former.page, 1);
        self.memory.frames().release(former.frame);
    }

    /// The first step was not the last, or there was none yet.
    #[cold]
    fn go_on(
        &self,
        mut step: Option<Result<Step, FaultError>>,
        page: usize,
        access: Access,
        question: &mut Option<Question>,
    ) -> Result<(), FaultError> {
        let mut reclaimed = false;
        loop {
            let taken = match step {
                Some(step) => step,
                None => self.wait(|view| self.step(view, page, access, Some(question))),
            };
            let result = match taken {
                Ok(Step::Done) => return Ok(()),
                Ok(Step::Exchanged(frame)) => {
                    self.let_go(Former { page, frame });
                    return Ok(());
                }
                Ok(Step::Outside) => {
                    let bounds = self.memory.bounds();
                    self.change().grow_stack(page, &bounds)
                }
                Ok(Step::SharedAnonymous) => self.own_page(page),
                Ok(Step::Ask) => match question.take() {
                    Some(question) => match self.answer(page, question) {
                        Ok(true) => return Ok(()),
                        result => result.map(|_| ()),
                    },
                    None => Ok(()),
                },
                Err(error) => Err(error),
            };
            match result {
                Ok(()) => {}
                Err(FaultError::OutOfMemory) if !reclaimed && self.memory.reclaim() => {
                    reclaimed = true;
                }
                Err(error) => return Err(error),
            }
            step = self.pass(|view| self.step(view, page, access, Some(question)));
        }
    }

    /// All that can be done without asking a pager. A question to it is put down, where there is a place.
    #[inline(always)]
    fn step(
        &self,
        view: PinnedView,
        page: usize,
        access: Access,
        question: Option<&mut Option<Question>>,
    ) -> Result<Step, FaultError> {
        let Some((_, (start, area))) = view.inner.areas.find(page) else {
            return Ok(Step::Outside);
        };
        let needed = match access {
            Access::Read => Prot::READ,
            Access::Write => Prot::WRITE,
            Access::Execute => Prot::EXEC,
        };
        // Writable and executable pages are also readable: the machine has no other rights.
        let allowed =
            area.prot.contains(needed) || (access == Access::Read && area.prot != Prot::NONE);
        if !allowed {
            return Err(FaultError::Protection);
        }
        let tables = self.tables();
        let (table, index) = match tables.change_leaf(page) {
            Ok(place) => place,
            Err(Missing::PhysMemory) => return Err(FaultError::OutOfMemory),
            Err(Missing::SharedAnonymous) => return Ok(self.look_only(page, access, area.prot)),
        };
        let word = &table[index];
        let entry = word.load(Ordering::Acquire);
        let there = occupied(entry);
        if there && (access != Access::Write || entry & (PRESENT | WRITE) == PRESENT | WRITE) {
            self.suit(word, entry, area.prot, page);
            return Ok(Step::Done);
        }
        match &area.content {
            Content::Pager { shared, .. } if *shared || !there => {
                if !there && self.at_hand(&view, *start, area, page, table, access) {
                    return Ok(Step::Done);
                }
                if let Some(question) = question {
                    put_down(question, *start, area, page, access, view.changes);
                }
                Ok(Step::Ask)
            }
            _ if there => self.own(word, entry, area.prot, page),
            _ => {
                let frame = self.memory.zeroed_user().ok_or(FaultError::OutOfMemory)?;
                if exchange(word, entry, table::page(frame, area.prot, true)) {
                    self.resident.add(view.tally, 1);
                } else {
                    self.memory.frames().release_zeroed(frame);
                }
                Ok(Step::Done)
            }
        }
    }

    /// The table of `page` is not to be changed here.
    #[cold]
    fn look_only(&self, page: usize, access: Access, prot: Prot) -> Step {
        let tables = self.tables();
        let entry = tables.leaf(page).map(|word| word.load(Ordering::Acquire));
        let suits = |entry: u64| {
            let differs = table::with_rights(entry, prot) ^ entry;
            entry & PRESENT != 0 && differs & (PRESENT | NO_EXECUTE) == 0
        };
        if access != Access::Write && entry.is_some_and(suits) {
            // This CPU has an old translation.
            self.memory.forget_here(self.root, page);
            return Step::Done;
        }
        Step::SharedAnonymous
    }

    /// Gives the space its own table for `page`.
    #[cold]
    fn own_page(&self, page: usize) -> Result<(), FaultError> {
        let inner = self.change();
        self.unshare_tables(&inner, page, page + PAGE, For::More)
            .map_err(|_| FaultError::OutOfMemory)
    }

    /// Puts the page of an object into its empty entry in `table` at once, with neighbours that are likely to
    /// be wanted, if the pager of `area` has it in memory and need not know more.
    ///
    /// The neighbours of a page that is written come along only where pages shortly before it are mapped: a
    /// program that writes here and there has no use for them.
    #[inline(never)]
    fn at_hand(
        &self,
        view: &PinnedView,
        start: usize,
        area: &Area,
        page: usize,
        table: &[AtomicU64; ENTRIES],
        access: Access,
    ) -> bool {
        let Content::Pager {
            pager,
            first,
            shared,
            ..
        } = &area.content
        else {
            return false;
        };
        let writable = *shared && area.prot.contains(Prot::WRITE) && pager.lets_write();
        let writes = access == Access::Write;
        if writes && !writable {
            return false;
        }
        let index_of = |address: usize| first + ((address - start) / PAGE) as u64;
        let frames = self.memory.frames();
        let place = |frame: Frame| {
            let new = table::page(frame, area.prot, writable);
            let placed = exchange(&table[table::index(page, 1)], 0, new);
            if !placed {
                frames.release(frame);
            }
            isize::from(placed)
        };
        if writes && !is_used_before(table, start, page) {
            let mut found = FrameBatch::<1>::new(frames);
            pager.resident(index_of(page), &mut found.first(1));
            let Some(frame) = found.take(0) else {
                return false;
            };
            self.resident.add(view.tally, place(frame));
            return true;
        }
        let block = page & !(AROUND * PAGE - 1);
        let (low, high) = (block.max(start), (block + AROUND * PAGE).min(area.end));
        let mut found = FrameBatch::<AROUND>::new(frames);
        pager.resident(index_of(low), &mut found.first((high - low) / PAGE));
        let Some(frame) = found.take((page - low) / PAGE) else {
            return false;
        };
        // The part of the table is marked: it is that of the page.
        let words = &table[table::index(low, 1)..];
        let along = table::along(area.prot, writable);
        let added = enter_along(words, found.first(AROUND), along);
        self.resident.add(view.tally, place(frame) + added);
        true
    }

    /// Another thread was faster, or this CPU has an old translation, or rights were widened.
    #[inline(never)]
    fn suit(&self, word: &AtomicU64, entry: u64, prot: Prot, page: usize) {
        let suits = table::with_rights(entry, prot);
        if suits != entry {
            exchange(word, entry, suits);
        }
        self.memory.forget_here(self.root, page);
    }

    /// The private page of `entry` is about to be written.
    #[inline(never)]
    fn own(
        &self,
        word: &AtomicU64,
        entry: u64,
        prot: Prot,
        page: usize,
    ) -> Result<Step, FaultError> {
        let frame = frame_of(entry);
        let frames = self.memory.frames();
        if frames.others(frame) == 0 {
            // Other CPUs that still take it for not writable fault once more.
            exchange(word, entry, table::page(frame, prot, true));
            self.memory.forget_here(self.root, page);
            return Ok(Step::Done);
        }
        let copy = self.copy_of(frame)?;
        if exchange(word, entry, table::page(copy, prot, true)) {
            if let Some(habits) = &self.habits_of_family {
                habits.note(page);
            }
            Ok(Step::Exchanged(frame))
        } else {
            frames.release(copy);
            Ok(Step::Done)
        }
    }

    /// A new frame with the content of `frame`.
    pub(super) fn copy_of(&self, frame: Frame) -> Result<Frame, FaultError> {
        let copy = self
            .memory
            .frames()
            .alloc_user()
            .ok_or(FaultError::OutOfMemory)?;
        // The copy is ours alone; the original may be written meanwhile only in the case that the file head
        // names, or by a file's writer.
        // SAFETY: as above; the area that shows the original has a share of it.
        unsafe { self.memory.copy(frame, copy) };
        Ok(copy)
    }

    /// Asks the pager and puts its answer into the table. `false`: the areas have changed, begin anew.
    #[cold]
    fn answer(&self, page: usize, question: Question) -> Result<bool, FaultError> {
        let mut own = question
            .pager
            .frame(question.index, question.write_through)
            .map_err(|error| match error {
                Errno::ENOMEM => FaultError::OutOfMemory,
                _ => FaultError::BeyondEnd,
            })?;
        if question.copy {
            own = FrameRef::own_in(self.memory.frames(), self.copy_of(own.frame())?);
        }
        let mut answer = Answer {
            own: Some(own),
            neighbours: FrameBatch::new(self.memory.frames()),
        };
        let (first, count, first_index) = question.around;
        let here = (page - first) / PAGE;
        if count > 0 {
            let Answer { neighbours, .. } = &mut answer;
            let pager = &question.pager;
            pager.resident(first_index, &mut neighbours.first(here));
            let after = here + 1;
            pager.resident(
                first_index + after as u64,
                &mut neighbours.first(count).from(after),
            );
        }
        let mut enter = |view: PinnedView| {
            let unchanged = view.changes == question.changes;
            unchanged.then(|| self.enter(view.tally, page, &question, &mut answer))
        };
        let step = match self.pass(&mut enter) {
            Some(step) => step,
            None => self.wait(enter),
        };
        let Some(step) = step else { return Ok(false) };
        if let Step::Exchanged(frame) = step? {
            self.let_go(Former { page, frame });
        }
        Ok(true)
    }

    /// Puts a pager's answer into the table; entries that another thread has made meanwhile stay, and the
    /// caller keeps the rest of the answer.
    fn enter(
        &self,
        tally: usize,
        page: usize,
        question: &Question,
        answer: &mut Answer,
    ) -> Result<Step, FaultError> {
        let tables = self.tables();
        // The block is aligned, so its words lie in one table.
        let base = page & !(AROUND * PAGE - 1);
        let block = tables.leaves_or_make(&mut Last::default(), base, AROUND);
        let block = block.ok_or(FaultError::OutOfMemory)?;
        let word = &block[(page - base) / PAGE];
        let before = word.load(Ordering::Acquire);
        let there = occupied(before);
        let writable = question.copy || question.write_through;
        let mut step = Step::Done;
        if (!there || question.write_through)
            && let Some(own) = answer.own.take()
        {
            if !exchange(
                word,
                before,
                table::page(own.frame(), question.prot, writable),
            ) {
                answer.own = Some(own);
            } else {
                own.into_frame();
                if there {
                    step = Step::Exchanged(frame_of(before));
                } else {
                    self.resident.add(tally, 1);
                }
            }
        }
        // If another thread has brought a page that does not suit, the access faults again.
        let (first, count, _) = question.around;
        let along = table::along(question.prot, false);
        let block = &block[(first - base) / PAGE..];
        let added = enter_along(block, answer.neighbours.first(count), along);
        self.resident.add(tally, added);
        Ok(step)
    }
}

/// Whether a page shortly before `page` is mapped, in the area that begins at `start`. `table` is the page's.
#[inline]
fn is_used_before(table: &[AtomicU64; ENTRIES], start: usize, page: usize) -> bool {
    let end = table::index(page, 1);
    let before = BEFORE.min((page - start) / PAGE).min(end);
    let words = &table[end - before..end];
    let or = |any, word: &AtomicU64| any | word.load(Ordering::Relaxed);
    words.iter().fold(0, or) != 0
}

/// Puts neighbours into empty entries, each with the bits `along`, and answers how many; the others stay.
#[inline(always)]
fn enter_along(words: &[AtomicU64], mut found: BatchSlots<'_>, along: u64) -> isize {
    let added = found.offer(words.iter(), |word, frame| {
        word.load(Ordering::Relaxed) == 0 && exchange(word, 0, frame.address() | along)
    });
    added as isize
}

/// Changes an entry that is still `seen`.
#[inline]
fn exchange(word: &AtomicU64, seen: u64, new: u64) -> bool {
    word.compare_exchange(seen, new, Ordering::AcqRel, Ordering::Relaxed)
        .is_ok()
}

impl Inner {
    /// Grows the stack area above `page` down to it, within `bounds`, unless the page lies in an area.
    #[cold]
    fn grow_stack(&mut self, page: usize, bounds: &SpaceLimits) -> Result<(), FaultError> {
        if self.areas.at(page).is_some() {
            return Ok(());
        }
        let index = self.areas.from(page);
        let below = self.areas.end_before(index);
        let Some((start, area)) = self.areas.all().get(index) else {
            return Err(FaultError::NotMapped);
        };
        let Some(floor) = area.role.floor() else {
            return Err(FaultError::NotMapped);
        };
        // An inaccessible area, or one that grows itself, is guard enough.
        let guards = |area: &Area| area.prot != Prot::NONE && area.role.floor().is_none();
        let under = index.checked_sub(1).and_then(|i| self.areas.all().get(i));
        let gap = if under.is_some_and(|(_, area)| guards(area)) {
            STACK_GAP
        } else {
            0
        };
        if page < floor || page < below.saturating_add(gap) {
            return Err(FaultError::NotMapped);
        }
        let (more, length) = (start - page, area.end - page);
        let admitted = self.admit_bytes(bounds, area, more, more);
        if length > bounds.stack || admitted.is_err() {
            return Err(FaultError::NotMapped);
        }
        self.size += more;
        self.areas.get_mut(index).0 = page;
        Ok(())
    }
}

/// Puts down what to ask the pager of `area` for `page`.
#[cold]
fn put_down(
    place: &mut Option<Question>,
    start: usize,
    area: &Area,
    page: usize,
    access: Access,
    changes: u64,
) {
    *place = Some(ask(start, area, page, access, changes));
}

/// The request to the pager of `area` for `page`.
fn ask(start: usize, area: &Area, page: usize, access: Access, changes: u64) -> Question {
    let Content::Pager {
        pager,
        first,
        shared,
        ..
    } = &area.content
    else {
        unreachable!("only an area with a pager asks it")
    };
    let index_of = |address: usize| first + ((address - start) / PAGE) as u64;
    let write = access == Access::Write;
    let block = page & !(AROUND * PAGE - 1);
    let (low, high) = (block.max(start), (block + AROUND * PAGE).min(area.end));
    Question {
        pager: pager.clone(),
        index: index_of(page),
        write_through: write && *shared,
        copy: write && !*shared,
        prot: area.prot,
        around: if write {
            (page, 0, 0)
        } else {
            (low, (high - low) / PAGE, index_of(low))
        },
        changes,
    }
}
