//! The descriptor table and its kernel procedure table.
//!
//! *Interface.* [`FdTable`] maps descriptors to open files. Beside it stands the [`Kpt`](KptView), three
//! arrays of code addresses, `read`, `write` and `lseek`, that the dispatchers of the threads using the table
//! index by descriptor. The methods of `FdTable` are for the threads that use the table; all others are
//! visitors ([`FdTable::visit`]).
//!
//! *Quasi-invariant* (docs/architecture.md): while only one thread can reach a description, its exclusive
//! routines are plugged. [`FdTable::fork_copy`] and [`FdTable::share`] are the guards: they remove the
//! exclusive code, leaving the shared routines, or the slow stub until the first call on the plain path
//! generates them ([`FdTable::warm`]). The same call puts exclusive code back when the description has one
//! descriptor left.
//!
//! *How it changes* (docs/locks.md has the argument). A descriptor's slot, one word, is primary; opening,
//! `dup2` and closing are one exchange of it. Its code and its bit in the map of free descriptors are derived
//! from it (`sync::CachedWord`): a thread that changed the slot, or the state that the code depends on,
//! computes them again, and is done when they come from its change or a later one. A thread that is alone
//! (`users`) does the same by plain stores. All of this is done with interrupts off, a few words at a time; a
//! file that is removed from a table with several users is dropped a grace period later.
//!
//! Progress: a call on a descriptor takes nothing here, it loads one word. `get` is wait-free, changes are
//! lock-free. One thread at a time makes a table larger, at most fourteen times in its life; only others that
//! also need more room wait for it. A large table is charged to its user.
//! Source: dissertation, 4.2 (kernel procedure tables), 3.1 (code from `open`).
//!
//! *Unsafe*: counted pointers in slots; arrays that live until a grace period.

mod emit;
mod expand;
mod filters;
mod kpt;
mod poll_scan;
pub mod scm_rights;
mod slots;
mod sole_user;
pub mod tables;
mod users;
mod visit;

use abi::errno::{Errno, Result};
use abi::linux::O_PATH;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::mem::ManuallyDrop;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering, fence};
use machine::cpu::{irq_restore, irq_save};
use sync::{CachedWord, Monitor, epoch};

use crate::fs::file::{OpenFile, Sharing};
pub use emit::{
    emit_callentry, emit_look, emit_operation, emit_ready, emit_resolved, emit_routine, emit_row,
};
use expand::TableCharge;
pub use expand::{OnTableMoved, link_moved};
use kpt::{Kpt, code_of};
pub use kpt::{KptView, SLOTS};
pub use poll_scan::{HeldEvents, PollQuery, PollRow, PollScan, ROW};
pub(crate) use scm_rights::RemovedFile;
use slots::{CHUNK, CLOEXEC, FdSlot, Slots};
use users::TableUsers;
pub use visit::{TableVisit, each_description, make_shared, replug_everywhere};

/// Descriptors of a new table.
const FIRST_CAPACITY: usize = CHUNK;
/// No table grows beyond this (`/proc/sys/fs/nr_open`), and no limit does.
pub const MAX_CAPACITY: usize = 1 << 20;

/// A descriptor table.
pub struct FdTable {
    users: TableUsers,
    limit: AtomicUsize,
    /// A process with a limit for the length of files uses it: no routine writes to a file that could grow
    /// beyond the limit. Such a table never counts as alone.
    bounded: AtomicBool,
    kpt: AtomicPtr<Kpt>,
    slots: Slots,
    /// How often routines had been plugged again everywhere when this table was made.
    plugged: usize,
    /// Taken by a thread that makes the table larger; its user is charged.
    growth: Monitor<TableCharge>,
}

/// Accesses a few words with interrupts off: no object that was seen in a table with several users is freed
/// meanwhile, and a thread that was alone stays alone.
#[inline(always)]
fn briefly<R>(step: impl FnOnce() -> R) -> R {
    // Bound: a count taken from a slot; or an exchange of one, and its three words of code, computed at most
    // twice (and for the old arrays too while a table grows).
    let state = irq_save();
    let result = step();
    irq_restore(state);
    result
}

