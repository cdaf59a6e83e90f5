//! Remote access: reading and writing a space from outside, whether a CPU has it loaded or not.
//!
//! *Interface*: [`AddressSpace::read_at`], [`AddressSpace::write_at`]: for loading programs,
//! `/proc/PID/cmdline`, a debugger; [`AddressSpace::shared_place`] for futexes.

use super::area::Content;
use super::{Access, AddressSpace, FaultError, Machine};
use crate::frame::Frame;
use crate::table::{PRESENT, WRITE, frame_of, occupied};
use abi::errno::{self, Errno};
use abi::layout::{PAGE, USER_END, page_floor};
use core::sync::atomic::Ordering;

impl<M: Machine> AddressSpace<M> {
    /// Reads this space, active or not; pages appear as if the program had read. All or an error.
    pub fn read_at(&self, address: usize, into: &mut [u8]) -> Result<(), FaultError> {
        let mut done = 0;
        self.each_part(address, into.len(), Access::Read, |from, at, count| {
            let part = &mut into[done..done + count];
            done += count;
            // SAFETY: a page of this space, which stays while `each_part` shows it.
            unsafe { self.memory.read(from, at, part) }
        })
    }

    /// As [`read_at`](Self::read_at), also where the program has no rights: what it would find if it had.
    pub fn peek_at(&self, address: usize, into: &mut [u8]) -> Result<(), FaultError> {
        let end = address.checked_add(into.len());
        if end.is_none_or(|end| end > USER_END) {
            return Err(FaultError::NotMapped);
        }
        let mut done = 0;
        while done < into.len() {
            let at = address + done;
            let next = (into.len() - done).min(PAGE - at % PAGE);
            let part = &mut into[done..done + next];
            match self.read_at(at, part) {
                Err(FaultError::Protection) => self.peek_part(at, part)?,
                read => read?,
            }
            done += next;
        }
        Ok(())
    }

    /// The same of a part of one page to which the program has no rights.
    fn peek_part(&self, at: usize, part: &mut [u8]) -> Result<(), FaultError> {
        // The page is not removed between check and copy.
        let alone = self.change();
        let (_, (start, area)) = alone.areas.find(at).ok_or(FaultError::NotMapped)?;
        let entry = self
            .tables()
            .leaf(at)
            .map_or(0, |word| word.load(Ordering::Acquire));
        let read = |frame: Frame, part: &mut [u8]| {
            // SAFETY: a page of this space while no change is under way, or one that `own` counts.
            let read = unsafe { self.memory.read(frame, at % PAGE, part) };
            read.map_err(|_| FaultError::NotMapped)
        };
        if occupied(entry) {
            return read(frame_of(entry), part);
        }
        let Content::Pager { pager, first, .. } = &area.content else {
            part.fill(0);
            return Ok(());
        };
        let (pager, index) = (pager.clone(), first + ((at - start) / PAGE) as u64);
        drop(alone);
        let own = pager.frame(index, false).map_err(|error| match error {
            Errno::ENOMEM => FaultError::OutOfMemory,
            _ => FaultError::BeyondEnd,
        })?;
        read(own.frame(), part)
    }

    /// Writes this space, active or not, as if the program had written. All or an error.
    pub fn write_at(&self, address: usize, from: &[u8]) -> Result<(), FaultError> {
        let mut done = 0;
        self.each_part(address, from.len(), Access::Write, |to, at, count| {
            let part = &from[done..done + count];
            done += count;
            // SAFETY: as in `read_at`.
            unsafe { self.memory.write(to, at, part) }
        })
    }

    /// The object behind `address`, if that is in shared memory, and the byte in it: the key of a futex
    /// there. Not by the frame: the object may free it while a thread waits, and then another object may
    /// reuse it.
    pub fn shared_place(&self, address: usize) -> Option<((u64, u64), u64)> {
        let inner = self.held();
        let (start, area) = inner.areas.find(address)?.1;
        match &area.content {
            Content::Pager {
                pager,
                first,
                shared: true,
                ..
            } => {
                let page = first + ((address - start) / PAGE) as u64;
                Some((pager.object(), page * PAGE as u64 + (address % PAGE) as u64))
            }
            _ => None,
        }
    }

    /// Whether [`shared_place`](Self::shared_place) has an answer; none when the space changes at this
    /// moment. Does not wait.
    pub fn is_shared_now(&self, address: usize) -> Option<bool> {
        self.pass(|view| match view.inner.areas.find(address) {
            Some((_, (_, area))) => matches!(&area.content, Content::Pager { shared: true, .. }),
            None => false,
        })
    }

    /// Shows `length` bytes from `address` on as parts of pages, each made ready for `access`: a frame that
    /// stays meanwhile, and first byte and count in it.
    fn each_part(
        &self,
        address: usize,
        length: usize,
        access: Access,
        mut show: impl FnMut(Frame, usize, usize) -> errno::Result<()>,
    ) -> Result<(), FaultError> {
        let end = address
            .checked_add(length)
            .filter(|end| *end <= USER_END)
            .ok_or(FaultError::NotMapped)?;
        let needed = if access == Access::Write {
            PRESENT | WRITE
        } else {
            PRESENT
        };
        let mut at = address;
        while at < end {
            let next = (page_floor(at) + PAGE).min(end);
            loop {
                // The page is not removed between check and copy.
                let alone = self.change();
                let entry = self
                    .tables()
                    .leaf(at)
                    .map_or(0, |word| word.load(Ordering::Acquire));
                if entry & needed == needed {
                    show(frame_of(entry), at % PAGE, next - at)
                        .map_err(|_| FaultError::NotMapped)?;
                    break;
                }
                drop(alone);
                self.fault(at, access)?;
            }
            at = next;
        }
        Ok(())
    }
}
