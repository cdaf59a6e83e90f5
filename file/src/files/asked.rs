//! Looks at many files of a table in turn.
//!
//! *Interface*: [`Files::ask`] gives an [`Asker`] for the running call; [`Asker::row`] 64 neighbouring
//! descriptors, [`Row::look`] what holds for one.
//!
//! While one thread uses the table, which is the caller, nobody takes a file out of it during the call: no
//! count is needed to look at one. (A second thread comes only through the first, and visitors take nothing
//! out: `company`.) With several each file is counted for the look, a `CROWD`.

use core::marker::PhantomData;
use core::sync::atomic::{AtomicUsize, Ordering};

use super::Files;
use super::slots::{CHUNK, CLOEXEC};
use crate::file::OpenFile;

/// Looks for one call of a thread of the table.
#[derive(Clone, Copy)]
pub struct Asker<'a, const CROWD: bool> {
    files: &'a Files,
    /// It stays with its thread.
    _here: PhantomData<*const ()>,
}

/// Neighbouring descriptors.
#[derive(Clone, Copy)]
pub struct Row<'a, const CROWD: bool> {
    asker: Asker<'a, CROWD>,
    slots: &'a [AtomicUsize; CHUNK],
}

/// Where there is room for none.
static NOTHING: [AtomicUsize; CHUNK] = [const { AtomicUsize::new(0) }; CHUNK];

/// Descriptors of a row.
pub const ROW: usize = CHUNK;

/// Something that looks at many files.
pub trait Question {
    /// What it learns.
    type Answer;
    /// Looks at them.
    fn ask<const CROWD: bool>(self, asker: Asker<'_, CROWD>) -> Self::Answer;
}

impl Files {
    /// Asks for the call that the running thread, one of the table's, is making.
    #[inline(always)]
    pub fn ask<Q: Question>(&self, question: Q) -> Q::Answer {
        if self.threaded() {
            question.ask(Asker::<true>::new(self))
        } else {
            question.ask(Asker::<false>::new(self))
        }
    }
}

impl<'a, const CROWD: bool> Asker<'a, CROWD> {
    fn new(files: &'a Files) -> Self {
        Asker {
            files,
            _here: PhantomData,
        }
    }

    /// The descriptors from `number * ROW` on.
    #[inline(always)]
    pub fn row(self, number: usize) -> Row<'a, CROWD> {
        Row {
            asker: self,
            slots: self.files.slots.row(number).unwrap_or(&NOTHING),
        }
    }
}

impl<const CROWD: bool> Row<'_, CROWD> {
    /// What holds for the file behind `fd`, one of the row, whichever events are wanted; `None` when there is
    /// none.
    #[inline(always)]
    pub fn look(&self, fd: usize) -> Option<u32> {
        if CROWD {
            return Some(self.asker.files.get(fd as i32).ok()?.look());
        }
        let of = (self.slots[fd % CHUNK].load(Ordering::Acquire) & !CLOEXEC) as *const OpenFile;
        // SAFETY: a slot that is not 0 holds a count, which only this thread could take out of it, and a look
        // takes out none.
        Some(unsafe { of.as_ref() }?.look())
    }
}
