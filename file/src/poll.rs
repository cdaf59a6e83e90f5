//! How files show their wait lists to those who wait for several of them.
//!
//! *Interface*: a file's [`crate::fs::file::File::poll`] enrols the caller in its wait lists through a
//! [`PollTable`]: a thread ([`crate::select`]), or the member of a list of ready ones.
//!
//! Source: dissertation, section 4.1.4 (the same data channel, blocking or not, by how it is linked).

use abi::errno::{Errno, Result};
use abi::linux::{POLLIN, POLLOUT, POLLRDNORM, POLLWRNORM};
use alloc::sync::{Arc, Weak};
use sync::ready_list::ReadyHooks;
use sync::{PollSet, WaitList};

use crate::callout::{self, SignalArrivals};

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

/// The receiver of a file's wait lists, by `table.watch(&list)` in [`crate::fs::file::File::poll`].
pub struct PollTable<'a> {
    to: To<'a>,
    /// The events of the file that is asked; lists that are woken for others alone are left out.
    pub(crate) wanted: u32,
}

enum To<'a> {
    /// The running thread, one of this process, is to be woken.
    Thread(PollSet<'a>, Option<&'a dyn SignalArrivals>),
    /// A member of a list of ready ones is to be noted.
    Member(&'a mut ReadyHooks, &'a mut SignalWatch),
    /// That member leaves.
    Leave(&'a mut ReadyHooks, &'a mut SignalWatch),
}

/// The process whose signals a member waits for: the one that first enrolled it.
pub type SignalWatch = Option<Weak<dyn SignalArrivals>>;

impl<'a> PollTable<'a> {
    /// Enrols `arms` in all lists that are shown where `events` may come, and in no others.
    pub fn member(arms: &'a mut ReadyHooks, whose: &'a mut SignalWatch, events: u32) -> Self {
        arms.begin();
        PollTable {
            to: To::Member(arms, whose),
            wanted: events,
        }
    }

    /// Takes `arms` out.
    pub fn leave(arms: &'a mut ReadyHooks, whose: &'a mut SignalWatch) -> Self {
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
    /// Of the running thread, of this `process`.
    pub(crate) fn thread(process: Option<&'a dyn SignalArrivals>) -> Self {
        PollTable {
            to: To::Thread(PollSet::new(), process),
            wanted: 0,
        }
    }

    /// The lists that are shown next are of `party`.
    pub(crate) fn begin(&mut self, party: usize) {
        if let To::Thread(watch, _) = &mut self.to {
            watch.begin(party);
        }
    }

    /// Sleeps until one of the lists is woken or something else resumes the thread. ENOMEM when it may not be
    /// in all of them.
    pub(crate) fn sleep(&self) -> Result<()> {
        match &self.to {
            To::Thread(watch, _) if !watch.is_short() => {
                watch.sleep();
                Ok(())
            }
            _ => Err(Errno::ENOMEM),
        }
    }

    /// The next party that was woken, of those numbered `from` on.
    pub(crate) fn next(&mut self, from: &mut usize) -> Option<usize> {
        match &mut self.to {
            To::Thread(watch, _) => watch.next(from),
            _ => None,
        }
    }
}
