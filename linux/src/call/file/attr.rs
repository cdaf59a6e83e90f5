//! Changing attributes: mode, owner, times, length.
//!
//! *Interface.* [`CALLS`].

#![deny(clippy::arithmetic_side_effects)]

use abi::errno::{Errno, Result};
use abi::linux::{
    AT_EMPTY_PATH, AT_FDCWD, AT_SYMLINK_NOFOLLOW, IN_ACCESS, IN_ATTRIB, IN_MODIFY, O_WRONLY,
    S_ISGID, S_ISUID, Timespec, Timeval, UTIME_NOW, UTIME_OMIT, Utimbuf,
};
use abi::nr;

use super::{FileCaller, FileObject, unsigned, user_path};
use crate::call::{Args, Handler};
use account::Capability;
use file::event::marks;
use file::fs::attr::ModeBits;
use file::fs::lease;
use file::fs::perm;
use file::fs::write_count::WriteAccess;
use file::fs::{Attr, FileKind, FileTime, SetAttr, fsnotify, now};
use process::Process;

/// Calls of this family.
pub const CALLS: &[(usize, Handler)] = &[
    (nr::CHMOD, chmod),
    (nr::FCHMOD, fchmod),
    (nr::FCHMODAT, fchmodat),
    (nr::FCHMODAT2, fchmodat2),
    (nr::CHOWN, chown),
    (nr::FCHOWN, fchown),
    (nr::LCHOWN, lchown),
    (nr::FCHOWNAT, fchownat),
    (nr::UTIME, utime),
    (nr::UTIMES, utimes),
    (nr::FUTIMESAT, futimesat),
    (nr::UTIMENSAT, utimensat),
    (nr::TRUNCATE, truncate),
    (nr::FTRUNCATE, ftruncate),
    (nr::FALLOCATE, fallocate),
];

const NOFOLLOW: u32 = AT_SYMLINK_NOFOLLOW as u32;
const EMPTY: u32 = AT_EMPTY_PATH as u32;

/// Leaves an identity alone.
const KEEP: u32 = u32::MAX;

/// Changes what `decide` says for the attributes as they are. They are still so when it is done: else an
/// owner's `chmod` could meet root's `chown` and give the set-id bits to a file that is no longer his.
fn change(object: &FileObject, decide: impl Fn(&Attr) -> Result<SetAttr>) -> Result<usize> {
    loop {
        let attr = match object.place() {
            Some(place) => place.inode.attr(),
            None => object.attr(),
        };
        if let Some(place) = object.place() {
            place.mount.writable()?;
        }
        let set = SetAttr {
            seen: Some(ModeBits::of(&attr)),
            ..decide(&attr)?
        };
        match object.set_attr(&set) {
            // Somebody else has changed them meanwhile.
            Err(Errno::EAGAIN) => {}
            Ok(()) => {
                if let Some(place) = object.place() {
                    fsnotify::file(&*place.inode, event_of(&set));
                }
                return Ok(0);
            }
            Err(error) => return Err(error),
        }
    }
}

/// The event that the watchers of a file get for a change of its attributes.
fn event_of(set: &SetAttr) -> u32 {
    match (set.atime, set.mtime) {
        _ if set.mode.is_some() || set.uid.is_some() || set.gid.is_some() => IN_ATTRIB,
        (Some(_), None) => IN_ACCESS,
        (None, Some(_)) => IN_MODIFY,
        (Some(_), Some(_)) => IN_ATTRIB,
        (None, None) => 0,
    }
}

fn change_mode(caller: &FileCaller, object: &FileObject, mode: u32) -> Result<usize> {
    change(object, |attr| {
        if !perm::owns(&caller.cred, attr) {
            return Err(Errno::EPERM);
        }
        if attr.kind() == FileKind::Symlink {
            return Err(Errno::EOPNOTSUPP);
        }
        let mut mode = mode & 0o7777;
        if !perm::keeps_group(&caller.cred, attr.gid) {
            mode &= !S_ISGID;
        }
        Ok(SetAttr {
            mode: Some(mode),
            ..SetAttr::default()
        })
    })
}

