//! Faults: a page appears, or becomes this space's own.
//!
//! *Interface*: [`AddressSpace::fault`].
//!
//! Zeros and copies are made with the space's monitor held. A pager is asked without it, since it may sleep
//! and take its own locks; if the areas have changed meanwhile, all begins anew.

use super::area::{Area, Content, Role};
use super::pager::Pager;
use super::{Access, AddressSpace, FaultError, Inner, Prot};
use crate::frame::{Frame, FrameRef};
use crate::memory::Memory;
use crate::table::{self, PRESENT, WRITE, frame_of, occupied};
use abi::errno::Errno;
use abi::layout::{PAGE, USER_END, page_floor};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};

/// Pages of an object that one fault maps at most: those already in memory, in an aligned block of so many.
const AROUND: usize = 16;

/// Free addresses that stay between a growing stack and the area below it.
const STACK_GAP: usize = 256 * PAGE;

/// A question to a pager, asked without the monitor.
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
    version: u64,
}

enum Step {
    Done,
    Ask(Question),
}

impl<M: Memory> AddressSpace<M> {
    /// Makes the page at `address` ready for `access`. In thread context, interrupts on; may sleep in a pager.
    pub fn fault(&self, address: usize, access: Access) -> Result<(), FaultError> {
        if address >= USER_END {
            return Err(FaultError::NotMapped);
        }
        let page = page_floor(address);
        let mut reclaimed = false;
        loop {
            let step = self.step(&mut self.inner.lock(), page, access);
            let result = match step {
                Ok(Step::Done) => return Ok(()),
                Ok(Step::Ask(question)) => match self.answer(page, question) {
                    Ok(true) => return Ok(()),
                    Ok(false) => continue,
                    Err(error) => error,
                },
                Err(error) => error,
            };
            if result != FaultError::OutOfMemory || reclaimed || !self.memory.reclaim() {
                return Err(result);
            }
            reclaimed = true;
        }
    }

    /// All that can be done with the monitor held.
    #[inline]
    fn step(&self, inner: &mut Inner, page: usize, access: Access) -> Result<Step, FaultError> {
        let index = match inner.areas.at(page) {
            Some(index) => index,
            None => inner.grow_stack(page)?,
        };
        let (start, area) = inner.areas.get(index);
        let start = *start;
        let needed = match access {
            Access::Read => Prot::READ,
            Access::Write => Prot::WRITE,
            Access::Execute => Prot::EXEC,
        };
        // What can be written or executed can be read: the machine knows no other way.
        let allowed =
            area.prot.contains(needed) || (access == Access::Read && area.prot != Prot::NONE);
        if !allowed {
            return Err(FaultError::Protection);
        }
        let tables = self.tables();
        let word = tables.leaf_or_make(page).ok_or(FaultError::OutOfMemory)?;
        let entry = word.load(Ordering::Acquire);
        if occupied(entry) {
            return self.refine(word, entry, start, area, page, access, inner.version);
        }
        match &area.content {
            Content::Zeros => {
                let frame = self.memory.zeroed_user().ok_or(FaultError::OutOfMemory)?;
                word.store(table::page(frame, area.prot, true), Ordering::Release);
                inner.resident += 1;
                Ok(Step::Done)
            }
            Content::Pager { .. } => Ok(Step::Ask(question(
                start,
                area,
                page,
                access,
                inner.version,
            ))),
        }
    }

    /// The page is there, but not for this access.
    #[allow(clippy::too_many_arguments)]
    fn refine(
        &self,
        word: &AtomicU64,
        entry: u64,
        start: usize,
        area: &Area,
        page: usize,
        access: Access,
        version: u64,
    ) -> Result<Step, FaultError> {
        let frame = frame_of(entry);
        if access != Access::Write || entry & (PRESENT | WRITE) == PRESENT | WRITE {
            // Another thread was faster, or this CPU has an old translation, or rights were widened.
            word.store(
                table::page(frame, area.prot, entry & WRITE != 0),
                Ordering::Release,
            );
            self.memory.forget(self.root, page, 1);
            return Ok(Step::Done);
        }
        if !area.private() {
            return Ok(Step::Ask(question(start, area, page, access, version)));
        }
        if self.memory.frames().others(frame) == 0 {
            word.store(table::page(frame, area.prot, true), Ordering::Release);
            self.memory.forget(self.root, page, 1);
            return Ok(Step::Done);
        }
        let copy = self.copy_of(frame)?;
        word.store(table::page(copy, area.prot, true), Ordering::Release);
        self.memory.forget(self.root, page, 1);
        self.memory.frames().release(frame);
        Ok(Step::Done)
    }

