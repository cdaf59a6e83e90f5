//! Changing names: directories, links, removals, renames; the root and the working directory of a
//! process.
//!
//! *Interface.* [`CALLS`].

use abi::errno::{Errno, Result};
use abi::linux::{
    AT_EMPTY_PATH, AT_FDCWD, AT_REMOVEDIR, AT_SYMLINK_FOLLOW, IN_CREATE, IN_DELETE, PATH_MAX,
    RENAME_EXCHANGE, RENAME_NOREPLACE, RENAME_WHITEOUT, S_IFDIR, S_IFMT, S_IFREG,
};
use abi::nr;

use super::{FileCaller, user_path};
use crate::call::{Args, Handler};
use account::Capability;
use file::event::marks;
use file::fs::inode::Inode;
use file::fs::remove::{may_change, may_remove, remove};
use file::fs::walk::{LastComponent, WalkTarget, searchable};
use file::fs::{FileKind, VfsPath, fsnotify, perm};
use vm::fallible::try_push;

/// Calls of this family.
pub const CALLS: &[(usize, Handler)] = &[
    (nr::MKDIR, mkdir),
    (nr::MKDIRAT, mkdirat),
    (nr::MKNOD, mknod),
    (nr::MKNODAT, mknodat),
    (nr::RMDIR, rmdir),
    (nr::UNLINK, unlink),
    (nr::UNLINKAT, unlinkat),
    (nr::RENAME, rename),
    (nr::RENAMEAT, renameat),
    (nr::RENAMEAT2, renameat2),
    (nr::LINK, link),
    (nr::LINKAT, linkat),
    (nr::SYMLINK, symlink),
    (nr::SYMLINKAT, symlinkat),
    (nr::CHDIR, chdir),
    (nr::FCHDIR, fchdir),
    (nr::GETCWD, getcwd),
    (nr::CHROOT, chroot),
    (nr::UMASK, umask),
];

/// The place for a new name: `EEXIST` when it is taken; `ENOENT` when a slash follows it, unless `slash` is
/// all right.
fn vacant(caller: &FileCaller, target: &WalkTarget, slash: bool) -> Result<()> {
    if target.place.is_some() || target.last != LastComponent::Name {
        return Err(Errno::EEXIST);
    }
    if target.slash && !slash {
        return Err(Errno::ENOENT);
    }
    may_change(&caller.cred, &target.dir)
}

fn do_mkdir(dirfd: i32, addr: usize, mode: u32) -> Result<usize> {
    let caller = FileCaller::current();
    let path = user_path(addr)?;
    let target = caller.target(dirfd, &path, false)?;
    vacant(&caller, &target, true)?;
    let (mode, umask) = (S_IFDIR | mode & 0o1777, caller.fs.umask());
    target
        .dir
        .inode
        .create(&target.name, mode, umask, 0, &caller.cred)?;
    fsnotify::name(&*target.dir.inode, &target.name, IN_CREATE, true);
    Ok(0)
}

fn mkdir(args: &mut Args) -> Result<usize> {
    do_mkdir(AT_FDCWD, args.word(0), args.uint(1))
}

fn mkdirat(args: &mut Args) -> Result<usize> {
    do_mkdir(args.int(0), args.word(1), args.uint(2))
}

fn do_mknod(dirfd: i32, addr: usize, mode: u32, rdev: u64) -> Result<usize> {
    let caller = FileCaller::current();
    let kind = FileKind::of_mode(mode).ok_or(Errno::EINVAL)?;
    match kind {
        FileKind::Directory => return Err(Errno::EPERM),
        FileKind::Symlink => return Err(Errno::EINVAL),
        _ => {}
    }
    let path = user_path(addr)?;
    let target = caller.target(dirfd, &path, false)?;
    vacant(&caller, &target, false)?;
    // Anybody may make a whiteout, which is no device.
    let whiteout = kind == FileKind::Char && rdev == 0;
    let device = matches!(kind, FileKind::Char | FileKind::Block) && !whiteout;
    if device && !caller.cred.has(Capability::Mknod) {
        return Err(Errno::EPERM);
    }
    let (bits, umask) = (mode & 0o7777, caller.fs.umask());
    let kind = if mode & S_IFMT == 0 {
        S_IFREG
    } else {
        mode & S_IFMT
    };
    target
        .dir
        .inode
        .create(&target.name, kind | bits, umask, rdev, &caller.cred)?;
    fsnotify::name(&*target.dir.inode, &target.name, IN_CREATE, false);
    Ok(0)
}

fn mknod(args: &mut Args) -> Result<usize> {
    let rdev = u64::from(args.uint(2));
    do_mknod(AT_FDCWD, args.word(0), args.uint(1), rdev)
}

fn mknodat(args: &mut Args) -> Result<usize> {
    let rdev = u64::from(args.uint(3));
    do_mknod(args.int(0), args.word(1), args.uint(2), rdev)
}

