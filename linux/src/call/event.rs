//! The calls that make files of events, and set their timers.
//!
//! *Interface*: [`CALLS`].

use abi::errno::{Errno, Result};
use abi::linux::*;
use abi::nr;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use vm::user;

use super::file::{FileCaller, user_path};
use super::time::itimerspec;
use super::{Args, Handler};
use account::quota;
use file::OpenFile;
use file::event::{eventfd, inotify, marks};
use file::fdtable::make_shared;
use file::fs::{FileKind, fsnotify, perm};
use process::access::{self, PtraceMode};
use process::signal::signalfd;
use process::time::{TimerClock, timerfd};
use process::{Process, pidfd, tree};

/// The calls of this family.
pub const CALLS: &[(usize, Handler)] = &[
    (nr::EVENTFD, |a| eventfd(a.uint(0), 0)),
    (nr::EVENTFD2, |a| eventfd(a.uint(0), a.uint(1))),
    (nr::SIGNALFD, |a| signalfd(a, 0)),
    (nr::SIGNALFD4, |a| signalfd(a, a.uint(3))),
    (nr::PIDFD_OPEN, pidfd_open),
    (nr::INOTIFY_INIT, |_| inotify_init(0)),
    (nr::INOTIFY_INIT1, |a| inotify_init(a.uint(0))),
    (nr::INOTIFY_ADD_WATCH, inotify_add_watch),
    (nr::INOTIFY_RM_WATCH, |a| {
        let of = Process::current().files.get().get(a.int(0))?;
        fsnotify::take(inotify::of(&of)?, a.int(1)).map(|()| 0)
    }),
    (nr::PIDFD_GETFD, pidfd_getfd),
    (nr::TIMERFD_CREATE, timerfd_create),
    (nr::TIMERFD_SETTIME, timerfd_settime),
    (nr::TIMERFD_GETTIME, |a| {
        let of = Process::current().files.get().get(a.int(0))?;
        user::put(a.word(1), &itimerspec(timerfd::of(&of)?.get())).map(|()| 0)
    }),
];

/// A new description gets a descriptor.
fn install(of: Arc<OpenFile>, flags: u32) -> Result<usize> {
    let files = Process::current().files.get();
    Ok(files.install_cold(of, flags & O_CLOEXEC != 0)? as usize)
}

fn eventfd(count: u32, flags: u32) -> Result<usize> {
    if flags & !(EFD_SEMAPHORE | EFD_CLOEXEC | EFD_NONBLOCK) != 0 {
        return Err(Errno::EINVAL);
    }
    let single = flags & EFD_SEMAPHORE != 0;
    install(
        eventfd::open(count.into(), single, flags & O_NONBLOCK)?,
        flags,
    )
}

fn timerfd_create(a: &mut Args) -> Result<usize> {
    let flags = a.uint(1);
    if flags & !(O_CLOEXEC | O_NONBLOCK) != 0 {
        return Err(Errno::EINVAL);
    }
    let clock = match a.int(0) {
        CLOCK_REALTIME | CLOCK_REALTIME_ALARM => TimerClock::Real,
        CLOCK_MONOTONIC | CLOCK_BOOTTIME | CLOCK_BOOTTIME_ALARM => TimerClock::Monotonic,
        _ => return Err(Errno::EINVAL),
    };
    super::time::may_wake(a.int(0))?;
    install(timerfd::open(clock, flags & O_NONBLOCK)?, flags)
}

fn timerfd_settime(a: &mut Args) -> Result<usize> {
    let flags = a.uint(1);
    let new: Itimerspec = user::get(a.word(2))?;
    let value = new.value.to_ns().ok_or(Errno::EINVAL)?;
    let interval = new.interval.to_ns().ok_or(Errno::EINVAL)?;
    if flags & !(TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET) != 0 {
        return Err(Errno::EINVAL);
    }
    let of = Process::current().files.get().get(a.int(0))?;
    let timer = timerfd::of(&of)?;
    let absolute = flags & TFD_TIMER_ABSTIME != 0;
    let watches_clock = absolute && flags & TFD_TIMER_CANCEL_ON_SET != 0;
    let old = timer.set(value, interval, absolute, watches_clock)?;
    if a.word(3) != 0 {
        user::put(a.word(3), &itimerspec(old))?;
    }
    Ok(0)
}

