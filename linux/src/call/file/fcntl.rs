//! `fcntl`, `flock` and `ioctl`.
//!
//! *Interface.* [`CALLS`]; [`fcntl_frameless`] asks for flags, changes them, and takes and releases record
//! locks, without a trap frame; [`flock_frameless`] takes and releases the locks of whole files.
//!
//! *Unsafe*: the running process's table and its descriptions, with interrupts off.

#![deny(clippy::arithmetic_side_effects)]

use abi::errno::{Errno, Result};
use abi::linux::{
    F_ADD_SEALS, F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_GETFL, F_GETLK, F_GETOWN, F_GETPIPE_SZ,
    F_GETSIG, F_RDLCK, F_SETFD, F_SETFL, F_SETLK, F_SETLKW, F_SETOWN, F_SETPIPE_SZ, F_SETSIG,
    F_UNLCK, F_WRLCK, FD_CLOEXEC, Flock, LOCK_EX, LOCK_NB, LOCK_SH, LOCK_UN, O_APPEND, O_ASYNC,
    O_DIRECT, O_NOATIME, O_NONBLOCK, O_PATH, RLIMIT_LOCKS, SEEK_CUR, SEEK_END, SEEK_SET,
};
use abi::nr;
use account::Cred;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use machine::irqs_off::IrqsOff;

use super::FileCaller;
use crate::call::{Args, Handler};
use file::OpenFile;
use file::event::{self, dnotify};
use file::fasync::{self, Fasync, FasyncKind};
use file::fdtable;
use file::fdtable::FdTable;
use file::fs::FileKind;
use file::fs::lease;
use file::fs::lock::{self, FileLock, LockOwner, LockPayer};
use file::fs::perm;
use file::pipe;
use process::{Process, Task};
use thread::frameless::{NOT_HANDLED, call_handler};

/// Calls of this family.
pub const CALLS: &[(usize, Handler)] =
    &[(nr::FCNTL, fcntl), (nr::FLOCK, flock), (nr::IOCTL, ioctl)];

const F_SETLEASE: i32 = 1024;
const F_GETLEASE: i32 = 1025;
const F_NOTIFY: i32 = 1026;
const F_OFD_GETLK: i32 = 36;
const F_OFD_SETLK: i32 = 37;
const F_OFD_SETLKW: i32 = 38;
const F_SETOWN_EX: i32 = 15;
const F_GETOWN_EX: i32 = 16;
const F_GETOWNER_UIDS: i32 = 17;

const FIONCLEX: u32 = 0x5450;
const FIOCLEX: u32 = 0x5451;
const FIONBIO: u32 = 0x5421;
const FIOASYNC: u32 = 0x5452;
const FIONREAD: u32 = 0x541b;
const FIGETBSZ: u32 = 2;
const FIOQSIZE: u32 = 0x5460;

/// Flags that `F_SETFL` changes.
const SETTABLE: u32 = O_APPEND | O_NONBLOCK | O_DIRECT | O_NOATIME;

/// Changes status flags, and with them what the routines may assume.
fn set_flags(of: &Arc<OpenFile>, flags: u32) {
    let old = of.flags();
    let new = old & !SETTABLE | flags & SETTABLE;
    if new == old {
        return;
    }
    of.set_flags(SETTABLE, flags);
    of.file().flags_changed(of);
    if (old ^ new) & O_APPEND != 0 {
        fdtable::replug_everywhere(of);
    }
}

/// Whether the description may have `flags`: EPERM for who may not leave the time of reading as it is, EINVAL
/// for bytes that cannot go directly.
fn check_flags(of: &OpenFile, flags: u32) -> Result<()> {
    if flags & !of.flags() & O_NOATIME != 0 {
        let owns = |attr| perm::owns(&account::caller::cred(), &attr);
        if !owns(of.file().stat(of)) {
            return Err(Errno::EPERM);
        }
    }
    let direct = || of.file().is_bounded() || pipe::ends::of(of).is_some();
    if flags & O_DIRECT != 0 && !direct() {
        return Err(Errno::EINVAL);
    }
    Ok(())
}

/// `F_SETFL` on descriptor `fd`.
fn change_flags(of: &Arc<OpenFile>, fd: i32, flags: u32) -> Result<usize> {
    check_flags(of, flags)?;
    if (flags ^ of.flags()) & O_ASYNC != 0 && of.file().tells() != FasyncKind::Never {
        fasync::set_async(of, fd, flags & O_ASYNC != 0)?;
    }
    set_flags(of, flags);
    Ok(0)
}

