//! `pidfd`: a process as a file, independent of its number.
//!
//! *Interface*: [`open`] makes a description, [`of`] finds the process behind one.
//!
//! It is ready when the process has ended. It keeps the record of a process that has been waited for, and
//! nothing else of it.

use abi::errno::{Errno, Result};
use abi::linux::*;
use alloc::sync::Arc;
use core::fmt::{self, Write};

use crate::process::Process;
use file::poll::{self, PollTable};
use file::{File, OpenFile, SMALL_WEIGHT};
use vm::fallible::{try_arc, try_string};

/// A process as a file.
struct PidFd(Arc<Process>);

/// A description of `process`, with status flags `flags` (O_NONBLOCK). ENOMEM.
pub fn open(process: &Arc<Process>, flags: u32) -> Result<Arc<OpenFile>> {
    let file = try_arc(PidFd(process.clone()))?;
    Ok(OpenFile::new(file, O_RDWR | flags))
}

/// The process behind a description. EBADF.
pub fn of(of: &OpenFile) -> Result<&Arc<Process>> {
    let file = of.file_as::<PidFd>().ok_or(Errno::EBADF)?;
    Ok(&file.0)
}

impl File for PidFd {
    fn moves(&self) -> [bool; 2] {
        [false, false]
    }

    fn poll<'a>(
        &'a self,
        _of: &'a OpenFile,
        events: u32,
        table: Option<&mut PollTable<'a>>,
    ) -> u32 {
        if let Some(table) = table {
            table.watch(&self.0.ended);
        }
        events & poll::events(self.0.is_zombie(), false)
    }

    fn can_be_watched(&self) -> bool {
        true
    }

    fn weight(&self, _of: &OpenFile) -> usize {
        SMALL_WEIGHT + size_of::<Process>()
    }

    fn label(&self, _of: &OpenFile) -> Result<alloc::string::String> {
        try_string(b"anon_inode:[pidfd]")
    }

    fn info(&self, _of: &OpenFile, out: &mut dyn Write) -> fmt::Result {
        let pid = if self.0.is_gone() { -1 } else { self.0.pid };
        writeln!(out, "Pid:\t{pid}\nNSpid:\t{pid}")
    }
}