fn do_rmdir(dirfd: i32, addr: usize) -> Result<usize> {
    let caller = FileCaller::current();
    let path = user_path(addr)?;
    let target = caller.target(dirfd, &path, false)?;
    match target.last {
        LastComponent::Dot => return Err(Errno::EINVAL),
        LastComponent::DotDot => return Err(Errno::ENOTEMPTY),
        LastComponent::Root => return Err(Errno::EBUSY),
        LastComponent::Name => {}
    }
    let victim = target.place.ok_or(Errno::ENOENT)?;
    may_remove(&caller.cred, &target.dir, &victim.inode.attr())?;
    if victim.inode.kind() != FileKind::Directory {
        return Err(Errno::ENOTDIR);
    }
    if victim.is_mount_root() {
        return Err(Errno::EBUSY);
    }
    target.dir.inode.rmdir(&target.name)?;
    // Those who watch it hear of its end first.
    fsnotify::end(victim.inode);
    fsnotify::name(&*target.dir.inode, &target.name, IN_DELETE, true);
    Ok(0)
}

pub(super) fn do_unlink(dirfd: i32, addr: usize) -> Result<usize> {
    let caller = FileCaller::current();
    let path = user_path(addr)?;
    let target = caller.target(dirfd, &path, false)?;
    remove(&caller.cred, target).map(|()| 0)
}

fn rmdir(args: &mut Args) -> Result<usize> {
    do_rmdir(AT_FDCWD, args.word(0))
}

fn unlink(args: &mut Args) -> Result<usize> {
    do_unlink(AT_FDCWD, args.word(0))
}

fn unlinkat(args: &mut Args) -> Result<usize> {
    match args.int(2) {
        0 => do_unlink(args.int(0), args.word(1)),
        AT_REMOVEDIR => do_rmdir(args.int(0), args.word(1)),
        _ => Err(Errno::EINVAL),
    }
}

fn do_rename(from: (i32, usize), to: (i32, usize), flags: u32) -> Result<usize> {
    const REPLACES: u32 = RENAME_NOREPLACE | RENAME_WHITEOUT;
    if flags & !(REPLACES | RENAME_EXCHANGE) != 0
        || flags & REPLACES != 0 && flags & RENAME_EXCHANGE != 0
    {
        return Err(Errno::EINVAL);
    }
    let caller = FileCaller::current();
    let (from_path, to_path) = (user_path(from.1)?, user_path(to.1)?);
    let old = caller.target(from.0, &from_path, false)?;
    let new = caller.target(to.0, &to_path, false)?;
    if !alloc::sync::Arc::ptr_eq(&old.dir.mount, &new.dir.mount) {
        return Err(Errno::EXDEV);
    }
    if old.last != LastComponent::Name || new.last != LastComponent::Name {
        let taken = new.last != LastComponent::Name && flags & RENAME_NOREPLACE != 0;
        return Err(if taken { Errno::EEXIST } else { Errno::EBUSY });
    }
    let node = old.place.ok_or(Errno::ENOENT)?;
    let attr = node.inode.attr();
    if new.place.is_some() && flags & RENAME_NOREPLACE != 0 {
        return Err(Errno::EEXIST);
    }
    if new.place.is_none() && flags & RENAME_EXCHANGE != 0 {
        return Err(Errno::ENOENT);
    }
    if new.slash && new.place.is_none() && attr.kind() != FileKind::Directory {
        return Err(Errno::ENOTDIR);
    }
    may_remove(&caller.cred, &old.dir, &attr)?;
    match &new.place {
        Some(there) => may_remove(&caller.cred, &new.dir, &there.inode.attr())?,
        None => may_change(&caller.cred, &new.dir)?,
    }
    let moves = old.dir.inode.id() != new.dir.inode.id();
    if moves && attr.kind() == FileKind::Directory {
        // Its `..` changes.
        node.inode.permits(&caller.cred, perm::WRITE)?;
    }
    if moves
        && flags & RENAME_EXCHANGE != 0
        && let Some(there) = &new.place
        && there.inode.attr().kind() == FileKind::Directory
    {
        // And so does its.
        there.inode.permits(&caller.cred, perm::WRITE)?;
    }
    let other = new.place;
    if node.is_mount_root() || other.as_ref().is_some_and(|p| p.is_mount_root()) {
        return Err(Errno::EBUSY);
    }
    old.dir
        .inode
        .rename(&old.name, &new.dir.inode, &new.name, flags, &caller.cred)?;
    if fsnotify::any() {
        let from = (&*old.dir.inode, &old.name[..]);
        let to = (&*new.dir.inode, &new.name[..]);
        tell_of_rename(&node, other.as_ref(), from, to, flags);
        if let Some(other) = other {
            fsnotify::end(other.inode);
        }
    }
    Ok(0)
}

/// A name, that of `node`, has gone to where `other` was, which is gone or has come in its place.
fn tell_of_rename(
    node: &VfsPath,
    other: Option<&VfsPath>,
    from: (&dyn Inode, &[u8]),
    to: (&dyn Inode, &[u8]),
    flags: u32,
) {
    if other.is_some_and(|other| other.inode.id() == node.inode.id()) {
        return;
    }
    marks::renamed(&*node.inode, from, to);
    let exchanged = flags & RENAME_EXCHANGE != 0;
    if let Some(other) = other.filter(|_| !exchanged) {
        fsnotify::linked(&*other.inode);
    }
    fsnotify::moved(&*node.inode);
    if let Some(other) = other.filter(|_| exchanged) {
        marks::renamed(&*other.inode, to, from);
        fsnotify::moved(&*other.inode);
    }
}

