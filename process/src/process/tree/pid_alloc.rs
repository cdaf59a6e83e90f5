//! The allocation of process and thread numbers (PIDs and TIDs).
//!
//! *Interface*: [`take`] an unused number, [`free`] it; [`taken_from`] iterates over the numbers in use;
//! [`count`], [`last`].
//!
//! One bit a number. A number may also be the name of a group or session (`group_ids.rs`). It becomes a name
//! only while the process with that number lives, but may stay a name longer. So a number is free if its bit
//! was won and it is not a name then.
//!
//! Progress: lock-free; an exchange fails only when another taker got the number.
//! Source: dissertation, section 5.1.4 (a flag for each place, taken by compare-and-swap).

use core::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering};

use abi::errno::{Errno, Result};

/// One more than the largest number.
pub const NUMBERS_MAX: i32 = 37_376;
/// The most numbers in use at a time. Each may leave two names behind, and there are still numbers left.
pub const TAKEN_MAX: usize = 12_288;
const _: () = assert!(3 * TAKEN_MAX + (AGAIN as usize) < NUMBERS_MAX as usize);
/// The number that follows the largest.
const AGAIN: i32 = 300;
const WORDS: usize = NUMBERS_MAX as usize / 64;

/// One bit a number.
struct Bits([AtomicU64; WORDS]);

static TAKEN: Bits = Bits::new();
static COUNT: AtomicUsize = AtomicUsize::new(0);
static LAST: AtomicI32 = AtomicI32::new(0);
/// No number above was ever taken: stored before the first such one is.
static HIGHEST: AtomicI32 = AtomicI32::new(0);

impl Bits {
    const fn new() -> Self {
        Bits([const { AtomicU64::new(0) }; WORDS])
    }

    /// Sets the bit; whether it was clear.
    fn set(&self, number: i32) -> bool {
        let (word, bit) = self.place(number);
        word.fetch_or(bit, Ordering::AcqRel) & bit == 0
    }

    fn clear(&self, number: i32) {
        let (word, bit) = self.place(number);
        word.fetch_and(!bit, Ordering::Release);
    }

    fn is_set(&self, number: i32) -> bool {
        let (word, bit) = self.place(number);
        word.load(Ordering::Acquire) & bit != 0
    }

    fn place(&self, number: i32) -> (&AtomicU64, u64) {
        let number = number as usize % (WORDS * 64);
        (&self.0[number / 64], 1 << (number % 64))
    }
}

/// Takes a number that no process or thread has and that is not a name. EAGAIN: `most` numbers are in use.
pub(crate) fn take(most: usize, is_name: impl Fn(i32) -> bool) -> Result<i32> {
    if COUNT.fetch_add(1, Ordering::Relaxed) >= most {
        COUNT.fetch_sub(1, Ordering::Relaxed);
        return Err(Errno::EAGAIN);
    }
    // Fewer than a third of the numbers are in use, and each has at most two further names: the loop ends.
    let mut number = LAST.load(Ordering::Relaxed);
    loop {
        number = if number + 1 >= NUMBERS_MAX {
            AGAIN
        } else {
            number + 1
        };
        if number > HIGHEST.load(Ordering::Relaxed) {
            HIGHEST.fetch_max(number, Ordering::AcqRel);
        }
        if TAKEN.is_set(number) || !TAKEN.set(number) {
            continue;
        }
        if !is_name(number) {
            LAST.store(number, Ordering::Relaxed);
            return Ok(number);
        }
        TAKEN.clear(number);
    }
}

/// Gives back a number that [`take`] returned.
pub(crate) fn free(number: i32) {
    TAKEN.clear(number);
    COUNT.fetch_sub(1, Ordering::Relaxed);
}

/// The numbers in use from `first` on, lowest first. Each bit is read when its turn comes, or up to 63
/// numbers earlier.
pub(crate) fn taken_from(first: usize) -> impl Iterator<Item = i32> {
    let word = |at: usize| {
        let highest = HIGHEST.load(Ordering::Acquire) as usize;
        let word = TAKEN.0.get(at).filter(|_| at <= highest / 64)?;
        Some(word.load(Ordering::Acquire))
    };
    let mut at = first / 64;
    let mut rest = word(at).unwrap_or(0) & u64::MAX << (first % 64);
    core::iter::from_fn(move || {
        while rest == 0 {
            at += 1;
            rest = word(at)?;
        }
        let lowest = rest.trailing_zeros() as i32;
        rest &= rest - 1;
        Some(at as i32 * 64 + lowest)
    })
}

/// How many processes and threads have a number.
pub(crate) fn count() -> usize {
    COUNT.load(Ordering::Relaxed)
}

/// The number taken last.
pub(crate) fn last() -> i32 {
    LAST.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use std::collections::HashSet;

    #[test]
    fn nobody_gets_a_number_that_somebody_has() {
        let most = count() + 4000;
        let threads: Vec<_> = (0..4)
            .map(|_| {
                std::thread::spawn(move || {
                    (0..900)
                        .map(|_| take(most, |_| false).unwrap())
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        let all: Vec<_> = threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect();
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), 3600);
        // A group outlives the process that it is named after.
        let kept = all[17];
        let is_name = |number| number == kept;
        all.iter().for_each(|&number| free(number));
        let again: Vec<_> = (0..NUMBERS_MAX / 4)
            .map(|_| take(usize::MAX, is_name).unwrap())
            .collect();
        assert!(!again.contains(&kept));
        let walked: Vec<_> = taken_from(0).collect();
        assert!(walked.is_sorted() && again.iter().all(|number| walked.contains(number)));
        again.iter().for_each(|&number| free(number));
        assert!(!taken_from(0).any(|number| again.contains(&number)));
        assert_eq!(take(0, is_name), Err(Errno::EAGAIN));
    }
}
