//! The calls of epoll instances.
//!
//! *Interface*: [`CALLS`].
//!
//! *Unsafe*: a table and a description that stay while interrupts are off.

use abi::errno::{Errno, Result};
use abi::linux::*;
use abi::nr;
use alloc::sync::Arc;
use thread::frameless::{NOT_HANDLED, with_interrupts};
use vm::user::{get, put};

use super::poll::{milliseconds, relative, restored};
use super::signal::with_mask;
use super::{Args, Handler};
use file::OpenFile;
use file::epoll::{Epoll, room};
use process::{Process, Task};
use thread::deadline::Deadline;

/// The calls of this family.
pub const CALLS: &[(usize, Handler)] = &[
    (nr::EPOLL_CREATE, create),
    (nr::EPOLL_CREATE1, create1),
    (nr::EPOLL_CTL, control),
    (nr::EPOLL_WAIT, wait),
    (nr::EPOLL_PWAIT, pwait),
    (nr::EPOLL_PWAIT2, pwait2),
];

fn create(args: &mut Args) -> Result<usize> {
    if args.int(0) <= 0 {
        return Err(Errno::EINVAL);
    }
    new(false)
}

fn create1(args: &mut Args) -> Result<usize> {
    if args.uint(0) & !EPOLL_CLOEXEC != 0 {
        return Err(Errno::EINVAL);
    }
    new(args.uint(0) & EPOLL_CLOEXEC != 0)
}

fn new(cloexec: bool) -> Result<usize> {
    let files = Process::current().files.get();
    Ok(files.install(Epoll::open()?, cloexec)? as usize)
}

/// The instance of a description. EINVAL.
fn instance(of: &OpenFile) -> Result<&Epoll> {
    of.file_as().ok_or(Errno::EINVAL)
}

fn control(args: &mut Args) -> Result<usize> {
    let (operation, fd) = (args.uint(1), args.int(2));
    let event = if operation == EPOLL_CTL_DEL {
        EpollEvent::default()
    } else {
        get::<EpollEvent>(args.word(3))?
    };
    let both: Option<Result<_>> = Task::here(|task| {
        (task.process.files).with(|files| Ok((files.opened(args.int(0))?, files.opened(fd)?)))
    });
    let (of, file) = both.ok_or(Errno::EBADF)??;
    if !file.file().can_be_watched() {
        return Err(Errno::EPERM);
    }
    let epoll = instance(&of)?;
    if Arc::ptr_eq(&of, &file) {
        return Err(Errno::EINVAL);
    }
    match operation {
        EPOLL_CTL_ADD => epoll.add(&of, fd, &file, event),
        EPOLL_CTL_MOD => epoll.change(fd, &file, event),
        EPOLL_CTL_DEL => epoll.remove(fd, &file),
        _ => Err(Errno::EINVAL),
    }?;
    Ok(0)
}

fn wait(args: &mut Args) -> Result<usize> {
    until(args, milliseconds(args.int(3)))
}

/// Waits on instance `fd` for up to `most` events, for which there is room at `events`, for ever with a
/// negative `timeout`, and for no other than 0: how many. [`NOT_HANDLED`]: the call is to be made the long
/// way. Interrupts are off, and are off again afterwards.
#[inline(always)]
fn frameless(task: &Task, fd: i32, events: usize, most: i32, timeout: i32) -> isize {
    let Ok(most) = room(events, most) else {
        return NOT_HANDLED;
    };
    // SAFETY: interrupts are off until the table is used no more.
    let files = unsafe { task.process.files.peek() };
    // SAFETY: interrupts are off until the description is counted, and the running thread is of the process
    // whose table it is.
    let Some(of) = (unsafe { files.at_hand(fd) }) else {
        return NOT_HANDLED;
    };
    let Some(epoll) = of.file_as::<Epoll>() else {
        return NOT_HANDLED;
    };
    let reported = epoll.take_frameless(most, events);
    if reported != 0 || timeout == 0 {
        return reported;
    }
    if timeout > 0 {
        return NOT_HANDLED;
    }
    // SAFETY: as above.
    let Some(counted) = (unsafe { files.keep(fd, of) }) else {
        return NOT_HANDLED;
    };
    let reported = loop {
        if !epoll.sleep_frameless(&task.thread) {
            break NOT_HANDLED;
        }
        match epoll.take_frameless(most, events) {
            0 => {}
            reported => break reported,
        }
    };
    // It may be the last count.
    with_interrupts(|| drop(counted));
    reported
}

/// `epoll_wait` without a trap frame.
pub(super) extern "sysv64" fn wait_frameless(
    fd: usize,
    events: usize,
    most: usize,
    timeout: usize,
    _more: usize,
    _other: usize,
) -> isize {
    Task::here(|task| frameless(task, fd as i32, events, most as i32, timeout as i32))
        .unwrap_or(NOT_HANDLED)
}

/// `epoll_pwait` without a trap frame, and without a mask.
pub(super) extern "sysv64" fn pwait_frameless(
    fd: usize,
    events: usize,
    most: usize,
    timeout: usize,
    mask: usize,
    _size: usize,
) -> isize {
    match mask {
        0 => wait_frameless(fd, events, most, timeout, 0, 0),
        _ => NOT_HANDLED,
    }
}

fn pwait(args: &mut Args) -> Result<usize> {
    with_mask(args.word(4), args.word(5))?;
    restored(until(args, milliseconds(args.int(3))))
}

fn pwait2(args: &mut Args) -> Result<usize> {
    let deadline = relative(args.word(3))?;
    with_mask(args.word(4), args.word(5))?;
    restored(until(args, deadline))
}

fn until(args: &Args, deadline: Deadline) -> Result<usize> {
    let events = args.word(1);
    let most = room(events, args.int(2))?;
    let fd = args.int(0);
    let of = Task::here(|task| task.process.files.with(|files| files.opened(fd)));
    let of = of.ok_or(Errno::EBADF)??;
    instance(&of)?.wait(most, deadline, |place, event| {
        put(events + place * size_of::<EpollEvent>(), &event)
    })
}
