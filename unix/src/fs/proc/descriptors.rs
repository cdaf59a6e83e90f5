//! `/proc/PID/fd` and `/proc/PID/fdinfo`: a process's descriptors.
//!
//! *Interface.* [`Descriptors`], [`Infos`]. A link of `fd` leads to the open file's inode; opening one that has none (a pipe, a socket)
//! gives another descriptor of the same description.

use abi::errno::{Errno, Result};
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::fmt::Write;
use core::sync::atomic::Ordering;

use super::pid::may_look;
use crate::file::OpenFile;
use crate::files::make_shared;
use crate::fs::attr::{Attr, Kind};
use crate::fs::inode::{How, Inode};
use crate::fs::place::{self, Place};
use crate::fs::text::{Each, Folder, Item, Magic, Out, text};
use crate::process::Process;

/// `/proc/PID/fd`.
pub struct Descriptors(pub Arc<Process>);

/// `/proc/PID/fdinfo`.
pub struct Infos(pub Arc<Process>);

fn get(process: &Process, name: &str) -> Result<(i32, Arc<OpenFile>)> {
    let fd: i32 = name.parse().map_err(|_| Errno::ENOENT)?;
    let of = process
        .files
        .get()
        .visit()
        .get(fd)
        .map_err(|_| Errno::ENOENT)?;
    Ok((fd, of))
}

fn list(process: &Process, kind: Kind, from: u64, each: Each) {
    if may_look(process).is_ok() {
        let visit = process.files.get().visit();
        visit.for_each_from(from, |fd, _, _| each(fd as u64, &fd.to_string(), kind));
    }
}

impl Folder for Descriptors {
    fn get(&self, name: &str) -> Result<Item> {
        let (fd, _) = get(&self.0, name)?;
        Ok(Item::Magic(Arc::new(Link {
            process: self.0.clone(),
            fd,
        })))
    }

    fn list(&self, from: u64, each: Each) {
        list(&self.0, Kind::Symlink, from, each);
    }

    fn owner(&self) -> (u32, u32) {
        let cred = self.0.cred.get();
        (cred.euid, cred.egid)
    }
}

impl Folder for Infos {
    fn get(&self, name: &str) -> Result<Item> {
        let (fd, _) = get(&self.0, name)?;
        let process = self.0.clone();
        Ok(text(move |out| {
            may_look(&process)?;
            info(&process, fd, out)
        }))
    }

    fn list(&self, from: u64, each: Each) {
        list(&self.0, Kind::Regular, from, each);
    }
}

fn info(process: &Process, fd: i32, out: &mut Out) -> Result<()> {
    let files = process.files.get();
    let of = files.clone().visit().get(fd)?;
    let cloexec = if files.cloexec(fd)? {
        abi::linux::O_CLOEXEC
    } else {
        0
    };
    // Writing to a string does not fail.
    let _ = writeln!(
        out,
        "pos:\t{}\nflags:\t0{:o}\nmnt_id:\t{}\nino:\t{}",
        of.cursor.offset.load(Ordering::Relaxed),
        of.flags() | cloexec,
        of.place().map_or(0, |p| p.mount.id),
        of.file().stat(&of).ino,
    );
    Ok(())
}

/// One link of `fd`.
struct Link {
    process: Arc<Process>,
    fd: i32,
}

impl Link {
    fn open_file(&self) -> Result<Arc<OpenFile>> {
        may_look(&self.process)?;
        let files = self.process.files.get().visit();
        files.get(self.fd).map_err(|_| Errno::ENOENT)
    }
}

impl Magic for Link {
    fn text(&self) -> Result<Vec<u8>> {
        Ok(self.open_file()?.path().into_bytes())
    }

    fn place(&self) -> Result<Place> {
        let of = self.open_file()?;
        match of.place() {
            Some(place) => Ok(place.clone()),
            None => Ok(place::root()
                .ok_or(Errno::ENOENT)?
                .beside(Arc::new(Nameless(of)))),
        }
    }
}

/// The inode of an open file that has none.
struct Nameless(Arc<OpenFile>);

impl Inode for Nameless {
    fn attr(&self) -> Attr {
        self.0.file().stat(&self.0)
    }

    fn open(self: Arc<Self>, how: How) -> Result<Arc<OpenFile>> {
        let of = &self.0;
        let wanted = how.flags & abi::linux::O_ACCMODE;
        let has = of.flags() & abi::linux::O_ACCMODE;
        if wanted == has || has == abi::linux::O_RDWR {
            // From now on another table may reach it.
            make_shared(of);
            Ok(of.clone())
        } else {
            Err(Errno::EACCES)
        }
    }

    fn into_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}
