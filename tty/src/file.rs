//! An open terminal: reading edited lines, writing through the output editor.

use abi::errno::{Errno, Result};
use abi::linux::*;
use alloc::sync::Arc;
use alloc::vec;
use core::any::Any;
use quaject::cook_tty_in::{self, Mode};

use super::Tty;
use file::fasync::FasyncKind;
use file::fs::OpenRequest;
use file::io::IoBuf;
use file::poll::{self, PollTable, READS, WRITES};
use file::{DescRoutine, DescRoutines, File, OpenFile, Sharing};
use process::{Process, Terminal};
use thread::deadline::Deadline;
use vm::fallible::try_arc;

/// The largest piece that one pass through an editor moves, in bytes.
const PIECE: usize = 4096;

/// A read of no more bytes needs no memory but the stack's.
const KEYS: usize = 64;

/// The operations of a terminal's descriptor.
pub struct TtyFile {
    pub(super) tty: Arc<Tty>,
}

impl TtyFile {
    /// A file on `tty`, of the console.
    pub fn new(tty: Arc<Tty>) -> Self {
        TtyFile { tty }
    }

    /// A description of `tty`. Opened `by_name` it becomes the controlling terminal of a leader's session
    /// that has none, unless the flags say otherwise. EIO, EBUSY, ENOMEM.
    pub(super) fn open(tty: &Arc<Tty>, how: OpenRequest, by_name: bool) -> Result<Arc<OpenFile>> {
        let file = try_arc(TtyFile::new(tty.clone()))?;
        tty.enrol(by_name)?;
        let flags = how.flags;
        let of = how.finish(file);
        let none_yet = || Process::current().session.get().terminal().is_none();
        if by_name && flags & O_NOCTTY == 0 && of.readable() && none_yet() {
            // Others than a leader without a terminal do not get one; that is no error.
            let _not_a_leader = tty.adopt(false);
        }
        Ok(of)
    }
}

/// `/dev/tty`: the controlling terminal of whoever opens it.
pub struct ControllingTty;

impl ControllingTty {
    /// The caller's controlling terminal. ENXIO when there is none.
    pub fn find() -> Result<Arc<Tty>> {
        Process::current()
            .session
            .get()
            .terminal()
            .and_then(|terminal| {
                let terminal: Arc<dyn Any + Send + Sync> = terminal;
                terminal.downcast::<Tty>().ok()
            })
            .ok_or(Errno::ENXIO)
    }
}

impl Tty {
    /// Bytes for a raw reader: `Some` when the settings' minimum is met.
    fn take(&self, buffer: &mut [u8], minimum: usize) -> Option<usize> {
        // Bound: at most 4096 bytes through the line editor of this terminal, its echo’s way out included.
        let mut d = self.editor.lock();
        let settings = d.settings;
        if !cook_tty_in::in_lines(&settings) && d.input.available() < minimum {
            return None;
        }
        d.input.read(&settings, buffer)
    }

    /// Waits for input as VMIN and VTIME ask, or for a line.
    fn wait_input(&self, of: &OpenFile, buffer: &mut [u8]) -> Result<usize> {
        let settings = self.settings();
        let (minimum, tenths) = if cook_tty_in::in_lines(&settings) {
            (1, 0)
        } else {
            (
                usize::from(settings.cc[VMIN]),
                u64::from(settings.cc[VTIME]),
            )
        };
        let wanted = minimum.clamp(1, buffer.len());
        if let Some(count) = self.take(buffer, wanted) {
            return Ok(count);
        }
        if self.is_gone() {
            return Ok(0);
        }
        if of.nonblocking() {
            return Err(Errno::EAGAIN);
        }
        if minimum == 0 && tenths == 0 {
            return Ok(0);
        }
        let between = Deadline::after_ns(tenths * 100_000_000);
        if minimum == 0 {
            return Ok(self.wait_bytes(buffer, 1, between)?.unwrap_or(0));
        }
        if tenths > 0 {
            self.wait_some(1, Deadline::never())?;
            let more = Deadline::after_ns(tenths * 100_000_000);
            return match self.wait_bytes(buffer, wanted, more)? {
                Some(count) => Ok(count),
                None => Ok(self.take(buffer, 1).unwrap_or(0)),
            };
        }
        // Once there is enough the call is made again, and the generated routine has it.
        self.wait_some(wanted, Deadline::never())?;
        if self.is_gone() {
            return Err(Errno::EIO);
        }
        Err(Errno::ERESTARTNOINTR)
    }

    /// Waits until there is a line, or in raw mode at least `wanted` bytes, without taking it.
    fn wait_some(&self, wanted: usize, deadline: Deadline) -> Result<()> {
        let _alarm = deadline.alarm()?;
        let enough = || match cook_tty_in::mode(&self.settings()) {
            Mode::Line => !self.typed.is_empty(),
            Mode::Bytes(_) => self.typed.available() >= wanted,
        };
        self.typed
            .readable()
            .wait_interruptible(|| {
                (enough() || self.is_gone() || deadline.has_passed()).then_some(())
            })
            .map_err(|_| Errno::ERESTARTSYS)
    }

    /// `Ok(None)` when the deadline passed first.
    fn wait_bytes(
        &self,
        buffer: &mut [u8],
        wanted: usize,
        deadline: Deadline,
    ) -> Result<Option<usize>> {
        let _alarm = deadline.alarm()?;
        self.typed
            .readable()
            .wait_interruptible(|| match self.take(buffer, wanted) {
                Some(count) => Some(Some(count)),
                None => (self.is_gone() || deadline.has_passed()).then_some(None),
            })
            .map_err(|_| Errno::ERESTARTSYS)
    }

