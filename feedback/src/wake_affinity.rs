//! Wake affinity: whether two threads of a pipeline that are on two CPUs had better be on one.
//!
//! *Interface*: a [`ThreadLoad`] is a thread's: [`ThreadLoad::look`] when one of two threads wakes the other
//! across CPUs, [`fits`] whether one CPU is enough for both, [`ThreadLoad::joins`] whether the woken one goes
//! to its waker now. Times are nanoseconds. [`ThreadLoad::words`] and [`ThreadLoad::of`] are for whoever
//! keeps a load in words.
//!
//! Measured is the part of a CPU that each thread has used from look to look; it goes through a low-pass
//! filter. Two threads of which each waits for the other need one CPU, and a wake-up within a CPU costs no
//! interrupt and finds the data in the cache. Two that both compute need two. Their parts say which: the sum
//! of what both use while each has a CPU for itself.
//!
//! Nobody need decide that two threads go apart: a thread that waits for a whole quantum is taken by an idle
//! CPU. So the loop has a swing of its own: a pair that fits on the average, and whose parts come at the same
//! time, is put together and parted again. Each parting soon after a joining doubles the number of looks at
//! which a pair must fit, and a pair that stays together for long begins anew.
//! Source: dissertation, section 6.4.3.

use crate::filter::LowPass;

/// A whole CPU.
pub const WHOLE: u64 = 1024;
/// Two threads that use no more than this together share a CPU: a filter's step is left free.
pub const ENOUGH: u64 = WHOLE - WHOLE / 8;
/// From look to look at least.
pub const WINDOW_NS: u64 = 5_000_000;
/// A look that is longer ago says nothing about the present.
pub const OLD_NS: u64 = 100_000_000;
/// A pair that was together for so long has not been parted soon.
pub const LASTING_NS: u64 = 1_000_000_000;
/// Looks at which a pair must fit, at first and at most.
pub const PATIENCE: u64 = 4;
/// At most.
pub const MOST_PATIENCE: u64 = 128;
/// Words of a load.
pub const WORDS: usize = 4;

/// A thread's part of a CPU, and since when it might join the one that wakes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadLoad {
    /// Of [`WHOLE`].
    part: u16,
    /// Looks at which the pair has fitted, one after the other, and how many it takes.
    fitted: u8,
    patience: u8,
    looked_ns: u64,
    /// CPU time at that look.
    ran_ns: u64,
    /// When it joined its waker last, 0 once that is accounted for.
    joined_ns: u64,
}

impl Default for ThreadLoad {
    fn default() -> ThreadLoad {
        ThreadLoad::new()
    }
}

/// Whether one CPU is enough for both.
pub const fn fits(one: ThreadLoad, other: ThreadLoad) -> bool {
    one.part as u64 + other.part as u64 <= ENOUGH
}

impl ThreadLoad {
    /// A thread of which nothing is known: it may need a whole CPU.
    pub const fn new() -> ThreadLoad {
        ThreadLoad {
            part: WHOLE as u16,
            fitted: 0,
            patience: PATIENCE as u8,
            looked_ns: 0,
            ran_ns: 0,
            joined_ns: 0,
        }
    }

    /// The load that [`ThreadLoad::words`] has told; of zeros, that of a thread of which nothing is known.
    pub const fn of([first, looked_ns, ran_ns, joined_ns]: [u64; WORDS]) -> ThreadLoad {
        if first == 0 {
            return ThreadLoad::new();
        }
        ThreadLoad {
            part: first as u16,
            fitted: (first >> 16) as u8,
            patience: (first >> 24) as u8,
            looked_ns,
            ran_ns,
            joined_ns,
        }
    }

    /// All that there is to keep.
    pub const fn words(self) -> [u64; WORDS] {
        let first = self.part as u64 | (self.fitted as u64) << 16 | (self.patience as u64) << 24;
        // Never zeros.
        let first = first | 1 << 32;
        [first, self.looked_ns, self.ran_ns, self.joined_ns]
    }

    /// The part of a CPU that it uses, of [`WHOLE`].
    pub const fn part(self) -> u64 {
        self.part as u64
    }

    /// It is `now`, and the thread has run for `ran_ns` so far. Whether this was a look: not so soon after
    /// the last one.
    pub fn look(&mut self, now: u64, ran_ns: u64) -> bool {
        let passed = now.saturating_sub(self.looked_ns);
        if passed < WINDOW_NS {
            return false;
        }
        let ran = ran_ns.saturating_sub(self.ran_ns).min(passed);
        (self.looked_ns, self.ran_ns) = (now, ran_ns);
        if passed > OLD_NS {
            (self.part, self.fitted) = (WHOLE as u16, 0);
            return false;
        }
        let measured = (u128::from(ran) * u128::from(WHOLE) / u128::from(passed)) as i64;
        let mut filter = LowPass::<2>::new(i64::from(self.part));
        self.part = filter.next(measured).clamp(0, WHOLE as i64) as u16;
        true
    }

    /// At a look of both: whether the thread, which `waker` wakes across CPUs, goes to it now.
    pub fn joins(&mut self, waker: ThreadLoad, now: u64) -> bool {
        if self.joined_ns != 0 {
            // They are apart again.
            let lasted = now.saturating_sub(self.joined_ns);
            self.patience = match lasted {
                LASTING_NS.. => PATIENCE as u8,
                _ => self.patience.saturating_mul(2).min(MOST_PATIENCE as u8),
            };
            self.joined_ns = 0;
        }
        if !fits(*self, waker) {
            self.fitted = 0;
            return false;
        }
        self.fitted = self.fitted.saturating_add(1);
        if self.fitted < self.patience {
            return false;
        }
        (self.fitted, self.joined_ns) = (0, now.max(1));
        true
    }
}

#[cfg(test)]
#[path = "wake_affinity_tests.rs"]
mod tests;