/// `F_GETFD` and `F_SETFD`.
fn descriptor_flags(files: &FdTable, fd: i32, command: i32, arg: usize) -> Result<usize> {
    if command == F_GETFD {
        return Ok(usize::from(files.cloexec(fd)?));
    }
    files.set_cloexec(fd, arg & FD_CLOEXEC as usize != 0)?;
    Ok(0)
}

/// A record lock on behalf of the running thread, `task`, at once. `None`: nothing has been done; the call is
/// to be made by [`record`], which also tells errors.
fn record_now(task: &Task, fd: i32, addr: usize, off: &mut IrqsOff) -> Option<Result<usize>> {
    let process = &task.process;
    let (files, cred) = (process.files.peek(off), task.cred.peek(off));
    // SAFETY: the running thread is of the process whose table it is.
    let of = unsafe { files.at_hand(fd, off) }?;
    let wanted: Flock = vm::user::get(addr).ok()?;
    if i32::from(wanted.whence) != SEEK_SET || of.flags() & O_PATH != 0 {
        return None;
    }
    let (start, end) = range(of, &wanted).ok()?;
    let file = of.inode()?.id();
    let owner = LockOwner::Table(files.lock_owner());
    let exclusive = match i32::from(wanted.kind) {
        F_UNLCK => return lock::clear_now(file, owner, start, end).then_some(Ok(0)),
        F_RDLCK if of.readable() => false,
        F_WRLCK if of.writable() => true,
        _ => return None,
    };
    let lock = FileLock {
        start,
        end,
        exclusive,
        owner,
        pid: process.pid,
    };
    let payer = payer_now(process, cred)?;
    if !lock::set_now(file, &lock, &payer) {
        return None;
    }
    // SAFETY: as above.
    let there = unsafe { files.at_hand(fd, off) };
    if there.is_some_and(|there| core::ptr::eq(there, of)) {
        return Some(Ok(0));
    }
    // As in `still_open`.
    off.with_interrupts(|| lock::give_up(file, owner));
    Some(Err(Errno::EBADF))
}

/// The payer of a lock that is taken at once, by `cred`. None: the limit cannot be seen now.
fn payer_now<'a>(process: &Process, cred: &'a Cred) -> Option<LockPayer<'a>> {
    Some(LockPayer {
        user: &cred.user,
        limit: process.limits.try_lock()?.cur(RLIMIT_LOCKS),
    })
}

/// The same by whatever way.
fn record_frameless(fd: i32, command: i32, addr: usize, off: &mut IrqsOff) -> isize {
    let done = Task::here(|task| record_now(task, fd, addr, off)).flatten();
    match done {
        Some(Ok(value)) => value as isize,
        Some(Err(error)) => error.to_rax() as isize,
        None => call_handler(off, || {
            let caller = FileCaller::current();
            let of = caller.files.get(fd)?;
            if of.flags() & O_PATH != 0 {
                return Err(Errno::EBADF);
            }
            let owner = LockOwner::Table(caller.files.lock_owner());
            record(&caller, &of, owner, command, fd, addr)
        }),
    }
}

/// `fcntl` about flags and record locks; the other commands need a frame.
pub(in crate::call) extern "sysv64" fn fcntl_frameless(
    fd: usize,
    command: usize,
    arg: usize,
    _fourth: usize,
    _more: usize,
    _last: usize,
    mut off: IrqsOff,
) -> isize {
    let (fd, command) = (fd as i32, command as i32);
    if matches!(command, F_SETLK | F_SETLKW) {
        return record_frameless(fd, command, arg, &mut off);
    }
    let flags = |task: &Arc<Task>| {
        let files = task.process.files.peek(&off);
        // SAFETY: this is one of the table's threads.
        let of = || unsafe { files.at_hand(fd, &off) };
        match command {
            F_GETFD | F_SETFD => Some(descriptor_flags(files, fd, command, arg)),
            F_GETFL => of().map(|of| Ok(of.flags() as usize)),
            F_SETFL => {
                // SAFETY: it is at hand there.
                let kept = unsafe { files.keep(fd, of()?, &off) };
                off.with_interrupts(|| Some(change_flags(&kept.ok()?, fd, arg as u32)))
            }
            _ => None,
        }
    };
    match Task::here(flags).flatten() {
        Some(Ok(value)) => value as isize,
        Some(Err(error)) => error.to_rax() as isize,
        None => NOT_HANDLED,
    }
}