fn rename(args: &mut Args) -> Result<usize> {
    do_rename((AT_FDCWD, args.word(0)), (AT_FDCWD, args.word(1)), 0)
}

fn renameat(args: &mut Args) -> Result<usize> {
    do_rename((args.int(0), args.word(1)), (args.int(2), args.word(3)), 0)
}

fn renameat2(args: &mut Args) -> Result<usize> {
    let flags = args.uint(4);
    do_rename(
        (args.int(0), args.word(1)),
        (args.int(2), args.word(3)),
        flags,
    )
}

fn do_link(from: (i32, usize), to: (i32, usize), flags: u32) -> Result<usize> {
    if flags & !(AT_SYMLINK_FOLLOW | AT_EMPTY_PATH) as u32 != 0 {
        return Err(Errno::EINVAL);
    }
    let caller = FileCaller::current();
    if flags & AT_EMPTY_PATH as u32 != 0 && !caller.cred.has(Capability::DacReadSearch) {
        return Err(Errno::ENOENT);
    }
    let follow = flags & AT_SYMLINK_FOLLOW as u32 != 0;
    let old = caller.object(from.0, from.1, flags, follow)?;
    let old = old.place().ok_or(Errno::EXDEV)?;
    let path = user_path(to.1)?;
    let new = caller.target(to.0, &path, false)?;
    vacant(&caller, &new, false)?;
    if !alloc::sync::Arc::ptr_eq(&old.mount, &new.dir.mount) {
        return Err(Errno::EXDEV);
    }
    new.dir.inode.link(&new.name, old.inode.clone())?;
    marks::linked(&*old.inode, &*new.dir.inode);
    fsnotify::linked(&*old.inode);
    fsnotify::name(&*new.dir.inode, &new.name, IN_CREATE, false);
    Ok(0)
}

fn link(args: &mut Args) -> Result<usize> {
    do_link((AT_FDCWD, args.word(0)), (AT_FDCWD, args.word(1)), 0)
}

fn linkat(args: &mut Args) -> Result<usize> {
    let flags = args.uint(4);
    do_link(
        (args.int(0), args.word(1)),
        (args.int(2), args.word(3)),
        flags,
    )
}

fn do_symlink(text: usize, dirfd: i32, addr: usize) -> Result<usize> {
    let caller = FileCaller::current();
    let text = user_path(text)?;
    if text.is_empty() {
        return Err(Errno::ENOENT);
    }
    let path = user_path(addr)?;
    let target = caller.target(dirfd, &path, false)?;
    vacant(&caller, &target, false)?;
    target
        .dir
        .inode
        .symlink(&target.name, &text, &caller.cred)?;
    fsnotify::name(&*target.dir.inode, &target.name, IN_CREATE, false);
    Ok(0)
}

fn symlink(args: &mut Args) -> Result<usize> {
    do_symlink(args.word(0), AT_FDCWD, args.word(1))
}

fn symlinkat(args: &mut Args) -> Result<usize> {
    do_symlink(args.word(0), args.int(1), args.word(2))
}

fn chdir(args: &mut Args) -> Result<usize> {
    let caller = FileCaller::current();
    let place = caller.place(AT_FDCWD, &user_path(args.word(0))?, true)?;
    searchable(&place, &caller.cred)?;
    caller.fs.set_cwd(place)?;
    Ok(0)
}

fn fchdir(args: &mut Args) -> Result<usize> {
    let caller = FileCaller::current();
    let of = caller.files.get(args.int(0))?;
    let place = of.place().ok_or(Errno::ENOTDIR)?;
    searchable(place, &caller.cred)?;
    caller.fs.set_cwd(place.clone())?;
    Ok(0)
}

fn getcwd(args: &mut Args) -> Result<usize> {
    let fs = FileCaller::current().fs;
    let mut path = fs.cwd().path(&fs.root())?;
    try_push(&mut path, 0)?;
    if path.len() > args.word(1) {
        return Err(Errno::ERANGE);
    }
    if path.len() > PATH_MAX {
        return Err(Errno::ENAMETOOLONG);
    }
    vm::user::copy_out(args.word(0), &path)?;
    Ok(path.len())
}

fn chroot(args: &mut Args) -> Result<usize> {
    let caller = FileCaller::current();
    let place = caller.place(AT_FDCWD, &user_path(args.word(0))?, true)?;
    searchable(&place, &caller.cred)?;
    caller.cred.need(Capability::SysChroot)?;
    caller.fs.set_root(place)?;
    Ok(0)
}

fn umask(args: &mut Args) -> Result<usize> {
    Ok(FileCaller::current().fs.set_umask(args.uint(0)) as usize)
}
