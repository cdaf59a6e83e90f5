//! The descriptor table and its kernel procedure table.
//!
//! *Interface.* [`Files`] maps descriptors to open files. Beside it stands the [`Kpt`](KptView), three arrays of code addresses, `read`,
//! `write` and `lseek`, that the dispatchers of the threads using the table index by descriptor. A closed
//! descriptor holds the `bad_fd` stub, one without generated code the `slow` stub. Publishing an open file is one word in
//! each array.
//!
//! *Quasi-invariant* (docs/architecture.md): while one thread alone can reach a description, its exclusive routines are plugged.
//! [`Files::fork_copy`] and [`Files::share`] are the guards: they take the exclusive code out, leaving the shared routines, or
//! the slow stub until the first call that takes the plain path asks for them ([`Files::warm`]). The same
//! call puts exclusive code back when the description has one descriptor left.
//!
//! A table used by several threads frees what it closes after a grace period, since another CPU may be inside a routine.
//! Progress: a call on a descriptor takes nothing here, it loads one word. What changes the table excludes others by its monitor for a
//! few words, asleep if it must wait; the ways through a dispatcher ([`Files::install_now`], [`Files::close_now`]) try it once and never wait.
//! Source: dissertation, 4.2 (kernel procedure tables), 3.1 (code from `open`).

use abi::errno::{Errno, Result};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use sync::{Monitor, epoch};

use crate::file::{OpenFile, Sharing};
use crate::fs::lock;

/// The three arrays of code addresses that a thread's dispatcher indexes by descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KptView {
    /// First word of the `read` array.
    pub read: *const usize,
    /// First word of the `write` array.
    pub write: *const usize,
    /// First word of the `lseek` array.
    pub lseek: *const usize,
    /// Words in each array; a descriptor beyond has no code.
    pub len: usize,
}

/// Entries of the code that stands where no routine does.
#[derive(Clone, Copy, Debug)]
pub struct Stubs {
    /// Leave for the plain call: read, write, lseek.
    pub slow: [usize; 3],
    /// Answer `EBADF`.
    pub bad_fd: usize,
}

static SLOW: [AtomicUsize; 3] = [const { AtomicUsize::new(1) }; 3];
static BAD_FD: AtomicUsize = AtomicUsize::new(2);
static MOVED: AtomicUsize = AtomicUsize::new(0);

/// Links the stubs, at boot, before the first table. Until then they are the words 1 and 2, which only tests look at.
pub fn link_stubs(stubs: Stubs) {
    for (word, entry) in SLOW.iter().zip(stubs.slow) {
        word.store(entry, Ordering::Relaxed);
    }
    BAD_FD.store(stubs.bad_fd, Ordering::Relaxed);
}

/// The stubs.
#[inline]
pub fn stubs() -> Stubs {
    Stubs {
        slow: [
            SLOW[0].load(Ordering::Relaxed),
            SLOW[1].load(Ordering::Relaxed),
            SLOW[2].load(Ordering::Relaxed),
        ],
        bad_fd: BAD_FD.load(Ordering::Relaxed),
    }
}

/// Called with a table whose arrays have moved to the given place, before the old ones are retired: the dispatchers of
/// the threads that use the table must be generated again. The table's monitor is held: use only what is passed.
pub type Moved = fn(&Files, KptView);

/// Links what happens when arrays move; nothing by default.
pub fn link_moved(moved: Moved) {
    MOVED.store(moved as usize, Ordering::Release);
}

/// Descriptors of a new table.
const FIRST_CAPACITY: usize = 64;
/// No table grows beyond this.
const MAX_CAPACITY: usize = 4096;

/// A descriptor table.
pub struct Files {
    table: Monitor<Table>,
    limit: AtomicUsize,
    /// Threads that use the table.
    users: AtomicU32,
    /// More than one thread may use the table.
    threaded: AtomicBool,
    /// No exclusive code is left in the table, and every description in it is marked shared. Changed with the table's monitor held.
    all_shared: AtomicBool,
}

