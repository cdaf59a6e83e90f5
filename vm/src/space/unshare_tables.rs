//! Leaf tables that a fork has left to both sides: a side that is to change one gets its own one first.
//!
//! *Interface*: [`AddressSpace::unshare_tables`] at the beginning of a change that touches entries of a
//! range.
//!
//! Each page of a shared table has one share, the table's. So a copy of the table is another owner of each of
//! its pages, and the space that is the last to have the table takes it over as it is. The copy is made while
//! the space changes: no fault of it is going on, and nobody changes a table that several have.
//!
//! Source: copy on write (Bobrow and others, TENEX, 1972), of a table instead of a page.

use super::{AddressSpace, Inner, Machine};
use crate::table::{SHARED, SPAN, WRITE, frame_of};
use abi::errno::Errno;
use core::sync::atomic::Ordering;

/// The purpose of a new table.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum For {
    /// The program wants more: the kernel's reserve stays.
    More,
    /// Pages are to be taken away.
    Less,
}

impl<M: Machine> AddressSpace<M> {
    /// The tables of the range are this space's own from now on, and their entries may be changed. In a
    /// change. `ENOMEM`: some are not.
    #[inline]
    pub(super) fn unshare_tables(
        &self,
        inner: &Inner,
        start: usize,
        end: usize,
        why: For,
    ) -> Result<(), Errno> {
        if !inner.shares || start >= end {
            return Ok(());
        }
        // Most ranges lie within one table.
        if (start ^ (end - 1)) < SPAN {
            let tables = self.tables();
            let leading = tables.leading_to(start);
            if leading.is_none_or(|(_, entry)| entry & SHARED == 0) {
                return Ok(());
            }
        }
        self.own_each(start, end, why)
    }

    #[inline(never)]
    fn own_each(&self, start: usize, end: usize, why: For) -> Result<(), Errno> {
        let (tables, frames) = (self.tables(), self.memory.frames());
        let mut done = Ok(());
        tables.each_shared(start, end, |base, word, entry| {
            if tables.is_sole(entry) {
                word.store(entry & !SHARED | WRITE, Ordering::Release);
                // Other CPUs that take its pages for not writable fault once more.
                self.memory.forget_here(self.root, base);
                return true;
            }
            let copy = match why {
                For::More => self.memory.zeroed_user(),
                For::Less => self.memory.zeroed(),
            };
            let Some(copy) = copy else {
                done = Err(Errno::ENOMEM);
                return false;
            };
            let own = tables.copy_leaf(entry, copy, |entry| frames.share(frame_of(entry)));
            word.store(own, Ordering::Release);
            // No CPU walks the former table for this space after that. (The order to forget one page makes it
            // forget the way there.)
            self.memory.forget(self.root, base, 1);
            let mut page = |entry| {
                frames.release(frame_of(entry));
            };
            tables.disown(entry, &mut page, &mut |frame| frames.release_zeroed(frame));
            true
        });
        done
    }
}
