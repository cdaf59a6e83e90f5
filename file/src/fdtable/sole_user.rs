//! Open and close by the only user of a descriptor table: plain stores, for the procedures that a
//! dispatcher calls.
//!
//! *Interface*: [`FdTable::install_now`], [`FdTable::close_now`] with interrupts off,
//! [`FdTable::install_if_sole_user`]; the plain stores of others. Each does all or nothing, never sleeps, and
//! leaves unusual cases to the ordinary path.
//!
//! Source: dissertation, 7.3.1 (what `open` costs) and 4.1.2 (the inactive list).
//!
//! *Unsafe*: counted pointers in slots, by plain stores.

use alloc::sync::Arc;
use core::mem::ManuallyDrop;
use core::sync::atomic::Ordering;

use super::slots::FdSlot;
use super::{FdTable, briefly, file_of, kpt, word_of};
use crate::close_cleanup;
use crate::fs::file::{OpenFile, Sharing};
use crate::stubs::bad_fd;

/// A description that could not be put away: its slot still has it, as if nothing had been done.
fn still_there(of: Arc<OpenFile>) -> Option<()> {
    of.slots.store(1, Ordering::Relaxed);
    let _slots = ManuallyDrop::new(of);
    None
}

impl FdTable {
    /// As [`FdTable::install`], if the running thread, one of the table's, is alone and no more than a few
    /// words are to be done; otherwise `of` back. Never sleeps.
    #[inline]
    pub fn install_if_sole_user(
        &self,
        of: Arc<OpenFile>,
        cloexec: bool,
    ) -> core::result::Result<i32, Arc<OpenFile>> {
        // SAFETY: interrupts are off in there.
        briefly(|| unsafe { self.install_now(of, cloexec) })
    }

    /// As [`FdTable::install_if_sole_user`].
    ///
    /// # Safety
    /// Interrupts are off, and the running thread is one of the table's.
    #[inline(always)]
    pub unsafe fn install_now(
        &self,
        of: Arc<OpenFile>,
        cloexec: bool,
    ) -> core::result::Result<i32, Arc<OpenFile>> {
        let ready = of.ready_entries(Sharing::Exclusive);
        let entries = ready.unwrap_or_else(|| kpt::slow_for(&of));
        if !self.users.is_sole() {
            return Err(of);
        }
        let (fd, arrays) = (self.slots.lowest(0), self.arrays());
        if fd >= arrays.len() || fd >= self.limit.load(Ordering::Relaxed) {
            return Err(of);
        }
        let Some(place) = self.slots.place(fd) else {
            return Err(of);
        };
        of.slots.store(1, Ordering::Relaxed);
        arrays.set(fd, entries);
        place.set(true);
        self.slots.note_fresh(fd);
        place.slot.store(word_of(of, cloexec), Ordering::Release);
        Ok(fd as i32)
    }

    /// Closes `fd` if its description can wait for another open and nothing else is to be done; `None`: close
    /// it the ordinary way. Never sleeps.
    ///
    /// # Safety
    /// Interrupts are off, and the running thread is one of the table's.
    #[inline(always)]
    pub unsafe fn close_now(&self, fd: i32) -> Option<()> {
        let fd = fd as u32 as usize;
        let place = self.slots.place(fd)?;
        let word = place.slot.load(Ordering::Acquire);
        if word == 0 || !self.users.is_sole() || close_cleanup::any() {
            return None;
        }
        // SAFETY: alone, the count is this thread's to take; it is put back into the slot, or this is all
        // that is left of it.
        let of = ManuallyDrop::new(unsafe { file_of(word) });
        if Arc::strong_count(&of) != 1 {
            return None;
        }
        let flags = of.flags();
        let Some(list) = of.list_for(flags) else {
            of.slots.store(0, Ordering::Relaxed);
            let parked = ManuallyDrop::into_inner(of).park();
            return parked.map_or_else(still_there, |()| {
                self.vacate(fd, &place);
                Some(())
            });
        };
        if !list.admitted() {
            // None may wait there.
            if !of.can_close_fast(flags) {
                return None;
            }
            self.vacate(fd, &place);
            of.slots.store(0, Ordering::Relaxed);
            of.rest();
            drop(ManuallyDrop::into_inner(of));
            return Some(());
        }
        if flags & abi::linux::O_ACCMODE != abi::linux::O_RDONLY && of.is_unsettled() {
            return None;
        }
        let list = core::ptr::from_ref(list);
        of.slots.store(0, Ordering::Relaxed);
        let of = ManuallyDrop::into_inner(of);
        // SAFETY: the list is the inode's, which the description keeps until `put` has it, and then the name
        // cache does: an inode that it does not know keeps none. Entries of the cache are freed a grace
        // period after they leave it, which is not before interrupts are on again here.
        let put = unsafe { &*list }.put(flags & abi::linux::O_ACCMODE, of);
        // Not when there is no room, or none may wait.
        put.map_or_else(still_there, |()| {
            self.vacate(fd, &place);
            Some(())
        })
    }

    /// Frees the slot of `fd` and returns its word, if the running thread, one of the table's, is alone.
    #[inline]
    pub(super) fn empty_if_sole_user(&self, fd: usize) -> Option<usize> {
        let place = self.slots.place(fd)?;
        briefly(|| {
            if !self.users.is_sole() {
                return None;
            }
            let word = place.slot.load(Ordering::Acquire);
            if word != 0 {
                self.vacate(fd, &place);
            }
            Some(word)
        })
    }

    /// Puts `word` at `fd` of a table that no other thread knows yet.
    #[inline]
    pub(super) fn put_in_new(&self, fd: usize, place: &FdSlot, word: usize) {
        place.slot.store(word, Ordering::Release);
        place.set(true);
        // SAFETY: no other thread knows the table.
        let file = unsafe { place.file() };
        self.arrays().set(fd, kpt::code_of(file, false));
    }

    /// Leaves `fd` free, by plain stores.
    #[inline(always)]
    fn vacate(&self, fd: usize, place: &FdSlot) {
        let arrays = self.arrays();
        // Growing may have ended halfway, for want of memory: more slots than code.
        if fd < arrays.len() {
            arrays.set(fd, [bad_fd(); 3]);
        }
        place.set(false);
        self.slots.freed_alone(fd);
        place.slot.store(0, Ordering::Release);
    }
}
