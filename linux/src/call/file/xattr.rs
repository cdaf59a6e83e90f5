//! Extended attributes and access control lists.
//!
//! *Interface.* [`CALLS`]. Names, sizes and rights are checked here, in Linux's order; a file system that has
//! none answers EOPNOTSUPP, and lists nothing.

use abi::errno::{Errno, Result};
use abi::linux::{AT_FDCWD, IN_ATTRIB, O_PATH, S_IFDIR, S_IFMT, S_IFREG, S_ISVTX};
use abi::nr;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{FileCaller, user_path};
use crate::call::{Args, Handler};
use account::capability;
use account::{Capability, Cred};
use file::OpenFile;
use file::fs::acl::{Acl, AclKind};
use file::fs::attr::ModeBits;
use file::fs::{Attr, FileKind, Inode, VfsPath, XattrFlags, fsnotify, perm};
use vm::fallible::{try_extend, try_filled, try_push};

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
/// Bytes of a list that is told, at most.
const LIST_MAX: usize = 65536;
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

/// The file of a call.
enum Object {
    Place(VfsPath),
    /// One without an inode.
    Bare(Arc<OpenFile>),
}

impl Object {
    /// The file that `args` name. EROFS if it is to be changed where nothing may; else as for every call by
    /// path or descriptor.
    fn find(caller: &FileCaller, args: &Args, by: By, changes: bool) -> Result<Object> {
        let place = match by {
            By::Path(follow) => caller.place(AT_FDCWD, &user_path(args.word(0))?, follow)?,
            By::Number => {
                let of = caller.files.get(args.int(0))?;
                if of.flags() & O_PATH != 0 {
                    return Err(Errno::EBADF);
                }
                match of.place() {
                    Some(place) => place.clone(),
                    None => return Ok(Object::Bare(of)),
                }
            }
        };
        if changes {
            place.mount.writable()?;
        }
        Ok(Object::Place(place))
    }

    fn attr(&self) -> Attr {
        match self {
            Object::Place(place) => place.inode.attr(),
            Object::Bare(of) => of.file().stat(of),
        }
    }

    fn permits(&self, cred: &Cred, want: u32) -> Result<()> {
        match self {
            Object::Place(place) => place.inode.permits(cred, want),
            Object::Bare(of) => perm::may(cred, &of.file().stat(of), want),
        }
    }

    /// The inode. EOPNOTSUPP.
    fn inode(&self) -> Result<&Arc<dyn Inode>> {
        match self {
            Object::Place(place) => Ok(&place.inode),
            Object::Bare(_) => Err(Errno::EOPNOTSUPP),
        }
    }

    /// Whether `cred` may look at attribute `name`, or change it.
    fn admits(&self, cred: &Cred, name: &[u8], changes: bool) -> Result<()> {
        let hidden = if changes {
            Errno::EPERM
        } else {
            Errno::ENODATA
        };
        if name.starts_with(b"security.") || name.starts_with(b"system.") {
            return Ok(());
        }
        if name.starts_with(b"trusted.") {
            return match cred.has(Capability::SysAdmin) {
                true => Ok(()),
                false => Err(hidden),
            };
        }
        if name.starts_with(b"user.") {
            let attr = self.attr();
            // A file of no kind, as a counter, has none either.
            if !matches!(attr.mode & S_IFMT, S_IFREG | S_IFDIR) {
                return Err(hidden);
            }
            let sticky = attr.kind() == FileKind::Directory && attr.mode & S_ISVTX != 0;
            if changes && sticky && !perm::owns(cred, &attr) {
                return Err(Errno::EPERM);
            }
        }
        let want = if changes { perm::WRITE } else { perm::READ };
        self.permits(cred, want)
    }
}

/// The name at user address `addr`. ERANGE for one that is empty or too long.
fn name(addr: usize) -> Result<Vec<u8>> {
    let name = vm::user::cstr(addr, NAME_MAX + 1).map_err(|error| match error {
        Errno::ENAMETOOLONG => Errno::ERANGE,
        other => other,
    })?;
    if name.is_empty() {
        return Err(Errno::ERANGE);
    }
    Ok(name)
}

/// The right to change attributes of class `security`. EPERM.
fn may_change(cred: &Cred, name: &[u8]) -> Result<()> {
    if name == capability::file::NAME {
        cred.need(Capability::Setfcap)
    } else if name.starts_with(b"security.") {
        cred.need(Capability::SysAdmin)
    } else {
        Ok(())
    }
}

