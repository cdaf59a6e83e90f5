//! Address spaces: what a process sees as memory.
//!
//! *Interface*: [`AddressSpace`]. All addresses and lengths are in bytes; lengths are rounded up to pages, addresses must be
//! page-aligned where Linux wants them so (`EINVAL` otherwise).

mod area;
mod pager;

pub use area::{AreaInfo, Backing, Placement, Prot, Role};
pub use pager::{Pager, PagerInfo};

use crate::memory::{Kernel, Memory};
use abi::errno::Errno;
use alloc::sync::Arc;

/// What an instruction wanted to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Load.
    Read,
    /// Store.
    Write,
    /// Fetch.
    Execute,
}

/// Why an access cannot be satisfied, with the signal that Linux gives for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultError {
    /// Nothing is mapped there: SIGSEGV, `SEGV_MAPERR`.
    NotMapped,
    /// The area does not allow it: SIGSEGV, `SEGV_ACCERR`.
    Protection,
    /// Mapped, but the object ends before, or cannot be read: SIGBUS, `BUS_ADRERR`.
    BeyondEnd,
    /// No memory left: SIGKILL.
    OutOfMemory,
}

impl From<FaultError> for Errno {
    fn from(_: FaultError) -> Errno {
        Errno::EFAULT
    }
}

/// How `remap` may change the place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Remap {
    /// Grow or shrink in place, or `ENOMEM`.
    InPlace,
    /// Move when there is no room.
    MayMove,
    /// Move to exactly there.
    To(usize),
}

/// The memory of a process: areas and the page table that is built from them on demand.
pub struct AddressSpace<M: Memory = Kernel> {
    root: u64,
    memory: M,
}

impl AddressSpace {
    /// An empty space of the machine's memory. Error: `ENOMEM`.
    pub fn new() -> Result<Arc<Self>, Errno> {
        Self::new_in(Kernel)
    }
}

impl<M: Memory> AddressSpace<M> {
    /// An empty space of `memory`. Error: `ENOMEM`.
    pub fn new_in(memory: M) -> Result<Arc<Self>, Errno> {
        todo!()
    }

    /// A copy, as `fork` makes it: private pages are shared until one side writes. Error: `ENOMEM`.
    pub fn fork(&self) -> Result<Arc<Self>, Errno> {
        todo!()
    }

    /// Physical address of the top page table, for CR3.
    pub fn root(&self) -> u64 {
        self.root
    }

    /// Maps `length` bytes. Answers the address. Errors: `EINVAL` (zero length, unaligned), `ENOMEM` (no room, above
    /// the top, or more private memory than the machine has), `EEXIST`.
    pub fn map(
        &self,
        place: Placement,
        length: usize,
        prot: Prot,
        backing: Backing,
    ) -> Result<usize, Errno> {
        todo!()
    }

    /// Maps the stack of a new program, up to `top`, growing down on demand to `length` bytes. Errors as `map`.
    pub fn map_stack(&self, top: usize, length: usize, prot: Prot) -> Result<(), Errno> {
        todo!()
    }

    /// Unmaps whatever is in the range. Errors: `EINVAL`; `ENOMEM` (no memory to split an area).
    pub fn unmap(&self, address: usize, length: usize) -> Result<(), Errno> {
        todo!()
    }

    /// Changes the rights of the range. Errors: `EINVAL`, `ENOMEM` (a hole in it), `EACCES` (a shared file opened for reading).
    pub fn protect(&self, address: usize, length: usize, prot: Prot) -> Result<(), Errno> {
        todo!()
    }

    /// Grows, shrinks or moves a mapping with its pages. Answers the address. Errors: `EINVAL`, `EFAULT` (not one mapping), `ENOMEM`.
    pub fn remap(
        &self,
        address: usize,
        old: usize,
        new: usize,
        how: Remap,
    ) -> Result<usize, Errno> {
        todo!()
    }

    /// Forgets the pages of the range (`MADV_DONTNEED`): private zeros read as zero again. Errors: `EINVAL`, `ENOMEM` (a hole).
    pub fn discard(&self, address: usize, length: usize) -> Result<(), Errno> {
        todo!()
    }

    /// Is every page of the range mapped (`msync`, `madvise`, `mincore`)?
    pub fn covers(&self, address: usize, length: usize) -> bool {
        todo!()
    }

    /// Sets where the heap starts (after loading a program); it is empty.
    pub fn set_brk_start(&self, start: usize) {
        todo!()
    }

    /// Moves the end of the heap to `end` if that is possible. Answers where the end is now, as Linux's `brk` does.
    pub fn brk(&self, end: usize) -> usize {
        todo!()
    }

    /// Makes the page at `address` ready for `access`. In thread context, interrupts on; may sleep in a pager.
    pub fn fault(&self, address: usize, access: Access) -> Result<(), FaultError> {
        todo!()
    }

    /// Makes every page of the range ready for `access` (`MAP_POPULATE`).
    pub fn populate(
        &self,
        address: usize,
        length: usize,
        access: Access,
    ) -> Result<(), FaultError> {
        todo!()
    }

    /// Reads this space, active or not; pages appear as if the program had read. All or an error.
    pub fn read_at(&self, address: usize, into: &mut [u8]) -> Result<(), FaultError> {
        todo!()
    }

    /// Writes this space, active or not, as if the program had written. All or an error.
    pub fn write_at(&self, address: usize, from: &[u8]) -> Result<(), FaultError> {
        todo!()
    }

    /// Pages that are present now.
    pub fn resident(&self) -> usize {
        todo!()
    }

    /// Bytes of all areas.
    pub fn size(&self) -> usize {
        todo!()
    }

    /// Shows the areas in order of address. The space's monitor is held meanwhile.
    pub fn for_each_area(&self, show: impl FnMut(AreaInfo)) {
        todo!()
    }
}
