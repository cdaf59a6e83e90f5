//! The two ends of a pipe for moves inside the kernel: the plain paths of `read` and `write`, `splice` and
//! similar calls.
//!
//! *Interface*: [`of`] gives the pipe behind a description, [`of_bytes`] for moving bytes;
//! [`SpliceEnd::take`] and [`SpliceEnd::give`] move bytes by its queue, and wait as the caller says.

use abi::errno::{Errno, Result};
use alloc::sync::Arc;
use quaject::pipe::{ReadEnd, WriteEnd};

use super::{Pipe, PipeEnd, broken};
use crate::fs::file::OpenFile;

/// A pipe, by one of its descriptions.
pub struct SpliceEnd(Arc<Pipe>);

/// The pipe that `of` is a description of, if it is one of a pipe.
pub fn of(of: &OpenFile) -> Option<SpliceEnd> {
    let end = of.file_as::<PipeEnd>()?;
    Some(SpliceEnd(end.pipe.clone()))
}

/// The same, if bytes are to be moved by it. EINVAL: it is one of packets.
pub fn of_bytes(file: &OpenFile) -> Result<Option<SpliceEnd>> {
    match of(file) {
        Some(end) if end.0.packets => Err(Errno::EINVAL),
        other => Ok(other),
    }
}

impl SpliceEnd {
    /// Whether both are one pipe.
    pub fn is(&self, other: &SpliceEnd) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// As [`Pipe::take`].
    pub fn take<R>(
        &self,
        wait: bool,
        take: impl FnMut(&mut ReadEnd<'_>) -> Result<Option<R>>,
    ) -> Result<Option<R>> {
        self.0.take(wait, take)
    }

    /// As [`Pipe::give`], for any byte.
    pub fn give<R>(
        &self,
        wait: bool,
        give: impl FnMut(&mut WriteEnd<'_>) -> Result<Option<R>>,
    ) -> Result<R> {
        self.0.give(wait, 1, give)
    }
}

impl Pipe {
    /// Calls `take` with the reading end until it has found something, and sleeps in between. None: there is
    /// nothing, and no writer. EAGAIN instead of sleep unless it may `wait`; ERESTARTSYS.
    pub(super) fn take<R>(
        &self,
        wait: bool,
        mut take: impl FnMut(&mut ReadEnd<'_>) -> Result<Option<R>>,
    ) -> Result<Option<R>> {
        loop {
            // Checked first, so the last writer's data is found.
            let ended = self.no_writer();
            let core = self.now();
            let mut end = core.read_end();
            // Another queue may have come in its place before this thread had the end.
            if core.is_retired() {
                continue;
            }
            if let Some(taken) = take(&mut end)? {
                return Ok(Some(taken));
            }
            drop(end);
            if ended {
                return Ok(None);
            }
            if !wait {
                return Err(Errno::EAGAIN);
            }
            core.wait_for_data(|| self.no_writer())
                .map_err(|_| Errno::ERESTARTSYS)?;
        }
    }

    /// Calls `give` with the writing end until it has found room, and sleeps in between until there is room
    /// for `wanted` bytes. EPIPE, with its signal, without a reader; EAGAIN instead of sleep unless it may
    /// `wait`; ERESTARTSYS.
    pub(super) fn give<R>(
        &self,
        wait: bool,
        wanted: usize,
        mut give: impl FnMut(&mut WriteEnd<'_>) -> Result<Option<R>>,
    ) -> Result<R> {
        loop {
            if self.no_reader() {
                broken();
                return Err(Errno::EPIPE);
            }
            let core = self.now();
            let mut end = core.write_end();
            if core.is_retired() {
                continue;
            }
            if let Some(given) = give(&mut end)? {
                return Ok(given);
            }
            drop(end);
            if !wait {
                return Err(Errno::EAGAIN);
            }
            core.wait_for_space(wanted, || self.no_reader())
                .map_err(|_| Errno::ERESTARTSYS)?;
        }
    }
}