/// The slot's word for `of`, whose count it takes.
#[inline(always)]
fn word_of(of: Arc<OpenFile>, cloexec: bool) -> usize {
    Arc::into_raw(of) as usize | if cloexec { CLOEXEC } else { 0 }
}

/// The file that a slot held, with its count.
///
/// # Safety
/// `word` is not 0 and was exchanged out of a slot, or [`word_of`] made it, and it is given back once.
#[inline(always)]
unsafe fn file_of(word: usize) -> Arc<OpenFile> {
    // SAFETY: by contract the count is the caller's.
    unsafe { Arc::from_raw((word & !CLOEXEC) as *const OpenFile) }
}

impl FdTable {
    /// An empty table for one thread, with room for `limit` descriptors (RLIMIT_NOFILE). `ENOMEM`.
    pub fn new(limit: usize) -> Result<Arc<FdTable>> {
        Self::with(FIRST_CAPACITY, limit.min(MAX_CAPACITY))
    }

    fn with(capacity: usize, limit: usize) -> Result<Arc<FdTable>> {
        let mut paid = TableCharge::default();
        paid.raise(capacity)?;
        let kpt = Kpt::new(capacity)?;
        let files = vm::fallible::placed(|| FdTable {
            users: TableUsers::new(),
            limit: AtomicUsize::new(limit),
            bounded: AtomicBool::new(false),
            kpt: AtomicPtr::new(Box::into_raw(kpt)),
            slots: Slots::new(),
            plugged: visit::plugged(),
            growth: Monitor::new(paid),
        });
        files.slots.reserve(capacity)?;
        Ok(files)
    }

    /// The arrays, which stay while interrupts are off.
    #[inline(always)]
    fn arrays(&self) -> &Kpt {
        // SAFETY: there are always some; those that are replaced are freed a grace period later.
        unsafe { &*self.kpt.load(Ordering::Acquire) }
    }

    /// Makes a change of the slot of `fd`, or none, and brings what follows from it up to date: the code, and
    /// the bit in the map. Also whether the thread was alone meanwhile.
    #[inline]
    fn change<R>(
        &self,
        fd: usize,
        place: &FdSlot,
        step: impl FnOnce(&AtomicUsize) -> R,
    ) -> (R, bool) {
        let (result, alone) = briefly(|| (step(place.slot), self.plug(fd, place)));
        if !alone && place.note() {
            self.slots.freed(fd);
        }
        (result, alone)
    }

    /// Plugs the code for the file in the slot of `fd` and its sharing; also sets the bit in the map if the
    /// thread is alone, which is returned. Interrupts are off.
    #[inline]
    fn plug(&self, fd: usize, place: &FdSlot) -> bool {
        let alone = self.users.is_sole();
        if alone {
            // SAFETY: interrupts are off.
            let file = unsafe { place.file() };
            place.set(file.is_some());
            if file.is_none() {
                self.slots.freed_alone(fd);
            } else {
                self.slots.note_fresh(fd);
            }
            let arrays = self.arrays();
            // Growing may have ended halfway, for want of memory: more slots than code.
            if fd < arrays.len() {
                arrays.set(fd, code_of(file, false));
            }
        } else {
            self.plug_beside_others(fd, place);
        }
        alone
    }

    /// The code, where others may be doing the same.
    #[cold]
    fn plug_beside_others(&self, fd: usize, place: &FdSlot) {
        if !self.threaded() {
            self.slots.note_fresh_beside(fd);
        }
        // Before this the change, and behind it the look at which arrays there are.
        fence(Ordering::SeqCst);
        let mut arrays = Some(self.arrays());
        let bounded = self.bounded.load(Ordering::SeqCst);
        while let Some(kpt) = arrays {
            if fd < kpt.len() {
                CachedWord::refresh(kpt.words(fd), || {
                    // SAFETY: interrupts are off.
                    code_of(unsafe { place.file() }, bounded).map(|entry| entry as u32)
                });
            }
            // SAFETY: freed a grace period after it was taken from there.
            arrays = unsafe { kpt.before.load(Ordering::Acquire).as_ref() };
        }
    }

