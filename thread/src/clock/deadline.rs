//! The time limit of a thread's wait.
//!
//! *Interface*: make one from a relative or absolute time, arm [`Deadline::alarm`] before sleeping (it
//! resumes the sleeper), ask [`Deadline::has_passed`] in the waiting condition.

use crate::clock;
use abi::errno::{Errno, Result};
use abi::linux::{Timespec, Timeval};
use machine::clock::now_ns;

/// When to give up, in nanoseconds of the monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline(Option<u64>);

impl Deadline {
    /// Waits for ever.
    pub const fn never() -> Self {
        Deadline(None)
    }

    /// Does not wait at all.
    pub const fn now() -> Self {
        Deadline(Some(0))
    }

    /// At `ns` nanoseconds of the monotonic clock.
    pub const fn at_ns(ns: u64) -> Self {
        Deadline(Some(ns))
    }

    /// `ns` nanoseconds from now.
    pub fn after_ns(ns: u64) -> Self {
        Deadline(Some(if ns == 0 {
            0
        } else {
            now_ns().saturating_add(ns)
        }))
    }

    /// A relative time as calls take it. EINVAL when it is not one.
    pub fn after(time: Timespec) -> Result<Self> {
        if time.sec < 0 || !(0..1_000_000_000).contains(&time.nsec) {
            return Err(Errno::EINVAL);
        }
        let ns = (time.sec as u64)
            .saturating_mul(1_000_000_000)
            .saturating_add(time.nsec as u64);
        Ok(Self::after_ns(ns))
    }

    /// A relative time in microseconds as `select` takes it. EINVAL when it is not one.
    pub fn after_timeval(time: Timeval) -> Result<Self> {
        if time.sec < 0 || time.usec < 0 {
            return Err(Errno::EINVAL);
        }
        let ns = (time.sec as u64)
            .saturating_mul(1_000_000_000)
            .saturating_add((time.usec as u64).saturating_mul(1000));
        Ok(Self::after_ns(ns))
    }

    /// Whether there is nothing to wait for at all.
    pub fn is_now(self) -> bool {
        self.0 == Some(0)
    }

    /// Whether the time has come.
    pub fn has_passed(self) -> bool {
        self.0.is_some_and(|at| now_ns() >= at)
    }

    /// Nanoseconds left; `None` for ever.
    pub fn left_ns(self) -> Option<u64> {
        self.0.map(|at| match at {
            0 => 0,
            at => at.saturating_sub(now_ns()),
        })
    }

    /// Resumes the running thread at the deadline, unless the guard is dropped before. ENOMEM.
    pub fn alarm(self) -> Result<Option<clock::WakeUp>> {
        match self.0 {
            None | Some(0) => Ok(None),
            Some(at) => clock::WakeUp::at(at).map(Some).map_err(|_| Errno::ENOMEM),
        }
    }
}
