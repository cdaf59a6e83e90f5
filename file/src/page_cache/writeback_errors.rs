//! Writeback errors (Linux: `errseq_t`): each is reported once to every description that existed, or to
//! the first that asks.
//!
//! *Interface*: [`WritebackErrors::note`]; a description keeps the result of [`WritebackErrors::begin`] from
//! its opening, and [`WritebackErrors::tell`] returns the errors since.
//!
//! Source: as `errseq_t` in Linux (documented in its core API manual): one word of error, mark and count, so
//! nothing is allocated or locked when a store fails.

use abi::errno::{Errno, Result};
use core::sync::atomic::{AtomicU32, Ordering};

/// Bits of the error's number.
const ERRNO: u32 = 0xfff;
/// It has been reported.
const TOLD: u32 = 0x1000;
/// One error.
const ONE: u32 = 0x2000;

/// The last error, whether it has been reported, and a count.
pub struct WritebackErrors(AtomicU32);

impl Default for WritebackErrors {
    fn default() -> Self {
        Self::new()
    }
}

impl WritebackErrors {
    /// None so far.
    pub const fn new() -> WritebackErrors {
        WritebackErrors(AtomicU32::new(0))
    }

    /// A store has failed: ENOSPC and EDQUOT are reported unchanged, all others as EIO.
    pub fn note(&self, error: Errno) {
        let told = match error {
            Errno::ENOSPC | Errno::EDQUOT => error,
            _ => Errno::EIO,
        };
        let more = |word: u32| {
            let count = word & !(ERRNO | TOLD);
            // Until it has been reported, it is the same event for all.
            let count = count.wrapping_add(if word & TOLD == 0 { 0 } else { ONE });
            Some(count | told.0 as u32 & ERRNO)
        };
        let (set, fetch) = (Ordering::AcqRel, Ordering::Acquire);
        let _always = self.0.fetch_update(set, fetch, more);
    }

    /// The starting point of a description that is opened now: after reported errors, before unreported ones.
    pub fn begin(&self) -> u32 {
        let word = self.0.load(Ordering::Acquire);
        match word & TOLD {
            0 => 0,
            _ => word,
        }
    }

    /// The last error since `seen`, or nothing; `seen` moves on.
    pub fn tell(&self, seen: &AtomicU32) -> Result<()> {
        let word = self.0.load(Ordering::Acquire);
        if word == seen.load(Ordering::Acquire) {
            return Ok(());
        }
        // If a later error has come in between, it is reported the next time.
        let (set, fetch) = (Ordering::AcqRel, Ordering::Relaxed);
        let _later = self.0.compare_exchange(word, word | TOLD, set, fetch);
        match seen.swap(word | TOLD, Ordering::AcqRel) == word | TOLD {
            // It was reported to another thread with this description.
            true => Ok(()),
            false => Err(Errno((word & ERRNO) as i32)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_description_is_told_once() {
        let errors = WritebackErrors::new();
        let [a, b] = [(); 2].map(|()| AtomicU32::new(errors.begin()));
        assert_eq!(errors.tell(&a), Ok(()));
        errors.note(Errno::EINTR);
        assert_eq!(errors.tell(&a), Err(Errno::EIO));
        assert_eq!(errors.tell(&a), Ok(()));
        assert_eq!(errors.tell(&b), Err(Errno::EIO));
        assert_eq!(errors.tell(&b), Ok(()));
        // The same again is another one.
        errors.note(Errno::EIO);
        errors.note(Errno::ENOSPC);
        assert_eq!(errors.tell(&b), Err(Errno::ENOSPC));
        assert_eq!(errors.tell(&a), Err(Errno::ENOSPC));
        assert_eq!((errors.tell(&a), errors.tell(&b)), (Ok(()), Ok(())));
    }

    #[test]
    fn one_that_nobody_was_told_of_is_told_to_who_comes() {
        let errors = WritebackErrors::new();
        errors.note(Errno::EIO);
        let late = AtomicU32::new(errors.begin());
        assert_eq!(errors.tell(&late), Err(Errno::EIO));
        let later = AtomicU32::new(errors.begin());
        assert_eq!(errors.tell(&later), Ok(()));
        errors.note(Errno::EIO);
        assert_eq!(errors.tell(&later), Err(Errno::EIO));
    }
}