/// Every array has room for as many descriptors as `slots` has, a multiple of 64. The close-on-exec bit of a free one is clear.
struct Table {
    slots: Vec<Option<Arc<OpenFile>>>,
    used: Vec<u64>,
    cloexec: Vec<u64>,
    /// Three arrays of `slots.len()` words each, one behind the other.
    kpt: Box<[AtomicUsize]>,
}

impl Table {
    fn new(capacity: usize) -> Result<Table> {
        debug_assert!(capacity.is_multiple_of(64));
        let mut slots = Vec::new();
        slots
            .try_reserve_exact(capacity)
            .map_err(|_| Errno::ENOMEM)?;
        slots.resize_with(capacity, || None);
        let mut kpt = Vec::new();
        kpt.try_reserve_exact(3 * capacity)
            .map_err(|_| Errno::ENOMEM)?;
        let bad_fd = stubs().bad_fd;
        kpt.resize_with(3 * capacity, || AtomicUsize::new(bad_fd));
        Ok(Table {
            slots,
            used: alloc::vec![0; capacity / 64],
            cloexec: alloc::vec![0; capacity / 64],
            kpt: kpt.into_boxed_slice(),
        })
    }

    fn capacity(&self) -> usize {
        self.slots.len()
    }

    fn view(&self) -> KptView {
        let len = self.capacity();
        let base = self.kpt.as_ptr().cast::<usize>();
        KptView {
            read: base,
            // SAFETY: the box holds three arrays of `len` words.
            write: unsafe { base.add(len) },
            // SAFETY: as above.
            lseek: unsafe { base.add(2 * len) },
            len,
        }
    }

    #[inline(always)]
    fn publish(&self, fd: usize, entries: [usize; 3]) {
        let len = self.capacity();
        assert!(fd < len, "a descriptor beyond its table");
        for (array, entry) in entries.into_iter().enumerate() {
            // SAFETY: the box holds three arrays of `len` words.
            unsafe { self.kpt.get_unchecked(array * len + fd) }.store(entry, Ordering::Release);
        }
    }

    /// The lowest free descriptor from `from` on.
    #[inline]
    fn lowest(&self, from: usize) -> usize {
        let mut word = from / 64;
        let mut taken = match self.used.get(word) {
            Some(bits) => bits | ((1u64 << (from % 64)) - 1),
            None => return from,
        };
        while taken == u64::MAX {
            word += 1;
            match self.used.get(word) {
                Some(bits) => taken = *bits,
                None => return word * 64,
            }
        }
        word * 64 + taken.trailing_ones() as usize
    }

    #[inline]
    fn set(&mut self, fd: usize, of: Arc<OpenFile>, cloexec: bool) -> Option<Arc<OpenFile>> {
        let bit = 1u64 << (fd % 64);
        self.used[fd / 64] |= bit;
        if cloexec {
            self.cloexec[fd / 64] |= bit;
        } else {
            self.cloexec[fd / 64] &= !bit;
        }
        self.slots[fd].replace(of)
    }

    /// Puts `of` and its code at the free descriptor `fd`: [`Table::set`] and [`Table::publish`] in few words.
    #[inline(always)]
    fn occupy(&mut self, fd: usize, of: Arc<OpenFile>, entries: [usize; 3], cloexec: bool) {
        self.publish(fd, entries);
        let bit = 1u64 << (fd % 64);
        // SAFETY: `publish` has seen that it is below the capacity, for which each array has room.
        let vacant = unsafe {
            *self.used.get_unchecked_mut(fd / 64) |= bit;
            if cloexec {
                *self.cloexec.get_unchecked_mut(fd / 64) |= bit;
            }
            self.slots.get_unchecked_mut(fd).replace(of)
        };
        debug_assert!(vacant.is_none(), "a free descriptor had a file");
        core::mem::forget(vacant);
    }

    /// Takes what is at `fd` out.
    #[inline]
    fn vacate(&mut self, fd: usize) -> Option<Arc<OpenFile>> {
        let of = self.slots.get_mut(fd)?.take()?;
        self.wipe(fd);
        Some(of)
    }

