//! Looking at files: attributes, access, link texts, file systems.
//!
//! *Interface.* [`CALLS`].

use abi::errno::{Errno, Result};
use abi::linux::{
    AT_EACCESS, AT_EMPTY_PATH, AT_FDCWD, AT_NO_AUTOMOUNT, AT_SYMLINK_NOFOLLOW, F_OK, PATH_MAX,
    R_OK, STATX_ATTR_MOUNT_ROOT, STATX_BTIME, STATX_MNT_ID, Statfs, Ustat, W_OK, X_OK,
};
use abi::nr;
use machine::irqs_off::IrqsOff;

use super::{FileCaller, UserPath, user_path};
use crate::call::{Args, Handler};
use account::Cred;
use codegen::fault_injection::refused;
use file::fs::lockfree_walk;
use file::fs::mount::mount_from;
use file::fs::{Attr, FileKind, FsContext, VfsPath};
use process::{Process, Task};
use thread::frameless::NOT_HANDLED;

/// Calls of this family.
pub const CALLS: &[(usize, Handler)] = &[
    (nr::STAT, stat),
    (nr::FSTAT, fstat),
    (nr::LSTAT, lstat),
    (nr::NEWFSTATAT, newfstatat),
    (nr::STATX, statx),
    (nr::ACCESS, access),
    (nr::FACCESSAT, faccessat),
    (nr::FACCESSAT2, faccessat2),
    (nr::READLINK, readlink),
    (nr::READLINKAT, readlinkat),
    (nr::STATFS, statfs),
    (nr::FSTATFS, fstatfs),
    (nr::USTAT, ustat),
];

const NOFOLLOW: u32 = AT_SYMLINK_NOFOLLOW as u32;
const EMPTY: u32 = AT_EMPTY_PATH as u32;

fn put_stat(attr: &Attr, addr: usize) -> Result<usize> {
    vm::user::put(addr, &attr.to_stat())?;
    Ok(0)
}

/// Puts at `addr` what is to be said of the file that `path` leads to; no answer where one has to walk there.
#[expect(clippy::disallowed_methods, reason = "room may be refused")]
fn at_once(mut path: UserPath, addr: usize, follow: bool) -> Option<Result<usize>> {
    const ZEROS: [u8; 8] = [0; 8];
    if refused() || path.try_reserve(ZEROS.len()).is_err() {
        return None;
    }
    path.extend_from_slice(&ZEROS);
    let path = lockfree_walk::PaddedPath::with_zeros(&path)?;
    let inode = Task::here(|task| {
        let process = &task.process;
        let found = |fs: &FsContext, cred: &Cred| lockfree_walk::inode(fs, path, cred, follow);
        process.fs.beside(&task.cred, found)
    })
    .flatten()?;
    Some(put_stat(&inode.attr(), addr))
}

/// As [`at_once`], of the path at user address `path`, for a call without a trap frame.
fn frameless(path: usize, addr: usize, follow: bool, off: &mut IrqsOff) -> isize {
    let answer = off.with_interrupts(|| match user_path(path) {
        Ok(path) => at_once(path, addr, follow),
        Err(error) => Some(Err(error)),
    });
    match answer {
        Some(Ok(value)) => value as isize,
        Some(Err(error)) => error.to_rax() as isize,
        None => NOT_HANDLED,
    }
}

/// `stat` of a file that is found without a lock.
pub(crate) extern "sysv64" fn stat_frameless(
    path: usize,
    addr: usize,
    _third: usize,
    _more: usize,
    _other: usize,
    _last: usize,
    mut off: IrqsOff,
) -> isize {
    frameless(path, addr, true, &mut off)
}

/// `lstat` of such a file.
pub(crate) extern "sysv64" fn lstat_frameless(
    path: usize,
    addr: usize,
    _third: usize,
    _more: usize,
    _other: usize,
    _last: usize,
    mut off: IrqsOff,
) -> isize {
    frameless(path, addr, false, &mut off)
}

