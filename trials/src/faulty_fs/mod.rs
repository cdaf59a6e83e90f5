//! A slow file system with injected faults, for tests of the page cache.
//!
//! *Interface*: [`add_kind`]; `mount -t kept none DIR`, each time a new one. It has the regular files `0` to
//! `4`, empty at first, of at most [`disk::LENGTH`] bytes, and `plan`, which says what goes wrong
//! ([`faults::FaultPlan`]). The keeper of a file knows it by sectors ([`disk`]), so it takes a hundredth of
//! the memory.

mod disk;
mod faults;
mod open;

use abi::errno::{Errno, Result};
use abi::linux::{S_IFDIR, S_IFREG, Statfs};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use file::OpenFile;
use file::fs::directory::Directory;
use file::fs::inode::fixed_entries;
use file::fs::mount::{self, FileSystem, anonymous_dev};
use file::fs::ownership::Ownership;
use file::fs::{Attr, DirSink, Inode, OpenRequest, SetAttr, fs_types};
use file::page_cache::{CachedFile, WritebackErrors, index};
use vm::fallible::{try_arc, try_push, try_slice};

use disk::FaultyDisk;
use faults::FaultPlan;
use open::FaultyFile;

const NAME: &str = "kept";
/// Names of the regular files.
const NAMES: [&str; 5] = ["0", "1", "2", "3", "4"];
/// The plan of the failures.
const PLAN: &str = "plan";
/// Numbers of the inodes: of the root, of the plan; the regular files' follow.
const ROOT: u64 = 1;
const FIRST: u64 = ROOT + 2;

/// Adds the kind to those that can be mounted.
pub fn add_kind() {
    let added = fs_types::add(fs_types::FsType {
        name: NAME,
        make: |_, _| Ok(FaultyFs::new()?),
    });
    assert!(added, "room for one more kind of file system");
}

/// One such file system.
pub struct FaultyFs {
    dev: u64,
    files: Vec<Arc<CachedFile>>,
    plan: Arc<FaultPlan>,
    errors: Arc<WritebackErrors>,
    this: alloc::sync::Weak<FaultyFs>,
}

impl FaultyFs {
    fn new() -> Result<Arc<FaultyFs>> {
        let dev = anonymous_dev();
        let (plan, errors) = (
            try_arc(FaultPlan::default())?,
            try_arc(WritebackErrors::new())?,
        );
        let mut files = Vec::new();
        for number in 0..NAMES.len() as u64 {
            let id = (dev, FIRST + number);
            let disk = FaultyDisk::new(plan.clone())?;
            let make = || CachedFile::new(id, disk, errors.clone());
            try_push(&mut files, index::find(id, make)?)?;
        }
        Ok(Arc::new_cyclic(|this| FaultyFs {
            dev,
            files,
            plan,
            errors,
            this: this.clone(),
        }))
    }

    fn node(&self, what: What) -> Result<Arc<FaultyInode>> {
        let world = self.this.upgrade().ok_or(Errno::EIO)?;
        try_arc(FaultyInode { world, what })
    }
}

impl Drop for FaultyFs {
    fn drop(&mut self) {
        (self.files.iter()).for_each(|pages| index::forget(pages.id()));
    }
}

impl FileSystem for FaultyFs {
    fn kind(&self) -> &'static str {
        NAME
    }

    fn root(&self) -> Arc<dyn Inode> {
        match self.node(What::Root) {
            Ok(root) => root,
            Err(error) => panic!("no root of the file system of the trials: {error}"),
        }
    }

    fn statfs(&self) -> Statfs {
        mount::without_room(0x6b65_7074)
    }
}

/// One file of it.
pub struct FaultyInode {
    world: Arc<FaultyFs>,
    what: What,
}

#[derive(Clone, Copy)]
enum What {
    Root,
    Plan,
    /// The regular file of this number.
    Regular(usize),
}

impl FaultyInode {
    /// Its pages, of a regular file.
    fn pages(&self) -> Option<&Arc<CachedFile>> {
        match self.what {
            What::Regular(number) => self.world.files.get(number),
            _ => None,
        }
    }

    /// Sets the length, here and where it is kept.
    fn resize(&self, size: u64) -> Result<()> {
        let pages = self.pages().ok_or(Errno::EINVAL)?;
        if size > disk::LENGTH {
            return Err(Errno::EFBIG);
        }
        pages.resize(size, || {
            let disk: Arc<dyn Any + Send + Sync> = pages.backing().clone();
            disk.downcast::<FaultyDisk>()
                .map_err(|_| Errno::EIO)?
                .cut(size);
            Ok(())
        })
    }
}

impl Inode for FaultyInode {
    fn attr(&self) -> Attr {
        let mode = match self.what {
            What::Root => S_IFDIR | 0o755,
            _ => S_IFREG | 0o644,
        };
        let nlink = if mode & S_IFDIR == S_IFDIR { 2 } else { 1 };
        Attr {
            size: self.pages().map_or(0, |pages| pages.size()),
            ..Ownership::new(mode, 0, 0).attr(self.id(), nlink)
        }
    }

    fn id(&self) -> (u64, u64) {
        let number = match self.what {
            What::Root => ROOT,
            What::Plan => ROOT + 1,
            What::Regular(number) => FIRST + number as u64,
        };
        (self.world.dev, number)
    }

    fn set_attr(&self, _set: &SetAttr) -> Result<()> {
        Ok(())
    }

    fn open(self: Arc<Self>, how: OpenRequest) -> Result<Arc<OpenFile>> {
        Ok(match self.what {
            What::Root => how.finish(try_arc(Directory)?),
            What::Plan => how.finish(self.world.plan.clone()),
            What::Regular(_) => how.finish(try_arc(FaultyFile::new(self)?)?),
        })
    }

    fn truncate(&self, size: u64) -> Result<()> {
        match self.what {
            What::Plan => Ok(()),
            _ => self.resize(size),
        }
    }

    fn lookup(self: Arc<Self>, name: &[u8]) -> Result<Arc<dyn Inode>> {
        let number = NAMES.iter().position(|other| other.as_bytes() == name);
        let what = match number {
            Some(number) => What::Regular(number),
            None if name == PLAN.as_bytes() => What::Plan,
            None => return Err(Errno::ENOENT),
        };
        Ok(self.world.node(what)?)
    }

    fn parent(&self) -> Option<Arc<dyn Inode>> {
        match self.what {
            What::Root => None,
            _ => Some(self.world.node(What::Root).ok()?),
        }
    }

    fn name(&self) -> Option<Arc<[u8]>> {
        let name = match self.what {
            What::Root => return None,
            What::Plan => PLAN,
            What::Regular(number) => NAMES.get(number)?,
        };
        try_slice(name.as_bytes()).ok()
    }

    fn readdir(&self, from: u64, sink: &mut dyn DirSink) -> Result<u64> {
        let dots = [
            (&b"."[..], ROOT, abi::linux::DT_DIR),
            (b"..", ROOT, abi::linux::DT_DIR),
        ];
        Ok(fixed_entries(&dots, from, sink).unwrap_or_else(|full| full))
    }
}
