//! Waiting for several files at once: the common part of `poll` and `select`, and how files show their wait
//! lists.
//!
//! *Interface*: a file's [`crate::file::File::poll`] enrols the caller in its wait lists through a
//! [`PollTable`]; [`wait_for`] is the common loop, for a caller that has checked and found nothing.
//!
//! A waiting thread is in the lists of all the files. When it wakes it checks only the files whose list has
//! woken it, and waits there again; the places of the others, and the memory for all of them, stay unchanged.
//!
//! Source: dissertation, section 4.1.4 (the same data channel, blocking or not, by how it is linked).

use abi::errno::{Errno, Result};
use abi::linux::{POLLERR, POLLHUP, POLLIN, POLLOUT, POLLRDNORM, POLLWRNORM};
use alloc::sync::{Arc, Weak};
use sync::ready::Arms;
use sync::{WaitList, Watch};

use crate::callout::{self, Arrivals};
use crate::file::OpenFile;
use thread::deadline::Deadline;

/// The events of a file of which something can be read, or which has room.
pub const fn events(reads: bool, writes: bool) -> u32 {
    let mut found = 0;
    if reads {
        found |= POLLIN | POLLRDNORM;
    }
    if writes {
        found |= POLLOUT | POLLWRNORM;
    }
    found
}

/// There is something to read.
pub const READS: u32 = events(true, false);

/// There is room to write.
pub const WRITES: u32 = events(false, true);

/// The receiver of a file's wait lists, by `table.watch(&list)` in [`crate::file::File::poll`].
pub struct PollTable<'a> {
    to: To<'a>,
    /// The events of the file that is asked; lists that are woken for others alone are left out.
    wanted: u32,
}

enum To<'a> {
    /// The running thread, one of this process, is to be woken.
    Thread(Watch<'a>, Option<&'a dyn Arrivals>),
    /// A member of a list of ready ones is to be noted.
    Member(&'a mut Arms, &'a mut Whose),
    /// That member leaves.
    Leave(&'a mut Arms, &'a mut Whose),
}

/// The process whose signals a member waits for: the one that first enrolled it.
pub type Whose = Option<Weak<dyn Arrivals>>;

impl<'a> PollTable<'a> {
    /// Enrols `arms` in all lists that are shown where `events` may come, and in no others.
    pub fn member(arms: &'a mut Arms, whose: &'a mut Whose, events: u32) -> Self {
        arms.begin();
        PollTable {
            to: To::Member(arms, whose),
            wanted: events,
        }
    }

    /// Takes `arms` out.
    pub fn leave(arms: &'a mut Arms, whose: &'a mut Whose) -> Self {
        PollTable {
            to: To::Leave(arms, whose),
            wanted: u32::MAX,
        }
    }

    /// `list` is woken at each change of the file's state.
    pub fn watch(&mut self, list: &'a WaitList) {
        self.watch_for(u32::MAX, list);
    }

    /// `list` is woken when some of `events` may have come.
    pub fn watch_for(&mut self, events: u32, list: &'a WaitList) {
        if self.wanted & events == 0 {
            return;
        }
        match &mut self.to {
            To::Thread(watch, _) => watch.watch(list),
            To::Member(arms, _) => arms.watch(list),
            To::Leave(arms, _) => arms.leave(list),
        }
    }

    /// The file's state changes when a signal arrives at the running process; for a member, at that which had
    /// it enrolled first (Linux: at that which called `epoll_ctl`).
    pub fn watch_signals(&mut self) {
        match &mut self.to {
            To::Thread(watch, process) => {
                if let Some(process) = process {
                    watch.watch(process.arrivals());
                }
            }
            To::Member(arms, whose) => {
                if whose.is_none() {
                    **whose = callout::arrivals().as_ref().map(Arc::downgrade);
                }
                if let Some(process) = whose.as_ref().and_then(Weak::upgrade) {
                    arms.watch(process.arrivals());
                }
            }
            To::Leave(arms, whose) => {
                if let Some(process) = whose.as_ref().and_then(Weak::upgrade) {
                    arms.leave(process.arrivals());
                }
            }
        }
    }
}

/// For the table of a thread.
impl<'a> PollTable<'a> {
    fn thread(process: Option<&'a dyn Arrivals>) -> Self {
        PollTable {
            to: To::Thread(Watch::new(), process),
            wanted: 0,
        }
    }

    fn begin(&mut self, party: usize) {
        if let To::Thread(watch, _) = &mut self.to {
            watch.begin(party);
        }
    }

    /// Sleeps until one of the lists is woken or something else resumes the thread. ENOMEM when it may not be
    /// in all of them.
    fn sleep(&self) -> Result<()> {
        match &self.to {
            To::Thread(watch, _) if !watch.is_short() => {
                watch.sleep();
                Ok(())
            }
            _ => Err(Errno::ENOMEM),
        }
    }

    fn next(&mut self, from: &mut usize) -> Option<usize> {
        match &mut self.to {
            To::Thread(watch, _) => watch.next(from),
            _ => None,
        }
    }
}

/// The question about one file.
pub struct Asked {
    /// The caller's key for it.
    pub index: usize,
    /// Wanted events; POLLERR and POLLHUP always count.
    pub events: u32,
    /// The events that hold.
    pub found: u32,
}

impl Asked {
    /// About `events` of the file that the caller knows by `index`.
    pub fn new(index: usize, events: u32) -> Asked {
        Asked {
            index,
            events,
            found: 0,
        }
    }

    fn look<'a>(&mut self, of: &'a OpenFile, mut table: Option<&mut PollTable<'a>>) -> bool {
        let wanted = self.events | POLLERR | POLLHUP;
        if let Some(table) = &mut table {
            table.wanted = wanted;
        }
        self.found = of.file().poll(of, wanted, table) & wanted;
        self.found != 0
    }
}

/// Waits until at least one of `files` has an `asked` event, the deadline passes (0), or a signal comes
/// (ERESTARTNOHAND). Returns the number of such files. ENOMEM.
pub fn wait_for(files: &[Arc<OpenFile>], asked: &mut [Asked], deadline: Deadline) -> Result<usize> {
    let process = callout::arrivals();
    let mut table = PollTable::thread(process.as_deref());
    let mut count = 0;
    for (i, (asked, of)) in asked.iter_mut().zip(files).enumerate() {
        table.begin(i);
        // A caller that has found an event does not sleep.
        let table = (count == 0).then_some(&mut table);
        count += usize::from(asked.look(of, table));
    }
    let mut alarm = None;
    loop {
        if count > 0 {
            return Ok(count);
        }
        if (sync::callout::get().interrupted)() {
            return Err(Errno::ERESTARTNOHAND);
        }
        if deadline.has_passed() {
            return Ok(0);
        }
        if alarm.is_none() {
            alarm = Some(deadline.alarm()?);
        }
        let mut from = 0;
        table.sleep()?;
        while let Some(woken) = table.next(&mut from) {
            if let (Some(asked), Some(of)) = (asked.get_mut(woken), files.get(woken)) {
                count += usize::from(asked.look(of, Some(&mut table)));
            }
        }
    }
}