fn chmod(args: &mut Args) -> Result<usize> {
    let caller = FileCaller::current();
    let object = caller.named(AT_FDCWD, args.word(0), true)?;
    change_mode(&caller, &object, args.uint(1))
}

fn fchmod(args: &mut Args) -> Result<usize> {
    let caller = FileCaller::current();
    let of = caller.files.get(args.int(0))?;
    if of.flags() & abi::linux::O_PATH != 0 {
        return Err(Errno::EBADF);
    }
    change_mode(&caller, &FileObject::Open(of), args.uint(1))
}

fn fchmodat(args: &mut Args) -> Result<usize> {
    let caller = FileCaller::current();
    let object = caller.named(args.int(0), args.word(1), true)?;
    change_mode(&caller, &object, args.uint(2))
}

fn fchmodat2(args: &mut Args) -> Result<usize> {
    let flags = args.uint(3);
    if flags & !(NOFOLLOW | EMPTY) != 0 {
        return Err(Errno::EINVAL);
    }
    let caller = FileCaller::current();
    let object = caller.object(args.int(0), args.word(1), flags, flags & NOFOLLOW == 0)?;
    change_mode(&caller, &object, args.uint(2))
}

fn change_owner(caller: &FileCaller, object: &FileObject, uid: u32, gid: u32) -> Result<usize> {
    let cred = &caller.cred;
    change(object, |attr| {
        if !cred.has(Capability::Chown) {
            let own = cred.fsuid == attr.uid;
            let uid_ok = uid == KEEP || (own && uid == attr.uid);
            let gid_ok = gid == KEEP || (own && (gid == attr.gid || cred.in_group(gid)));
            if !uid_ok || !gid_ok {
                return Err(Errno::EPERM);
            }
        }
        let mut mode = attr.mode & 0o7777;
        if attr.kind() != FileKind::Directory {
            mode &= !S_ISUID;
            if mode & 0o010 != 0 || !perm::keeps_group(cred, attr.gid) {
                mode &= !S_ISGID;
            }
        }
        let changes = mode != attr.mode & 0o7777;
        // To take the set-id bits away is to change the mode, also when the owner stays.
        if changes && !perm::owns(cred, attr) {
            return Err(Errno::EPERM);
        }
        Ok(SetAttr {
            mode: changes.then_some(mode),
            uid: (uid != KEEP).then_some(uid),
            gid: (gid != KEEP).then_some(gid),
            strip: attr.kind() != FileKind::Directory,
            ..SetAttr::default()
        })
    })
}

fn by_path(args: &Args, follow: bool) -> Result<usize> {
    let caller = FileCaller::current();
    let object = caller.named(AT_FDCWD, args.word(0), follow)?;
    change_owner(&caller, &object, args.uint(1), args.uint(2))
}

fn chown(args: &mut Args) -> Result<usize> {
    by_path(args, true)
}

fn lchown(args: &mut Args) -> Result<usize> {
    by_path(args, false)
}

fn fchown(args: &mut Args) -> Result<usize> {
    let caller = FileCaller::current();
    let of = caller.files.get(args.int(0))?;
    if of.flags() & abi::linux::O_PATH != 0 {
        return Err(Errno::EBADF);
    }
    change_owner(&caller, &FileObject::Open(of), args.uint(1), args.uint(2))
}

fn fchownat(args: &mut Args) -> Result<usize> {
    let flags = args.uint(4);
    if flags & !(NOFOLLOW | EMPTY) != 0 {
        return Err(Errno::EINVAL);
    }
    let caller = FileCaller::current();
    let object = caller.object(args.int(0), args.word(1), flags, flags & NOFOLLOW == 0)?;
    change_owner(&caller, &object, args.uint(2), args.uint(3))
}

/// A call's wish for one time stamp.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stamp {
    Now,
    Omit,
    At(FileTime),
}

