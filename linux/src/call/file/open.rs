//! `open` and its kin: making, copying and closing descriptors.
//!
//! *Interface.* [`CALLS`]. A plain open of a path that was opened before takes the short way (`hot_open`):
//! the path is copied once, one look in the path cache answers walk and permission, and a description with
//! its code comes from the inode's inactive list.

use abi::errno::{Errno, Result};
use abi::layout::PAGE;
use abi::linux::{
    AT_FDCWD, O_ACCMODE, O_APPEND, O_ASYNC, O_CLOEXEC, O_CREAT, O_DIRECT, O_DIRECTORY, O_DSYNC,
    O_EXCL, O_LARGEFILE, O_NOATIME, O_NOCTTY, O_NOFOLLOW, O_NONBLOCK, O_PATH, O_RDWR, O_SYNC,
    O_TMPFILE, O_TRUNC, O_WRONLY, OpenHow, RESOLVE_BENEATH, RESOLVE_CACHED, RESOLVE_IN_ROOT,
    RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS, RESOLVE_NO_XDEV,
};
use abi::nr;
use alloc::sync::Arc;

use super::{FileCaller, user_path};
use crate::call::{Args, Handler};
use account::Cred;
use account::{CredId, NOBODY};
use file::OpenFile;
use file::event::marks;
use file::fs::FileKind;
use file::fs::fsnotify;
use file::fs::inactive_inodes;
use file::fs::inode::OpenRequest;
use file::fs::lease;
use file::fs::lockfree_walk;
use file::fs::mount::{self, FileSystem};
use file::fs::path_cache::{self, PathKey};
use file::tmpfs::{TmpFs, TmpInode};
use process::{Process, Task};
use vm::fallible::try_concat;

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

/// Flags with which an open may take the short way. A path that the path cache knows exists, so there is
/// nothing to create.
pub(super) const PLAIN: u32 = O_ACCMODE | O_CLOEXEC | O_LARGEFILE | O_NOCTTY | O_CREAT | O_TRUNC;

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
    let (addr, size) = (args.word(2), args.word(3));
    if size < KNOWN {
        return Err(Errno::EINVAL);
    }
    if size > PAGE {
        return Err(Errno::E2BIG);
    }
    let how: OpenHow = vm::user::get(addr)?;
    // Fields of a later Linux have to be zero.
    let rest = vm::user::array::<u8>(addr.wrapping_add(KNOWN), size.wrapping_sub(KNOWN))?;
    if rest.iter().any(|byte| *byte != 0) {
        return Err(Errno::E2BIG);
    }
    let flags = checked(&how)?;
    if how.resolve == 0 {
        return do_open(args.int(0), args.word(1), flags, how.mode as u32);
    }
    walk_and_open(
        (args.int(0), args.word(1)),
        flags,
        how.mode as u32,
        how.resolve,
        None,
    )
}

/// The flags of `how`, of which nothing is let pass that does not fit. EINVAL; EAGAIN: it might wait, and is
/// not to.
fn checked(how: &OpenHow) -> Result<u32> {
    const KNOWN: u32 = O_ACCMODE
        | O_CREAT
        | O_EXCL
        | O_NOCTTY
        | O_TRUNC
        | O_APPEND
        | O_NONBLOCK
        | O_DSYNC
        | O_SYNC
        | O_ASYNC
        | O_DIRECT
        | O_LARGEFILE
        | O_DIRECTORY
        | O_NOFOLLOW
        | O_NOATIME
        | O_CLOEXEC
        | O_PATH
        | O_TMPFILE;
    const WITH_PATH: u32 = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    const RESOLVE: u64 = RESOLVE_NO_XDEV
        | RESOLVE_NO_MAGICLINKS
        | RESOLVE_NO_SYMLINKS
        | RESOLVE_BENEATH
        | RESOLVE_IN_ROOT
        | RESOLVE_CACHED;
    const BOTH: u64 = RESOLVE_BENEATH | RESOLVE_IN_ROOT;
    let flags = u32::try_from(how.flags).map_err(|_| Errno::EINVAL)?;
    let makes = flags & (O_CREAT | (O_TMPFILE & !O_DIRECTORY)) != 0;
    if flags & !KNOWN != 0
        || (flags & O_PATH != 0 && flags & !WITH_PATH != 0)
        || how.mode & !0o7777 != 0
        || (how.mode != 0 && !makes)
        || how.resolve & !RESOLVE != 0
        || how.resolve & BOTH == BOTH
    {
        return Err(Errno::EINVAL);
    }
    if how.resolve & RESOLVE_CACHED != 0 && (makes || flags & O_TRUNC != 0) {
        return Err(Errno::EAGAIN);
    }
    Ok(flags)
}