fn fcntl(args: &mut Args) -> Result<usize> {
    let caller = FileCaller::current();
    let (fd, command, arg) = (args.int(0), args.int(1), args.word(2));
    let files = &caller.files;
    let of = files.get(fd)?;
    let path_only = of.flags() & O_PATH != 0;
    if path_only
        && !matches!(
            command,
            F_DUPFD | F_DUPFD_CLOEXEC | F_GETFD | F_SETFD | F_GETFL
        )
    {
        return Err(Errno::EBADF);
    }
    match command {
        F_DUPFD | F_DUPFD_CLOEXEC => {
            let cloexec = command == F_DUPFD_CLOEXEC;
            let fd = files.install_from(args.int(2), of, cloexec)?;
            Ok(fd as usize)
        }
        F_GETFD | F_SETFD => descriptor_flags(files, fd, command, arg),
        F_GETFL => Ok(of.flags() as usize),
        F_SETFL => change_flags(&of, fd, args.uint(2)),
        F_GETLK | F_SETLK | F_SETLKW => {
            let owner = LockOwner::Table(files.lock_owner());
            record(&caller, &of, owner, command, fd, arg)
        }
        F_OFD_GETLK | F_OFD_SETLK | F_OFD_SETLKW => {
            let owner = LockOwner::Description(Arc::as_ptr(&of) as usize);
            let command = command.wrapping_sub(F_OFD_GETLK - F_GETLK);
            record(&caller, &of, owner, command, fd, arg)
        }
        F_GETOWN | F_GETSIG | F_SETOWN | F_SETSIG | F_GETOWN_EX | F_SETOWN_EX | F_GETOWNER_UIDS => {
            owner(&of, command, arg)
        }
        F_SETLEASE => event::lease::set(&of, fd, arg as i32).map(|()| 0),
        F_NOTIFY => dnotify::set(&of, fd, files.lock_owner(), arg as u32).map(|()| 0),
        F_GETLEASE => Ok(lease::get(&of) as usize),
        F_ADD_SEALS if !of.writable() => Err(Errno::EPERM),
        F_GETPIPE_SZ | F_SETPIPE_SZ if pipe::ends::of(&of).is_none() => Err(Errno::EBADF),
        _ => of.file().control(&of, command, arg),
    }
}

/// The receiver of a file's signals, and the signal.
fn owner(of: &OpenFile, command: i32, arg: usize) -> Result<usize> {
    let told = of.fasync();
    match command {
        F_SETOWN => of.make_fasync()?.set_owner(arg as i32)?,
        F_GETOWN => return Ok(told.map_or(0, Fasync::owner_number) as usize),
        F_SETOWN_EX => {
            let [kind, number]: [i32; 2] = vm::user::get(arg)?;
            of.make_fasync()?.set_owner_by(kind, number)?;
        }
        F_GETOWN_EX => {
            let (kind, number) = told.map_or((0, 0), Fasync::owner);
            vm::user::put(arg, &[kind, number])?;
        }
        F_GETOWNER_UIDS => vm::user::put(arg, &told.map_or([0; 2], Fasync::said_by))?,
        F_SETSIG => of.make_fasync()?.set_signal(arg)?,
        _ => return Ok(told.map_or(0, Fasync::signal) as usize),
    }
    Ok(0)
}

/// The bytes that a `struct flock` means.
fn range(of: &OpenFile, lock: &Flock) -> Result<(u64, u64)> {
    let base = match i32::from(lock.whence) {
        SEEK_SET => 0,
        SEEK_CUR => of.cursor.offset.load(Ordering::Relaxed) as i64,
        SEEK_END => of.file().stat(of).size as i64,
        _ => return Err(Errno::EINVAL),
    };
    let start = base.checked_add(lock.start).ok_or(Errno::EOVERFLOW)?;
    let (start, end) = if lock.len < 0 {
        (start.checked_add(lock.len).ok_or(Errno::EINVAL)?, start)
    } else if lock.len == 0 {
        (start, i64::MAX)
    } else {
        (start, start.checked_add(lock.len).ok_or(Errno::EOVERFLOW)?)
    };
    let start = u64::try_from(start).map_err(|_| Errno::EINVAL)?;
    let end = if end == i64::MAX {
        u64::MAX
    } else {
        end as u64
    };
    Ok((start, end))
}

