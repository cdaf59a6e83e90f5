//! The calls of POSIX message queues.
//!
//! *Interface*: [`CALLS`].

use abi::errno::{Errno, Result};
use abi::linux::*;
use abi::nr;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use vm::user;

use super::file::{FileCaller, user_path};
use super::{Args, Handler};
use file::OpenFile;
use process::Process;
use process::ipc::mqueue::names::{self, QueueAttr};
use process::ipc::mqueue::notice::{self, COOKIE, NotifyKind, QueueNotify};
use process::ipc::mqueue::{Message, PosixQueue, of};
use process::time::TimerClock;
use vm::fallible::try_filled;

/// See [`super::FAMILIES`].
pub const CALLS: &[(usize, Handler)] = &[
    (nr::MQ_OPEN, mq_open),
    (nr::MQ_UNLINK, mq_unlink),
    (nr::MQ_TIMEDSEND, mq_timedsend),
    (nr::MQ_TIMEDRECEIVE, mq_timedreceive),
    (nr::MQ_NOTIFY, mq_notify),
    (nr::MQ_GETSETATTR, mq_getsetattr),
];

fn mq_open(a: &mut Args) -> Result<usize> {
    let flags = a.uint(1);
    let attr: Option<MqAttr> = match a.word(3) {
        0 => None,
        at => Some(user::get(at)?),
    };
    let name = user_path(a.word(0))?;
    if name.is_empty() {
        return Err(Errno::ENOENT);
    }
    let caller = FileCaller::current();
    caller.files.has_place()?;
    let new = QueueAttr {
        mode: a.uint(2) & 0o7777 & !caller.fs.umask(),
        attr: attr.as_ref(),
    };
    let of = names::description_of(&name, flags, &new, &caller.cred)?;
    // Always closed by exec.
    Ok(caller.files.install(of, true)? as usize)
}

fn mq_unlink(a: &mut Args) -> Result<usize> {
    let name = user_path(a.word(0))?;
    if name.is_empty() {
        return Err(Errno::ENOENT);
    }
    names::remove(&name, &FileCaller::current().cred)?;
    Ok(0)
}

/// The moment at user address `at`, if there is one, as a deadline. EFAULT, EINVAL.
fn deadline(at: usize) -> Result<Option<u64>> {
    if at == 0 {
        return Ok(None);
    }
    let time: Timespec = user::get(at)?;
    let ns = time.to_ns().ok_or(Errno::EINVAL)?;
    TimerClock::Real.deadline(ns).map(Some)
}

/// The description behind a descriptor. EBADF.
fn opened(fd: i32) -> Result<Arc<OpenFile>> {
    Process::current().files.get().opened(fd)
}

fn mq_timedsend(a: &mut Args) -> Result<usize> {
    let (fd, at, length, priority) = (a.int(0), a.word(1), a.word(2), a.uint(3));
    let deadline = deadline(a.word(4))?;
    if priority >= MQ_PRIO_MAX {
        return Err(Errno::EINVAL);
    }
    let description = opened(fd)?;
    let queue: &PosixQueue = of(&description)?;
    if !description.writable() {
        return Err(Errno::EBADF);
    }
    if length > queue.size() {
        return Err(Errno::EMSGSIZE);
    }
    let mut text = try_filled(0, length)?;
    user::copy_in(&mut text, at)?;
    let message = Message::new(priority, text)?;
    queue.post(message, !description.nonblocking(), deadline)?;
    Ok(0)
}

fn mq_timedreceive(a: &mut Args) -> Result<usize> {
    let (fd, at, length, priority_at) = (a.int(0), a.word(1), a.word(2), a.word(3));
    let deadline = deadline(a.word(4))?;
    let description = opened(fd)?;
    let queue: &PosixQueue = of(&description)?;
    if !description.readable() {
        return Err(Errno::EBADF);
    }
    if length < queue.size() {
        return Err(Errno::EMSGSIZE);
    }
    let message = queue.take_first(!description.nonblocking(), deadline)?;
    if priority_at != 0 {
        user::put(priority_at, &message.priority)?;
    }
    user::copy_out(at, &message.text)?;
    Ok(message.text.len())
}

fn mq_notify(a: &mut Args) -> Result<usize> {
    let way = match a.word(1) {
        0 => None,
        at => Some(way(&user::get(at)?)?),
    };
    let description = opened(a.int(0))?;
    let queue: &PosixQueue = of(&description)?;
    match way {
        Some(way) => queue.notify(QueueNotify::new(way))?,
        None => queue.forget(&Process::current()),
    }
    Ok(0)
}

/// How a process wants to be told. EBADF, EFAULT, EINVAL, ENOTSOCK.
fn way(event: &Sigevent) -> Result<NotifyKind> {
    match event.notify {
        SIGEV_NONE => Ok(NotifyKind::Silent),
        SIGEV_SIGNAL if (0..=SIGMAX).contains(&event.signo) => {
            Ok(NotifyKind::Signal(event.signo, event.value))
        }
        SIGEV_THREAD => {
            let mut cookie = [0; COOKIE];
            user::copy_in(&mut cookie, event.value as usize)?;
            Ok(NotifyKind::Socket(notice::listener(event.signo)?, cookie))
        }
        _ => Err(Errno::EINVAL),
    }
}

fn mq_getsetattr(a: &mut Args) -> Result<usize> {
    let nonblocking = i64::from(O_NONBLOCK);
    let new: Option<MqAttr> = match a.word(1) {
        0 => None,
        at => Some(user::get(at)?),
    };
    if new.is_some_and(|new| new.flags & !nonblocking != 0) {
        return Err(Errno::EINVAL);
    }
    let description = opened(a.int(0))?;
    let queue: &PosixQueue = of(&description)?;
    let mut old = queue.attr();
    if description.nonblocking() {
        old.flags = nonblocking;
    }
    if let Some(new) = new {
        if new.flags != 0 {
            description.flags.fetch_or(O_NONBLOCK, Ordering::Relaxed);
        } else {
            description.flags.fetch_and(!O_NONBLOCK, Ordering::Relaxed);
        }
        queue.touch(false);
    }
    if a.word(2) != 0 {
        user::put(a.word(2), &old)?;
    }
    Ok(0)
}