    /// Marks `fd`, whose slot is empty, free and takes the code out.
    #[inline(always)]
    fn wipe(&mut self, fd: usize) {
        let bad_fd = BAD_FD.load(Ordering::Relaxed);
        self.publish(fd, [bad_fd; 3]);
        let bit = 1u64 << (fd % 64);
        // SAFETY: `publish` has seen that it is below the capacity, for which each array has room.
        unsafe {
            *self.used.get_unchecked_mut(fd / 64) &= !bit;
            *self.cloexec.get_unchecked_mut(fd / 64) &= !bit;
        }
    }

    #[inline]
    fn get(&self, fd: i32) -> Result<&Arc<OpenFile>> {
        match self.slots.get(fd as u32 as usize) {
            Some(Some(of)) => Ok(of),
            _ => Err(Errno::EBADF),
        }
    }

    /// The descriptors in use, in order.
    fn in_use(&self) -> impl Iterator<Item = usize> {
        self.used.iter().enumerate().flat_map(|(word, &bits)| {
            let mut bits = bits;
            core::iter::from_fn(move || {
                if bits == 0 {
                    return None;
                }
                let bit = bits.trailing_zeros() as usize;
                bits &= bits - 1;
                Some(word * 64 + bit)
            })
        })
    }

    /// Makes room for descriptor `fd`.
    fn reserve(&mut self, files: &Files, fd: usize) -> Result<()> {
        if fd < self.capacity() {
            return Ok(());
        }
        if fd >= MAX_CAPACITY {
            return Err(Errno::EMFILE);
        }
        let capacity = (fd + 1).next_power_of_two().max(FIRST_CAPACITY);
        let mut larger = Table::new(capacity)?;
        let len = self.capacity();
        for array in 0..3 {
            for fd in 0..len {
                let entry = self.kpt[array * len + fd].load(Ordering::Relaxed);
                larger.kpt[array * capacity + fd].store(entry, Ordering::Relaxed);
            }
        }
        for (slot, old) in larger.slots.iter_mut().zip(&mut self.slots) {
            *slot = old.take();
        }
        larger.used[..self.used.len()].copy_from_slice(&self.used);
        larger.cloexec[..self.cloexec.len()].copy_from_slice(&self.cloexec);
        let old = core::mem::replace(self, larger);
        let moved = MOVED.load(Ordering::Acquire);
        if moved != 0 {
            // SAFETY: only `link_moved` stores here, and it stores a `Moved`.
            let moved = unsafe { core::mem::transmute::<usize, Moved>(moved) };
            moved(files, self.view());
        }
        epoch::retire(
            // SAFETY: the argument is the box made below, and the callback runs once.
            |raw| drop(unsafe { Box::from_raw(raw as *mut Box<[AtomicUsize]>) }),
            Box::into_raw(Box::new(old.kpt)) as usize,
        );
        Ok(())
    }
}

impl Files {
    /// An empty table for one thread, with room for `limit` descriptors (RLIMIT_NOFILE). `ENOMEM`.
    pub fn new(limit: usize) -> Result<Arc<Files>> {
        Ok(Arc::new(Files {
            table: Monitor::new(Table::new(FIRST_CAPACITY)?),
            limit: AtomicUsize::new(limit.min(MAX_CAPACITY)),
            users: AtomicU32::new(1),
            threaded: AtomicBool::new(false),
            all_shared: AtomicBool::new(false),
        }))
    }

    /// The open file behind `fd`. `EBADF`.
    #[inline]
    pub fn get(&self, fd: i32) -> Result<Arc<OpenFile>> {
        self.table.lock().get(fd).cloned()
    }

    /// As [`Files::get`], and whether [`Files::warm`] could plug better code.
    #[inline]
    pub fn get_cold(&self, fd: i32) -> Result<(Arc<OpenFile>, bool)> {
        let of = self.get(fd)?;
        let cold =
            of.shared.load(Ordering::Relaxed) && (!of.shared_known() || self.may_be_exclusive(&of));
        Ok((of, cold))
    }

