//! Rate: bytes pass at a limited rate.
//!
//! *Interface*: the code counts the bytes; [`Filter::due_ns`] says how long those that have passed are to
//! last still. A caller that may sleep waits so long before it moves the next ones; a message stays whole,
//! however long it is.
//!
//! *Unsafe*: the word in a near block.

use super::{Filter, Treatment, filter};
use crate::kit::assembly::Assembly;
use crate::kit::class::Header;
use crate::kit::near_memory::NearBlock;
use crate::kit::routine_env::{RoutineError, near};
use codegen::dynasm;
use core::sync::atomic::{AtomicU64, Ordering};
use sync::Monitor;

/// A limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Bytes in a second, more than 0.
    pub per_second: u32,
    /// Whether threads may run on several CPUs at once.
    pub several_cpus: bool,
}

/// The filter's treatment.
pub struct Limited {
    limit: Limit,
    passed: NearBlock,
    begun: Monitor<Begun>,
}

/// From when on how many bytes are counted.
#[derive(Default)]
struct Begun {
    at_ns: u64,
    passed: u64,
}

filter! {
    /// Limits the rate at which bytes pass
    Rate = "Rate", Limited, spec Limit, make Limited::new
}

impl Limited {
    fn new(limit: Limit) -> Result<Limited, RoutineError> {
        if limit.per_second == 0 {
            return Err(RoutineError::BadSpec);
        }
        Ok(Limited {
            limit,
            passed: NearBlock::new(size_of::<AtomicU64>()).ok_or(RoutineError::OutOfMemory)?,
            begun: Monitor::new(Begun::default()),
        })
    }
}

impl Treatment for Limited {
    fn note(&self, a: &mut Assembly, _: &'static Header) -> Result<(), RoutineError> {
        let word = near(self.passed.at().as_ptr())? as i32;
        if self.limit.several_cpus {
            dynasm!(a ; .arch x64 ; lock inc QWORD [word]);
        } else {
            dynasm!(a ; .arch x64 ; inc QWORD [word]);
        }
        Ok(())
    }

    /// Bytes that have passed.
    fn value(&self, _: &'static Header) -> u64 {
        // SAFETY: the block holds one zeroed word.
        let word = unsafe { self.passed.at().cast::<AtomicU64>().as_ref() };
        word.load(Ordering::Relaxed)
    }
}

impl Filter<Limited> {
    /// Nanoseconds from `now_ns` on that the bytes which have passed are to last; 0: more may pass.
    pub fn due_ns(&self, now_ns: u64) -> u64 {
        // Bound: two words and a division.
        let mut begun = self.treatment.begun.lock();
        let passed = self.value();
        let bytes = u128::from(passed.saturating_sub(begun.passed));
        let lasts = bytes * 1_000_000_000 / u128::from(self.treatment.limit.per_second);
        let end = begun
            .at_ns
            .saturating_add(u64::try_from(lasts).unwrap_or(u64::MAX));
        if end <= now_ns {
            *begun = Begun {
                at_ns: now_ns,
                passed,
            };
        }
        end.saturating_sub(now_ns)
    }
}