/// Sets an access control list, or takes it away.
fn change_list(cred: &Cred, inode: &dyn Inode, which: AclKind, bytes: Option<&[u8]>) -> Result<()> {
    loop {
        let list = bytes.map(Acl::from_bytes).transpose()?.flatten();
        let attr = inode.attr();
        if !perm::owns(cred, &attr)
            && (which == AclKind::Access || attr.kind() == FileKind::Directory)
        {
            return Err(match inode.list(which) {
                Err(Errno::EOPNOTSUPP) => Errno::EOPNOTSUPP,
                _ => Errno::EPERM,
            });
        }
        if let Some(list) = &list {
            list.check()?;
        }
        let keep_group = perm::keeps_group(cred, attr.gid);
        match inode.set_list(which, list, ModeBits::of(&attr), keep_group) {
            // Somebody else has changed it meanwhile.
            Err(Errno::EAGAIN) => {}
            done => return done,
        }
    }
}

fn set(args: &Args, by: By) -> Result<usize> {
    let caller = FileCaller::current();
    let object = Object::find(&caller, args, by, true)?;
    let flags = args.uint(4);
    if flags & !(XATTR_CREATE | XATTR_REPLACE) != 0 {
        return Err(Errno::EINVAL);
    }
    let name = name(args.word(1))?;
    let size = args.word(3);
    if size > SIZE_MAX {
        return Err(Errno::E2BIG);
    }
    let mut value = try_filled(0, size)?;
    vm::user::copy_in(&mut value, args.word(2))?;
    let cred = &caller.cred;
    object.admits(cred, &name, true)?;
    if name == capability::file::NAME && !value.is_empty() {
        capability::file::check(&value)?;
    }
    may_change(cred, &name)?;
    let inode = object.inode()?;
    match AclKind::named(&name) {
        Some(which) => change_list(cred, &**inode, which, Some(&value))?,
        None => {
            let how = XattrFlags {
                create: flags & XATTR_CREATE != 0,
                replace: flags & XATTR_REPLACE != 0,
            };
            inode.set_attribute(&name, Some(&value), how)?;
        }
    }
    fsnotify::file(&**inode, IN_ATTRIB);
    Ok(0)
}

fn get(args: &Args, by: By) -> Result<usize> {
    let caller = FileCaller::current();
    let object = Object::find(&caller, args, by, false)?;
    let name = name(args.word(1))?;
    object.admits(&caller.cred, &name, false)?;
    let inode = object.inode()?;
    let value = match AclKind::named(&name) {
        Some(which) => inode.list(which)?,
        None => {
            let value = inode.attribute(&name)?;
            if name == capability::file::NAME {
                capability::file::shown(value)
            } else {
                value
            }
        }
    };
    give(args, &value, args.word(3).min(SIZE_MAX))
}

/// Puts `bytes` where the call wants them, if it does. ERANGE.
fn give(args: &Args, bytes: &[u8], size: usize) -> Result<usize> {
    if size != 0 {
        if bytes.len() > size {
            return Err(Errno::ERANGE);
        }
        vm::user::copy_out(args.word(2), bytes)?;
    }
    Ok(bytes.len())
}

fn list(args: &Args, by: By) -> Result<usize> {
    let caller = FileCaller::current();
    let object = Object::find(&caller, args, by, false)?;
    let Object::Place(place) = &object else {
        return Ok(0);
    };
    let size = args.word(2).min(LIST_MAX);
    let mut names = Vec::new();
    let mut length: usize = 0;
    let all = caller.cred.has(Capability::SysAdmin);
    place.inode.attributes(all, &mut |name| {
        length = length.saturating_add(name.len()).saturating_add(1);
        if size == 0 {
            return Ok(());
        }
        if length > size {
            return Err(match size {
                LIST_MAX => Errno::E2BIG,
                _ => Errno::ERANGE,
            });
        }
        try_extend(&mut names, name)?;
        try_push(&mut names, 0)
    })?;
    if size != 0 {
        vm::user::copy_out(args.word(1), &names)?;
    }
    Ok(length)
}

fn remove(args: &Args, by: By) -> Result<usize> {
    let caller = FileCaller::current();
    let object = Object::find(&caller, args, by, true)?;
    let name = name(args.word(1))?;
    let cred = &caller.cred;
    object.admits(cred, &name, true)?;
    may_change(cred, &name)?;
    let inode = object.inode()?;
    match AclKind::named(&name) {
        Some(which) => change_list(cred, &**inode, which, None)?,
        None => {
            inode.set_attribute(&name, None, XattrFlags::default())?;
        }
    }
    fsnotify::file(&**inode, IN_ATTRIB);
    Ok(0)
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
