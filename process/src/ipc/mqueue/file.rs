//! A message queue as a file: its text, and its readiness.
//!
//! *Interface*: [`QueueFile`] is the behaviour, [`of`] the queue behind a description.

use abi::errno::{Errno, Result};
use alloc::sync::Arc;
use core::fmt;

use super::PosixQueue;
use crate::process::Task;
use file::io::IoBuf;
use file::poll::{self, PollTable};
use file::{File, OpenFile};
use vm::fallible::try_text;

/// A queue that is open.
pub struct QueueFile(pub Arc<PosixQueue>);

/// The queue behind a description. EBADF.
pub fn of(of: &OpenFile) -> Result<&Arc<PosixQueue>> {
    let file = of.file_as::<QueueFile>().ok_or(Errno::EBADF)?;
    Ok(&file.0)
}

/// The text of a queue.
struct Text<'a>(&'a PosixQueue);

impl fmt::Display for Text<'_> {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        // Bound: a few words.
        let state = self.0.state.lock();
        let bytes = state.bytes;
        let notice = state.notice.as_ref();
        let shown = notice.map(|notice| (notice.shown(), notice.owner()));
        drop(state);
        let ((kind, signo), owner) = shown.unwrap_or_default();
        let pid = owner.upgrade().map_or(0, |process| process.pid);
        out.write_str("QSIZE:")?;
        write!(out, "{bytes:<10} NOTIFY:{kind:<5} SIGNO:{signo:<5} ")?;
        writeln!(out, "NOTIFY_PID:{pid:<6}")
    }
}

impl File for QueueFile {
    fn descriptor_closed(&self) {
        Task::here(|task| self.0.forget(&task.process));
    }

    fn read(&self, of: &OpenFile, buf: &mut IoBuf) -> Result<usize> {
        of.onward(|at| self.read_at(of, at, buf))
    }

    fn read_at(&self, _of: &OpenFile, offset: u64, buf: &mut IoBuf) -> Result<usize> {
        let text = try_text(format_args!("{}", Text(&self.0)))?;
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let count = match text.as_bytes().get(from..) {
            Some(rest) => buf.put(rest)?,
            None => 0,
        };
        self.0.touch(false);
        Ok(count)
    }

    fn write_at(&self, _of: &OpenFile, _offset: u64, _buf: &mut IoBuf) -> Result<usize> {
        Err(Errno::EINVAL)
    }

    fn lseek(&self, of: &OpenFile, offset: i64, whence: u32) -> Result<u64> {
        of.sought(offset, whence, || Some(self.stat(of).size))
    }

    fn poll<'a>(
        &'a self,
        _of: &'a OpenFile,
        events: u32,
        table: Option<&mut PollTable<'a>>,
    ) -> u32 {
        if let Some(table) = table {
            table.watch(&self.0.came);
            table.watch(&self.0.went);
        }
        let waiting = self.0.state.lock().messages.len();
        events & poll::events(waiting > 0, waiting < self.0.most)
    }

    fn can_be_watched(&self) -> bool {
        true
    }
}
