//! Which routines of a description may be plugged: their entries, and the assumptions they are made for.
//!
//! *Interface*: [`OpenFile::make_ready`] and its neighbours generate the routines if they are not there;
//! [`OpenFile::ready_entries`] are those to plug; [`OpenFile::forget_entries`] says that an assumption has
//! changed. The descriptor tables ([`crate::fdtable`]) call them.
//!
//! Source: dissertation, 3.1 (code from `open`), table 4.3 (Probe).

use super::routines::{Cells, Probes, Variant};
use super::{DescRoutine, DescRoutines, FILTERED, OpenFile, Sharing};
use crate::fs::inactive::Inactive;
use crate::stubs;
use abi::errno::{Errno, Result};
use abi::linux::{O_APPEND, O_PATH};
use core::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

/// The routines of a description: for one thread, and for many.
pub(super) struct Code {
    pub(super) cells: Cells,
    /// [`PROBED`], [`TELLS`], [`FILTERED`].
    pub(super) apart: AtomicU8,
    /// Entries of the exclusive and of the shared routines, access mode considered. They are not there while
    /// the first is 0.
    entries: [[AtomicUsize; 3]; 2],
}

impl Code {
    /// None yet.
    pub(super) const fn new() -> Code {
        Code {
            cells: Cells::new(),
            apart: AtomicU8::new(0),
            entries: [const { [const { AtomicUsize::new(0) }; 3] }; 2],
        }
    }
}

/// Its routines are measured.
const PROBED: u8 = 1;
/// Accesses through it are reported to watchers.
const TELLS: u8 = 2;

impl OpenFile {
    /// The entries to plug for `sharing`, in the order read, write, lseek; generates the routines if they are
    /// not there.
    pub(crate) fn entries(&self, sharing: Sharing) -> [usize; 3] {
        let cell = match sharing {
            Sharing::Exclusive => &self.code.cells.get().exclusive,
            Sharing::Shared => &self.code.cells.get().shared,
        };
        // Bound: making one routine at most (900 instructions); only openers of the same file.
        let mut cell = cell.lock();
        let routines = cell.get_or_make(self.variant(), || {
            if self.flags() & O_PATH != 0 {
                return DescRoutines::default();
            }
            // Without room for code, every call takes the plain path.
            let mut made = self.file.synthesize(self, sharing).unwrap_or_default();
            if self.tells() {
                (made.read, made.write) = (None, None);
            } else if self.is_filtered() {
                made = self.with_filters(made, sharing);
            }
            made.own();
            match self.probes() {
                Some(probes) => probes.around(made),
                None => made,
            }
        });
        let stubs = stubs::stubs();
        let entry = |allowed: bool, routine: &Option<DescRoutine>, slow: usize| match routine {
            _ if !allowed => stubs.bad_fd,
            Some(routine) => routine.entry(),
            None => slow,
        };
        let entries = [
            entry(self.readable(), &routines.read, stubs.slow[0]),
            entry(self.writable(), &routines.write, stubs.slow[1]),
            entry(self.flags() & O_PATH == 0, &routines.lseek, stubs.slow[2]),
        ];
        // The first last: it says that the others are there.
        for (word, entry) in self.words(sharing).iter().zip(entries).rev() {
            word.store(entry, Ordering::Release);
        }
        entries
    }

    #[inline]
    fn words(&self, sharing: Sharing) -> &[AtomicUsize; 3] {
        match sharing {
            Sharing::Exclusive => &self.code.entries[0],
            Sharing::Shared => &self.code.entries[1],
        }
    }

    /// The entries of the routines for `sharing` if they were generated before.
    #[inline]
    pub(crate) fn ready_entries(&self, sharing: Sharing) -> Option<[usize; 3]> {
        let [read, write, lseek] = self.words(sharing);
        let read = read.load(Ordering::Acquire);
        (read != 0).then(|| {
            [
                read,
                write.load(Ordering::Relaxed),
                lseek.load(Ordering::Relaxed),
            ]
        })
    }

    /// Whether any routines were generated.
    pub fn has_entries(&self) -> bool {
        [Sharing::Exclusive, Sharing::Shared]
            .iter()
            .any(|&sharing| self.ready_entries(sharing).is_some())
    }

