//! Sampled CPU time, by the mode in which it was used, of a thread or of a CPU.
//!
//! *Interface*: [`Samples`]; [`CpuTimes`]. The samples are taken by `balance::cpu_time_sampling`.

use core::sync::atomic::{AtomicU64, Ordering};
use machine::clock::span_ns;

/// Sampled time, in counts of the time-stamp counter.
pub(crate) struct Samples {
    pub(crate) user: AtomicU64,
    pub(crate) nice: AtomicU64,
    pub(crate) system: AtomicU64,
}

/// Sampled time, nanoseconds: parts of it in proportion to which the exact time is divided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// Of programs.
    pub user: u64,
    /// Of nice programs. Not used for a thread, whose user time is all in `user`.
    pub nice: u64,
    /// Of the kernel.
    pub system: u64,
}

impl Samples {
    pub(crate) const fn new() -> Samples {
        Samples {
            user: AtomicU64::new(0),
            nice: AtomicU64::new(0),
            system: AtomicU64::new(0),
        }
    }

    pub(crate) fn reset(&self) {
        for part in [&self.user, &self.nice, &self.system] {
            part.store(0, Ordering::Relaxed);
        }
    }

    pub(crate) fn split(&self) -> CpuTimes {
        let [user, nice, system] =
            [&self.user, &self.nice, &self.system].map(|part| match part.load(Ordering::Relaxed) {
                // Most threads end before anything has been seen of them.
                0 => 0,
                ticks => span_ns(ticks),
            });
        CpuTimes { user, nice, system }
    }
}