fn set_times(caller: &FileCaller, object: &FileObject, times: [Stamp; 2]) -> Result<usize> {
    if times == [Stamp::Omit; 2] {
        return Ok(0);
    }
    let time = |stamp| match stamp {
        Stamp::Now => Some(now()),
        Stamp::Omit => None,
        Stamp::At(time) => Some(time),
    };
    change(object, |attr| {
        if !perm::owns(&caller.cred, attr) {
            // A caller that may write the file may set the time to "now", as a write would.
            if times != [Stamp::Now; 2] {
                return Err(Errno::EPERM);
            }
            object.permits(&caller.cred, perm::WRITE)?;
        }
        Ok(SetAttr {
            atime: time(times[0]),
            mtime: time(times[1]),
            ..SetAttr::default()
        })
    })
}

fn utime(args: &mut Args) -> Result<usize> {
    let times = match args.word(1) {
        0 => [Stamp::Now; 2],
        addr => {
            let both: Utimbuf = vm::user::get(addr)?;
            [both.actime, both.modtime].map(|sec| Stamp::At(FileTime { sec, nsec: 0 }))
        }
    };
    let caller = FileCaller::current();
    let object = caller.named(AT_FDCWD, args.word(0), true)?;
    set_times(&caller, &object, times)
}

fn microseconds(addr: usize) -> Result<[Stamp; 2]> {
    const MILLION: i64 = 1_000_000;
    if addr == 0 {
        return Ok([Stamp::Now; 2]);
    }
    let mut stamps = [Stamp::Now; 2];
    let both = [
        vm::user::get::<Timeval>(addr)?,
        vm::user::get::<Timeval>(addr.wrapping_add(size_of::<Timeval>()))?,
    ];
    for (stamp, time) in stamps.iter_mut().zip(both) {
        if !(0..MILLION).contains(&time.usec) {
            return Err(Errno::EINVAL);
        }
        *stamp = Stamp::At(FileTime {
            sec: time.sec,
            nsec: (time.usec as u32).wrapping_mul(1000),
        });
    }
    Ok(stamps)
}

fn utimes(args: &mut Args) -> Result<usize> {
    let times = microseconds(args.word(1))?;
    let caller = FileCaller::current();
    let object = caller.named(AT_FDCWD, args.word(0), true)?;
    set_times(&caller, &object, times)
}

fn futimesat(args: &mut Args) -> Result<usize> {
    let times = microseconds(args.word(2))?;
    let caller = FileCaller::current();
    let flags = if args.word(1) == 0 { EMPTY } else { 0 };
    let object = caller.object(args.int(0), args.word(1), flags, true)?;
    set_times(&caller, &object, times)
}

fn utimensat(args: &mut Args) -> Result<usize> {
    const BILLION: i64 = 1_000_000_000;
    let flags = args.uint(3);
    if flags & !(NOFOLLOW | EMPTY) != 0 {
        return Err(Errno::EINVAL);
    }
    let mut times = [Stamp::Now; 2];
    let addr = args.word(2);
    if addr != 0 {
        let both = [
            vm::user::get::<Timespec>(addr)?,
            vm::user::get::<Timespec>(addr.wrapping_add(size_of::<Timespec>()))?,
        ];
        for (stamp, time) in times.iter_mut().zip(both) {
            *stamp = match time.nsec {
                UTIME_NOW => Stamp::Now,
                UTIME_OMIT => Stamp::Omit,
                nsec if (0..BILLION).contains(&nsec) => Stamp::At(FileTime {
                    sec: time.sec,
                    nsec: nsec as u32,
                }),
                _ => return Err(Errno::EINVAL),
            };
        }
    }
    if times == [Stamp::Omit; 2] {
        // Not even the path is looked at.
        return Ok(0);
    }
    let caller = FileCaller::current();
    let object = if args.word(1) == 0 && args.int(0) != AT_FDCWD {
        // `futimens`: no path at all.
        if flags != 0 {
            return Err(Errno::EINVAL);
        }
        let of = caller.files.get(args.int(0))?;
        if of.flags() & abi::linux::O_PATH != 0 {
            return Err(Errno::EBADF);
        }
        FileObject::Open(of)
    } else {
        caller.object(args.int(0), args.word(1), flags, flags & NOFOLLOW == 0)?
    };
    set_times(&caller, &object, times)
}

