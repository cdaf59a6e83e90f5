//! `pipe` and `pipe2`.
//!
//! *Interface*: [`CALLS`].

use abi::errno::{Errno, Result};
use abi::linux::{O_CLOEXEC, O_DIRECT, O_NONBLOCK};
use abi::nr;
use vm::user;

use super::{Args, Handler};
use file::pipe;
use process::Process;

/// The calls of this family.
pub const CALLS: &[(usize, Handler)] = &[(nr::PIPE, pipe1), (nr::PIPE2, pipe2)];

fn pipe1(args: &mut Args) -> Result<usize> {
    make(args.word(0), 0)
}

fn pipe2(args: &mut Args) -> Result<usize> {
    make(args.word(0), args.uint(1))
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