    /// Whether it gets its routines only when a second call asks for them. Not where it will wait for another
    /// open: one that is kept is used again.
    fn code_comes_late(&self) -> bool {
        self.file.code_comes_late() && !self.list().is_some_and(Inactive::admitted)
    }

    /// It gets a descriptor, which one thread has: generates its routines, if they are not there, unless they
    /// come late.
    pub(crate) fn make_ready_early(&self) {
        if !self.code_comes_late() {
            self.make_ready();
        }
    }

    /// A call has taken the plain path for want of routines: whether they are to be generated now.
    pub(crate) fn asks_for_code(&self) -> bool {
        let (seen, noted) = (Ordering::Relaxed, Ordering::Relaxed);
        let waits = self.code_comes_late() && !self.asked.load(seen);
        if waits {
            self.asked.store(true, noted);
        }
        !waits
    }

    /// Generates the routines for how it is shared now, if they are not there.
    pub(crate) fn make_ready(&self) {
        let sharing = self.sharing();
        if self.ready_entries(sharing).is_none() {
            self.entries(sharing);
        }
    }

    /// The assumptions of the routines have changed: [`OpenFile::make_ready`] generates them again.
    pub fn forget_entries(&self) {
        let cell = self.code.cells.get();
        let cells = [
            (Sharing::Exclusive, &cell.exclusive),
            (Sharing::Shared, &cell.shared),
        ];
        for (sharing, cell) in cells {
            // A thread that is generating some either finishes before this, or checks the assumptions after
            // it.
            let _turn = cell.lock();
            self.words(sharing)[0].store(0, Ordering::Release);
        }
        self.operations.forget();
    }

    /// Whether no code was made for it.
    #[inline(always)]
    pub(crate) fn has_no_code(&self) -> bool {
        self.code.cells.there().is_none() && self.operations.is_empty() && self.look.is_plain()
    }

    /// The assumptions for routines that are made now.
    pub(super) fn variant(&self) -> Variant {
        Variant {
            append: self.flags() & O_APPEND != 0,
            probed: self.is_apart(PROBED),
            tells: self.tells(),
            filtered: self.is_filtered(),
            stage: self.file.stage(),
        }
    }

    pub(super) fn is_apart(&self, how: u8) -> bool {
        self.code.apart.load(Ordering::SeqCst) & how != 0
    }

    pub(super) fn set_apart(&self, how: u8, on: bool) {
        if on {
            self.code.apart.fetch_or(how, Ordering::SeqCst);
        } else {
            self.code.apart.fetch_and(!how, Ordering::SeqCst);
        }
    }

    /// Whether accesses through it must be reported to watchers ([`crate::fs::fsnotify`]): then no generated
    /// code reads or writes.
    #[inline]
    pub fn tells(&self) -> bool {
        self.is_apart(TELLS)
    }

    /// Whether accesses through it are reported, or their bytes pass filters.
    #[inline]
    pub fn stands_apart(&self) -> bool {
        self.is_apart(TELLS | FILTERED)
    }

    /// Says whether it tells. Takes effect when the tables are plugged again.
    pub(crate) fn set_tells(&self, on: bool) {
        self.set_apart(TELLS, on);
    }

    /// Puts probes around the routines, or removes them; their measurements stay. Takes effect when the
    /// tables are plugged again ([`crate::fdtable::replug_everywhere`]). ENOMEM.
    pub fn set_probed(&self, on: bool) -> Result<()> {
        if on && self.code.cells.get().probes.get().is_none() {
            let several = crate::routine_env::get()?.several_cpus();
            let probes = Probes::new(several).map_err(|_| Errno::ENOMEM)?;
            // A faster thread has made the same.
            let _same = self.code.cells.get().probes.set(probes);
        }
        self.set_apart(PROBED, on);
        Ok(())
    }

    /// The probes around the routines, if there are any now.
    pub fn probes(&self) -> Option<&Probes> {
        let on = self.is_apart(PROBED);
        let cell = self.code.cells.there().filter(|_| on)?;
        cell.probes.get()
    }
}
