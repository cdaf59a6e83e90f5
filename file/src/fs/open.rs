//! Opening a file by path.
//!
//! *Interface.* [`open`] does all that `openat` does up to the descriptor: walk, create, check access,
//! truncate, and have the inode make the description. `exec` uses it too. [`at`] does the same for a place
//! that was found in another way. Errors are those of open(2).

use abi::errno::{Errno, Result};
use abi::linux::{
    IN_CREATE, IN_MODIFY, O_ACCMODE, O_CLOEXEC, O_CREAT, O_DIRECT, O_DIRECTORY, O_EXCL, O_NOATIME,
    O_NOFOLLOW, O_PATH, O_RDONLY, O_RDWR, O_TMPFILE, O_TRUNC, O_WRONLY, S_IFMT, S_IFREG,
};
use alloc::sync::Arc;

use super::attr::FileKind;
use super::fsnotify;
use super::inode::OpenRequest;
use super::lease;
use super::mount::{MS_NODEV, VfsPath};
use super::perm;
use super::walk::{WalkContext, WalkTarget, walk};
use super::write_count::WriteAccess;
use crate::fs::file::{File, OpenFile};
use account::Cred;

/// How often a create that races with a removal is tried again.
const ATTEMPTS: u32 = 8;
/// The bit of `O_TMPFILE` that is not `O_DIRECTORY`.
const TMPFILE: u32 = O_TMPFILE & !O_DIRECTORY;

/// The permissions that access mode and truncation need.
fn wanted(flags: u32) -> u32 {
    let access = match flags & O_ACCMODE {
        O_RDONLY => perm::READ,
        O_WRONLY => perm::WRITE,
        // Mode 3 opens for nothing but control, and asks for both.
        _ => perm::READ | perm::WRITE,
    };
    access | if flags & O_TRUNC != 0 { perm::WRITE } else { 0 }
}

/// Opens `path` from `start` with `flags`; a new file gets `mode` without the umask.
pub fn open(
    view: &WalkContext,
    start: VfsPath,
    path: &[u8],
    flags: u32,
    mode: u32,
) -> Result<Arc<OpenFile>> {
    let mut flags = flags;
    if flags & O_PATH != 0 {
        flags &= O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    }
    if flags & TMPFILE != 0 {
        return temporary(view, start, path, flags, mode);
    }
    if flags & (O_CREAT | O_DIRECTORY) == O_CREAT | O_DIRECTORY {
        return Err(Errno::EINVAL);
    }
    let exclusive = flags & (O_CREAT | O_EXCL) == O_CREAT | O_EXCL;
    let follow = flags & O_NOFOLLOW == 0 && !exclusive;
    for _ in 0..ATTEMPTS {
        let target = walk(view, start.clone(), path, follow)?;
        if target.place.is_some() {
            if exclusive {
                return Err(Errno::EEXIST);
            }
            return existing(view, target.existing()?, flags);
        }
        if flags & O_CREAT == 0 {
            return Err(Errno::ENOENT);
        }
        match create(view, &target, mode) {
            Ok(place) => return made(place, flags),
            Err(Errno::EEXIST) if !exclusive => {}
            Err(e) => return Err(e),
        }
    }
    Err(Errno::EBUSY)
}

/// Makes the regular file `name` in `dir`, which `cred` may change, and opens it. EEXIST, and what else
/// making one may say.
pub fn make(
    cred: &Cred,
    umask: u32,
    dir: VfsPath,
    name: &[u8],
    flags: u32,
    mode: u32,
) -> Result<Arc<OpenFile>> {
    let VfsPath { mount, inode: dir } = dir;
    let mode = S_IFREG | mode & 0o7777;
    let inode = dir.create(name, mode, umask, 0, cred)?;
    fsnotify::name(&*dir, name, IN_CREATE, false);
    made(VfsPath { mount, inode }, flags)
}

fn create(view: &WalkContext, target: &WalkTarget, mode: u32) -> Result<VfsPath> {
    if target.slash {
        return Err(Errno::EISDIR);
    }
    let dir = &target.dir.inode;
    dir.permits(view.cred, perm::WRITE | perm::EXEC)?;
    target.dir.mount.writable()?;
    let mode = S_IFREG | mode & 0o7777;
    let inode = dir.create(&target.name, mode, view.umask, 0, view.cred)?;
    fsnotify::name(&**dir, &target.name, IN_CREATE, false);
    Ok(target.dir.with_inode(inode))
}

