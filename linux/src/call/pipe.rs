//! `pipe` and `pipe2`.
//!
//! *Interface*: [`CALLS`]; [`pipe_frameless`], [`pipe2_frameless`] without a trap frame: a pipe that was
//! closed waits with its code for the next one, and then the call writes only a few words.
//!
//! *Unsafe*: the running process's table, with interrupts off.

use abi::errno::{Errno, Result};
use abi::linux::{O_CLOEXEC, O_DIRECT, O_NONBLOCK};
use abi::nr;
use alloc::sync::Arc;
use machine::irqs_off::IrqsOff;
use vm::user;

use super::{Args, Handler};
use file::OpenFile;
use file::pipe;
use process::{Process, Task};
use thread::frameless::call_handler;

/// The calls of this family.
pub const CALLS: &[(usize, Handler)] = &[(nr::PIPE, pipe1), (nr::PIPE2, pipe2)];

fn pipe1(args: &mut Args) -> Result<usize> {
    make(args.word(0), 0)
}

fn pipe2(args: &mut Args) -> Result<usize> {
    make(args.word(0), args.uint(1))
}

/// `pipe`.
pub(super) extern "sysv64" fn pipe_frameless(
    pair: usize,
    _second: usize,
    _third: usize,
    _more: usize,
    _other: usize,
    _last: usize,
    mut off: IrqsOff,
) -> isize {
    take(pair, 0, &mut off)
}

/// `pipe2`.
pub(super) extern "sysv64" fn pipe2_frameless(
    pair: usize,
    flags: usize,
    _third: usize,
    _more: usize,
    _other: usize,
    _last: usize,
    mut off: IrqsOff,
) -> isize {
    take(pair, flags as u32, &mut off)
}

/// Takes a pipe that waits, or makes one.
fn take(pair: usize, flags: u32, off: &mut IrqsOff) -> isize {
    let taken = Task::here(|task| {
        if flags & !(O_CLOEXEC | O_NONBLOCK) != 0 {
            return false;
        }
        let cred = task.cred.peek(off);
        let Some(ends) = pipe::waiting_pair(flags & O_NONBLOCK, cred) else {
            return false;
        };
        install(task, ends, flags & O_CLOEXEC != 0, pair, off)
    });
    match taken {
        Some(true) => 0,
        _ => call_handler(off, || make(pair, flags)),
    }
}

/// Both ends into the table, and their descriptors to `pair`; or nothing.
fn install(
    task: &Task,
    (reading, writing): (Arc<OpenFile>, Arc<OpenFile>),
    cloexec: bool,
    pair: usize,
    off: &mut IrqsOff,
) -> bool {
    let table = task.process.files.peek(off);
    // SAFETY: the table is the running thread's.
    let first = match unsafe { table.install_now(reading, cloexec, off) } {
        Ok(first) => first,
        Err(reading) => {
            off.with_interrupts(|| drop((reading, writing)));
            return false;
        }
    };
    // SAFETY: as above.
    let (second, refused) = match unsafe { table.install_now(writing, cloexec, off) } {
        Ok(second) if user::put(pair, &[first, second]).is_ok() => return true,
        Ok(second) => (Some(second), None),
        Err(writing) => (None, Some(writing)),
    };
    let files = task.process.files.get();
    off.with_interrupts(|| {
        drop(refused);
        for fd in [Some(first), second].into_iter().flatten() {
            let _closed = files.close(fd);
        }
    });
    false
}

fn make(pair: usize, flags: u32) -> Result<usize> {
    if flags & !(O_CLOEXEC | O_NONBLOCK | O_DIRECT) != 0 {
        return Err(Errno::EINVAL);
    }
    let files = Process::current().files.get();
    let cloexec = flags & O_CLOEXEC != 0;
    let (reading, writing) = pipe::pair(flags & (O_NONBLOCK | O_DIRECT))?;
    let first = files.install(reading, cloexec)?;
    let installed = files.install(writing, cloexec).and_then(|second| {
        user::put(pair, &[first, second]).inspect_err(|_| {
            let _closed = files.close(second);
        })
    });
    if let Err(error) = installed {
        let _closed = files.close(first);
        return Err(error);
    }
    Ok(0)
}