    /// A new frame with the content of `frame`.
    fn copy_of(&self, frame: Frame) -> Result<Frame, FaultError> {
        let copy = self
            .memory
            .frames()
            .alloc_user()
            .ok_or(FaultError::OutOfMemory)?;
        // SAFETY: the copy is ours alone; the original stays as long as the share that the caller holds.
        unsafe { copy_page(self.memory.at(frame), self.memory.at(copy)) };
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
        let (first, count, first_index) = question.around;
        let mut neighbours: [Option<FrameRef>; AROUND] = [const { None }; AROUND];
        let here = (page - first) / PAGE;
        let (before, from_here) = neighbours[..count].split_at_mut(here);
        question.pager.resident(first_index, before);
        if let [_, after @ ..] = from_here {
            question
                .pager
                .resident(first_index + here as u64 + 1, after);
        }

        let mut inner = self.inner.lock();
        if inner.version != question.version {
            return Ok(false);
        }
        let tables = self.tables();
        let word = tables.leaf_or_make(page).ok_or(FaultError::OutOfMemory)?;
        let before = word.load(Ordering::Acquire);
        let writable = question.copy || question.write_through;
        if !occupied(before) {
            word.store(
                table::page(own.into_frame(), question.prot, writable),
                Ordering::Release,
            );
            inner.resident += 1;
        } else if question.write_through {
            word.store(
                table::page(own.into_frame(), question.prot, true),
                Ordering::Release,
            );
            self.memory.forget(self.root, page, 1);
            self.memory.frames().release(frame_of(before));
        }
        // Otherwise another thread has brought the page; if it does not suit, the access faults again.
        for (i, slot) in neighbours[..count].iter_mut().enumerate() {
            if let Some(frame) = slot.take() {
                // The block is aligned, so its words lie in the leaf table that exists now.
                let Some(word) = tables.leaf(first + i * PAGE) else {
                    break;
                };
                if !occupied(word.load(Ordering::Relaxed)) {
                    word.store(
                        table::along(frame.into_frame(), question.prot),
                        Ordering::Release,
                    );
                    inner.resident += 1;
                }
            }
        }
        Ok(true)
    }
}

impl Inner {
    /// Grows the stack area above `page` down to it; answers its index.
    #[cold]
    fn grow_stack(&mut self, page: usize) -> Result<usize, FaultError> {
        let index = self.areas.from(page);
        let below = self.areas.end_before(index);
        let Some((start, area)) = self.areas.all().get(index) else {
            return Err(FaultError::NotMapped);
        };
        let Role::Stack { floor } = area.role else {
            return Err(FaultError::NotMapped);
        };
        if page < floor || page < below.saturating_add(STACK_GAP) {
            return Err(FaultError::NotMapped);
        }
        self.size += start - page;
        self.version += 1;
        self.areas.get_mut(index).0 = page;
        Ok(index)
    }
}

/// What to ask the pager of `area` for `page`.
fn question(start: usize, area: &Area, page: usize, access: Access, version: u64) -> Question {
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
        version,
    }
}

/// Copies one page.
///
/// # Safety
/// Both are page-aligned and valid for a page; the caller owns `to`.
#[inline]
unsafe fn copy_page(from: *const u8, to: *mut u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as the caller promises; the string instruction copies exactly one page.
    unsafe {
        core::arch::asm!(
            "rep movsq",
            inout("rcx") PAGE / 8 => _,
            inout("rsi") from => _,
            inout("rdi") to => _,
            options(nostack, preserves_flags),
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: as the caller promises.
    unsafe {
        core::ptr::copy_nonoverlapping(from, to, PAGE)
    }
}