    fn threaded(&self) -> bool {
        self.threaded.load(Ordering::Relaxed)
    }

    fn may_be_exclusive(&self, of: &OpenFile) -> bool {
        !self.threaded() && of.slots.load(Ordering::Acquire) == 1
    }

    /// A call took the plain path: plugs the routines that fit how `of` is shared now.
    #[cold]
    pub fn warm(&self, fd: i32, of: &Arc<OpenFile>) {
        let table = self.table.lock();
        if !table.get(fd).is_ok_and(|there| Arc::ptr_eq(there, of)) {
            return;
        }
        if self.may_be_exclusive(of) {
            of.shared.store(false, Ordering::Relaxed);
        }
        self.plug(&table, fd as usize, of);
    }

    /// Publishes the code of `of` at `fd`.
    fn plug(&self, table: &Table, fd: usize, of: &OpenFile) {
        let entries = if of.shared.load(Ordering::Relaxed) {
            of.entries(Sharing::Shared)
        } else {
            self.all_shared.store(false, Ordering::Relaxed);
            match of.ready_entries() {
                Some(entries) => entries,
                None => of.entries(Sharing::Exclusive),
            }
        };
        table.publish(fd, entries);
    }

    /// Takes exclusive code out at `fd`: the shared routines if they exist, else the slow stubs.
    fn plug_shared(table: &Table, fd: usize, of: &OpenFile) {
        of.shared.store(true, Ordering::Relaxed);
        let stubs = stubs();
        let entries = if of.shared_known() {
            of.entries(Sharing::Shared)
        } else {
            let or_bad = |allowed, slow| if allowed { slow } else { stubs.bad_fd };
            [
                or_bad(of.readable(), stubs.slow[0]),
                or_bad(of.writable(), stubs.slow[1]),
                stubs.slow[2],
            ]
        };
        table.publish(fd, entries);
    }

    #[inline]
    fn put(
        &self,
        table: &mut Table,
        fd: usize,
        of: Arc<OpenFile>,
        cloexec: bool,
    ) -> Option<Arc<OpenFile>> {
        of.slots.fetch_add(1, Ordering::AcqRel);
        if self.threaded() {
            of.shared.store(true, Ordering::Relaxed);
        }
        self.plug(table, fd, &of);
        table.set(fd, of, cloexec)
    }

    /// Gives `of` the lowest free descriptor. `EMFILE`, `ENOMEM`.
    #[inline]
    pub fn install(&self, of: Arc<OpenFile>, cloexec: bool) -> Result<i32> {
        self.install_from(0, of, cloexec)
    }

    /// As [`Files::install`], not below `from` (`F_DUPFD`). `EINVAL` when `from` is no possible descriptor.
    #[inline]
    pub fn install_from(&self, from: i32, of: Arc<OpenFile>, cloexec: bool) -> Result<i32> {
        let limit = self.limit.load(Ordering::Relaxed);
        let from = usize::try_from(from).map_err(|_| Errno::EINVAL)?;
        if from >= limit && from != 0 {
            return Err(Errno::EINVAL);
        }
        let mut table = self.table.lock();
        let fd = table.lowest(from);
        if fd >= limit {
            return Err(Errno::EMFILE);
        }
        if fd >= table.capacity() {
            table.reserve(self, fd)?;
        }
        self.put(&mut table, fd, of, cloexec);
        Ok(fd as i32)
    }

    /// Gives `of` the descriptor `fd`, closing what was there (`dup2`). `EBADF` when `fd` is no possible descriptor.
    pub fn install_at(&self, fd: i32, of: Arc<OpenFile>, cloexec: bool) -> Result<i32> {
        let index = usize::try_from(fd).map_err(|_| Errno::EBADF)?;
        if index >= self.limit.load(Ordering::Relaxed) {
            return Err(Errno::EBADF);
        }
        let mut table = self.table.lock();
        table.reserve(self, index)?;
        let old = self.put(&mut table, index, of, cloexec);
        drop(table);
        if let Some(old) = old {
            self.release(old);
        }
        Ok(fd)
    }

