//! Restartable sequences: the area that a thread has registered, which holds its CPU's number.
//!
//! *Interface*: [`Rseq`] of each task, [`Rseq::register`] and [`Rseq::unregister`] by the task itself.
//! `signal/rseq.rs` aborts an interrupted sequence.
//!
//! Source: Linux, `man 2 rseq` as its authors wrote it, and what 6.1 does.

use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use abi::errno::{Errno, Result};
use abi::linux::*;
use vm::user;

use super::Task;

/// A task's part in restartable sequences. Written by the task itself only, or before it starts.
#[derive(Default)]
pub struct Rseq {
    /// Address of the area; 0: there is none.
    pub(crate) area: AtomicUsize,
    pub(crate) signature: AtomicU32,
    /// Switches of the thread when it looked last.
    pub(crate) seen: AtomicU64,
}

/// Offsets in [`Rseq`], for generated code: the address of the area.
pub(crate) const AREA: usize = core::mem::offset_of!(Rseq, area);
/// The signature.
pub(crate) const SIGNATURE: usize = core::mem::offset_of!(Rseq, signature);
/// The switches that were seen.
pub(crate) const SEEN: usize = core::mem::offset_of!(Rseq, seen);

impl Rseq {
    /// Registers the area of `length` bytes at `area` for `task`, which is the running one. EINVAL for a
    /// second one, or one that is not aligned or too short; EBUSY for the same once more, EPERM with another
    /// signature; EFAULT.
    pub fn register(task: &Task, area: usize, length: usize, signature: u32) -> Result<()> {
        let own = &task.rseq;
        let now = own.area.load(Ordering::Relaxed);
        if now != 0 {
            return Err(match own.is(now, area, length, signature) {
                Ok(()) => Errno::EBUSY,
                Err(error) => error,
            });
        }
        if !area.is_multiple_of(RSEQ_SIZE) || length != RSEQ_SIZE {
            return Err(Errno::EINVAL);
        }
        user::check(area, length)?;
        own.signature.store(signature, Ordering::Relaxed);
        own.area.store(area, Ordering::Relaxed);
        task.thread.enable_rseq(area);
        Ok(())
    }

    /// The area is registered no more, and names no CPU. EINVAL for another one, EPERM with another
    /// signature; EFAULT.
    pub fn unregister(task: &Task, area: usize, length: usize, signature: u32) -> Result<()> {
        let own = &task.rseq;
        let now = own.area.load(Ordering::Relaxed);
        if now == 0 {
            return Err(Errno::EINVAL);
        }
        own.is(now, area, length, signature)?;
        user::put(area, &[0, RSEQ_CPU_ID_UNINITIALIZED])?;
        own.forget(task);
        Ok(())
    }

    /// Whether the area that is registered, at `now`, is meant.
    fn is(&self, now: usize, area: usize, length: usize, signature: u32) -> Result<()> {
        if now != area || length != RSEQ_SIZE {
            return Err(Errno::EINVAL);
        }
        if self.signature.load(Ordering::Relaxed) != signature {
            return Err(Errno::EPERM);
        }
        Ok(())
    }

    /// `task`, the running one, has no area any more.
    pub fn forget(&self, task: &Task) {
        self.area.store(0, Ordering::Relaxed);
        task.thread.disable_rseq();
    }

    /// `child`, which has not started, has a copy of this one's memory, and so its area.
    pub fn bequeath(task: &Task, child: &Task) {
        let (own, heir) = (&task.rseq, &child.rseq);
        let area = own.area.load(Ordering::Relaxed);
        if area != 0 {
            let signature = own.signature.load(Ordering::Relaxed);
            heir.signature.store(signature, Ordering::Relaxed);
            heir.area.store(area, Ordering::Relaxed);
            task.thread.inherit_rseq(&child.thread);
        }
    }

    /// Whether there is an area.
    pub fn is_registered(&self) -> bool {
        self.area.load(Ordering::Relaxed) != 0
    }

    /// The data for a tracer: address and signature.
    pub fn shown(&self) -> (usize, u32) {
        match self.area.load(Ordering::Relaxed) {
            0 => (0, 0),
            area => (area, self.signature.load(Ordering::Relaxed)),
        }
    }

    /// A fault of `task`, the running one, has been seen to; others may have run meanwhile.
    #[inline]
    pub fn after_fault(&self, task: &Task) {
        if self.area.load(Ordering::Relaxed) != 0
            && task.thread.switches() != self.seen.load(Ordering::Relaxed)
        {
            task.thread.note_rseq();
        }
    }
}