/// `newfstatat` of such a file, by a path from the working directory or the root.
pub(crate) extern "sysv64" fn newfstatat_frameless(
    dirfd: usize,
    path: usize,
    addr: usize,
    flags: usize,
    _other: usize,
    _last: usize,
    mut off: IrqsOff,
) -> isize {
    match flags as u32 {
        flags @ (0 | NOFOLLOW) if dirfd as i32 == AT_FDCWD => {
            frameless(path, addr, flags == 0, &mut off)
        }
        _ => NOT_HANDLED,
    }
}

fn by_path(args: &Args, follow: bool) -> Result<usize> {
    let path = user_path(args.word(0))?;
    let place = FileCaller::current().place(AT_FDCWD, &path, follow)?;
    put_stat(&place.inode.attr(), args.word(1))
}

fn stat(args: &mut Args) -> Result<usize> {
    by_path(args, true)
}

fn lstat(args: &mut Args) -> Result<usize> {
    by_path(args, false)
}

fn fstat(args: &mut Args) -> Result<usize> {
    let of = Process::current().files.get().get(args.int(0))?;
    put_stat(&of.file().stat(&of), args.word(1))
}

fn newfstatat(args: &mut Args) -> Result<usize> {
    let flags = args.uint(3);
    if flags & !(NOFOLLOW | EMPTY | AT_NO_AUTOMOUNT as u32) != 0 {
        return Err(Errno::EINVAL);
    }
    let follow = flags & NOFOLLOW == 0;
    let object = FileCaller::current().object(args.int(0), args.word(1), flags, follow)?;
    put_stat(&object.attr(), args.word(2))
}

fn statx(args: &mut Args) -> Result<usize> {
    const AT_STATX_FORCE_SYNC: u32 = 0x2000;
    const AT_STATX_DONT_SYNC: u32 = 0x4000;
    const SYNC_TYPE: u32 = AT_STATX_FORCE_SYNC | AT_STATX_DONT_SYNC;
    const MASK_RESERVED: u32 = 0x8000_0000;
    let (flags, mask) = (args.uint(2), args.uint(3));
    let known = NOFOLLOW | EMPTY | AT_NO_AUTOMOUNT as u32 | SYNC_TYPE;
    if flags & !known != 0 || flags & SYNC_TYPE == SYNC_TYPE || mask & MASK_RESERVED != 0 {
        return Err(Errno::EINVAL);
    }
    let follow = flags & NOFOLLOW == 0;
    let object = FileCaller::current().object(args.int(0), args.word(1), flags, follow)?;
    let mut out = object.attr().to_statx();
    // Told only to who asks.
    out.mask &= !STATX_BTIME | mask & STATX_BTIME;
    if let Some(place) = object.place() {
        out.attributes_mask |= STATX_ATTR_MOUNT_ROOT;
        if place.is_mount_root() {
            out.attributes |= STATX_ATTR_MOUNT_ROOT;
        }
        out.mnt_id = u64::from(place.mount.id);
        out.mask |= STATX_MNT_ID;
    }
    vm::user::put(args.word(4), &out)?;
    Ok(0)
}

fn do_access(dirfd: i32, addr: usize, mode: i32, flags: u32) -> Result<usize> {
    if mode & !(R_OK | W_OK | X_OK) != 0 {
        return Err(Errno::EINVAL);
    }
    if flags & !(NOFOLLOW | EMPTY | AT_EACCESS as u32) != 0 {
        return Err(Errno::EINVAL);
    }
    let mut caller = FileCaller::current();
    let cred = &caller.cred;
    let real = cred.caps.of_real_user(cred.uid);
    if flags & AT_EACCESS as u32 == 0
        && (cred.fsuid != cred.uid || cred.fsgid != cred.gid || cred.caps.effective != real)
    {
        let mut as_real = Cred::clone(cred);
        (as_real.fsuid, as_real.fsgid) = (cred.uid, cred.gid);
        as_real.caps.effective = real;
        caller.cred = as_real.sealed();
    }
    let object = caller.object(dirfd, addr, flags, flags & NOFOLLOW == 0)?;
    if mode == F_OK {
        return Ok(0);
    }
    let attr = object.attr();
    object.permits(&caller.cred, mode as u32)?;
    if let Some(place) = object.place() {
        let stored = matches!(
            attr.kind(),
            FileKind::Regular | FileKind::Directory | FileKind::Symlink
        );
        if mode & W_OK != 0 && stored {
            place.mount.writable()?;
        }
        if mode & X_OK != 0 && attr.kind() == FileKind::Regular && place.is_noexec() {
            return Err(Errno::EACCES);
        }
    }
    Ok(0)
}