    /// As [`Files::install`], if that takes no more than a few words in the table; otherwise `of` back. Never sleeps.
    #[inline(always)]
    pub(crate) fn install_now(
        &self,
        of: Arc<OpenFile>,
        cloexec: bool,
    ) -> core::result::Result<i32, Arc<OpenFile>> {
        let Some(entries) = of.ready_entries() else {
            return Err(of);
        };
        let Some(mut table) = self.table.try_lock() else {
            return Err(of);
        };
        let fd = table.lowest(0);
        if fd >= table.capacity() || fd >= self.limit.load(Ordering::Relaxed) || self.threaded() {
            return Err(of);
        }
        of.slots.store(1, Ordering::Relaxed);
        self.all_shared.store(false, Ordering::Relaxed);
        table.occupy(fd, of, entries, cloexec);
        Ok(fd as i32)
    }

    /// Closes `fd` if its description can wait for another open and nothing else is to be done; `None`: close it the
    /// ordinary way. Never sleeps.
    #[inline(always)]
    pub(crate) fn close_now(&self, fd: i32) -> Option<()> {
        let mut table = self.table.try_lock()?;
        let of = table.get(fd).ok()?;
        if self.threaded() || lock::any() || Arc::strong_count(of) != 1 {
            return None;
        }
        let fd = fd as usize;
        let flags = of.flags();
        let Some(list) = of.list_for(flags) else {
            let parking = of.file().parking()?;
            let of = table.vacate(fd)?;
            drop(table);
            of.slots.store(0, Ordering::Relaxed);
            parking.park(of);
            return Some(());
        };
        if flags & abi::linux::O_ACCMODE != abi::linux::O_RDONLY && of.file().unsettled(of) {
            return None;
        }
        let list = core::ptr::from_ref(list);
        let of = table.slots.get_mut(fd)?.take()?;
        of.slots.store(0, Ordering::Relaxed);
        // SAFETY: the list is the inode's, which the description keeps until `put` has it, and then the name cache does: an inode
        // that it does not know keeps none. Entries of the cache are freed a grace period after they leave it, which is not before
        // interrupts are on again here.
        match unsafe { &*list }.put(flags & abi::linux::O_ACCMODE, of) {
            Ok(()) => {
                table.wipe(fd);
                Some(())
            }
            Err(of) => {
                // No room, or none may wait: as if nothing had been done.
                of.slots.store(1, Ordering::Relaxed);
                table.slots[fd] = Some(of);
                None
            }
        }
    }

    /// Takes `fd` out of the table; the rest of closing is [`Taken::release`]. `EBADF`.
    #[inline]
    pub(crate) fn take(&self, fd: i32) -> Result<Taken> {
        let of = self.table.lock().vacate(fd as u32 as usize);
        Ok(self.taken(of.ok_or(Errno::EBADF)?))
    }

    #[inline]
    fn taken(&self, of: Arc<OpenFile>) -> Taken {
        Taken {
            of,
            threaded: self.threaded(),
            owner: self.lock_owner(),
        }
    }

    /// Closes `fd`. `EBADF`.
    #[inline]
    pub fn close(&self, fd: i32) -> Result<()> {
        self.take(fd)?.release();
        Ok(())
    }

    fn release(&self, of: Arc<OpenFile>) {
        self.taken(of).release();
    }

    /// What advisory locks of this table are owned by.
    pub fn lock_owner(&self) -> usize {
        core::ptr::from_ref(self) as usize
    }

    /// Closes, or with `cloexec` only marks, the descriptors `first..=last`.
    pub fn close_range(&self, first: u32, last: u32, cloexec: bool) {
        let range = first as usize..=last as usize;
        let table = self.table.lock();
        let within: Vec<usize> = table.in_use().filter(|fd| range.contains(fd)).collect();
        drop(table);
        for fd in within {
            if cloexec {
                // Closed meanwhile by another thread: nothing to mark.
                let _ = self.set_cloexec(fd as i32, true);
            } else {
                let _ = self.close(fd as i32);
            }
        }
    }

