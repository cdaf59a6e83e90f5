//! Address spaces: the memory of processes.
//!
//! *Interface*: [`AddressSpace`]. All addresses and lengths are in bytes; lengths are rounded up to pages,
//! addresses must be page-aligned where Linux wants them so (`EINVAL` otherwise).
//!
//! Progress: a change of areas takes a sleeping monitor. Faults do not, as long as the areas of that space
//! are not being changed (`fault_gate`): they race by compare-and-swap on the entries. Spaces share nothing
//! but frames, whose counts are lock-free. The machine's own walks, and the kernel's accesses to user memory,
//! take nothing.

mod area;
mod areas;
mod bounds;
mod fault;
mod fault_gate;
mod fork;
mod fork_precopy;
mod limits;
mod locking;
mod machine;
mod madvise;
mod map;
mod max_map_count;
mod mmu_gather;
mod pager;
mod remap_file_pages;
mod remote_access;
mod rss;
mod shared_anonymous;
mod smaps;
mod unshare_tables;
mod write_protect;

pub use area::{AreaAdvice, AreaInfo, Backing, MemoryLock, Placement, Role};
pub use bounds::SpaceSizes;
pub use fault::{Begun, First, Former};
pub use limits::{SpaceLimits, link_limits};
pub use machine::Machine;
pub use madvise::Advice;
pub use max_map_count::AREAS_MAX;
pub use pager::{Pager, PagerInfo, PagerLabel};
pub use smaps::{AreaPages, PagemapEntry};
pub use write_protect::Spare;

use crate::frame::{Frame, Kernel};
use crate::table::{NOWHERE, Tables, frame_of};
use abi::errno::Errno;
use alloc::sync::Arc;
use areas::Areas;
use core::any::Any;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use fault_gate::FaultGate;
use fork_precopy::PrecopyHints;
use rss::RssCounter;
use sync::{Monitor, Once};

/// The access of an instruction.
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
    /// Move the pages, to exactly there or anywhere, and leave the range mapped without them.
    Leave(Option<usize>),
}

/// The memory of a process: areas and the page table that is built from them on demand.
///
/// Invariant: a page-table entry in the user half is occupied only inside an area and then owns one share of
/// its frame; a table below the top exists only where its span touches an area. A leaf table may be shared
/// with other spaces (`own`); then it has pages of private areas only, none of them writable.
pub struct AddressSpace<M: Machine = Kernel> {
    root: u64,
    /// The root that programs run on, where tables are isolated; otherwise 0.
    second: u64,
    memory: M,
    gate: FaultGate,
    /// Pages that are present.
    resident: RssCounter,
    /// Frames that its tables take, the top ones left out.
    tables_held: AtomicUsize,
    /// Bytes that the list of areas takes.
    areas_bytes: AtomicUsize,
    /// Whether an area was ever locked.
    ever_locked: AtomicBool,
    /// Threads that have joined, the first among them, less processes that have left: no fewer than run in
    /// it.
    threads: AtomicUsize,
    /// The report to the parent about the pages that this space writes first.
    habits_of_family: Option<Arc<PrecopyHints>>,
    /// A word of its maker.
    mark: AtomicU32,
    /// An object of its maker.
    kept: Once<Arc<dyn Any + Send + Sync>>,
    /// Orders changes.
    monitor: Monitor<()>,
    /// Mutable in a change only (`guard`).
    inner: UnsafeCell<Inner>,
}

// SAFETY: `inner` is read where no change can be going on, and written by the one change (`guard`); all else
// is atomic.
unsafe impl<M: Machine> Sync for AddressSpace<M> {}

/// Data that only a change touches, together with tables and occupied entries: a fault adds entries, widens
/// their rights, and exchanges those that are not writable.
pub(crate) struct Inner {
    areas: Areas,
    /// Where the heap starts.
    brk_start: usize,
    /// Where the heap ends, to the byte.
    brk: usize,
    /// Bytes of all areas.
    size: usize,
    /// Bytes of data that the program's file has.
    own_data: usize,
    /// Something was ever wanted of an area in a child.
    wished: bool,
    /// How new areas are locked.
    future_lock: MemoryLock,
    /// Forks so far, in a byte.
    forks: u8,
    /// The pages that children write first.
    habits: Option<Arc<PrecopyHints>>,
    /// A leaf table may be another space's too.
    shares: bool,
}

