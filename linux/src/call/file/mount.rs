//! Mounting and unmounting.
//!
//! *Interface.* [`CALLS`]. These can be mounted: `tmpfs` and `ramfs` (new, empty), `proc`, `sysfs`, `synfs`,
//! `devtmpfs`, `devpts` and `mqueue` (the one that there is of each), directories of the host, and a
//! directory or file in a second place. Mounts move with the mounts on them.

use abi::errno::{Errno, Result};
use abi::layout::PAGE;
use abi::linux::{AT_FDCWD, PATH_MAX};
use abi::nr;
use alloc::string::String;
use alloc::sync::Arc;

use super::{FileCaller, user_path};
use crate::call::{Args, Handler};
use crate::devtmpfs;
use account::Capability;
use file::fs::mount::{
    self, FileSystem, MS_BIND, MS_MOVE, MS_PRIVATE, MS_REC, MS_REMOUNT, MS_SHARED, MS_SLAVE,
    MS_UNBINDABLE, VfsPath,
};
use file::fs::mount_tree::{self, UnmountHow};
use file::fs::{FileKind, SetAttr, fs_types};
use file::p9;
use file::tmpfs::TmpFs;
use process::ipc::mqueue;
use procfs::{cgroupfs, proc, syn, sys};
use tty::devpts;
use vm::fallible::try_string;

/// Calls of this family.
pub const CALLS: &[(usize, Handler)] = &[(nr::MOUNT, mount), (nr::UMOUNT2, umount2)];

/// No messages in the kernel's log.
const MS_SILENT: u64 = 1 << 15;

fn optional(addr: usize) -> Result<String> {
    if addr == 0 {
        return Ok(String::new());
    }
    let bytes = vm::user::cstr(addr, PATH_MAX)?;
    try_string(&bytes)
}

/// The kinds that every machine has.
pub const KINDS: &[fs_types::FsType] = &[
    kind("tmpfs", |_, options| Ok(Options::parse(options)?.make()?)),
    kind("ramfs", |_, _| Ok(TmpFs::new("ramfs", 0o755))),
    kind("devtmpfs", |_, _| Ok(devtmpfs::file_system()?)),
    kind("devpts", |_, _| Ok(devpts::file_system())),
    kind("mqueue", |_, _| Ok(mqueue::names::file_system())),
    kind("proc", |_, _| Ok(proc::file_system())),
    kind("sysfs", |_, _| Ok(sys::file_system())),
    kind("synfs", |_, _| Ok(syn::file_system())),
    kind("cgroup2", |_, options| cgroupfs::file_system(options)),
    kind("9p", p9::file_system),
];

const fn kind(name: &'static str, make: fs_types::MakeFs) -> fs_types::FsType {
    fs_types::FsType { name, make }
}

/// The options of a mount of `tmpfs`.
#[derive(Default)]
struct Options {
    mode: Option<u32>,
    uid: Option<u32>,
    gid: Option<u32>,
    /// The most pages its files may have.
    pages: Option<usize>,
    /// The most files.
    nodes: Option<usize>,
}

/// A number, perhaps with `k`, `m` or `g` behind it, and what comes then. EINVAL.
fn number(text: &str) -> Result<(usize, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit());
    let (digits, rest) = text.split_at(end.unwrap_or(text.len()));
    let number: usize = digits.parse().map_err(|_| Errno::EINVAL)?;
    let (shift, rest) = match rest.split_at_checked(1) {
        Some(("k" | "K", rest)) => (10, rest),
        Some(("m" | "M", rest)) => (20, rest),
        Some(("g" | "G", rest)) => (30, rest),
        _ => (0, rest),
    };
    let number = number.checked_mul(1 << shift).ok_or(Errno::EINVAL)?;
    Ok((number, rest))
}

/// A bound, where 0 means that there is none. EINVAL.
fn bound(text: &str) -> Result<usize> {
    match number(text)? {
        (0, "") => Ok(usize::MAX),
        (most, "") => Ok(most),
        _ => Err(Errno::EINVAL),
    }
}

/// A number of pages, given in bytes or in hundredths of memory. EINVAL.
fn pages(text: &str) -> Result<usize> {
    match number(text)? {
        (0, "" | "%") => Ok(usize::MAX),
        (bytes, "") => Ok(bytes.div_ceil(PAGE)),
        (part, "%") => Ok(vm::frame::total().saturating_mul(part).div_euclid(100)),
        _ => Err(Errno::EINVAL),
    }
}

