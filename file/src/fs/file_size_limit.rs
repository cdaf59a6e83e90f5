//! The limit of file sizes (`RLIMIT_FSIZE`).
//!
//! *Interface*: [`most`] of the running process; [`signal_xfsz`] sends SIGXFSZ after a refusal.

use abi::errno::{Errno, Result};
use abi::linux::{RLIMIT_FSIZE, SIGXFSZ};

use account::caller;

/// The length beyond which the running process may write nothing, bytes.
pub(crate) fn most() -> u64 {
    caller::limit(RLIMIT_FSIZE)
}

/// The result of an operation limited to `most` bytes on a file that may be `longest`: the running thread
/// gets the signal if it was refused because of `most`. No monitor is held.
pub(crate) fn signal_xfsz<R>(result: Result<R>, most: u64, longest: u64) -> Result<R> {
    if most < longest && matches!(result, Err(Errno::EFBIG)) {
        // A thread that cannot be signalled still gets EFBIG.
        caller::send_signal(SIGXFSZ);
    }
    result
}