    /// Something has changed that the code at `fd` follows from.
    fn follow(&self, fd: usize) {
        if let Some(place) = self.slots.place(fd) {
            self.change(fd, &place, |_| ());
        }
    }

    /// The open file behind `fd`. `EBADF`.
    #[inline]
    pub fn get(&self, fd: i32) -> Result<Arc<OpenFile>> {
        Ok(self.look(fd as u32 as usize)?.0)
    }

    /// The open file behind `fd`, if it is more than a place, without counting.
    ///
    /// # Safety
    /// Interrupts are off for as long as the reference is used, and the caller is one of the table's threads.
    #[inline(always)]
    pub unsafe fn at_hand(&self, fd: i32) -> Option<&OpenFile> {
        let place = self.slots.place(fd as u32 as usize)?;
        let word = place.slot.load(Ordering::Acquire) & !CLOEXEC;
        // SAFETY: a slot that is not 0 holds a count, made a pointer, which is not given up while interrupts
        // are off (`FdSlot::file`).
        let of = unsafe { (word as *const OpenFile).as_ref() };
        of.filter(|of| of.flags() & O_PATH == 0)
    }

    /// A count of `of`, which was [at hand](FdTable::at_hand) behind `fd`, if it is still there.
    ///
    /// # Safety
    /// As there, and interrupts have been off since.
    #[inline(always)]
    pub unsafe fn keep(&self, fd: i32, of: &OpenFile) -> Option<Arc<OpenFile>> {
        let place = self.slots.place(fd as u32 as usize)?;
        let of = core::ptr::from_ref(of);
        // SAFETY: the slot's count, which made the pointer, is not given up while interrupts are off.
        let counted = unsafe {
            Arc::increment_strong_count(of);
            Arc::from_raw(of)
        };
        // As in `look`.
        fence(Ordering::SeqCst);
        if place.holds(&counted) {
            return Some(counted);
        }
        // With interrupts on, as it may be the last.
        machine::cpu::irq_enable();
        drop(counted);
        // Bound: a few words of a slot, whose count is taken on the way into a sleep.
        machine::cpu::irq_disable();
        None
    }

    /// As [`FdTable::get`], but refuses `O_PATH` descriptions. `EBADF`.
    #[inline]
    pub fn opened(&self, fd: i32) -> Result<Arc<OpenFile>> {
        let of = self.get(fd)?;
        match of.flags() & O_PATH {
            0 => Ok(of),
            _ => Err(Errno::EBADF),
        }
    }

    /// As [`FdTable::opened`], but refuses descriptions whose bytes pass filters too: EOPNOTSUPP.
    #[inline]
    pub fn opened_plainly(&self, fd: i32) -> Result<Arc<OpenFile>> {
        let of = self.get(fd)?;
        if of.is_plain() {
            Ok(of)
        } else if of.flags() & O_PATH != 0 {
            Err(Errno::EBADF)
        } else {
            Err(Errno::EOPNOTSUPP)
        }
    }

    /// The open file behind `fd`, and whether `exec` closes it. `EBADF`.
    #[inline]
    fn look(&self, fd: usize) -> Result<(Arc<OpenFile>, bool)> {
        let place = self.slots.place(fd).ok_or(Errno::EBADF)?;
        briefly(|| {
            loop {
                let word = place.slot.load(Ordering::SeqCst);
                if word == 0 {
                    return Err(Errno::EBADF);
                }
                // SAFETY: the slot's count is not given up while interrupts are off, so this is another
                // beside it, which the clone keeps.
                let of = ManuallyDrop::new(unsafe { file_of(word) });
                let counted = Arc::clone(&of);
                if self.users.is_sole() {
                    // Nobody takes it out.
                    return Ok((counted, word & CLOEXEC != 0));
                }
                // A thread that takes a file out of a slot checks afterwards whether another has counted it,
                // so a thread that counts it checks afterwards whether it is still there.
                fence(Ordering::SeqCst);
                if (place.slot.load(Ordering::SeqCst) ^ word) & !CLOEXEC == 0 {
                    return Ok((counted, word & CLOEXEC != 0));
                }
            }
        })
    }