    /// Whether `fd` is closed by `exec`. `EBADF`.
    pub fn cloexec(&self, fd: i32) -> Result<bool> {
        let table = self.table.lock();
        table.get(fd)?;
        let fd = fd as usize;
        Ok(table.cloexec[fd / 64] >> (fd % 64) & 1 != 0)
    }

    /// Sets whether `fd` is closed by `exec`. `EBADF`.
    pub fn set_cloexec(&self, fd: i32, on: bool) -> Result<()> {
        let mut table = self.table.lock();
        table.get(fd)?;
        let fd = fd as usize;
        let bit = 1u64 << (fd % 64);
        if on {
            table.cloexec[fd / 64] |= bit;
        } else {
            table.cloexec[fd / 64] &= !bit;
        }
        Ok(())
    }

    /// A copy for a child; from now on the open files are shared, and no exclusive code is left in either table. `ENOMEM`.
    pub fn fork_copy(&self) -> Result<Arc<Files>> {
        let old = self.table.lock();
        let last = old.in_use().last().unwrap_or(0);
        let capacity = (last + 1).next_power_of_two().max(FIRST_CAPACITY);
        let mut new = Table::new(capacity)?;
        for fd in old.in_use() {
            let Some(of) = &old.slots[fd] else { continue };
            of.slots.fetch_add(1, Ordering::AcqRel);
            Self::plug_shared(&old, fd, of);
            Self::plug_shared(&new, fd, of);
            let cloexec = old.cloexec[fd / 64] >> (fd % 64) & 1 != 0;
            new.set(fd, of.clone(), cloexec);
        }
        self.all_shared.store(true, Ordering::Relaxed);
        Ok(Arc::new(Files {
            table: Monitor::new(new),
            limit: AtomicUsize::new(self.limit.load(Ordering::Relaxed)),
            users: AtomicU32::new(1),
            threaded: AtomicBool::new(false),
            all_shared: AtomicBool::new(true),
        }))
    }

    /// `of`, which this table may hold, is about to be reached from elsewhere: no exclusive code of it is left running here.
    pub fn make_shared(&self, of: &Arc<OpenFile>) {
        let table = self.table.lock();
        of.shared.store(true, Ordering::Relaxed);
        for fd in table.in_use() {
            if table.get(fd as i32).is_ok_and(|o| Arc::ptr_eq(o, of)) {
                Self::plug_shared(&table, fd, of);
            }
        }
        drop(table);
        epoch::synchronize();
    }

    /// Another thread is about to use this table (`CLONE_FILES`); call before it can run.
    pub fn share(&self) {
        let table = self.table.lock();
        self.users.fetch_add(1, Ordering::Relaxed);
        self.threaded.store(true, Ordering::Relaxed);
        if self.all_shared.load(Ordering::Relaxed) {
            return;
        }
        self.all_shared.store(true, Ordering::Relaxed);
        for fd in table.in_use() {
            if let Some(of) = &table.slots[fd] {
                Self::plug_shared(&table, fd, of);
            }
        }
    }

    /// Does more than one thread use this table?
    pub fn is_shared(&self) -> bool {
        self.users.load(Ordering::Relaxed) > 1
    }

    /// A thread no longer uses this table; the last one closes every descriptor.
    pub fn leave(&self) {
        let before = {
            let _table = self.table.lock();
            let before = self.users.fetch_sub(1, Ordering::AcqRel);
            self.threaded.store(before > 2, Ordering::Relaxed);
            before
        };
        if before == 1 {
            self.close_all();
        }
    }

    /// Closes the descriptors marked close-on-exec.
    pub fn close_on_exec(&self) {
        let table = self.table.lock();
        let marked: Vec<usize> = table
            .in_use()
            .filter(|fd| table.cloexec[fd / 64] >> (fd % 64) & 1 != 0)
            .collect();
        drop(table);
        for fd in marked {
            // Closed meanwhile: as wanted.
            let _ = self.close(fd as i32);
        }
    }

    /// Closes every descriptor.
    pub fn close_all(&self) {
        self.close_range(0, u32::MAX, false);
    }

