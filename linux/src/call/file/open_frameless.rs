//! Opening, making, closing and removing a file without a trap frame.
//!
//! *Interface*: [`open`], [`openat`], [`close`], made without a trap frame when the procedures of
//! [`super::open_fastpath`] have not answered; [`creat`], [`unlink`], [`unlinkat`].
//!
//! A short path is copied once, with interrupts off. Its directory is found from entry to entry
//! ([`file::fs::parent_lookup`]) and counted; changes of that directory are made with interrupts on. The rest
//! goes the ordinary way: a path that is long or lies across pages, a name that is there or not against
//! expectation, a right that is not plain, somebody who watches files.

use abi::errno::{Errno, Result};
use abi::layout::PAGE;
use abi::linux::{AT_FDCWD, O_CLOEXEC, O_CREAT, O_EXCL, O_LARGEFILE, O_TRUNC, O_WRONLY};
use alloc::sync::Arc;
use machine::irqs_off::IrqsOff;
use thread::frameless::{NOT_HANDLED, call_handler};

use super::namei::do_unlink;
use super::open::{PLAIN, do_open};
use account::{Cred, quota};
use file::event::marks;
use file::fdtable::FdTable;
use file::fs::fsnotify;
use file::fs::lease;
use file::fs::parent_lookup::{self, ParentLookup};
use file::fs::{Inode, VfsPath, open as opening};
use process::Task;
use process::memory::admission;

/// `open`.
pub(in crate::call) extern "sysv64" fn open(
    path: usize,
    flags: usize,
    mode: usize,
    _more: usize,
    _other: usize,
    _last: usize,
    mut off: IrqsOff,
) -> isize {
    open_by(AT_FDCWD, path, flags as u32, mode as u32, &mut off)
}

/// `openat`.
pub(in crate::call) extern "sysv64" fn openat(
    dirfd: usize,
    path: usize,
    flags: usize,
    mode: usize,
    _other: usize,
    _last: usize,
    mut off: IrqsOff,
) -> isize {
    open_by(dirfd as i32, path, flags as u32, mode as u32, &mut off)
}

/// `creat`.
pub(in crate::call) extern "sysv64" fn creat(
    path: usize,
    mode: usize,
    _third: usize,
    _more: usize,
    _other: usize,
    _last: usize,
    mut off: IrqsOff,
) -> isize {
    let flags = O_CREAT | O_WRONLY | O_TRUNC;
    open_by(AT_FDCWD, path, flags, mode as u32, &mut off)
}

/// `close`.
pub(in crate::call) extern "sysv64" fn close(
    fd: usize,
    _second: usize,
    _third: usize,
    _more: usize,
    _other: usize,
    _last: usize,
    mut off: IrqsOff,
) -> isize {
    let taken = Task::here(|task| task.process.files.peek(&off).take(fd as i32));
    match taken {
        Some(Ok(taken)) => {
            off.with_interrupts(|| taken.release());
            0
        }
        Some(Err(error)) => error.to_rax() as isize,
        None => NOT_HANDLED,
    }
}

/// `unlink`.
pub(in crate::call) extern "sysv64" fn unlink(
    path: usize,
    _second: usize,
    _third: usize,
    _more: usize,
    _other: usize,
    _last: usize,
    mut off: IrqsOff,
) -> isize {
    remove(path, &mut off).unwrap_or_else(|| call_handler(&mut off, || do_unlink(AT_FDCWD, path)))
}

/// `unlinkat` of what is no directory.
pub(in crate::call) extern "sysv64" fn unlinkat(
    dirfd: usize,
    path: usize,
    flags: usize,
    _more: usize,
    _other: usize,
    _last: usize,
    off: IrqsOff,
) -> isize {
    if dirfd as i32 != AT_FDCWD || flags as i32 != 0 {
        return NOT_HANDLED;
    }
    unlink(path, 0, 0, 0, 0, 0, off)
}

fn open_by(dirfd: i32, path: usize, flags: u32, mode: u32, off: &mut IrqsOff) -> isize {
    if !vm::frame::admits(admission::ROOM) {
        return NOT_HANDLED;
    }
    let may_make = flags & O_CREAT != 0 && flags & !(PLAIN | O_EXCL) == 0 && dirfd == AT_FDCWD;
    may_make
        .then(|| make(path, flags, mode, off))
        .flatten()
        .unwrap_or_else(|| call_handler(off, || do_open(dirfd, path, flags, mode)))
}