    /// As [`FdTable::get`], and whether [`FdTable::warm`] could plug better code.
    #[inline]
    pub fn get_cold(&self, fd: i32) -> Result<(Arc<OpenFile>, bool)> {
        let of = self.get(fd)?;
        let cold = match of.ready_entries(of.sharing()) {
            None => of.asks_for_code(),
            Some(_) => self.may_be_exclusive(fd, &of) || !self.leads_to(fd, &of),
        };
        Ok((of, cold))
    }

    /// Whether the code at `fd` is that of its description. It is not when the routines were generated for
    /// another of its numbers, or in another table.
    fn leads_to(&self, fd: i32, of: &OpenFile) -> bool {
        let fd = fd as u32 as usize;
        let code = code_of(Some(of), self.bounded.load(Ordering::Relaxed));
        briefly(|| {
            let arrays = self.arrays();
            fd < arrays.len()
                && arrays.words(fd).map(CachedWord::get) == code.map(|entry| entry as u32)
        })
    }

    /// More than one thread may use the table.
    #[inline]
    fn threaded(&self) -> bool {
        self.users.users() > 1
    }

    /// Whether `of` has shared code without need: the caller, the only thread of this table, has one count of
    /// it and `fd` the other. So no plain call of another thread is in progress.
    fn may_be_exclusive(&self, fd: i32, of: &Arc<OpenFile>) -> bool {
        of.sharing() == Sharing::Shared
            && !self.threaded()
            && of.slots.load(Ordering::Acquire) == 1
            && Arc::strong_count(of) == 2
            // Behind the look at the threads: from there on only the caller changes this table.
            && (self.slots.place(fd as u32 as usize)).is_some_and(|place| place.holds(of))
    }

    /// A call took the plain path: plugs the routines that fit how `of` is shared now.
    #[cold]
    pub fn warm(&self, fd: i32, of: &Arc<OpenFile>) {
        if self.may_be_exclusive(fd, of) {
            of.unshare();
        }
        of.make_ready();
        self.follow(fd as u32 as usize);
    }

    /// The assumptions for the routines of `of`, behind `fd`, have changed
    /// ([`crate::fs::file::File::stage`]): plugs the routines that fit now at its numbers in this table.
    /// Other tables keep the old ones.
    pub fn plug_again(&self, fd: i32, of: &Arc<OpenFile>) {
        of.forget_entries();
        self.warm(fd, of);
        if of.slots.load(Ordering::Acquire) > 1 {
            self.follow_all(of);
        }
    }

    /// The open file behind `fd`, which is about to be reached from elsewhere: no exclusive code of it is
    /// left. `EBADF`.
    pub fn pass(&self, fd: i32) -> Result<Arc<OpenFile>> {
        let of = self.get(fd)?;
        // Until now the calling thread alone could reach it, by this table.
        if of.share() {
            if of.slots.load(Ordering::Acquire) > 1 {
                self.follow_all(&of);
            } else {
                self.follow(fd as u32 as usize);
            }
        }
        Ok(of)
    }

    /// Updates the derived words wherever `of` is in this table.
    fn follow_all(&self, of: &OpenFile) {
        for fd in self.slots.holding(of) {
            self.follow(fd);
        }
    }

    /// `of` is about to have another descriptor, in this table.
    #[inline]
    fn prepare(&self, of: &OpenFile) {
        of.slots.fetch_add(1, Ordering::AcqRel);
        if self.threaded() {
            of.share();
        } else {
            of.make_ready_early();
        }
    }

    /// The descriptors in use that are less than `most`, in order. One that is opened or closed meanwhile may
    /// be among them or not.
    pub fn in_use_below(&self, most: usize) -> impl Iterator<Item = i32> {
        self.slots.in_use_between(0, most).map(|fd| fd as i32)
    }

    /// Whether one more description would find a number: asked before a file is made or emptied for it.
    /// `EMFILE`.
    pub fn has_place(&self) -> Result<()> {
        match self.slots.lowest(0) < self.limit.load(Ordering::Relaxed) {
            true => Ok(()),
            false => Err(Errno::EMFILE),
        }
    }

