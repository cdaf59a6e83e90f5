//! The tree of names at boot.
//!
//! *Interface.* [`init`] makes the root from the initial archives and mounts what stands on it; [`unpack`] puts an archive into any
//! directory. The kernel's symbol file (`kernel.sym`) stays out.
#![expect(clippy::disallowed_methods, reason = "at boot, before there are users")]

use abi::errno::{Errno, Result};
use abi::linux::{S_IFCHR, S_IFDIR, S_IFMT, makedev};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;

use crate::fs::attr::{Kind, SetAttr, Time};
use crate::fs::dev;
use crate::fs::inode::Inode;
use crate::fs::mem::MemFs;
use crate::fs::place::{self, FileSystem, Place};
use crate::fs::walk::{Target, View, walk};
use crate::ipc::mqueue;
use account::Cred;
use machine::cpio::{self, Entry};
use vm::fallible::try_string;

/// The symbol table that a panic report reads from the archive itself.
const SYMBOLS: [&[u8]; 2] = [b"kernel.sym", b".synthesis/kernel.sym"];

/// Makes the root file system from `initrd`, mounts `/dev`, `/proc`, `/syn`, `/sys` and `/tmp`, and answers the root.
/// What of the archive is corrupt is left out and logged; only running out of memory is an error.
/// `done` is told of each part of the archive that nobody will read any more, in order.
// On a frame of its own: one step of bringing up is not to lie above the next on the stack.
#[inline(never)]
pub fn init(initrd: &'static [u8], done: &mut dyn FnMut(&'static [u8])) -> Result<Place> {
    dev::init();
    let fs = MemFs::new("tmpfs", 0o755);
    let top = fs.root();
    let root = place::mount(fs, top, None, try_string(b"root")?, 0)?;
    unpack(&root, initrd, done)?;
    let cred = Cred::root();
    let view = View::new(root.clone(), &cred, 0);
    let covered = |name: &str| -> Result<Place> {
        let target = walk(&view, root.clone(), name.as_bytes(), true)?;
        match &target.place {
            Some(place) if place.inode.kind() == Kind::Directory => Ok(place.clone()),
            Some(_) => Err(Errno::ENOTDIR),
            None => {
                let made = target
                    .dir
                    .inode
                    .create(&target.name, S_IFDIR | 0o755, 0, 0, &cred)?;
                Ok(target.dir.beside(made))
            }
        }
    };
    let put = |fs: Arc<dyn FileSystem>, at: &str| -> Result<()> {
        let top = fs.root();
        let kind = try_string(fs.kind().as_bytes())?;
        place::mount(fs.clone(), top, Some(covered(at)?), kind, 0)?;
        Ok(())
    };
    put(devices()?, "/dev")?;
    put(mqueue::names::file_system(), "/dev/mqueue")?;
    put(crate::proc::file_system(), "/proc")?;
    put(crate::syn::file_system(), "/syn")?;
    put(crate::sys::file_system(), "/sys")?;
    let tmp = covered("/tmp")?;
    if is_empty(&*tmp.inode) {
        let fs = MemFs::new("tmpfs", 0o1777);
        let top = fs.root();
        place::mount(fs, top, Some(tmp), try_string(b"tmpfs")?, 0)?;
    }
    Ok(root)
}

fn is_empty(dir: &dyn Inode) -> bool {
    let mut entries = 0;
    let mut count = |_: crate::fs::DirEntry<'_>| {
        entries += 1;
        true
    };
    dir.readdir(0, &mut count).is_ok() && entries <= 2
}

/// A file system with the device nodes.
pub fn devices() -> Result<Arc<MemFs>> {
    let fs = MemFs::new("devtmpfs", 0o755);
    let cred = Cred::root();
    let dir = fs.root();
    for (name, mode, major, minor) in dev::NODES {
        dir.create(
            name.as_bytes(),
            S_IFCHR | mode,
            0,
            makedev(major, minor),
            &cred,
        )?;
    }
    for (name, target) in dev::LINKS {
        dir.symlink(name.as_bytes(), target.as_bytes(), &cred)?;
    }
    for name in ["pts", "shm", "mqueue"] {
        dir.create(name.as_bytes(), S_IFDIR | 0o1777, 0, 0, &cred)?;
    }
    Ok(fs)
}