/// Words of a path that is short enough, its NUL included.
const WORDS: usize = 8;

/// The words of a short path, and one of zeros.
type Words = [u64; WORDS + 1];

/// Words to be filled by [`head`]: what is not copied ends no path.
const BLANK: Words = {
    let mut words = [u64::MAX; WORDS + 1];
    words[WORDS] = 0;
    words
};

/// The head of the path at user address `addr`, as far as the page, and zeros behind it.
#[inline]
fn head(words: &mut Words, addr: usize) -> Option<&[u8]> {
    let bytes: &mut [u8] = bytemuck::cast_slice_mut(words);
    let within = (bytes.len() - parent_lookup::ZEROS).min(PAGE - addr % PAGE);
    vm::user::copy_in(bytes.get_mut(..within)?, addr).ok()?;
    Some(bytes)
}

/// The answer of `found` for the place that `path` leads to, with the running process's credentials.
#[inline]
fn at_parent<'p, R>(
    task: &Arc<Task>,
    path: &'p [u8],
    found: impl FnOnce(&ParentLookup<'_, 'p>, &Cred) -> Option<R>,
    off: &IrqsOff,
) -> Option<(R, &'p [u8])> {
    let process = &task.process;
    let (cred, context) = (task.cred.peek(off), process.fs.peek(off));
    let parent = parent_lookup::find(context, path, cred, off)?;
    Some((found(&parent, cred)?, parent.name))
}

/// The things that making a file needs when interrupts are on.
struct Making<'p> {
    dir: VfsPath,
    name: &'p [u8],
    cred: Arc<Cred>,
    umask: u32,
    files: Arc<FdTable>,
}

/// Makes the file at `addr`, which is not there, and opens it.
fn make(addr: usize, flags: u32, mode: u32, off: &mut IrqsOff) -> Option<isize> {
    if fsnotify::any() {
        return None;
    }
    let mut words = BLANK;
    let path = head(&mut words, addr)?;
    let making = Task::here(|task| {
        let process = &task.process;
        process.files.peek(off).has_place().ok()?;
        let (dir, name) = at_parent(task, path, |parent, _| parent.vacant(), off)?;
        Some(Making {
            dir,
            name,
            cred: task.cred.get(),
            umask: process.fs.peek(off).umask(),
            files: process.files.get(),
        })
    });
    let making = making.flatten()?;
    match off.with_interrupts(|| made(making, flags, mode)) {
        Ok(fd) => Some(fd as isize),
        // Somebody else has just made it; or a wait was interrupted.
        Err(Errno::EEXIST) => None,
        Err(error) if error.is_restart() => Some(NOT_HANDLED),
        Err(error) => Some(error.to_rax() as isize),
    }
}

fn made(making: Making<'_>, flags: u32, mode: u32) -> Result<i32> {
    let Making {
        dir,
        name,
        cred,
        umask,
        files,
    } = making;
    let of = opening::make(&cred, umask, dir, name, flags | O_LARGEFILE, mode)?;
    fsnotify::opened(&of);
    if let Some(list) = of.list() {
        list.opened_again();
    }
    let cloexec = flags & O_CLOEXEC != 0;
    quota::admit_description()?;
    let fd = match files.install_if_sole_user(of.clone(), cloexec) {
        Ok(fd) => fd,
        Err(of) => files.install(of, cloexec)?,
    };
    marks::settle(&of);
    lease::settle(&of);
    Ok(fd)
}

/// Removes the name at `addr`, which is there and no directory's.
fn remove(addr: usize, off: &mut IrqsOff) -> Option<isize> {
    if fsnotify::any() {
        return None;
    }
    let mut words = BLANK;
    let path = head(&mut words, addr)?;
    let found = |parent: &ParentLookup<'_, '_>, cred: &Cred| parent.removable(cred);
    let (dir, name): (Arc<dyn Inode>, _) =
        Task::here(|task| at_parent(task, path, found, off)).flatten()?;
    // If somebody else has changed it meanwhile, the ordinary way sees that.
    off.with_interrupts(move || dir.unlink(name).ok().map(|()| 0))
}