    /// Gives `of`, a new description, the lowest free descriptor. `EMFILE`, `ENFILE`, `ENOMEM`.
    #[inline]
    pub fn install(&self, of: Arc<OpenFile>, cloexec: bool) -> Result<i32> {
        account::quota::admit_description()?;
        self.install_from(0, of, cloexec)
    }

    /// As [`FdTable::install`], not below `from` (`F_DUPFD`). `EINVAL` when `from` is no possible descriptor.
    #[inline]
    pub fn install_from(&self, from: i32, of: Arc<OpenFile>, cloexec: bool) -> Result<i32> {
        let limit = self.limit.load(Ordering::Relaxed);
        let from = usize::try_from(from).map_err(|_| Errno::EINVAL)?;
        if from >= limit && from != 0 {
            return Err(Errno::EINVAL);
        }
        self.prepare(&of);
        self.enter(from, of, cloexec)
    }

    /// As [`FdTable::install`]; the first call that takes the plain path has the code made, if there is ever
    /// one.
    pub fn install_cold(&self, of: Arc<OpenFile>, cloexec: bool) -> Result<i32> {
        account::quota::admit_description()?;
        of.slots.fetch_add(1, Ordering::AcqRel);
        if self.threaded() {
            of.share();
        }
        self.enter(0, of, cloexec)
    }

    /// Puts `of`, which is prepared, at the lowest free descriptor from `from` on.
    #[inline]
    fn enter(&self, from: usize, of: Arc<OpenFile>, cloexec: bool) -> Result<i32> {
        let limit = self.limit.load(Ordering::Relaxed);
        let word = word_of(of, cloexec);
        let claimed = self.claim(from, limit, word);
        if claimed.is_err() {
            // SAFETY: no slot has taken it.
            let of = unsafe { file_of(word) };
            of.slots.fetch_sub(1, Ordering::AcqRel);
        }
        claimed
    }

    /// Puts `word` into the lowest free slot.
    #[inline]
    fn claim(&self, from: usize, limit: usize, word: usize) -> Result<i32> {
        loop {
            let fd = self.slots.lowest(from);
            if fd >= limit {
                return Err(Errno::EMFILE);
            }
            self.reserve(fd)?;
            let Some(place) = self.slots.place(fd) else {
                continue;
            };
            // The derived words are also updated for another thread's claim, which has yet to note it in the
            // map.
            let (claimed, _) = self.change(fd, &place, |slot| {
                slot.compare_exchange(0, word, Ordering::AcqRel, Ordering::Relaxed)
            });
            if claimed.is_ok() {
                return Ok(fd as i32);
            }
        }
    }

    /// Gives `of` the descriptor `fd`, closing the former file (`dup2`). `EBADF` when `fd` is no possible
    /// descriptor.
    pub fn install_at(&self, fd: i32, of: Arc<OpenFile>, cloexec: bool) -> Result<i32> {
        let index = usize::try_from(fd).map_err(|_| Errno::EBADF)?;
        if index >= self.limit.load(Ordering::Relaxed) {
            return Err(Errno::EBADF);
        }
        self.reserve(index)?;
        self.prepare(&of);
        let old = self.exchange(index, word_of(of, cloexec));
        if let Some(old) = old {
            old.release();
        }
        Ok(fd)
    }

    /// Puts `word` at `fd`, for which there is room, and returns the former word.
    #[inline]
    fn exchange(&self, fd: usize, word: usize) -> Option<RemovedFile> {
        let place = self.slots.place(fd)?;
        let (old, alone) = self.change(fd, &place, |slot| slot.swap(word, Ordering::AcqRel));
        (old != 0).then(|| RemovedFile {
            // SAFETY: it was exchanged just now.
            of: unsafe { file_of(old) },
            alone,
            owner: self.lock_owner(),
        })
    }

