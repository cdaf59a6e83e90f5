//! `open` and its kin: making, copying and closing descriptors.
//!
//! *Interface.* [`CALLS`]. A plain open of a path that was opened before takes the short way (`hot_open`): the path is copied once, one look in the name
//! cache answers walk and permission, and a description with its code comes from the inode's inactive list.

use abi::errno::{Errno, Result};
use abi::linux::{
    AT_FDCWD, O_ACCMODE, O_CLOEXEC, O_CREAT, O_LARGEFILE, O_NOCTTY, O_RDWR, O_TMPFILE, O_TRUNC,
    O_WRONLY, OpenHow,
};
use abi::nr;
use alloc::sync::Arc;

use super::{Caller, user_path};
use crate::call::{Args, Handler};
use crate::file::OpenFile;
use crate::fs::inode::How;
use crate::fs::mem::MemFs;
use crate::fs::names::{self, KEY_WORDS, Key};
use crate::fs::place::{self, FileSystem};

/// Calls of this family.
pub const CALLS: &[(usize, Handler)] = &[
    (nr::OPEN, open),
    (nr::OPENAT, openat),
    (nr::OPENAT2, openat2),
    (nr::CREAT, creat),
    (nr::CLOSE, close),
    (nr::CLOSE_RANGE, close_range),
    (nr::DUP, dup),
    (nr::DUP2, dup2),
    (nr::DUP3, dup3),
    (nr::MEMFD_CREATE, memfd_create),
];

/// Flags with which an open may take the short way.
const PLAIN: u32 = O_ACCMODE | O_CLOEXEC | O_LARGEFILE | O_NOCTTY;

fn open(args: &mut Args) -> Result<usize> {
    do_open(AT_FDCWD, args.word(0), args.uint(1), args.uint(2))
}

fn openat(args: &mut Args) -> Result<usize> {
    do_open(args.int(0), args.word(1), args.uint(2), args.uint(3))
}

fn creat(args: &mut Args) -> Result<usize> {
    let flags = O_CREAT | O_WRONLY | O_TRUNC;
    do_open(AT_FDCWD, args.word(0), flags, args.uint(1))
}

fn openat2(args: &mut Args) -> Result<usize> {
    const KNOWN: usize = size_of::<OpenHow>();
    let size = args.word(3);
    if size < KNOWN {
        return Err(Errno::EINVAL);
    }
    let how: OpenHow = vm::user::get(args.word(2))?;
    let flags = u32::try_from(how.flags).map_err(|_| Errno::EINVAL)?;
    let makes = flags & O_CREAT != 0 || flags & O_TMPFILE == O_TMPFILE;
    if how.mode & !0o7777 != 0 || (how.mode != 0 && !makes) {
        return Err(Errno::EINVAL);
    }
    if how.resolve != 0 {
        // The restrictions that sandboxes ask for; refusing is what an old kernel does.
        return Err(Errno::E2BIG);
    }
    do_open(args.int(0), args.word(1), flags, how.mode as u32)
}

fn do_open(dirfd: i32, addr: usize, flags: u32, mode: u32) -> Result<usize> {
    let caller = Caller::current();
    let key = if flags & !PLAIN == 0 {
        key(&caller, dirfd, addr)
    } else {
        None
    };
    let access = flags & O_ACCMODE;
    if let Some(key) = &key
        && let Some(of) = names::open(key, access, &caller.cred)
    {
        of.reopen(flags);
        return install(&caller, of, flags);
    }
    let generation = names::generation();
    let path = user_path(addr)?;
    let start = if path.is_empty() {
        return Err(Errno::ENOENT);
    } else {
        caller.start(dirfd, &path)?
    };
    let mode = mode & !caller.fs.umask();
    let of = crate::fs::open::open(&caller.view(), start, &path, flags, mode)?;
    if let Some(key) = &key
        && of.reusable
        && let Some(inode) = of.inode()
    {
        names::learn(key, generation, access, &caller.cred, inode);
    }
    install(&caller, of, flags)
}

fn install(caller: &Caller, of: Arc<OpenFile>, flags: u32) -> Result<usize> {
    let fd = caller.files.install(of, flags & O_CLOEXEC != 0)?;
    Ok(fd as usize)
}