    /// Sends one piece through the output editor; returns how many bytes of it went out before a signal came.
    fn send(&self, of: &OpenFile, piece: &[u8]) -> Result<usize> {
        let mut sent = 0;
        while sent < piece.len() {
            if self.is_gone() {
                return if sent > 0 { Ok(sent) } else { Err(Errno::EIO) };
            }
            let stopped = {
                let d = self.editor.lock();
                if !d.input.is_stopped() {
                    sent += self.line.show(d.settings.oflag, &piece[sent..]);
                }
                d.input.is_stopped()
            };
            if sent == piece.len() {
                break;
            }
            if of.nonblocking() {
                return if sent > 0 {
                    Ok(sent)
                } else {
                    Err(Errno::EAGAIN)
                };
            }
            let waited = if stopped {
                self.released.wait_interruptible(|| {
                    let goes_on = !self.editor.lock().input.is_stopped();
                    (goes_on || self.is_gone()).then_some(())
                })
            } else {
                self.line
                    .drained()
                    .wait_interruptible(|| (self.line.room() >= 8 || self.is_gone()).then_some(()))
            };
            if waited.is_err() {
                return if sent > 0 {
                    Ok(sent)
                } else {
                    Err(Errno::ERESTARTSYS)
                };
            }
        }
        Ok(sent)
    }
}

impl File for TtyFile {
    fn read(&self, of: &OpenFile, buf: &mut IoBuf) -> Result<usize> {
        if buf.remaining() == 0 || self.tty.is_gone() {
            return Ok(0);
        }
        self.tty.check_background_read()?;
        let wanted = buf.remaining();
        if wanted <= KEYS {
            let mut piece = [0; KEYS];
            let count = self.tty.wait_input(of, &mut piece[..wanted])?;
            return buf.put(&piece[..count]);
        }
        #[expect(
            clippy::disallowed_macros,
            reason = "a page at most, of what each thread was promised"
        )]
        let mut piece = vec![0; wanted.min(PIECE)];
        let count = self.tty.wait_input(of, &mut piece)?;
        buf.put(&piece[..count])
    }

    fn write(&self, of: &OpenFile, buf: &mut IoBuf) -> Result<usize> {
        if self.tty.is_gone() {
            return Err(Errno::EIO);
        }
        self.tty.check_background_write()?;
        #[expect(
            clippy::disallowed_macros,
            reason = "a page at most, of what each thread was promised"
        )]
        let mut piece = vec![0; buf.remaining().min(PIECE)];
        let mut written = 0;
        while buf.remaining() > 0 {
            let taken = match buf.take(&mut piece) {
                Ok(taken) => taken,
                Err(error) if written == 0 => return Err(error),
                Err(_) => break,
            };
            match self.tty.send(of, &piece[..taken]) {
                Ok(sent) => {
                    written += sent;
                    if sent < taken {
                        break;
                    }
                }
                Err(error) if written == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(written)
    }

    fn can_be_watched(&self) -> bool {
        true
    }

    fn tells(&self) -> FasyncKind {
        FasyncKind::Terminal(Terminal::foreground(&*self.tty))
    }

    fn poll<'a>(
        &'a self,
        _of: &'a OpenFile,
        events: u32,
        table: Option<&mut PollTable<'a>>,
    ) -> u32 {
        let tty = &*self.tty;
        if let Some(table) = table {
            if events & READS != 0 {
                table.watch(tty.typed.readable());
            }
            if events & WRITES != 0 {
                table.watch(tty.line.drained());
                table.watch(&tty.released);
            }
            if tty.pair.is_some() {
                table.watch(&tty.hung_up);
            }
        }
        if tty.is_gone() {
            return (READS | WRITES | POLLERR | POLLHUP) & (events | POLLERR | POLLHUP);
        }
        let (stopped, settings) = {
            // Bound: at most 4096 bytes through the line editor of this terminal, its echo’s way out
            // included.
            let d = tty.editor.lock();
            (d.input.is_stopped(), d.settings)
        };
        let least = match cook_tty_in::mode(&settings) {
            Mode::Bytes(least) if settings.cc[VTIME] == 0 => usize::from(least),
            _ => 0,
        };
        let reads = !tty.typed.is_empty() && tty.typed.available() >= least;
        events & poll::events(reads, !stopped && tty.line.room() > 0)
    }

    fn flags_changed(&self, of: &OpenFile) {
        if of.nonblocking() {
            self.tty.typed.be_impatient();
        }
    }

    /// One code for all, however the description is shared. No thread sleeps in it once one does not wait.
    fn synthesize(&self, of: &OpenFile, _sharing: Sharing) -> Result<DescRoutines> {
        self.flags_changed(of);
        self.tty.routines.tables(false)
    }

    fn relayed(&self, call: &str) -> Option<DescRoutine> {
        self.tty.routines.relayed(call, false)
    }

    fn ioctl(&self, of: &OpenFile, cmd: u32, arg: usize) -> Result<usize> {
        match cmd {
            _ if !self.tty.is_gone() => self.tty.control(of, cmd, arg),
            TIOCSPGRP => Err(Errno::ENOTTY),
            _ => Err(Errno::EIO),
        }
    }

    fn close(&self, _of: &OpenFile) {
        self.tty.leave();
    }
}