pub(super) fn do_open(dirfd: i32, addr: usize, flags: u32, mode: u32) -> Result<usize> {
    let mut key = PathKey::blank();
    let who = if flags & !PLAIN == 0 && dirfd == AT_FDCWD {
        fill(&mut key, addr)
    } else {
        None
    };
    let generation = path_cache::generation();
    if let Some(who) = who
        && let Some((of, known)) = waits(&key, flags & O_ACCMODE, who)
    {
        if !known {
            learn(&of, &key, generation, flags, who);
        }
        if may_reopen(&of, flags) && (!truncates(&of, flags) || has_place() && truncate(&of)) {
            return reopen(of, flags);
        }
        path_cache::wait_again(of);
    }
    walk_and_open((dirfd, addr), flags, mode, 0, who.map(|who| (&key, who)))
}

/// A waiting description of `key`, and whether the path cache knows that.
fn waits(key: &PathKey, mode: u32, who: CredId) -> Option<(Arc<OpenFile>, bool)> {
    if let Some(of) = path_cache::open(key, mode, who) {
        return Some((of, true));
    }
    let path = lockfree_walk::PaddedPath::of(key);
    let found = Task::here(|task| {
        let process = &task.process;
        let cred = task.cred.get();
        let context = process.fs.get();
        lockfree_walk::inactive_description(&context, path, &cred, mode)
    });
    Some((found.flatten()?, false))
}

/// Notes for the next time that `key`, walked since `generation`, led to what `of` describes, unless nobody
/// may find it so.
fn learn(of: &OpenFile, key: &PathKey, generation: u64, flags: u32, who: CredId) {
    let Some(inode) = of.inode() else { return };
    if of.tells() || lease::covers(&**inode) || of.list().is_none() {
        return;
    }
    path_cache::learn(key, generation, flags & O_ACCMODE, who, inode);
    inactive_inodes::keep(inode);
    if fsnotify::any() {
        // Since that was looked at somebody may watch it.
        inactive_inodes::let_go(&**inode);
    }
    if inode.is_nameless() || lease::covers(&**inode) {
        // Its last name may have been taken away before it was learnt, or a lease taken.
        path_cache::forget(&**inode);
    }
}

/// Fills `key` with the path at `addr` and answers who asks, if the path cache may be asked: the path is
/// short, and process and path start where the cache knows.
#[inline]
fn fill(key: &mut PathKey, addr: usize) -> Option<CredId> {
    let (who, start) = Task::here(|task| {
        let process = &task.process;
        let who = task.cred.with(Cred::who);
        Some((who, process.fs.with(|fs| fs.key())?))
    })??;
    if who == NOBODY {
        return None;
    }
    // Not past the page that the path starts in, since it may be the last.
    let within = PAGE - addr % PAGE;
    let bytes = key.bytes();
    let (here, beyond) = bytes.split_at_mut(bytes.len().min(within));
    vm::user::copy_in(here, addr).ok()?;
    // Only a zero of the path's own ends it.
    beyond.fill(u8::MAX);
    key.finish(start).then_some(who)
}

/// Whether an open with `flags` makes the file that `of` describes shorter.
#[inline]
pub(super) fn truncates(of: &OpenFile, flags: u32) -> bool {
    flags & O_TRUNC != 0
        && of
            .inode()
            .is_some_and(|inode| inode.kind() == FileKind::Regular)
}

/// Makes the file empty, if `of` may write; `false`: the ordinary way shall decide.
fn truncate(of: &OpenFile) -> bool {
    of.writable() && of.inode().is_some_and(|inode| inode.truncate(0).is_ok())
}

fn has_place() -> bool {
    Process::current().files.get().has_place().is_ok()
}

/// Whether an open with `flags` of what `of` describes has no further effect: the console becomes the
/// terminal of a session that has none.
#[inline]
pub(super) fn may_reopen(of: &OpenFile, flags: u32) -> bool {
    !of.is_console() || flags & O_NOCTTY != 0 || has_terminal()
}

fn has_terminal() -> bool {
    let known = Task::here(|task| {
        let session = &task.process.session;
        session.with(|s| s.terminal.try_lock().is_some_and(|t| t.is_some()))
    });
    known == Some(true)
}

/// Gives a description that waited its descriptor.
#[inline]
fn reopen(of: Arc<OpenFile>, flags: u32) -> Result<usize> {
    let cloexec = flags & O_CLOEXEC != 0;
    of.reopen(flags | O_LARGEFILE);
    let installed = Task::here(|task| {
        task.process
            .files
            .with(|files| files.install_if_sole_user(of, cloexec))
    });
    let fd = match installed.ok_or(Errno::EBADF)? {
        Ok(fd) => fd,
        // The table has to grow, or may not, or there is company.
        Err(of) => Process::current().files.get().install(of, cloexec)?,
    };
    if fsnotify::any() || lease::any() {
        settle(fd);
    }
    Ok(fd as usize)
}

/// `fd` has a description that waited: a mark or a lease that came while it neither waited nor had a
/// descriptor may have missed it.
#[cold]
fn settle(fd: i32) {
    // Another thread may have closed it meanwhile.
    if let Ok(of) = Process::current().files.get().get(fd) {
        marks::settle(&of);
        lease::settle(&of);
    }
}

