//! The scan of `poll` and `select`: checks many files of a table in turn.
//!
//! *Interface*: [`FdTable::ask`] gives an [`PollScan`] for the running call; [`PollScan::row`] covers 64
//! neighbouring descriptors, [`PollRow::look`] returns the events of one, [`PollRow::look_unless_always`]
//! does not ask files that are always ready.
//!
//! While the caller is the only user of the table, no file leaves it during the call: checking one needs no
//! count. (A second thread comes only through the first, and visitors remove nothing: `users`.) With
//! several users each file is counted for the check, a `CROWD`.
//!
//! *Unsafe*: files in slots that only the running thread could empty.

use core::marker::PhantomData;
use core::sync::atomic::{AtomicUsize, Ordering};

use super::FdTable;
use super::slots::{CHUNK, CLOEXEC};
use crate::fs::file::OpenFile;

/// Looks for one call of a thread of the table.
#[derive(Clone, Copy)]
pub struct PollScan<'a, const CROWD: bool> {
    files: &'a FdTable,
    /// It stays with its thread.
    _here: PhantomData<*const ()>,
}

/// The events of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldEvents {
    /// It can always be read and written, and nothing else holds.
    Always,
    /// These hold now.
    Now(u32),
}

/// Neighbouring descriptors.
#[derive(Clone, Copy)]
pub struct PollRow<'a, const CROWD: bool> {
    asker: PollScan<'a, CROWD>,
    slots: &'a [AtomicUsize; CHUNK],
}

/// There is room for none.
static NOTHING: [AtomicUsize; CHUNK] = [const { AtomicUsize::new(0) }; CHUNK];

/// Descriptors of a row.
pub const ROW: usize = CHUNK;

/// Something that looks at many files.
pub trait PollQuery {
    /// Its findings.
    type Answer;
    /// Looks at them.
    fn ask<const CROWD: bool>(self, asker: PollScan<'_, CROWD>) -> Self::Answer;
}

impl FdTable {
    /// Asks for the call that the running thread, one of the table's, is making.
    #[inline(always)]
    pub fn ask<Q: PollQuery>(&self, question: Q) -> Q::Answer {
        if self.threaded() {
            question.ask(PollScan::<true>::new(self))
        } else {
            question.ask(PollScan::<false>::new(self))
        }
    }
}

impl<'a, const CROWD: bool> PollScan<'a, CROWD> {
    fn new(files: &'a FdTable) -> Self {
        PollScan {
            files,
            _here: PhantomData,
        }
    }

    /// The descriptors from `number * ROW` on.
    #[inline(always)]
    pub fn row(self, number: usize) -> PollRow<'a, CROWD> {
        PollRow {
            asker: self,
            slots: self.files.slots.row(number).unwrap_or(&NOTHING),
        }
    }
}

impl<const CROWD: bool> PollRow<'_, CROWD> {
    /// All events that hold for the file behind `fd`, one of the row, wanted or not; `None` when there is no
    /// file.
    #[inline(always)]
    pub fn look(&self, fd: usize) -> Option<u32> {
        if CROWD {
            return Some(self.asker.files.get(fd as i32).ok()?.ready_events());
        }
        Some(self.file(fd)?.ready_events())
    }

    /// As [`PollRow::look`], but a file that is always ready is not asked.
    #[inline(always)]
    pub fn look_unless_always(&self, fd: usize) -> Option<HeldEvents> {
        if CROWD {
            return self.look(fd).map(HeldEvents::Now);
        }
        let file = self.file(fd)?;
        Some(match file.is_always_ready() {
            true => HeldEvents::Always,
            false => HeldEvents::Now(file.ready_events()),
        })
    }

    /// The same without sleeping; `None` also for a file that would have to be asked, or may go meanwhile.
    #[inline(always)]
    pub fn ready_events_now(&self, fd: usize) -> Option<HeldEvents> {
        if CROWD {
            return None;
        }
        let file = self.file(fd)?;
        match file.is_always_ready() {
            true => Some(HeldEvents::Always),
            false => file.ready_events_now().map(HeldEvents::Now),
        }
    }

    /// As [`PollRow::ready_events_now`], its events whichever they are.
    #[inline(always)]
    pub fn ready_events_by_routine(&self, fd: usize) -> Option<u32> {
        if CROWD {
            return None;
        }
        self.file(fd)?.ready_events_by_routine()
    }

    /// The file behind `fd` while the caller is the table's only user.
    #[inline(always)]
    fn file(&self, fd: usize) -> Option<&OpenFile> {
        let of = (self.slots[fd % CHUNK].load(Ordering::Acquire) & !CLOEXEC) as *const OpenFile;
        // SAFETY: a slot that is not 0 holds a count, which only this thread could take out of it, and a look
        // takes out none.
        unsafe { of.as_ref() }
    }
}
