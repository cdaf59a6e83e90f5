//! How long a process may make files (`RLIMIT_FSIZE`).
//!
//! *Interface*: [`most`] of the running process; [`tell`] sends SIGXFSZ for what was refused by it.

use abi::errno::{Errno, Result};
use abi::linux::{RLIMIT_FSIZE, SIGXFSZ};

use account::caller;

/// The length beyond which the running process may write nothing, bytes.
pub(crate) fn most() -> u64 {
    caller::limit(RLIMIT_FSIZE)
}

/// What came of something that no file may do beyond `most` bytes, of those that may be `longest`: the
/// running thread is told if that was refused because of `most`. No monitor is held.
pub(crate) fn tell<R>(result: Result<R>, most: u64, longest: u64) -> Result<R> {
    if most < longest && matches!(result, Err(Errno::EFBIG)) {
        // A thread that cannot be told gets EFBIG all the same.
        caller::tell(SIGXFSZ);
    }
    result
}