    /// Takes `fd` out of the table; the rest of closing is [`RemovedFile::release`]. `EBADF`.
    #[inline]
    pub fn take(&self, fd: i32) -> Result<RemovedFile> {
        let fd = fd as u32 as usize;
        let taken = match self.empty_if_sole_user(fd) {
            Some(0) => None,
            Some(word) => Some(RemovedFile {
                // SAFETY: it was in the slot just now.
                of: unsafe { file_of(word) },
                alone: true,
                owner: self.lock_owner(),
            }),
            None => self.exchange(fd, 0),
        };
        taken.ok_or(Errno::EBADF)
    }

    /// Closes `fd`. `EBADF`.
    #[inline]
    pub fn close(&self, fd: i32) -> Result<()> {
        self.take(fd)?.release();
        Ok(())
    }

    /// The owner of this table's advisory locks.
    pub fn lock_owner(&self) -> usize {
        core::ptr::from_ref(self) as usize
    }

    /// Closes, or with `cloexec` only marks, the descriptors `first..=last`.
    pub fn close_range(&self, first: u32, last: u32, cloexec: bool) {
        let last = last as usize;
        let in_use = self.slots.in_use_from(first as usize);
        for fd in in_use.take_while(|&fd| fd <= last) {
            // Closed meanwhile by another thread: nothing to do or mark.
            let _ = if cloexec {
                self.set_cloexec(fd as i32, true)
            } else {
                self.close(fd as i32)
            };
        }
    }

    /// Whether `fd` is closed by `exec`. `EBADF`.
    pub fn cloexec(&self, fd: i32) -> Result<bool> {
        let place = self.slots.place(fd as u32 as usize).ok_or(Errno::EBADF)?;
        match place.slot.load(Ordering::Acquire) {
            0 => Err(Errno::EBADF),
            word => Ok(word & CLOEXEC != 0),
        }
    }

    /// Sets whether `fd` is closed by `exec`. `EBADF`.
    pub fn set_cloexec(&self, fd: i32, on: bool) -> Result<()> {
        let place = self.slots.place(fd as u32 as usize).ok_or(Errno::EBADF)?;
        let flag = |word| match word {
            0 => None,
            _ if on => Some(word | CLOEXEC),
            _ => Some(word & !CLOEXEC),
        };
        let (set, fetch) = (Ordering::AcqRel, Ordering::Acquire);
        match place.slot.fetch_update(set, fetch, flag) {
            Ok(_) => Ok(()),
            Err(_) => Err(Errno::EBADF),
        }
    }

    /// A copy for a child; from now on the open files are shared, and no exclusive code is left in either
    /// table. `ENOMEM`.
    pub fn fork_copy(&self) -> Result<Arc<FdTable>> {
        let capacity = match self.capacity() {
            ..=FIRST_CAPACITY => FIRST_CAPACITY,
            _ => {
                let last = self.slots.in_use().last().unwrap_or(0);
                (last + 1).next_power_of_two().max(FIRST_CAPACITY)
            }
        };
        let new = Self::with(capacity, self.limit.load(Ordering::Relaxed))?;
        let bounded = self.bounded.load(Ordering::SeqCst);
        if bounded {
            new.never_alone();
            new.bounded.store(true, Ordering::SeqCst);
        }
        let mut elsewhere = false;
        for fd in self.slots.in_use() {
            // Descriptors that another thread opens meanwhile may be beyond the copy.
            let Some(place) = new.slots.place(fd) else {
                break;
            };
            let Ok((of, cloexec)) = self.look(fd) else {
                continue;
            };
            let others = of.slots.fetch_add(1, Ordering::AcqRel) > 1;
            // A thread that marked a file before has updated its code here, or is about to, if it is marked
            // for ever.
            let marked = of.share();
            if marked || of.is_shared_for_ever() {
                self.follow(fd);
            }
            elsewhere |= marked && others;
            let word = word_of(of, cloexec);
            if bounded {
                new.change(fd, &place, |slot| slot.store(word, Ordering::Release));
            } else {
                new.put_in_new(fd, &place, word);
            }
        }
        if elsewhere {
            // One of the marked files has another number, too.
            self.slots.in_use().for_each(|fd| self.follow(fd));
        }
        Ok(new)
    }