/// The ordinary way. With `noted`, the path is noted for the next time.
#[cold]
fn walk_and_open(
    (dirfd, addr): (i32, usize),
    flags: u32,
    mode: u32,
    resolve: u64,
    noted: Option<(&PathKey, CredId)>,
) -> Result<usize> {
    let caller = FileCaller::current();
    let generation = path_cache::generation();
    let path = user_path(addr)?;
    if path.is_empty() {
        return Err(Errno::ENOENT);
    }
    caller.files.has_place()?;
    let scoped = resolve & (RESOLVE_BENEATH | RESOLVE_IN_ROOT) != 0;
    let start = if scoped && path.first() == Some(&b'/') {
        // Where it would start if it were relative.
        caller.start(dirfd, b".")?
    } else {
        caller.start(dirfd, &path)?
    };
    let mut view = caller.view();
    view.resolve = resolve;
    if scoped {
        view.root = start.clone();
    }
    let flags = match flags & O_PATH {
        0 => flags | O_LARGEFILE,
        _ => flags,
    };
    let of = file::fs::open::open(&view, start, &path, flags, mode)?;
    fsnotify::opened(&of);
    if let Some((key, who)) = noted
        && !view.jumped.get()
    {
        learn(&of, key, generation, flags, who);
    }
    let fd = caller.files.install(of.clone(), flags & O_CLOEXEC != 0)?;
    marks::settle(&of);
    lease::settle(&of);
    Ok(fd as usize)
}

fn close(args: &mut Args) -> Result<usize> {
    let fd = args.int(0);
    let closed = Task::here(|task| task.process.files.with(|files| files.take(fd)));
    closed.ok_or(Errno::EBADF)??.release();
    Ok(0)
}

fn close_range(args: &mut Args) -> Result<usize> {
    const CLOSE_RANGE_UNSHARE: u32 = 2;
    const CLOSE_RANGE_CLOEXEC: u32 = 4;
    let (first, last, flags) = (args.uint(0), args.uint(1), args.uint(2));
    if flags & !(CLOSE_RANGE_UNSHARE | CLOSE_RANGE_CLOEXEC) != 0 || first > last {
        return Err(Errno::EINVAL);
    }
    let process = Process::current();
    if flags & CLOSE_RANGE_UNSHARE != 0 {
        process::dispatch::unshare_files(&process)?;
    }
    let files = process.files.get();
    files.close_range(first, last, flags & CLOSE_RANGE_CLOEXEC != 0);
    Ok(0)
}

fn dup(args: &mut Args) -> Result<usize> {
    let files = Process::current().files.get();
    let of = files.get(args.int(0))?;
    files.install(of, false).map(|fd| fd as usize)
}

fn dup2(args: &mut Args) -> Result<usize> {
    let files = Process::current().files.get();
    let (from, to) = (args.int(0), args.int(1));
    let of = files.get(from)?;
    if from == to {
        return Ok(to as usize);
    }
    files.install_at(to, of, false).map(|fd| fd as usize)
}

fn dup3(args: &mut Args) -> Result<usize> {
    let files = Process::current().files.get();
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
    const MFD_CLOEXEC: u32 = 1;
    const MFD_ALLOW_SEALING: u32 = 2;
    const MFD_HUGETLB: u32 = 4;
    const MFD_NOEXEC_SEAL: u32 = 8;
    const MFD_EXEC: u32 = 16;
    const MAX_NAME: usize = 249;
    let flags = args.uint(1);
    if flags & MFD_HUGETLB != 0 {
        // As by a Linux without them.
        return Err(Errno::ENOSYS);
    }
    if flags & !(MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL | MFD_EXEC) != 0
        || flags & (MFD_NOEXEC_SEAL | MFD_EXEC) == MFD_NOEXEC_SEAL | MFD_EXEC
    {
        return Err(Errno::EINVAL);
    }
    let executes = flags & MFD_NOEXEC_SEAL == 0;
    let mode = if executes { 0o777 } else { 0o666 };
    let name = vm::user::cstr(args.word(0), MAX_NAME + 1).map_err(|e| match e {
        Errno::ENAMETOOLONG => Errno::EINVAL,
        e => e,
    })?;
    let caller = FileCaller::current();
    let fs = TmpFs::new("tmpfs", 0o700);
    let label = try_concat(&[&b"memfd:"[..], &name])?;
    let inode = fs.root().tmpfile(&label, mode, 0, &caller.cred)?;
    let of = inode.clone().open(OpenRequest {
        flags: O_RDWR | O_LARGEFILE,
        place: Some(mount::detached(fs, inode)),
    })?;
    if flags & (MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL) != 0
        && let Some(node) = of.file_as::<TmpInode>()
    {
        node.let_seal(executes);
    }
    let fd = caller.files.install(of, flags & MFD_CLOEXEC != 0)?;
    Ok(fd as usize)
}
