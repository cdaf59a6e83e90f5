//! The offset of a description: its lock, and its moves.
//!
//! *Interface*: [`OpenFile::turn`] takes it for a whole call. [`OpenFile::onward`] and [`OpenFile::sought`]
//! serve `read` and `lseek` of most files; [`OpenFile::put_offset`] serves the others.

use abi::errno::{Errno, Result};
use abi::linux::{SEEK_CUR, SEEK_END, SEEK_SET};
use core::sync::atomic::Ordering;

use super::OpenFile;

/// The offset at distance `by` from `base`. EINVAL before the beginning, and past the largest offset.
pub fn moved(base: u64, by: i64) -> Result<u64> {
    base.checked_add_signed(by)
        .filter(|&to| i64::try_from(to).is_ok())
        .ok_or(Errno::EINVAL)
}

/// The right to move the offset of a description.
pub struct OffsetGuard<'a>(&'a OpenFile);

impl Drop for OffsetGuard<'_> {
    fn drop(&mut self) {
        self.0.cursor.monitor.unlock();
    }
}

impl OpenFile {
    /// Takes the offset: held while a call reads, uses and advances it.
    pub fn turn(&self) -> OffsetGuard<'_> {
        // Bound: one call that moves this description’s offset, the copying included; page faults may sleep
        // inside.
        self.cursor.monitor.lock();
        OffsetGuard(self)
    }

    /// Puts the offset where `to` says, which learns where it is, and returns that.
    pub fn put_offset(&self, to: impl FnOnce(u64) -> Result<u64>) -> Result<u64> {
        let _turn = self.turn();
        let to = to(self.cursor.offset.load(Ordering::Relaxed))?;
        self.cursor.offset.store(to, Ordering::Relaxed);
        Ok(to)
    }

    /// A call at the offset, which moves on past the bytes that `at` says it moved.
    pub fn onward(&self, at: impl FnOnce(u64) -> Result<usize>) -> Result<usize> {
        let mut count = 0;
        self.put_offset(|from| {
            count = at(from)?;
            Ok(from.wrapping_add(count as u64))
        })?;
        Ok(count)
    }

    /// `lseek`; `end` returns the end of the file, if it is known. EINVAL.
    pub fn sought(
        &self,
        offset: i64,
        whence: u32,
        end: impl FnOnce() -> Option<u64>,
    ) -> Result<u64> {
        self.put_offset(|at| {
            let base = match whence as i32 {
                SEEK_SET => 0,
                SEEK_CUR => at,
                SEEK_END => end().ok_or(Errno::EINVAL)?,
                _ => return Err(Errno::EINVAL),
            };
            moved(base, offset)
        })
    }
}