impl AddressSpace {
    /// An empty space of the machine's memory, for one thread. Error: `ENOMEM`.
    pub fn new() -> Result<Arc<Self>, Errno> {
        Self::new_in(Kernel)
    }
}

impl<M: Machine> AddressSpace<M> {
    /// An empty space of `memory`, for one thread. Error: `ENOMEM`.
    pub fn new_in(memory: M) -> Result<Arc<Self>, Errno> {
        let root = memory.zeroed_user().ok_or(Errno::ENOMEM)?.address();
        let second = match memory.second_entries().map(|_| memory.zeroed_user()) {
            None => 0,
            Some(Some(frame)) => frame.address(),
            Some(None) => {
                memory.frames().release_zeroed(Frame::containing(root));
                return Err(Errno::ENOMEM);
            }
        };
        let space = AddressSpace {
            root,
            second,
            memory,
            gate: FaultGate::new(),
            resident: RssCounter::new(),
            tables_held: AtomicUsize::new(0),
            areas_bytes: AtomicUsize::new(0),
            ever_locked: AtomicBool::new(false),
            threads: AtomicUsize::new(1),
            habits_of_family: None,
            mark: AtomicU32::new(0),
            kept: Once::new(),
            monitor: Monitor::new(()),
            inner: UnsafeCell::new(Inner {
                areas: Areas::default(),
                brk_start: 0,
                brk: 0,
                size: 0,
                own_data: 0,
                wished: false,
                future_lock: MemoryLock::No,
                forks: 0,
                habits: None,
                shares: false,
            }),
        };
        for (index, entry) in memory.kernel_entries() {
            space.tables().set_top(*index, *entry);
        }
        if let Some(((index, entry), at)) = memory.second_entries() {
            space.second_tables().set_top(index, entry);
            space.tables().set_top(at, second | NOWHERE);
        }
        Ok(Arc::new(space))
    }

    /// A word that means nothing to the space: 0 at first, and what the parent's is in a copy that `fork`
    /// makes.
    pub fn mark(&self) -> u32 {
        self.mark.load(Ordering::Acquire)
    }

    /// Sets [`AddressSpace::mark`].
    pub fn set_mark(&self, mark: u32) {
        self.mark.store(mark, Ordering::Release);
    }

    /// Keeps `what` as long as this space and each copy that `fork` makes of it are there. Once.
    pub fn keep(&self, what: Arc<dyn Any + Send + Sync>) {
        let _only = self.kept.set(what);
    }

    /// Physical address of the top page table, for CR3.
    #[inline]
    pub fn root(&self) -> u64 {
        self.root
    }