/// The description of a file that was just made: permission bits do not matter.
fn made(place: VfsPath, flags: u32) -> Result<Arc<OpenFile>> {
    let inode = place.inode.clone();
    let writing = match writes(flags) {
        true => WriteAccess::begin(&inode)?,
        false => None,
    };
    let of = inode.open(OpenRequest {
        flags,
        place: Some(place),
    })?;
    if let Some(writing) = writing {
        of.keep_writing(writing);
    }
    Ok(of)
}

fn writes(flags: u32) -> bool {
    matches!(flags & O_ACCMODE, O_WRONLY | O_RDWR)
}

/// Opens the inode at `place`, as by its path. ELOOP: a symbolic link is not followed.
pub fn at(view: &WalkContext, place: VfsPath, flags: u32) -> Result<Arc<OpenFile>> {
    if flags & TMPFILE != 0 {
        return open(view, place, b".", flags, 0);
    }
    if flags & (O_CREAT | O_DIRECTORY) == O_CREAT | O_DIRECTORY {
        return Err(Errno::EINVAL);
    }
    if flags & (O_CREAT | O_EXCL) == O_CREAT | O_EXCL && flags & O_PATH == 0 {
        return Err(Errno::EEXIST);
    }
    existing(view, place, flags)
}

fn existing(view: &WalkContext, place: VfsPath, flags: u32) -> Result<Arc<OpenFile>> {
    let attr = place.inode.attr();
    let kind = attr.kind();
    let inode = place.inode.clone();
    if flags & O_DIRECTORY != 0 && kind != FileKind::Directory {
        return Err(Errno::ENOTDIR);
    }
    let how = OpenRequest {
        flags,
        place: Some(place.clone()),
    };
    if flags & O_PATH != 0 {
        return Ok(how.finish(Arc::new(PathOnly)));
    }
    let want = wanted(flags);
    match kind {
        FileKind::Symlink => return Err(Errno::ELOOP),
        FileKind::Directory if flags & O_CREAT != 0 || want & perm::WRITE != 0 => {
            return Err(Errno::EISDIR);
        }
        FileKind::Char | FileKind::Block if place.mount.flags() & MS_NODEV != 0 => {
            return Err(Errno::EACCES);
        }
        _ => {}
    }
    inode.permits(view.cred, want)?;
    if want & perm::WRITE != 0 && kind == FileKind::Regular {
        place.mount.writable()?;
    }
    if flags & O_NOATIME != 0 && !perm::owns(view.cred, &attr) {
        return Err(Errno::EPERM);
    }
    let writing = match want & perm::WRITE != 0 && kind == FileKind::Regular {
        true => WriteAccess::begin(&inode)?,
        false => None,
    };
    if kind == FileKind::Regular {
        lease::break_for(&inode, flags)?;
    }
    let of = inode.open(how)?;
    // There is nothing between a program and a file's bytes that these would go around; what has none is
    // refused.
    if flags & O_DIRECT != 0 && !of.file().is_bounded() {
        return Err(Errno::EINVAL);
    }
    // A file of no kind (an anonymous one reached through `/proc`) has no length.
    if flags & O_TRUNC != 0 && attr.mode & S_IFMT == S_IFREG {
        place.inode.truncate(0)?;
        fsnotify::file(&*place.inode, IN_MODIFY);
    }
    if let Some(writing) = writing.filter(|_| writes(flags)) {
        of.keep_writing(writing);
    }
    Ok(of)
}

fn temporary(
    view: &WalkContext,
    start: VfsPath,
    path: &[u8],
    flags: u32,
    mode: u32,
) -> Result<Arc<OpenFile>> {
    if flags & O_DIRECTORY == 0 || !writes(flags) || flags & O_CREAT != 0 {
        return Err(Errno::EINVAL);
    }
    let dir = walk(view, start, path, flags & O_NOFOLLOW == 0)?.existing()?;
    let attr = dir.inode.attr();
    if attr.kind() != FileKind::Directory {
        return Err(Errno::ENOTDIR);
    }
    dir.inode.permits(view.cred, perm::WRITE | perm::EXEC)?;
    dir.mount.writable()?;
    let inode = dir
        .inode
        .tmpfile(b"#", S_IFREG | mode & 0o7777, view.umask, view.cred)?;
    if flags & O_EXCL == 0 {
        inode.let_link();
    }
    made(dir.with_inode(inode), flags)
}

/// An `O_PATH` description: a place, and nothing that can be done there.
struct PathOnly;

impl File for PathOnly {}