impl Options {
    /// The options in `text`. EINVAL.
    fn parse(text: &str) -> Result<Options> {
        let mut options = Options::default();
        let id = |text: &str| text.parse().map_err(|_| Errno::EINVAL);
        for option in text.split(',').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            match name {
                "mode" => {
                    let mode = u32::from_str_radix(value, 8).map_err(|_| Errno::EINVAL)?;
                    options.mode = Some(mode & 0o7777);
                }
                "uid" => options.uid = Some(id(value)?),
                "gid" => options.gid = Some(id(value)?),
                "size" => options.pages = Some(pages(value)?),
                "nr_blocks" => options.pages = Some(bound(value)?),
                "nr_inodes" => options.nodes = Some(bound(value)?),
                // How pages are placed, and how numbers are drawn.
                "huge" | "mpol" | "inode32" | "inode64" => {}
                _ => return Err(Errno::EINVAL),
            }
        }
        Ok(options)
    }

    /// A file system like that. EINVAL.
    fn make(&self) -> Result<Arc<TmpFs>> {
        let fs = TmpFs::new("tmpfs", self.mode.unwrap_or(0o1777));
        fs.bound(self.pages, self.nodes)?;
        fs.root().set_attr(&SetAttr {
            uid: self.uid,
            gid: self.gid,
            ..SetAttr::default()
        })?;
        Ok(fs)
    }
}

fn mount(args: &mut Args) -> Result<usize> {
    let caller = FileCaller::current();
    let source = optional(args.word(0))?;
    let at = caller.place(AT_FDCWD, &user_path(args.word(1))?, true)?;
    let kind = optional(args.word(2))?;
    let flags = args.word(3) as u64;
    caller.cred.need(Capability::SysAdmin)?;
    if flags & MS_REMOUNT != 0 {
        if flags & MS_BIND != 0 {
            mount_tree::change(&at, flags)?;
            return Ok(0);
        }
        if at.is_mount_root() && at.mount.fs.kind() == "tmpfs" {
            let options = Options::parse(&optional(args.word(4))?)?;
            at.mount.fs.bound(options.pages, options.nodes)?;
        }
        mount_tree::remount(&at, flags)?;
        return Ok(0);
    }
    if flags & MS_BIND != 0 {
        let from = caller.place(AT_FDCWD, source.as_bytes(), true)?;
        mount_tree::bind(&from, at, flags & MS_REC != 0)?;
        return Ok(0);
    }
    if flags & (MS_SHARED | MS_PRIVATE | MS_SLAVE | MS_UNBINDABLE) != 0 {
        return propagate(&at, flags);
    }
    if flags & MS_MOVE != 0 {
        let from = caller.place(AT_FDCWD, source.as_bytes(), true)?;
        mount_tree::relocate(&from, at)?;
        return Ok(0);
    }
    if at.inode.kind() != FileKind::Directory {
        return Err(Errno::ENOTDIR);
    }
    if at.inode.attr().nlink == 0 {
        return Err(Errno::ENOENT);
    }
    let make = fs_types::find(&kind).ok_or(Errno::ENODEV)?.make;
    let fs = make(&source, &optional(args.word(4))?)?;
    let source = if source.is_empty() { kind } else { source };
    let top = fs.root();
    mount::mount(fs, top, Some(at), source, flags)?;
    Ok(0)
}

/// How changes of the mount at `at` reach other mounts: there are no others that would take them, which is
/// what two of the kinds mean. EINVAL for the others.
fn propagate(at: &VfsPath, flags: u64) -> Result<usize> {
    let kind = flags & !(MS_REC | MS_SILENT);
    if !at.is_mount_root() || !matches!(kind, MS_PRIVATE | MS_SLAVE) {
        return Err(Errno::EINVAL);
    }
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
    if flags & MNT_EXPIRE != 0 && flags & (MNT_FORCE | MNT_DETACH) != 0 {
        return Err(Errno::EINVAL);
    }
    let caller = FileCaller::current();
    caller.cred.need(Capability::SysAdmin)?;
    let path = user_path(args.word(0))?;
    let place = caller.place(AT_FDCWD, &path, flags & UMOUNT_NOFOLLOW == 0)?;
    let end = match flags {
        _ if flags & MNT_DETACH != 0 => UnmountHow::Detached,
        _ if flags & MNT_EXPIRE != 0 => UnmountHow::IfExpired,
        _ => UnmountHow::Unused,
    };
    mount_tree::unmount(place, end)?;
    Ok(0)
}
