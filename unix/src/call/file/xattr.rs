//! Extended attributes, of which no file system has any: refused as Linux refuses them where there are none, so that tools that copy and list files go on in silence.
//!
//! *Interface.* [`CALLS`].

use abi::errno::{Errno, Result};
use abi::linux::{AT_FDCWD, O_PATH, S_ISVTX};
use abi::nr;

use super::{Caller, user_path};
use crate::call::{Args, Handler};
use crate::fs::{Attr, Kind, perm};
use crate::process::{Capability, Cred};

/// Calls of this family.
pub const CALLS: &[(usize, Handler)] = &[
    (nr::SETXATTR, setxattr),
    (nr::LSETXATTR, lsetxattr),
    (nr::FSETXATTR, fsetxattr),
    (nr::GETXATTR, getxattr),
    (nr::LGETXATTR, lgetxattr),
    (nr::FGETXATTR, fgetxattr),
    (nr::LISTXATTR, listxattr),
    (nr::LLISTXATTR, llistxattr),
    (nr::FLISTXATTR, flistxattr),
    (nr::REMOVEXATTR, removexattr),
    (nr::LREMOVEXATTR, lremovexattr),
    (nr::FREMOVEXATTR, fremovexattr),
];

/// Bytes of a name, at most.
const NAME_MAX: usize = 255;
/// Bytes of a value, at most.
const SIZE_MAX: usize = 65536;
const XATTR_CREATE: u32 = 1;
const XATTR_REPLACE: u32 = 2;

/// How a call names its file, in the first argument.
#[derive(Clone, Copy)]
enum By {
    /// A path; whether a symbolic link at its end is followed.
    Path(bool),
    /// A descriptor.
    Number,
}

/// The attributes of the file. EROFS if it is to be changed where nothing may be; else as for every call by path or descriptor.
fn file(caller: &Caller, args: &Args, by: By, changes: bool) -> Result<Attr> {
    let place = match by {
        By::Path(follow) => caller.place(AT_FDCWD, &user_path(args.word(0))?, follow)?,
        By::Number => {
            let of = caller.files.get(args.int(0))?;
            if of.flags() & O_PATH != 0 {
                return Err(Errno::EBADF);
            }
            match of.place() {
                Some(place) => place.clone(),
                None => return Ok(of.file().stat(&of)),
            }
        }
    };
    if changes {
        place.mount.writable()?;
    }
    Ok(place.inode.attr())
}

/// The name at user address `addr`. ERANGE for one that is empty or too long.
fn name(addr: usize) -> Result<alloc::vec::Vec<u8>> {
    let name = vm::user::cstr(addr, NAME_MAX + 1).map_err(|error| match error {
        Errno::ENAMETOOLONG => Errno::ERANGE,
        other => other,
    })?;
    if name.is_empty() {
        return Err(Errno::ERANGE);
    }
    Ok(name)
}

/// Whether `cred` may look at attribute `name` of a file with `attr`, or change it.
fn may(cred: &Cred, attr: &Attr, name: &[u8], changes: bool) -> Result<()> {
    let hidden = if changes {
        Errno::EPERM
    } else {
        Errno::ENODATA
    };
    if name.starts_with(b"security.") || name.starts_with(b"system.") {
        let right = match name {
            b"security.capability" => Capability::Setfcap,
            _ => Capability::SysAdmin,
        };
        let needs = changes && name.starts_with(b"security.");
        return if needs { cred.need(right) } else { Ok(()) };
    }
    if name.starts_with(b"trusted.") {
        return match cred.has(Capability::SysAdmin) {
            true => Ok(()),
            false => Err(hidden),
        };
    }
    if name.starts_with(b"user.") {
        let kind = attr.kind();
        if !matches!(kind, Kind::Regular | Kind::Directory) {
            return Err(hidden);
        }
        let sticky = kind == Kind::Directory && attr.mode & S_ISVTX != 0;
        if changes && sticky && !perm::owns(cred, attr) {
            return Err(Errno::EPERM);
        }
    }
    let want = if changes { perm::WRITE } else { perm::READ };
    perm::may(cred, attr, want)
}

fn set(args: &Args, by: By) -> Result<usize> {
    let caller = Caller::current();
    let attr = file(&caller, args, by, true)?;
    if args.uint(4) & !(XATTR_CREATE | XATTR_REPLACE) != 0 {
        return Err(Errno::EINVAL);
    }
    let name = name(args.word(1))?;
    let size = args.word(3);
    if size > SIZE_MAX {
        return Err(Errno::E2BIG);
    }
    if size > 0 {
        let _value = vm::user::array::<u8>(args.word(2), size)?;
    }
    may(&caller.cred, &attr, &name, true)?;
    Err(Errno::EOPNOTSUPP)
}

fn get(args: &Args, by: By) -> Result<usize> {
    let caller = Caller::current();
    let attr = file(&caller, args, by, false)?;
    let name = name(args.word(1))?;
    may(&caller.cred, &attr, &name, false)?;
    Err(Errno::EOPNOTSUPP)
}

fn list(args: &Args, by: By) -> Result<usize> {
    file(&Caller::current(), args, by, false)?;
    Ok(0)
}

fn remove(args: &Args, by: By) -> Result<usize> {
    let caller = Caller::current();
    let attr = file(&caller, args, by, true)?;
    let name = name(args.word(1))?;
    may(&caller.cred, &attr, &name, true)?;
    Err(Errno::EOPNOTSUPP)
}

fn setxattr(args: &mut Args) -> Result<usize> {
    set(args, By::Path(true))
}

fn lsetxattr(args: &mut Args) -> Result<usize> {
    set(args, By::Path(false))
}

fn fsetxattr(args: &mut Args) -> Result<usize> {
    set(args, By::Number)
}

fn getxattr(args: &mut Args) -> Result<usize> {
    get(args, By::Path(true))
}

fn lgetxattr(args: &mut Args) -> Result<usize> {
    get(args, By::Path(false))
}

fn fgetxattr(args: &mut Args) -> Result<usize> {
    get(args, By::Number)
}

fn listxattr(args: &mut Args) -> Result<usize> {
    list(args, By::Path(true))
}

fn llistxattr(args: &mut Args) -> Result<usize> {
    list(args, By::Path(false))
}

fn flistxattr(args: &mut Args) -> Result<usize> {
    list(args, By::Number)
}

fn removexattr(args: &mut Args) -> Result<usize> {
    remove(args, By::Path(true))
}

fn lremovexattr(args: &mut Args) -> Result<usize> {
    remove(args, By::Path(false))
}

fn fremovexattr(args: &mut Args) -> Result<usize> {
    remove(args, By::Number)
}
