//! The calls of epoll instances.
//!
//! *Interface*: [`CALLS`].
//!
//! *Unsafe*: a description in the running thread's table that stays while interrupts are off.

use abi::errno::{Errno, Result};
use abi::linux::*;
use abi::nr;
use alloc::sync::Arc;
use machine::irqs_off::IrqsOff;
use thread::frameless::NOT_HANDLED;
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
/// way.
#[inline(always)]
fn frameless(
    task: &Task,
    fd: i32,
    (events, most): (usize, i32),
    timeout: i32,
    off: &mut IrqsOff,
) -> isize {
    let Ok(most) = room(events, most) else {
        return NOT_HANDLED;
    };
    let files = task.process.files.peek(off);
    // SAFETY: the running thread is of the process whose table it is.
    let Some(of) = (unsafe { files.at_hand(fd, off) }) else {
        return NOT_HANDLED;
    };
    let Some(epoll) = of.file_as::<Epoll>() else {
        return NOT_HANDLED;
    };
    let looked = epoll.take_one(events, off);
    match looked {
        Some(0) if timeout < 0 => {}
        Some(0) if timeout > 0 => return NOT_HANDLED,
        Some(reported) => return reported,
        None => {}
    }
    // SAFETY: it is at hand there.
    let kept = unsafe { files.keep(fd, of, off) };
    let reported = match &kept {
        Ok(of) => kept_frameless(task, of, (events, most), (timeout, looked.is_some()), off),
        Err(_) => NOT_HANDLED,
    };
    // It may be the last count.
    off.with_interrupts(|| drop(kept));
    reported
}

/// The same of an instance, `of`, whose description is counted, so that interrupts may come; and which has
/// been looked at just now if `looked`.
#[inline(never)]
fn kept_frameless(
    task: &Task,
    of: &OpenFile,
    (events, most): (usize, usize),
    (timeout, mut looked): (i32, bool),
    off: &mut IrqsOff,
) -> isize {
    let Some(epoll) = of.file_as::<Epoll>() else {
        return NOT_HANDLED;
    };
    loop {
        if !looked {
            match epoll.take_all(most, events, off) {
                0 if timeout < 0 => {}
                0 if timeout > 0 => return NOT_HANDLED,
                reported => return reported,
            }
        }
        looked = false;
        if !epoll.sleep_frameless(&task.thread, off) {
            return NOT_HANDLED;
        }
    }
}

/// `epoll_wait` without a trap frame.
pub(super) extern "sysv64" fn wait_frameless(
    fd: usize,
    events: usize,
    most: usize,
    timeout: usize,
    _more: usize,
    _other: usize,
    mut off: IrqsOff,
) -> isize {
    Task::here(|task| {
        let room = (events, most as i32);
        frameless(task, fd as i32, room, timeout as i32, &mut off)
    })
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
    off: IrqsOff,
) -> isize {
    match mask {
        0 => wait_frameless(fd, events, most, timeout, 0, 0, off),
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
