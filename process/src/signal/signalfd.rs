//! `signalfd`: signals that are read instead of delivered.
//!
//! *Interface*: [`open`] makes a description, [`of`] finds its `signalfd`; [`SignalFd::set`] changes which
//! signals are read.
//!
//! Such a file has no signals of its own: a reader takes the signals of its own thread and process, and a
//! poller checks those. Waiters are in the list of
//! [`arrivals`](crate::process::signals::ProcessSignals::arrivals) of their process, so a signal has no extra
//! cost without waiters. An epoll instance is in the list of the process that added the file, and checks the
//! signals of the process that calls it, as on Linux.

use abi::errno::{Errno, Result};
use abi::linux::*;
use alloc::sync::Arc;
use core::fmt::{self, Write};
use core::sync::atomic::{AtomicU64, Ordering};
use quaject::Sharing;

use crate::process::Task;
use crate::process::signals::set::UNBLOCKABLE;
use file::io::IoBuf;
use file::poll::{self, PollTable};
use file::routine_env;
use file::{DescRoutines, File, OpenFile};
use vm::fallible::{try_arc, try_string};

/// Signals that can be read.
pub struct SignalFd {
    wanted: AtomicU64,
}

/// Bytes of the record of one signal.
const RECORD: usize = size_of::<SignalfdSiginfo>();

/// A description by which signals of `set` are read, with status flags `flags` (O_NONBLOCK). ENOMEM.
pub fn open(set: u64, flags: u32) -> Result<Arc<OpenFile>> {
    let file = SignalFd {
        wanted: AtomicU64::new(set & !UNBLOCKABLE),
    };
    Ok(OpenFile::new(try_arc(file)?, O_RDWR | flags))
}

/// The file behind a description. EINVAL.
pub fn of(of: &OpenFile) -> Result<&SignalFd> {
    of.file_as::<SignalFd>().ok_or(Errno::EINVAL)
}

impl SignalFd {
    /// From now on signals of `set` are read. Waiting threads of the running process check again.
    pub fn set(&self, set: u64) {
        self.wanted.store(set & !UNBLOCKABLE, Ordering::SeqCst);
        Task::here(|task| task.process.signals.arrived());
    }

    fn wanted(&self) -> u64 {
        self.wanted.load(Ordering::SeqCst)
    }

    /// Takes a signal that waits for `task`.
    fn take(&self, task: &Task) -> Option<Siginfo> {
        let mut info = Siginfo::default();
        let signals = &task.process.signals;
        signals.take(task, self.wanted(), &mut info).then_some(info)
    }
}

/// The record of `info` for a reader.
fn record(info: &Siginfo) -> SignalfdSiginfo {
    let low = |word: u64| word as u32;
    let high = |word: u64| (word >> 32) as u32;
    let [first, second, third, fourth, ..] = info.fields;
    let mut out = SignalfdSiginfo {
        signo: info.signo as u32,
        errno: info.errno,
        code: info.code,
        ..SignalfdSiginfo::default()
    };
    let faults = [SIGILL, SIGFPE, SIGSEGV, SIGBUS, SIGTRAP];
    match (info.code, info.signo) {
        (SI_TIMER, _) => {
            (out.tid, out.overrun) = (low(first), high(first));
            (out.ptr, out.int) = (second, second as i32);
        }
        (1.., SIGIO) => (out.band, out.fd) = (low(first), second as i32),
        (1..SI_KERNEL, SIGCHLD) => {
            (out.pid, out.uid) = (low(first), high(first));
            out.status = second as i32;
            (out.utime, out.stime) = (third, fourth);
        }
        (1..SI_KERNEL, signo) if faults.contains(&signo) => out.addr = first,
        (1..SI_KERNEL, SIGSYS) => {
            (out.call_addr, out.syscall, out.arch) = (first, second as i32, high(second));
        }
        (0.. | SI_TKILL, _) => (out.pid, out.uid) = (low(first), high(first)),
        _ => {
            (out.pid, out.uid) = (low(first), high(first));
            (out.ptr, out.int) = (second, second as i32);
        }
    }
    out
}

impl File for SignalFd {
    fn read(&self, of: &OpenFile, buf: &mut IoBuf) -> Result<usize> {
        if buf.remaining() < RECORD {
            return Err(Errno::EINVAL);
        }
        let task = Task::current();
        let mut done = 0;
        while buf.remaining() >= RECORD {
            let mut taken = self.take(&task);
            if taken.is_none() && done == 0 && !of.nonblocking() {
                let arrivals = task.process.signals.arrivals();
                let waited = arrivals.wait_interruptible(|| self.take(&task));
                taken = Some(waited.map_err(|_| Errno::ERESTARTSYS)?);
            }
            let Some(info) = taken else {
                break;
            };
            match buf.put(bytemuck::bytes_of(&record(&info))) {
                Ok(RECORD) => done += RECORD,
                _ if done == 0 => return Err(Errno::EFAULT),
                _ => break,
            }
        }
        if done == 0 {
            return Err(Errno::EAGAIN);
        }
        Ok(done)
    }

    fn moves(&self) -> [bool; 2] {
        [true, false]
    }

    /// It has no offset, and `lseek` reports no error.
    fn lseek(&self, _of: &OpenFile, _offset: i64, _whence: u32) -> Result<u64> {
        Ok(0)
    }

    fn poll<'a>(
        &'a self,
        _of: &'a OpenFile,
        events: u32,
        table: Option<&mut PollTable<'a>>,
    ) -> u32 {
        if let Some(table) = table {
            table.watch_signals();
        }
        let waits = Task::here(|task| task.pending_here() & self.wanted() != 0);
        events & poll::events(waits == Some(true), false)
    }

    fn can_be_watched(&self) -> bool {
        true
    }

    fn synthesize(&self, _of: &OpenFile, _sharing: Sharing) -> Result<DescRoutines> {
        Ok(DescRoutines {
            lseek: Some(routine_env::constants()?.nothing.clone()),
            ..DescRoutines::default()
        })
    }

    fn label(&self, _of: &OpenFile) -> Result<alloc::string::String> {
        try_string(b"anon_inode:[signalfd]")
    }

    fn info(&self, _of: &OpenFile, out: &mut dyn Write) -> fmt::Result {
        writeln!(out, "sigmask:\t{:016x}", self.wanted())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_says_what_the_signal_said() {
        let child = record(&Siginfo::child(CLD_EXITED, 7, 8, 9, 10, 11));
        assert_eq!((child.pid, child.uid, child.status), (7, 8, 9));
        assert_eq!((child.utime, child.stime, child.int), (10, 11, 0));
        let timer = record(&Siginfo::timer(SIGALRM, 3, 4, 5));
        assert_eq!(
            (timer.tid, timer.overrun, timer.int, timer.ptr),
            (3, 4, 5, 5)
        );
        let mut queued = Siginfo::sent(SIGRTMIN, SI_QUEUE, 1, 2);
        queued.fields[1] = 1 << 40 | 6;
        let queued = record(&queued);
        assert_eq!((queued.pid, queued.uid, queued.int), (1, 2, 6));
        assert_eq!(queued.ptr, 1 << 40 | 6);
        let fault = record(&Siginfo::fault(SIGSEGV, SEGV_MAPERR, 0x1000));
        assert_eq!((fault.addr, fault.pid), (0x1000, 0));
    }
}