fn truncate(args: &mut Args) -> Result<usize> {
    let size = unsigned(args.long(1))?;
    let caller = FileCaller::current();
    let place = caller.place(AT_FDCWD, &user_path(args.word(0))?, true)?;
    let attr = place.inode.attr();
    match attr.kind() {
        FileKind::Directory => return Err(Errno::EISDIR),
        FileKind::Regular => {}
        _ => return Err(Errno::EINVAL),
    }
    place.mount.writable()?;
    place.inode.permits(&caller.cred, perm::WRITE)?;
    let _writing = WriteAccess::begin(&place.inode)?;
    lease::break_for(&place.inode, O_WRONLY)?;
    place.inode.truncate(size)?;
    fsnotify::file(&*place.inode, IN_MODIFY);
    Ok(0)
}

fn ftruncate(args: &mut Args) -> Result<usize> {
    let size = unsigned(args.long(1))?;
    let of = Process::current().files.get().get(args.int(0))?;
    if of.flags() & abi::linux::O_PATH != 0 {
        return Err(Errno::EBADF);
    }
    if !of.writable() {
        return Err(Errno::EINVAL);
    }
    of.file().truncate(&of, size)?;
    marks::tell(&of, IN_MODIFY);
    Ok(0)
}

/// Whether there is such a `mode` of `fallocate`, whatever the file. EOPNOTSUPP, EINVAL.
fn check_allocation(mode: u32) -> Result<()> {
    const FALLOC_FL_KEEP_SIZE: u32 = 1;
    const FALLOC_FL_PUNCH_HOLE: u32 = 2;
    const FALLOC_FL_COLLAPSE_RANGE: u32 = 8;
    const FALLOC_FL_ZERO_RANGE: u32 = 16;
    const FALLOC_FL_INSERT_RANGE: u32 = 32;
    const FALLOC_FL_UNSHARE_RANGE: u32 = 64;
    const KNOWN: u32 = FALLOC_FL_KEEP_SIZE
        | FALLOC_FL_PUNCH_HOLE
        | FALLOC_FL_COLLAPSE_RANGE
        | FALLOC_FL_ZERO_RANGE
        | FALLOC_FL_INSERT_RANGE
        | FALLOC_FL_UNSHARE_RANGE;
    let has = |flag| mode & flag != 0;
    let alone = |flag| !has(flag) || mode == flag;
    if has(!KNOWN)
        || (has(FALLOC_FL_PUNCH_HOLE) && (has(FALLOC_FL_ZERO_RANGE) || !has(FALLOC_FL_KEEP_SIZE)))
    {
        return Err(Errno::EOPNOTSUPP);
    }
    let unshare =
        has(FALLOC_FL_UNSHARE_RANGE) && has(!(FALLOC_FL_UNSHARE_RANGE | FALLOC_FL_KEEP_SIZE));
    if !alone(FALLOC_FL_COLLAPSE_RANGE) || !alone(FALLOC_FL_INSERT_RANGE) || unshare {
        return Err(Errno::EINVAL);
    }
    Ok(())
}

fn fallocate(args: &mut Args) -> Result<usize> {
    let (offset, len) = (args.long(2), args.long(3));
    let of = Process::current().files.get().get(args.int(0))?;
    if of.flags() & abi::linux::O_PATH != 0 {
        return Err(Errno::EBADF);
    }
    if offset < 0 || len <= 0 {
        return Err(Errno::EINVAL);
    }
    check_allocation(args.uint(1))?;
    if !of.writable() {
        return Err(Errno::EBADF);
    }
    match of.kind() {
        Some(FileKind::Regular) => {}
        Some(FileKind::Directory) => return Err(Errno::EISDIR),
        Some(FileKind::Fifo) => return Err(Errno::ESPIPE),
        _ => return Err(Errno::ENODEV),
    }
    of.file()
        .allocate(&of, args.uint(1), offset as u64, len as u64)?;
    marks::tell(&of, IN_MODIFY);
    Ok(0)
}