    /// Changes RLIMIT_NOFILE.
    pub fn set_limit(&self, limit: usize) {
        self.limit.store(limit.min(MAX_CAPACITY), Ordering::Relaxed);
    }

    /// Where the dispatcher finds the code.
    pub fn kpt(&self) -> KptView {
        self.table.lock().view()
    }

    /// Plugs the routines that fit `of` now, at every descriptor of this table that refers to it.
    fn replug_all(&self, of: &Arc<OpenFile>) {
        let table = self.table.lock();
        of.forget_entries();
        for fd in table.in_use() {
            if table.get(fd as i32).is_ok_and(|o| Arc::ptr_eq(o, of)) {
                self.plug(&table, fd, of);
            }
        }
    }

    /// Calls `f(descriptor, open file, close-on-exec)` for each descriptor at this instant.
    pub fn for_each(&self, mut f: impl FnMut(i32, &Arc<OpenFile>, bool)) {
        let snapshot: Vec<(usize, Arc<OpenFile>, bool)> = {
            let table = self.table.lock();
            table
                .in_use()
                .filter_map(|fd| {
                    let cloexec = table.cloexec[fd / 64] >> (fd % 64) & 1 != 0;
                    Some((fd, table.slots[fd].clone()?, cloexec))
                })
                .collect()
        };
        for (fd, of, cloexec) in &snapshot {
            f(*fd as i32, of, *cloexec);
        }
    }

    /// The entries that stand at `fd` now: read, write, lseek.
    pub fn plugged(&self, fd: i32) -> Option<[usize; 3]> {
        let table = self.table.lock();
        let (len, fd) = (table.capacity(), usize::try_from(fd).ok()?);
        (fd < len).then(|| {
            core::array::from_fn(|array| table.kpt[array * len + fd].load(Ordering::Relaxed))
        })
    }

    /// Descriptors that the table has room for now (`FDSize` in `/proc/PID/status`).
    pub fn capacity(&self) -> usize {
        self.table.lock().capacity()
    }
}

/// What the routines of `of` may assume has changed: plugs those that fit in every table. One that is copied from another at this moment may be
/// missed, and keeps the old ones until its descriptor is plugged again (docs/caveats.md).
pub fn replug_everywhere(of: &Arc<OpenFile>) {
    for process in crate::process::tree::all() {
        process.files.get().replug_all(of);
    }
}

/// A description that one descriptor no longer refers to.
pub(crate) struct Taken {
    of: Arc<OpenFile>,
    threaded: bool,
    /// Of the table's locks.
    owner: usize,
}

impl Taken {
    /// Does what the close of a descriptor brings: notes, locks, and with the last one the end of the description, or its wait in
    /// the inactive list.
    #[inline]
    pub fn release(self) {
        let of = self.of;
        of.slots.fetch_sub(1, Ordering::AcqRel);
        if of.writable() {
            of.file().settle(&of);
        }
        if lock::any() {
            lock::descriptor_closed(self.owner, &of);
        }
        if self.threaded {
            if Arc::strong_count(&of) == 1 {
                of.finish();
            }
            epoch::retire(
                // SAFETY: the argument is the count given up below, and the callback runs once.
                |raw| drop(unsafe { Arc::from_raw(raw as *const OpenFile) }),
                Arc::into_raw(of) as usize,
            );
        } else if Arc::strong_count(&of) != 1 {
            drop(of);
        } else if let Some(list) = of.list_for(of.flags()).map(core::ptr::from_ref) {
            // Our count of the inode, whose list it is, outlasts the one that `put` may give away.
            let _inode = of.inode().cloned();
            let mode = of.flags() & abi::linux::O_ACCMODE;
            // SAFETY: `_inode` keeps the list.
            drop(unsafe { &*list }.put(mode, of));
        } else if let Some(parking) = of.file().parking() {
            parking.park(of);
        }
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        self.threaded.store(false, Ordering::Relaxed);
        self.close_all();
    }
}

#[cfg(test)]
#[path = "files_tests.rs"]
mod tests;