/// The name cache's key for the path at `addr`, if it is short and starts where the cache knows.
#[inline]
fn key(caller: &Caller, dirfd: i32, addr: usize) -> Option<Key> {
    if dirfd != AT_FDCWD {
        return None;
    }
    let start = caller.fs.key()?;
    let mut words = [0u64; KEY_WORDS];
    let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
    // Not past the page that the path starts in, since it may be the last.
    let within = abi::layout::PAGE - addr % abi::layout::PAGE;
    let len = bytes.len().min(within);
    vm::user::copy_in(&mut bytes[..len], addr).ok()?;
    let absolute = bytes[0] == b'/';
    let len = nul(&words)?;
    Key::new(words, len, if absolute { 0 } else { start })
}

/// The index of the first NUL byte.
#[inline]
fn nul(words: &[u64; KEY_WORDS]) -> Option<usize> {
    const LOW: u64 = 0x0101_0101_0101_0101;
    words.iter().enumerate().find_map(|(i, word)| {
        let zero = word.wrapping_sub(LOW) & !word & LOW << 7;
        (zero != 0).then(|| i * 8 + zero.trailing_zeros() as usize / 8)
    })
}

fn close(args: &mut Args) -> Result<usize> {
    Caller::current().files.close(args.int(0))?;
    Ok(0)
}

fn close_range(args: &mut Args) -> Result<usize> {
    const UNSHARE: u32 = 2;
    const CLOEXEC: u32 = 4;
    let (first, last, flags) = (args.uint(0), args.uint(1), args.uint(2));
    if flags & !(UNSHARE | CLOEXEC) != 0 || first > last {
        return Err(Errno::EINVAL);
    }
    let caller = Caller::current();
    if flags & UNSHARE != 0 {
        crate::dispatch::unshare_files(&caller.process)?;
        let own = caller.process.files.get();
        own.close_range(first, last, flags & CLOEXEC != 0);
    } else {
        caller.files.close_range(first, last, flags & CLOEXEC != 0);
    }
    Ok(0)
}

fn dup(args: &mut Args) -> Result<usize> {
    let files = Caller::current().files;
    let of = files.get(args.int(0))?;
    files.install(of, false).map(|fd| fd as usize)
}

fn dup2(args: &mut Args) -> Result<usize> {
    let files = Caller::current().files;
    let (from, to) = (args.int(0), args.int(1));
    let of = files.get(from)?;
    if from == to {
        return Ok(to as usize);
    }
    files.install_at(to, of, false).map(|fd| fd as usize)
}

fn dup3(args: &mut Args) -> Result<usize> {
    let files = Caller::current().files;
    let (from, to, flags) = (args.int(0), args.int(1), args.uint(2));
    if flags & !O_CLOEXEC != 0 || from == to {
        return Err(Errno::EINVAL);
    }
    let of = files.get(from)?;
    files
        .install_at(to, of, flags & O_CLOEXEC != 0)
        .map(|fd| fd as usize)
}

fn memfd_create(args: &mut Args) -> Result<usize> {
    const CLOEXEC: u32 = 1;
    const ALLOW_SEALING: u32 = 2;
    const MAX_NAME: usize = 249;
    let flags = args.uint(1);
    if flags & !(CLOEXEC | ALLOW_SEALING) != 0 {
        return Err(Errno::EINVAL);
    }
    let name = vm::user::cstr(args.word(0), MAX_NAME + 1).map_err(|e| match e {
        Errno::ENAMETOOLONG => Errno::EINVAL,
        e => e,
    })?;
    let caller = Caller::current();
    let fs = MemFs::new("tmpfs", 0o700);
    let mut label = b"memfd:".to_vec();
    label.extend_from_slice(&name);
    let inode = fs.root().tmpfile(&label, 0o777, &caller.cred)?;
    let of = inode.clone().open(How {
        flags: O_RDWR | O_LARGEFILE,
        place: Some(place::detached(fs, inode)),
    })?;
    let fd = caller.files.install(of, flags & CLOEXEC != 0)?;
    Ok(fd as usize)
}