fn record(
    caller: &FileCaller,
    of: &OpenFile,
    owner: LockOwner,
    command: i32,
    fd: i32,
    addr: usize,
) -> Result<usize> {
    let mut wanted: Flock = vm::user::get(addr)?;
    let kind = i32::from(wanted.kind);
    if !matches!(kind, F_RDLCK | F_WRLCK | F_UNLCK) {
        return Err(Errno::EINVAL);
    }
    if matches!(owner, LockOwner::Description(_)) && wanted.pid != 0 {
        return Err(Errno::EINVAL);
    }
    let (start, end) = range(of, &wanted)?;
    let file = of.lock_id();
    let lock = FileLock {
        start,
        end,
        exclusive: kind == F_WRLCK,
        owner,
        pid: caller.process.pid,
    };
    if command == F_GETLK {
        if kind == F_UNLCK {
            return Err(Errno::EINVAL);
        }
        match lock::test(file, &lock) {
            Some(held) => {
                wanted.kind = if held.exclusive { F_WRLCK } else { F_RDLCK } as i16;
                wanted.whence = SEEK_SET as i16;
                wanted.start = held.start as i64;
                wanted.len = if held.end == u64::MAX {
                    0
                } else {
                    held.end.saturating_sub(held.start) as i64
                };
                wanted.pid = match held.owner {
                    LockOwner::Table(_) => held.pid,
                    _ => -1,
                };
            }
            None => wanted.kind = F_UNLCK as i16,
        }
        vm::user::put(addr, &wanted)?;
        return Ok(0);
    }
    let payer = payer(caller);
    match kind {
        F_UNLCK => lock::clear(file, owner, start, end, &payer)?,
        F_RDLCK if !of.readable() => return Err(Errno::EBADF),
        F_WRLCK if !of.writable() => return Err(Errno::EBADF),
        _ => {
            if command == F_SETLKW {
                lock::wait_set(file, &lock, &payer)?;
            } else {
                lock::set(file, &lock, &payer)?;
            }
            still_open(caller, owner, fd, of)?;
        }
    }
    Ok(0)
}

/// The payer of the caller's locks.
fn payer(caller: &FileCaller) -> LockPayer<'_> {
    LockPayer {
        user: &caller.cred.user,
        // Bound: one limit.
        limit: caller.process.limits.lock().cur(RLIMIT_LOCKS),
    }
}

/// `owner` took a lock on `of` by `fd`. If another thread has closed that meanwhile, nobody would give the
/// lock up: it is given up now. EBADF for a record lock.
fn still_open(caller: &FileCaller, owner: LockOwner, fd: i32, of: &OpenFile) -> Result<()> {
    if let LockOwner::Table(table) = owner {
        let there = caller.files.get(fd);
        if !there.is_ok_and(|there| core::ptr::eq(&*there, of)) {
            lock::descriptor_closed(table, of);
            return Err(Errno::EBADF);
        }
    } else if of.slots.load(Ordering::Acquire) == 0 {
        lock::descriptor_closed(caller.files.lock_owner(), of);
    }
    Ok(())
}

fn flock(args: &mut Args) -> Result<usize> {
    /// Locks of this kind exist no more, and nothing is done.
    const LOCK_MAND: i32 = 32;
    let operation = args.int(1);
    if operation & LOCK_MAND != 0 {
        return Ok(0);
    }
    let kind = operation & !LOCK_NB;
    if !matches!(kind, LOCK_SH | LOCK_EX | LOCK_UN) {
        return Err(Errno::EINVAL);
    }
    let caller = FileCaller::current();
    let of = caller.files.get(args.int(0))?;
    if of.flags() & O_PATH != 0 {
        return Err(Errno::EBADF);
    }
    let file = of.lock_id();
    let owner = LockOwner::Flock(Arc::as_ptr(&of) as usize);
    let payer = payer(&caller);
    if kind == LOCK_UN {
        lock::clear(file, owner, 0, u64::MAX, &payer)?;
        return Ok(0);
    }
    if !of.readable() && !of.writable() {
        return Err(Errno::EBADF);
    }
    let exclusive = kind == LOCK_EX;
    let wanted = FileLock {
        start: 0,
        end: u64::MAX,
        exclusive,
        owner,
        pid: caller.process.pid,
    };
    if operation & LOCK_NB != 0 {
        lock::set(file, &wanted, &payer)?;
    } else {
        lock::wait_set(file, &wanted, &payer)?;
    }
    still_open(&caller, owner, args.int(0), &of)?;
    Ok(0)
}

