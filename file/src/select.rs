//! Waiting for several files at once: the common part of `poll` and `select`.
//!
//! *Interface*: [`wait_for`] is the common loop, for a caller that has checked and found nothing.
//!
//! A waiting thread is in the lists of all the files. When it wakes it checks only the files whose list has
//! woken it, and waits there again; the places of the others, and the memory for all of them, stay unchanged.
//!
//! Source: dissertation, section 4.1.4 (the same data channel, blocking or not, by how it is linked).

use abi::errno::{Errno, Result};
use abi::linux::{POLLERR, POLLHUP};
use alloc::sync::Arc;

use crate::callout;
use crate::fs::file::OpenFile;
use crate::poll::PollTable;
use thread::deadline::Deadline;

/// The question about one file.
pub struct PollRequest {
    /// The caller's key for it.
    pub index: usize,
    /// Wanted events; POLLERR and POLLHUP always count.
    pub events: u32,
    /// The events that hold.
    pub found: u32,
}

impl PollRequest {
    /// About `events` of the file that the caller knows by `index`.
    pub fn new(index: usize, events: u32) -> PollRequest {
        PollRequest {
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
pub fn wait_for(
    files: &[Arc<OpenFile>],
    asked: &mut [PollRequest],
    deadline: Deadline,
) -> Result<usize> {
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
