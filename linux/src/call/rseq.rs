//! The call that registers an area for restartable sequences.
//!
//! *Interface*: [`CALLS`], and [`rseq_outright`] for what needs no trap frame.

use abi::errno::{Errno, Result};
use abi::linux::RSEQ_FLAG_UNREGISTER;
use abi::nr;
use thread::outright::LEFT;

use super::{Args, Handler};
use process::Task;
use process::rseq::Rseq;

/// The calls of this family.
pub const CALLS: &[(usize, Handler)] = &[(nr::RSEQ, rseq)];

/// The registration that the C library makes for each thread, without a trap frame.
pub(super) extern "sysv64" fn rseq_outright(
    area: usize,
    length: usize,
    flags: usize,
    signature: usize,
    _other: usize,
    _last: usize,
) -> isize {
    if flags as u32 != 0 {
        return LEFT;
    }
    let (length, signature) = (length as u32 as usize, signature as u32);
    Task::here(|task| Rseq::register_at_once(task, area, length, signature))
        .flatten()
        .map_or(LEFT, |()| 0)
}

fn rseq(a: &mut Args) -> Result<usize> {
    let (area, length) = (a.word(0), a.uint(1) as usize);
    let (flags, signature) = (a.uint(2), a.uint(3));
    let task = Task::current();
    if flags & !RSEQ_FLAG_UNREGISTER != 0 {
        return Err(Errno::EINVAL);
    }
    if flags & RSEQ_FLAG_UNREGISTER != 0 {
        Rseq::unregister(&task, area, length, signature)?;
    } else {
        Rseq::register(&task, area, length, signature)?;
    }
    Ok(0)
}