fn signalfd(a: &mut Args, flags: u32) -> Result<usize> {
    if a.word(2) != size_of::<u64>() {
        return Err(Errno::EINVAL);
    }
    let set: u64 = user::get(a.word(1))?;
    if flags & !(O_CLOEXEC | O_NONBLOCK) != 0 {
        return Err(Errno::EINVAL);
    }
    let fd = a.int(0);
    if fd == -1 {
        return install(signalfd::open(set, flags & O_NONBLOCK)?, flags);
    }
    let of = Process::current().files.get().get(fd)?;
    signalfd::of(&of)?.set(set);
    Ok(fd as usize)
}

fn pidfd_open(a: &mut Args) -> Result<usize> {
    let (pid, flags) = (a.int(0), a.uint(1));
    if flags & !O_NONBLOCK != 0 || pid <= 0 {
        return Err(Errno::EINVAL);
    }
    let process = match tree::find(pid) {
        Some(process) => process,
        // A thread is none.
        None if tree::find_task(pid).is_some() => return Err(Errno::EINVAL),
        None => return Err(Errno::ESRCH),
    };
    install(pidfd::open(&process, flags)?, O_CLOEXEC)
}

fn pidfd_getfd(a: &mut Args) -> Result<usize> {
    if a.uint(2) != 0 {
        return Err(Errno::EINVAL);
    }
    let of = Process::current().files.get().get(a.int(0))?;
    let process = pidfd::of(&of)?;
    if process.is_gone() {
        return Err(Errno::ESRCH);
    }
    let find = || process.files.get().visit().get(a.int(1));
    let found = access::with(process, PtraceMode::Steer, find)??;
    // From now on another table reaches it.
    make_shared(&found);
    install(found, O_CLOEXEC)
}

fn inotify_init(flags: u32) -> Result<usize> {
    if flags & !(O_CLOEXEC | O_NONBLOCK) != 0 {
        return Err(Errno::EINVAL);
    }
    install(inotify::open(flags & O_NONBLOCK)?, flags)
}

fn inotify_add_watch(a: &mut Args) -> Result<usize> {
    const KNOWN: u32 = IN_ALL_EVENTS
        | IN_UNMOUNT
        | IN_Q_OVERFLOW
        | IN_IGNORED
        | IN_ONLYDIR
        | IN_DONT_FOLLOW
        | IN_EXCL_UNLINK
        | IN_MASK_CREATE
        | IN_MASK_ADD
        | IN_ISDIR
        | IN_ONESHOT;
    let mask = a.uint(2);
    let caller = FileCaller::current();
    if mask & KNOWN == 0 {
        return Err(Errno::EINVAL);
    }
    let of = caller.files.get(a.int(0))?;
    if mask & IN_MASK_ADD != 0 && mask & IN_MASK_CREATE != 0 {
        return Err(Errno::EINVAL);
    }
    let instance = inotify::of(&of)?;
    let path = user_path(a.word(1))?;
    let place = caller.place(AT_FDCWD, &path, mask & IN_DONT_FOLLOW == 0)?;
    if mask & IN_ONLYDIR != 0 && place.inode.kind() != FileKind::Directory {
        return Err(Errno::ENOTDIR);
    }
    place.inode.permits(&caller.cred, perm::READ)?;
    let most = fsnotify::limits::WATCHES.load(Ordering::Relaxed) as u64;
    let wd = marks::add(instance, &place.inode, mask, || quota::mark(most))?;
    Ok(wd as usize)
}
