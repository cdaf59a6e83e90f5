//! The stubs for words of a kernel procedure table without a routine: where they are.
//!
//! *Interface*: [`stubs`], after [`crate::routine_env::init`] has made them.

use core::sync::atomic::{AtomicUsize, Ordering};

/// Entries of the stubs for descriptors without a routine.
#[derive(Clone, Copy, Debug)]
pub struct Stubs {
    /// Leave for the plain call: read, write, lseek.
    pub slow: [usize; 3],
    /// Answer `EBADF`.
    pub bad_fd: usize,
}

static SLOW: [AtomicUsize; 3] = [const { AtomicUsize::new(1) }; 3];
static BAD_FD: AtomicUsize = AtomicUsize::new(2);

/// Links the stubs, at boot, before the first table. Until then they are the words 1 and 2, which only tests
/// look at.
pub(crate) fn link(stubs: Stubs) {
    for (word, entry) in SLOW.iter().zip(stubs.slow) {
        word.store(entry, Ordering::Relaxed);
    }
    BAD_FD.store(stubs.bad_fd, Ordering::Relaxed);
}

/// The stubs.
#[inline]
pub fn stubs() -> Stubs {
    Stubs {
        slow: [
            SLOW[0].load(Ordering::Relaxed),
            SLOW[1].load(Ordering::Relaxed),
            SLOW[2].load(Ordering::Relaxed),
        ],
        bad_fd: bad_fd(),
    }
}

/// The stub of a closed descriptor.
#[inline(always)]
pub(crate) fn bad_fd() -> usize {
    BAD_FD.load(Ordering::Relaxed)
}
