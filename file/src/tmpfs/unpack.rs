//! An archive becomes files.
//!
//! *Interface*: [`unpack`] puts one into any directory. The kernel's own tables (`kernel.sym`, `kernel.rel`)
//! stay out.
#![expect(clippy::disallowed_methods, reason = "at boot, before there are users")]

use abi::errno::{Errno, Result};
use abi::linux::{S_IFDIR, S_IFMT, makedev};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use machine::cpio::{self, Entry};

use crate::fs::attr::{FileKind, FileTime, SetAttr};
use crate::fs::inode::Inode;
use crate::fs::mount::VfsPath;
use crate::fs::walk::{WalkContext, WalkTarget, walk};
use account::Cred;

/// The kernel's own tables: that of symbols, which a panic report reads from the archive itself, and that of
/// places, which has served before there are files.
const TABLES: [&[u8]; 3] = [
    b"kernel.sym",
    b".synthesis/kernel.sym",
    b".synthesis/kernel.rel",
];

/// Puts the archives in `input` below `root`, as boot does: corrupt parts are skipped and logged. `ENOSPC`,
/// `ENOMEM`.
pub fn unpack<'a>(root: &VfsPath, input: &'a [u8], done: &mut dyn FnMut(&'a [u8])) -> Result<()> {
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
    root: &VfsPath,
    entry: &Entry<'a>,
    linked: &mut BTreeMap<(u32, u32), Arc<dyn Inode>>,
    done: &mut dyn FnMut(&'a [u8]),
) -> Result<()> {
    if TABLES.contains(&entry.name) {
        return Ok(());
    }
    let mut cred = Cred::root();
    (cred.fsuid, cred.fsgid) = (entry.uid, entry.gid);
    let boss = Cred::root();
    let view = WalkContext::new(root.clone(), &boss, 0);
    let target = reach(&view, root, entry.name)?;
    let kind = FileKind::of_mode(entry.mode).ok_or(Errno::EINVAL)?;
    if kind == FileKind::Symlink {
        remove(&target)?;
        target.dir.inode.symlink(&target.name, entry.data, &cred)?;
        return Ok(());
    }
    let key = (entry.archive, entry.ino);
    let shared = kind == FileKind::Regular && entry.nlink > 1;
    let inode = match (&target.place, linked.get(&key)) {
        (Some(place), _) if kind == FileKind::Directory && place.inode.kind() == kind => {
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
    if kind == FileKind::Regular && !entry.data.is_empty() {
        super::fill(&inode, entry.data, done)?;
    }
    let time = FileTime {
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
fn reach<'p>(view: &WalkContext, root: &VfsPath, path: &'p [u8]) -> Result<WalkTarget<'p>> {
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
fn remove(target: &WalkTarget) -> Result<()> {
    match &target.place {
        Some(place) if place.inode.kind() == FileKind::Directory => Err(Errno::EISDIR),
        Some(_) => target.dir.inode.unlink(&target.name),
        None => Ok(()),
    }
}
