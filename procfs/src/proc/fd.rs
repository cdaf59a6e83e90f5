//! `/proc/PID/fd` and `/proc/PID/fdinfo`: a process's descriptors.
//!
//! *Interface.* [`FdDir`], [`FdinfoDir`]. A link of `fd` leads to the open file's inode; opening one that
//! has none (a pipe, a socket) gives another descriptor of the same description.

use abi::errno::{Errno, Result};
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Write;
use core::sync::atomic::Ordering;

use super::look_into;
use file::OpenFile;
use file::fdtable::make_shared;
use file::fs::attr::{Attr, FileKind, SetAttr};
use file::fs::inode::{Inode, OpenRequest};
use file::fs::mount::{self, VfsPath};
use file::fs::pseudofs::{
    EachEntry, MagicLink, PseudoDir, PseudoEntry, TextOut, TextPiece, TextSource, number_in, whole,
};
use process::Process;
use process::access::{self, AccessSnapshot, PtraceMode};

/// `/proc/PID/fd`.
pub struct FdDir(pub Arc<Process>);

/// `/proc/PID/fdinfo`.
pub struct FdinfoDir(pub Arc<Process>);

fn get(process: &Process, name: &str) -> Result<(i32, Arc<OpenFile>)> {
    let fd = number_in(name)?;
    let of = process
        .files
        .get()
        .visit()
        .get(fd)
        .map_err(|_| Errno::ENOENT)?;
    Ok((fd, of))
}

#[expect(clippy::disallowed_methods, reason = "a number")]
fn list(process: &Process, kind: FileKind, from: u64, each: EachEntry) {
    if look_into(process, || ()).is_ok() {
        let visit = process.files.get().visit();
        visit.for_each_from(from, |fd, _, _| each(fd as u64, &fd.to_string(), kind));
    }
}

impl PseudoDir for FdDir {
    fn get(&self, name: &str) -> Result<PseudoEntry> {
        let (fd, of) = get(&self.0, name)?;
        let may = |has, bits| if has { bits } else { 0 };
        Ok(PseudoEntry::MagicLink(Arc::new(Link {
            process: self.0.clone(),
            fd,
            permissions: may(of.readable(), 0o500) | may(of.writable(), 0o300),
        })))
    }

    fn list(&self, from: u64, each: EachEntry) {
        list(&self.0, FileKind::Symlink, from, each);
    }

    fn owner(&self) -> (u32, u32) {
        access::owner_of(&self.0)
    }

    fn permissions(&self) -> u32 {
        0o500
    }

    fn is_open_to_caller(&self) -> bool {
        Process::current().pid == self.0.pid
    }
}

impl PseudoDir for FdinfoDir {
    fn get(&self, name: &str) -> Result<PseudoEntry> {
        let (fd, _) = get(&self.0, name)?;
        Ok(PseudoEntry::Text(Arc::new(Info(self.0.clone(), fd))))
    }

    fn list(&self, from: u64, each: EachEntry) {
        list(&self.0, FileKind::Regular, from, each);
    }
}

/// The text of one descriptor of one process.
struct Info(Arc<Process>, i32);

impl TextSource for Info {
    fn open(&self) -> Result<Option<Arc<dyn TextSource>>> {
        let sight = AccessSnapshot::of(&self.0, PtraceMode::See).map_err(|_| Errno::EACCES)?;
        let fd = self.1;
        Ok(Some(whole(move |out| {
            let shown = sight.with(|process| info(process, fd, out));
            shown.unwrap_or(Err(Errno::ENOENT))
        })))
    }

    fn write(&self, _from: u64, _piece: &mut TextPiece) -> Result<()> {
        // Nobody reads it but by what `open` has made.
        Err(Errno::EACCES)
    }
}

fn info(process: &Process, fd: i32, out: &mut TextOut) -> Result<()> {
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
    let _ = of.file().info(&of, out);
    Ok(())
}

/// One link of `fd`.
struct Link {
    process: Arc<Process>,
    fd: i32,
    /// As it was opened.
    permissions: u32,
}

impl Link {
    fn open_file(&self) -> Result<Arc<OpenFile>> {
        let find = || self.process.files.get().visit().get(self.fd);
        look_into(&self.process, find)?.map_err(|_| Errno::ENOENT)
    }
}

impl MagicLink for Link {
    fn permissions(&self) -> u32 {
        self.permissions
    }

    fn text(&self) -> Result<Vec<u8>> {
        Ok(self.open_file()?.path()?.into_bytes())
    }

    fn place(&self) -> Result<VfsPath> {
        let of = self.open_file()?;
        match of.place() {
            Some(place) => Ok(place.clone()),
            None => Ok(mount::root()
                .ok_or(Errno::ENOENT)?
                .with_inode(Arc::new(Nameless(of)))),
        }
    }
}

/// The inode of an open file that has none.
struct Nameless(Arc<OpenFile>);

impl Inode for Nameless {
    fn attr(&self) -> Attr {
        self.0.file().stat(&self.0)
    }

    fn set_attr(&self, set: &SetAttr) -> Result<()> {
        self.0.file().set_attr(&self.0, set)
    }

    fn open(self: Arc<Self>, how: OpenRequest) -> Result<Arc<OpenFile>> {
        let of = &self.0;
        if self.kind() == FileKind::Socket {
            return Err(Errno::ENXIO);
        }
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
}