    /// Another thread is about to use this table (`CLONE_FILES`); call before it can run, in one that uses
    /// it.
    #[inline]
    pub fn share(&self) {
        if self.users.join() > 1 {
            // Files of several threads are shared from the start.
            return;
        }
        // If there were several threads since, their files were shared from the start, and so were the
        // earlier ones.
        let rows = self.slots.take_fresh();
        if rows != 0 {
            self.share_rows(rows);
        }
    }

    /// Marks the files in these rows as shared.
    fn share_rows(&self, rows: u64) {
        let mut elsewhere = false;
        for fd in self.slots.in_use_in(rows) {
            let Some(place) = self.slots.place(fd) else {
                continue;
            };
            // A thread that marked a file before has updated its code everywhere.
            // SAFETY: interrupts are off.
            let file = || unsafe { place.file() }.filter(|of| of.share());
            if let Some(slots) = briefly(|| file().map(|of| of.slots.load(Ordering::Acquire))) {
                self.follow(fd);
                elsewhere |= slots > 1;
            }
        }
        if elsewhere {
            // One of the marked files has another number, too.
            self.slots.in_use().for_each(|fd| self.follow(fd));
        }
    }

    /// Does more than one thread use this table?
    pub fn is_shared(&self) -> bool {
        self.threaded()
    }

    /// A thread no longer uses this table, which it has used or which it made for another that never ran; the
    /// last one closes every descriptor.
    pub fn leave(&self) {
        if !self.threaded() {
            // No thread can join: only threads of the table let others join.
            self.close_all();
            self.users.leave();
        } else if self.users.leave() == 1 {
            self.close_all();
        }
    }

    /// Further `users` threads use this table, where none is ever alone ([`FdTable::never_alone`]) and
    /// everything is shared. Does not sleep.
    pub fn admit(&self, users: usize) {
        for _ in 0..users {
            self.users.join();
        }
    }

    /// The users of this table are no longer known: none of its threads ever counts as alone.
    pub fn never_alone(&self) {
        let _no_look = self.users.enter();
    }

    /// A process that uses this table has a limit for the length of files from now on, which writes check.
    /// From any thread; may sleep for a grace period.
    pub fn bound_files(&self) {
        if self.bounded.load(Ordering::SeqCst) {
            return;
        }
        self.never_alone();
        // The exclusive work of its thread is over then.
        // Bound: a grace period, asleep, when a process first gets a bound for the length of files.
        epoch::synchronize();
        self.bounded.store(true, Ordering::SeqCst);
        self.slots.in_use().for_each(|fd| self.follow(fd));
    }

    /// Closes the descriptors marked close-on-exec.
    pub fn close_on_exec(&self) {
        for fd in self.slots.in_use() {
            if self.cloexec(fd as i32) == Ok(true) {
                // Closed meanwhile: as wanted.
                let _ = self.close(fd as i32);
            }
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

    /// The dispatcher's view of the code.
    pub fn kpt(&self) -> KptView {
        briefly(|| self.arrays().view(self.slots.first()))
    }

    /// The current entries at `fd`: read, write, lseek.
    pub fn plugged(&self, fd: i32) -> Option<[usize; 3]> {
        let fd = fd as u32 as usize;
        briefly(|| {
            let arrays = self.arrays();
            (fd < arrays.len()).then(|| arrays.words(fd).map(|word| word.get() as i32 as usize))
        })
    }

    /// The size of the table, bytes.
    pub fn weight(&self) -> usize {
        expand::EACH * self.capacity()
    }

    /// Descriptors that the table has room for now (`FDSize` in `/proc/PID/status`).
    pub fn capacity(&self) -> usize {
        briefly(|| self.arrays().len())
    }
}

impl Drop for FdTable {
    fn drop(&mut self) {
        self.users.reset();
        self.close_all();
        // SAFETY: `with` and `grow` made it of a box, and no other party has the table.
        unsafe { Box::from_raw(*self.kpt.get_mut()) }.give_back();
    }
}

#[cfg(test)]
#[path = "fdtable_tests.rs"]
mod tests;
