//! Waiting for several files at once: what `poll`, `select` and epoll have in common.
//!
//! *Interface*: a file's [`crate::file::File::poll`] enrols the caller in its wait lists through a
//! [`PollTable`]; [`wait_for`] is the loop that all the calls share.
//!
//! Source: dissertation, section 4.1.4 (the same data channel, blocking or not, by how it is linked).

use abi::errno::{Errno, Result};
use abi::linux::{POLLERR, POLLHUP, POLLNVAL};
use alloc::sync::Arc;
use alloc::vec::Vec;
use sync::WaitList;
use sync::ready::Arms;

use crate::deadline::Deadline;
use crate::file::OpenFile;
use crate::memory::fallible::try_reserve;

/// What a file's wait lists are shown to, by `table.watch(&list)` in [`crate::file::File::poll`].
pub struct PollTable<'a>(To<'a>);

enum To<'a> {
    /// The running thread is to be woken.
    Thread(sync::Watch<'a>),
    /// A member of a list of ready ones is to be noted.
    Member(&'a mut Arms),
    /// That member leaves.
    Leave(&'a mut Arms),
}

impl<'a> PollTable<'a> {
    /// Enrols the running thread.
    const fn thread() -> Self {
        PollTable(To::Thread(sync::Watch::new()))
    }

    /// Enrols `arms`.
    pub fn member(arms: &'a mut Arms) -> Self {
        PollTable(To::Member(arms))
    }

    /// Takes `arms` out.
    pub fn leave(arms: &'a mut Arms) -> Self {
        PollTable(To::Leave(arms))
    }

    /// `list` is woken when the file's state changes.
    pub fn watch(&mut self, list: &'a WaitList) {
        match &mut self.0 {
            To::Thread(watch) => watch.watch(list),
            To::Member(arms) => arms.watch(list),
            To::Leave(arms) => arms.leave(list),
        }
    }

    /// Sleeps until one of the lists is woken or something else resumes the thread.
    fn sleep(&self) {
        if let To::Thread(watch) = &self.0 {
            watch.sleep();
        }
    }
}

/// One file to look at, and what for.
pub struct Entry {
    /// The file; `None` for a descriptor that is not open.
    pub file: Option<Arc<OpenFile>>,
    /// Wanted events; POLLERR and POLLHUP always count.
    pub events: u32,
    /// What holds, after [`wait_for`].
    pub found: u32,
}

impl Entry {
    /// Asks `file` about `events`.
    pub fn new(file: Option<Arc<OpenFile>>, events: u32) -> Self {
        Entry {
            file,
            events,
            found: 0,
        }
    }
}

/// Looks at every entry until at least one has something to report, the deadline passes (0), or a signal comes
/// (ERESTARTNOHAND). Returns how many entries have something.
pub fn wait_for(entries: &mut [Entry], deadline: Deadline) -> Result<usize> {
    let mut files = Vec::new();
    try_reserve(&mut files, entries.len())?;
    files.extend(entries.iter().map(|entry| entry.file.clone()));
    let _alarm = deadline.alarm()?;
    loop {
        let mut table = PollTable::thread();
        let mut count = 0;
        for (entry, file) in entries.iter_mut().zip(&files) {
            let watch = (count == 0 && !deadline.is_now()).then_some(&mut table);
            entry.found = match file {
                None => POLLNVAL,
                Some(of) => {
                    of.file().poll(of, entry.events, watch) & (entry.events | POLLERR | POLLHUP)
                }
            };
            count += usize::from(entry.found != 0);
        }
        if count > 0 || deadline.has_passed() {
            return Ok(count);
        }
        if (sync::callout::get().interrupted)() {
            return Err(Errno::ERESTARTNOHAND);
        }
        table.sleep();
    }
}
