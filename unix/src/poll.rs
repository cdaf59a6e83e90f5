//! Waiting for several files at once: what `poll`, `select` and epoll have in common.
//!
//! *Interface*: a file's [`crate::file::File::poll`] enrols the caller in its wait lists through a
//! [`PollTable`]; [`wait_for`] is the loop that all the calls share.
//!
//! Source: dissertation, section 4.1.4 (the same data channel, blocking or not, by how it is linked).

use abi::errno::{Errno, Result};
use abi::linux::{POLLERR, POLLHUP, POLLNVAL};
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use sync::WaitList;
use sync::ready::Arms;

use crate::deadline::Deadline;
use crate::file::OpenFile;
use crate::memory::fallible::{try_push, try_reserve};
use crate::process::{Process, Task};

/// What a file's wait lists are shown to, by `table.watch(&list)` in [`crate::file::File::poll`].
pub struct PollTable<'a>(To<'a>);

enum To<'a> {
    /// The running thread, one of this process, is to be woken.
    Thread(sync::Watch<'a>, &'a Process),
    /// A member of a list of ready ones is to be noted.
    Member(&'a mut Arms, &'a mut Whose),
    /// That member leaves.
    Leave(&'a mut Arms, &'a mut Whose),
}

/// The process whose signals a member waits for: that which had it enrolled first.
pub type Whose = Option<Weak<Process>>;

impl<'a> PollTable<'a> {
    /// Enrols the running thread, one of `process`.
    const fn thread(process: &'a Process) -> Self {
        PollTable(To::Thread(sync::Watch::new(), process))
    }

    /// Enrols `arms`.
    pub fn member(arms: &'a mut Arms, whose: &'a mut Whose) -> Self {
        PollTable(To::Member(arms, whose))
    }

    /// Takes `arms` out.
    pub fn leave(arms: &'a mut Arms, whose: &'a mut Whose) -> Self {
        PollTable(To::Leave(arms, whose))
    }

    /// `list` is woken when the file's state changes.
    pub fn watch(&mut self, list: &'a WaitList) {
        match &mut self.0 {
            To::Thread(watch, _) => watch.watch(list),
            To::Member(arms, _) => arms.watch(list),
            To::Leave(arms, _) => arms.leave(list),
        }
    }

    /// The file's state changes when a signal arrives at the running process; for a member, at that which had it enrolled first (Linux: at that which called
    /// `epoll_ctl`).
    pub fn watch_signals(&mut self) {
        match &mut self.0 {
            To::Thread(watch, process) => watch.watch(process.signals.arrivals()),
            To::Member(arms, whose) => {
                let own = || Task::here(|task| Arc::downgrade(&task.process)).unwrap_or_default();
                let whose = whose.get_or_insert_with(own);
                if let Some(process) = whose.upgrade() {
                    arms.watch(process.signals.arrivals());
                }
            }
            To::Leave(arms, whose) => {
                if let Some(process) = whose.as_ref().and_then(Weak::upgrade) {
                    arms.leave(process.signals.arrivals());
                }
            }
        }
    }

    /// Sleeps until one of the lists is woken or something else resumes the thread.
    fn sleep(&self) {
        if let To::Thread(watch, _) = &self.0 {
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
    for entry in entries.iter() {
        try_push(&mut files, entry.file.clone())?;
    }
    let _alarm = deadline.alarm()?;
    let process = Process::current();
    loop {
        let mut table = PollTable::thread(&process);
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
