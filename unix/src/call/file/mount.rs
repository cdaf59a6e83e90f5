//! Mounting and unmounting.
//!
//! *Interface.* [`CALLS`]. What can be mounted: `tmpfs` and `ramfs` (new, empty), `proc`, `sysfs`, `synfs`, `devtmpfs`, `devpts` (the one that there is), and a directory in a second place.

use abi::errno::{Errno, Result};
use abi::linux::{AT_FDCWD, PATH_MAX};
use abi::nr;
use alloc::string::String;
use alloc::sync::Arc;

use super::{Caller, user_path};
use crate::call::{Args, Handler};
use crate::fs::mem::MemFs;
use crate::fs::place::{self, FileSystem, MS_BIND, MS_REMOUNT};
use crate::fs::{Kind, boot, proc, syn, sys};
use crate::memory::fallible::try_string;
use crate::process::Capability;
use crate::tty::devpts;

/// Calls of this family.
pub const CALLS: &[(usize, Handler)] = &[(nr::MOUNT, mount), (nr::UMOUNT2, umount2)];

fn optional(addr: usize) -> Result<String> {
    if addr == 0 {
        return Ok(String::new());
    }
    let bytes = vm::user::cstr(addr, PATH_MAX)?;
    try_string(&bytes)
}

/// The `mode=` among mount options.
fn mode(options: &str) -> Result<u32> {
    let mut mode = 0o1777;
    for option in options.split(',') {
        if let Some(digits) = option.strip_prefix("mode=") {
            mode = u32::from_str_radix(digits, 8).map_err(|_| Errno::EINVAL)?;
        }
    }
    Ok(mode & 0o7777)
}

fn mount(args: &mut Args) -> Result<usize> {
    let caller = Caller::current();
    let source = optional(args.word(0))?;
    let at = caller.place(AT_FDCWD, &user_path(args.word(1))?, true)?;
    let kind = optional(args.word(2))?;
    let flags = args.word(3) as u64;
    caller.cred.need(Capability::SysAdmin)?;
    if flags & MS_REMOUNT != 0 {
        place::remount(&at, flags)?;
        return Ok(0);
    }
    if flags & MS_BIND != 0 {
        let from = caller.place(AT_FDCWD, source.as_bytes(), true)?;
        if from.inode.kind() != at.inode.kind() {
            return Err(Errno::ENOTDIR);
        }
        let fs = from.mount.fs.clone();
        place::mount(fs, from.inode, Some(at), source, from.mount.flags())?;
        return Ok(0);
    }
    if at.inode.kind() != Kind::Directory {
        return Err(Errno::ENOTDIR);
    }
    let fs: Arc<dyn FileSystem> = match kind.as_str() {
        "tmpfs" => MemFs::new("tmpfs", mode(&optional(args.word(4))?)?),
        "ramfs" => MemFs::new("ramfs", 0o755),
        "proc" => proc::file_system(),
        "sysfs" => sys::file_system(),
        "synfs" => syn::file_system(),
        "devtmpfs" => boot::devices()?,
        "devpts" => devpts::file_system(),
        _ => return Err(Errno::ENODEV),
    };
    let source = if source.is_empty() { kind } else { source };
    let top = fs.root();
    place::mount(fs, top, Some(at), source, flags)?;
    Ok(0)
}

fn umount2(args: &mut Args) -> Result<usize> {
    const MNT_FORCE: u32 = 1;
    const MNT_DETACH: u32 = 2;
    const MNT_EXPIRE: u32 = 4;
    const UMOUNT_NOFOLLOW: u32 = 8;
    let flags = args.uint(1);
    if flags & !(MNT_FORCE | MNT_DETACH | MNT_EXPIRE | UMOUNT_NOFOLLOW) != 0 {
        return Err(Errno::EINVAL);
    }
    let caller = Caller::current();
    caller.cred.need(Capability::SysAdmin)?;
    let path = user_path(args.word(0))?;
    let place = caller.place(AT_FDCWD, &path, flags & UMOUNT_NOFOLLOW == 0)?;
    place::unmount(place, flags & MNT_DETACH != 0)?;
    Ok(0)
}
