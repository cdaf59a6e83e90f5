//! How long a process may make files (`RLIMIT_FSIZE`).
//!
//! *Interface*: [`most`] of the running process; [`tell`] sends SIGXFSZ for what was refused by it.

use abi::errno::{Errno, Result};
use abi::linux::{RLIMIT_FSIZE, SI_KERNEL, SIGXFSZ, Siginfo};

use crate::process::Task;
use crate::signal;

/// The length beyond which the running process may write nothing, bytes.
pub(crate) fn most() -> u64 {
    let most = |task: &alloc::sync::Arc<Task>| task.process.limits.lock().cur(RLIMIT_FSIZE);
    Task::here(most).unwrap_or(u64::MAX)
}

/// What came of something that no file may do beyond `most` bytes, of those that may be `longest`: the running thread is told if that was refused because of `most`. No monitor is held.
pub(crate) fn tell<R>(result: Result<R>, most: u64, longest: u64) -> Result<R> {
    if most < longest && matches!(result, Err(Errno::EFBIG)) {
        let task = Task::current();
        let info = Siginfo::sent(SIGXFSZ, SI_KERNEL, 0, 0);
        // A thread that cannot be told gets EFBIG all the same.
        let _untold = signal::send(&task.process, Some(&task), info);
    }
    result
}