    #[inline]
    fn tables(&self) -> Tables<'_, M> {
        self.uncounted_tables().counted(&self.tables_held)
    }

    /// The same, for the removal of all of them.
    fn uncounted_tables<'a>(&self) -> Tables<'a, M> {
        // SAFETY: the root was made by `new_in` and lives as long as the space.
        unsafe { Tables::new(self.root, self.memory).with_second(self.second) }
    }

    /// The tables that programs run on, where those are others.
    fn second_tables(&self) -> Tables<'_, M> {
        // SAFETY: as in `tables`; where there is no second root the first stands for it.
        unsafe { Tables::new(self.second_root(), self.memory) }
    }

    fn second_root(&self) -> u64 {
        match self.second {
            0 => self.root,
            second => second,
        }
    }

    /// Pages that are present now.
    pub fn resident(&self) -> usize {
        self.resident.pages()
    }

    /// The most pages that were present at a time.
    pub fn most_resident(&self) -> usize {
        self.resident.most()
    }

    /// Frames that its page tables take, the top ones left out.
    pub fn tables_held(&self) -> usize {
        self.tables_held.load(Ordering::Relaxed)
    }

    /// Bytes that the list of areas took after the last change.
    pub fn areas_bytes(&self) -> usize {
        self.areas_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of all areas.
    pub fn size(&self) -> usize {
        self.held().size
    }

    /// Shows the areas in order of address. The space's monitor is held meanwhile.
    pub fn for_each_area(&self, mut show: impl FnMut(AreaInfo)) {
        for (start, area) in self.held().areas.all() {
            show(area.info(*start));
        }
    }

    /// Whether the kernel's half is the kernel's own, entry by entry.
    pub(crate) fn shares_kernel(&self) -> bool {
        let known = self.memory.kernel_entries();
        let second = self.memory.second_entries();
        (256..512).all(|index| {
            let is = self.tables().top(index);
            let entry = known.iter().find(|(at, _)| *at == index);
            let entry = entry.map_or(0, |(_, entry)| *entry);
            match second {
                Some((_, at)) if at == index => is == self.second | NOWHERE,
                _ => is == entry,
            }
        })
    }

    /// Whether there is a second root with nothing in its lower half that the first one has not. (A fault
    /// sets an entry in the first one first.)
    pub(crate) fn repeats_half(&self) -> bool {
        let (first, second) = (self.tables(), self.second_tables());
        self.second != 0 && (0..256).all(|index| [0, first.top(index)].contains(&second.top(index)))
    }

    /// Shows every mapping of the second root's upper half.
    pub(crate) fn each_gate_mapping(&self, visit: &mut dyn FnMut(crate::table::Mapping)) {
        self.second_tables().each_mapping(256..512, visit);
    }

    /// The word of the second root's tables that maps the page of `address`, of the kernel, for the machine's
    /// own check.
    #[cfg(target_os = "none")]
    pub(crate) fn gate_word(&self, address: usize) -> Option<&core::sync::atomic::AtomicU64> {
        let tables = self.second_tables();
        // SAFETY: the tables of the gates stay for ever.
        tables
            .leaf(address)
            .map(|word| unsafe { &*core::ptr::from_ref(word) })
    }

    /// Sets an entry of the second root, for the same.
    #[cfg(target_os = "none")]
    pub(crate) fn plant_top(&self, index: usize, entry: u64) {
        self.second_tables().set_top(index, entry);
    }

    /// Sets an entry of the first root, for the same.
    #[cfg(target_os = "none")]
    pub(crate) fn plant_first(&self, index: usize, entry: u64) {
        self.tables().set_top(index, entry);
    }

    /// Shows every mapping under the entries `top` of the top table. The space's monitor is held meanwhile.
    pub(crate) fn each_mapping(
        &self,
        top: core::ops::Range<usize>,
        visit: &mut dyn FnMut(crate::table::Mapping),
    ) {
        // Faults add tables meanwhile; none is removed.
        let _held = self.held();
        self.tables().each_mapping(top, visit);
    }

    /// Shows the areas that end above `address`, in order, until `show` answers `false`. The space's monitor
    /// is held meanwhile.
    pub fn for_each_area_above(&self, address: usize, mut show: impl FnMut(AreaInfo) -> bool) {
        let inner = self.held();
        let first = inner.areas.above(address);
        for (start, area) in inner.areas.all().iter().skip(first) {
            if !show(area.info(*start)) {
                return;
            }
        }
    }
}

impl<M: Machine> Drop for AddressSpace<M> {
    /// One pass over the entries that exist. Cleared tables are frames of zeros and go to the stock.
    fn drop(&mut self) {
        let tables = self.uncounted_tables();
        let frames = self.memory.frames();
        self.memory.leave(self.root);
        tables.take_apart(
            &mut |entry| {
                frames.release(frame_of(entry));
            },
            &mut |frame| frames.release_zeroed(frame),
        );
        for (index, _) in self.memory.kernel_entries() {
            tables.set_top(*index, 0);
        }
        if let Some(((index, _), at)) = self.memory.second_entries() {
            tables.set_top(at, 0);
            self.second_tables().set_top(index, 0);
            frames.release_zeroed(Frame::containing(self.second));
        }
        frames.release_zeroed(Frame::containing(self.root));
    }
}

#[cfg(test)]
mod tests;