/// [`flock`] on behalf of the running thread, `task`, at once. `None`: nothing has been done; the call is to
/// be made by [`flock`], which also tells errors.
fn flock_now(task: &Task, fd: i32, operation: i32, off: &mut IrqsOff) -> Option<()> {
    let process = &task.process;
    let (files, cred) = (process.files.peek(off), task.cred.peek(off));
    // SAFETY: the running thread is of the process whose table it is.
    let of = unsafe { files.at_hand(fd, off) }?;
    if !of.readable() && !of.writable() {
        return None;
    }
    let file = of.inode()?.id();
    let owner = LockOwner::Flock(core::ptr::from_ref(of).addr());
    let exclusive = match operation & !LOCK_NB {
        LOCK_UN => return lock::clear_now(file, owner, 0, u64::MAX).then_some(()),
        LOCK_SH => false,
        LOCK_EX => true,
        _ => return None,
    };
    let lock = FileLock {
        start: 0,
        end: u64::MAX,
        exclusive,
        owner,
        pid: process.pid,
    };
    let payer = payer_now(process, cred)?;
    // SAFETY: it is at hand there.
    let kept = unsafe { files.keep(fd, of, off) };
    let taken = kept.is_ok() && lock::set_now(file, &lock, &payer);
    off.with_interrupts(|| {
        // It may be the last count.
        let (Ok(counted) | Err(counted)) = kept;
        // As in `still_open`.
        if taken && counted.slots.load(Ordering::Acquire) == 0 {
            lock::give_up(file, owner);
        }
    });
    taken.then_some(())
}

/// `flock` without a trap frame.
pub(in crate::call) extern "sysv64" fn flock_frameless(
    fd: usize,
    operation: usize,
    _third: usize,
    _fourth: usize,
    _more: usize,
    _last: usize,
    mut off: IrqsOff,
) -> isize {
    let done = Task::here(|task| flock_now(task, fd as i32, operation as i32, &mut off)).flatten();
    match done {
        Some(()) => 0,
        None => call_handler(&mut off, || {
            flock(&mut Args {
                nr: nr::FLOCK,
                arg: [fd, operation, 0, 0, 0, 0],
            })
        }),
    }
}

fn ioctl(args: &mut Args) -> Result<usize> {
    let caller = FileCaller::current();
    let (fd, command, arg) = (args.int(0), args.uint(1), args.word(2));
    let of = caller.files.get(fd)?;
    if of.flags() & O_PATH != 0 {
        return Err(Errno::EBADF);
    }
    match command {
        FIOCLEX | FIONCLEX => {
            caller.files.set_cloexec(fd, command == FIOCLEX)?;
            Ok(0)
        }
        FIONBIO => {
            let on: i32 = vm::user::get(arg)?;
            let flags = of.flags();
            let flags = match on {
                0 => flags & !O_NONBLOCK,
                _ => flags | O_NONBLOCK,
            };
            set_flags(&of, flags);
            Ok(0)
        }
        FIOASYNC => {
            let on: i32 = vm::user::get(arg)?;
            if (on != 0) != (of.flags() & O_ASYNC != 0) {
                fasync::set_async(&of, fd, on != 0)?;
            }
            Ok(0)
        }
        FIONREAD if of.inode().is_some_and(|i| i.kind() == FileKind::Regular) => {
            let left = (of.file().stat(&of).size as i64)
                .wrapping_sub(of.cursor.offset.load(Ordering::Relaxed) as i64);
            vm::user::put(arg, &(left as i32))?;
            Ok(0)
        }
        FIGETBSZ => {
            vm::user::put(arg, &4096i32)?;
            Ok(0)
        }
        FIOQSIZE
            if matches!(
                of.inode().map(|i| i.kind()),
                Some(FileKind::Regular | FileKind::Directory)
            ) =>
        {
            vm::user::put(arg, &of.file().stat(&of).size)?;
            Ok(0)
        }
        _ => of.file().ioctl(&of, command, arg),
    }
}
