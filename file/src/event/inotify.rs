//! `inotify`: events of files as data to read.
//!
//! *Interface*: [`open`] makes a description, [`of`] finds the [`InotifyInstance`] behind one.
//! [`crate::fs::fsnotify`] handles marks.

use abi::errno::{Errno, Result};
use abi::linux::*;
use alloc::sync::Arc;
use core::fmt::{self, Write};
use core::sync::atomic::Ordering;
use quaject::Sharing;

use crate::fs::file::fasync::FasyncKind;
use crate::fs::file::{DescRoutines, File, OpenFile, SMALL_WEIGHT};
use crate::fs::fsnotify::{self, InotifyInstance, limits};
use crate::io::IoBuf;
use crate::poll::{self, PollTable, READS};
use crate::routine_env;
use account::quota;
use account::user::Charge;
use vm::fallible::{try_arc, try_string};

/// An instance that is open.
struct Inotify {
    instance: Arc<InotifyInstance>,
    _charge: Charge,
}

/// A description of a new instance, with status flags `flags` (O_NONBLOCK). EMFILE, ENOMEM.
pub fn open(flags: u32) -> Result<Arc<OpenFile>> {
    let charge = quota::instance(limits::INSTANCES.load(Ordering::Relaxed) as u64)?;
    let file = Inotify {
        instance: InotifyInstance::new()?,
        _charge: charge,
    };
    Ok(OpenFile::new(try_arc(file)?, O_RDONLY | flags))
}

/// The instance behind a description. EINVAL.
pub fn of(of: &OpenFile) -> Result<&Arc<InotifyInstance>> {
    let file = of.file_as::<Inotify>().ok_or(Errno::EINVAL)?;
    Ok(&file.instance)
}

impl File for Inotify {
    fn read(&self, of: &OpenFile, buf: &mut IoBuf) -> Result<usize> {
        let instance = &self.instance;
        loop {
            match instance.take(buf)? {
                0 => {}
                done => return Ok(done),
            }
            if of.nonblocking() {
                return Err(Errno::EAGAIN);
            }
            let there = || (instance.bytes() != 0).then_some(());
            let waited = instance.readers.wait_interruptible(there);
            waited.map_err(|_| Errno::ERESTARTSYS)?;
        }
    }

    /// It has no offset, and `lseek` reports no error.
    fn lseek(&self, _of: &OpenFile, _offset: i64, _whence: u32) -> Result<u64> {
        Ok(0)
    }

    fn synthesize(&self, _of: &OpenFile, _sharing: Sharing) -> Result<DescRoutines> {
        Ok(DescRoutines {
            lseek: Some(routine_env::constants()?.nothing.clone()),
            ..DescRoutines::default()
        })
    }

    fn poll<'a>(
        &'a self,
        _of: &'a OpenFile,
        events: u32,
        table: Option<&mut PollTable<'a>>,
    ) -> u32 {
        if let Some(table) = table {
            table.watch_for(READS, &self.instance.readers);
        }
        events & poll::events(self.instance.bytes() != 0, false)
    }

    fn can_be_watched(&self) -> bool {
        true
    }

    fn tells(&self) -> FasyncKind {
        FasyncKind::Changes
    }

    fn ioctl(&self, _of: &OpenFile, command: u32, arg: usize) -> Result<usize> {
        if command != FIONREAD {
            return Err(Errno::ENOTTY);
        }
        vm::user::put(arg, &(self.instance.bytes() as u32)).map(|()| 0)
    }

    fn weight(&self, _of: &OpenFile) -> usize {
        SMALL_WEIGHT + self.instance.bytes()
    }

    fn label(&self, _of: &OpenFile) -> Result<alloc::string::String> {
        try_string(b"anon_inode:inotify")
    }

    fn info(&self, _of: &OpenFile, out: &mut dyn Write) -> fmt::Result {
        let mut result = Ok(());
        fsnotify::marks(&self.instance, |wd, (dev, ino), mask| {
            let mask = mask & !IN_UNMOUNT;
            let line = writeln!(
                out,
                "inotify wd:{wd:x} ino:{ino:x} sdev:{dev:x} mask:{mask:x} ignored_mask:0"
            );
            result = result.and(line);
        });
        result
    }
}

impl Drop for Inotify {
    fn drop(&mut self) {
        fsnotify::forget_all(&self.instance);
    }
}