fn access(args: &mut Args) -> Result<usize> {
    do_access(AT_FDCWD, args.word(0), args.int(1), 0)
}

fn faccessat(args: &mut Args) -> Result<usize> {
    do_access(args.int(0), args.word(1), args.int(2), 0)
}

fn faccessat2(args: &mut Args) -> Result<usize> {
    do_access(args.int(0), args.word(1), args.int(2), args.uint(3))
}

fn do_readlink(dirfd: i32, path: usize, buf: usize, size: i32) -> Result<usize> {
    let size = usize::try_from(size)
        .ok()
        .filter(|s| *s > 0)
        .ok_or(Errno::EINVAL)?;
    let caller = FileCaller::current();
    let path = user_path(path)?;
    let place = if path.is_empty() {
        let object = caller.itself(dirfd)?;
        object.place().cloned().ok_or(Errno::ENOENT)?
    } else {
        caller.place(dirfd, &path, false)?
    };
    if place.inode.kind() != FileKind::Symlink {
        // Nothing is said of what has no path but that it is no link.
        return Err(if path.is_empty() {
            Errno::ENOENT
        } else {
            Errno::EINVAL
        });
    }
    let text = place.inode.readlink()?;
    let count = text.len().min(size).min(PATH_MAX);
    vm::user::copy_out(buf, &text[..count])?;
    Ok(count)
}

fn readlink(args: &mut Args) -> Result<usize> {
    do_readlink(AT_FDCWD, args.word(0), args.word(1), args.int(2))
}

fn readlinkat(args: &mut Args) -> Result<usize> {
    do_readlink(args.int(0), args.word(1), args.word(2), args.int(3))
}

fn statfs(args: &mut Args) -> Result<usize> {
    let path = user_path(args.word(0))?;
    let place = FileCaller::current().place(AT_FDCWD, &path, true)?;
    vm::user::put(args.word(1), &of_mount(&place))?;
    Ok(0)
}

/// The answer about the file system and the mount of `place`.
fn of_mount(place: &VfsPath) -> Statfs {
    /// The flags are meant.
    const ST_VALID: i64 = 0x20;
    let mut out = place.mount.fs.statfs();
    out.flags = place.mount.flags() as i64 | ST_VALID;
    out
}

fn fstatfs(args: &mut Args) -> Result<usize> {
    let of = Process::current().files.get().get(args.int(0))?;
    let out = match of.place() {
        Some(place) => of_mount(place),
        None => Statfs {
            kind: of.file().magic(),
            bsize: 4096,
            frsize: 4096,
            namelen: 255,
            ..Statfs::default()
        },
    };
    vm::user::put(args.word(1), &out)?;
    Ok(0)
}

/// The free space of the file system whose files have a device's number.
fn ustat(args: &mut Args) -> Result<usize> {
    let wanted = u64::from(args.uint(0));
    let mut from = 0;
    while let Some(mount) = mount_from(from) {
        from = u64::from(mount.id) + 1;
        if mount.root.id().0 == wanted {
            let all = mount.fs.statfs();
            let found = Ustat {
                tfree: all.bfree as i32,
                tinode: all.ffree,
                ..Ustat::default()
            };
            vm::user::put(args.word(1), &found)?;
            return Ok(0);
        }
    }
    Err(Errno::EINVAL)
}
