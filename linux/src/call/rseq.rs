//! The call that registers an area for restartable sequences.
//!
//! *Interface*: [`CALLS`]. The first registration of a thread is made by `process::generated_calls`.

use abi::errno::{Errno, Result};
use abi::linux::RSEQ_FLAG_UNREGISTER;
use abi::nr;

use super::{Args, Handler};
use process::Task;
use process::rseq::Rseq;

/// The calls of this family.
pub const CALLS: &[(usize, Handler)] = &[(nr::RSEQ, rseq)];

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