/// Puts the archives in `input` below `root`, as [`init`] does. `ENOSPC`, `ENOMEM`.
pub fn unpack<'a>(root: &Place, input: &'a [u8], done: &mut dyn FnMut(&'a [u8])) -> Result<()> {
    let mut linked: BTreeMap<(u32, u32), Arc<dyn Inode>> = BTreeMap::new();
    for entry in cpio::entries(input) {
        let entry = match entry {
            Ok(entry) => entry,
            Err(cpio::Corrupt(at)) => {
                machine::log!("initrd: nothing that can be read from byte {at} on");
                break;
            }
        };
        match put(root, &entry, &mut linked, done) {
            Ok(()) => {}
            Err(e @ (Errno::ENOSPC | Errno::ENOMEM)) => return Err(e),
            Err(e) => {
                let name = alloc::string::String::from_utf8_lossy(entry.name);
                machine::log!("initrd: {name}: {e}");
            }
        }
    }
    Ok(())
}

fn put<'a>(
    root: &Place,
    entry: &Entry<'a>,
    linked: &mut BTreeMap<(u32, u32), Arc<dyn Inode>>,
    done: &mut dyn FnMut(&'a [u8]),
) -> Result<()> {
    if SYMBOLS.contains(&entry.name) {
        return Ok(());
    }
    let mut cred = Cred::root();
    (cred.fsuid, cred.fsgid) = (entry.uid, entry.gid);
    let boss = Cred::root();
    let view = View::new(root.clone(), &boss, 0);
    let target = reach(&view, root, entry.name)?;
    let kind = Kind::of_mode(entry.mode).ok_or(Errno::EINVAL)?;
    if kind == Kind::Symlink {
        remove(&target)?;
        target.dir.inode.symlink(&target.name, entry.data, &cred)?;
        return Ok(());
    }
    let key = (entry.archive, entry.ino);
    let shared = kind == Kind::Regular && entry.nlink > 1;
    let inode = match (&target.place, linked.get(&key)) {
        (Some(place), _) if kind == Kind::Directory && place.inode.kind() == kind => {
            place.inode.clone()
        }
        (_, Some(first)) if shared => {
            remove(&target)?;
            target.dir.inode.link(&target.name, first.clone())?;
            first.clone()
        }
        _ => {
            remove(&target)?;
            let rdev = makedev(entry.rdev.0, entry.rdev.1);
            target
                .dir
                .inode
                .create(&target.name, entry.mode, 0, rdev, &cred)?
        }
    };
    if shared {
        linked.entry(key).or_insert_with(|| inode.clone());
    }
    if kind == Kind::Regular && !entry.data.is_empty() {
        crate::fs::mem::fill(&inode, entry.data, done)?;
    }
    let time = Time {
        sec: i64::from(entry.mtime),
        nsec: 0,
    };
    inode.set_attr(&SetAttr {
        mode: Some(entry.mode & !S_IFMT),
        uid: Some(entry.uid),
        gid: Some(entry.gid),
        atime: Some(time),
        mtime: Some(time),
        ..SetAttr::default()
    })
}

/// The place of `path`, with the directories on the way made where the archive left them out.
fn reach<'p>(view: &View, root: &Place, path: &'p [u8]) -> Result<Target<'p>> {
    for (at, _) in path.iter().enumerate().filter(|(_, b)| **b == b'/') {
        let above = &path[..at];
        if above.is_empty() {
            continue;
        }
        let target = walk(view, root.clone(), above, true)?;
        if target.place.is_none() {
            let mode = S_IFDIR | 0o755;
            target
                .dir
                .inode
                .create(&target.name, mode, 0, 0, view.cred)?;
        }
    }
    walk(view, root.clone(), path, false)
}

/// Makes way for a later entry of the same name.
fn remove(target: &Target) -> Result<()> {
    match &target.place {
        Some(place) if place.inode.kind() == Kind::Directory => Err(Errno::EISDIR),
        Some(_) => target.dir.inode.unlink(&target.name),
        None => Ok(()),
    }
}
