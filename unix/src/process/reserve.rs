//! Which numbers are taken: by processes and threads, and by groups and sessions.
//!
//! *Interface*: [`take`] a number that nobody has, [`free`] it; [`name`] and [`unname`] say that a group or a session has it; [`count`], [`last`].
//!
//! Two bits a number. A group gets its name while the process of that number lives, and loses it in a step of its own later, so a number
//! whose first bit was won is free if the second is clear then. Progress: lock-free, a failed exchange means that another got the number.
//! Source: dissertation, section 5.1.4 (a flag a place, taken by compare-and-swap).

use core::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering};

use abi::errno::{Errno, Result};

use super::numbers::NUMBERS_MAX;

/// Where numbers begin again after the largest.
const AGAIN: i32 = 300;
const WORDS: usize = NUMBERS_MAX as usize / 64;

/// A bit a number.
struct Bits([AtomicU64; WORDS]);

static TAKEN: Bits = Bits::new();
static NAMED: Bits = Bits::new();
static COUNT: AtomicUsize = AtomicUsize::new(0);
static LAST: AtomicI32 = AtomicI32::new(0);

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

/// A number that no process, thread, group or session has; at most `most` are taken. EAGAIN when there are too many.
pub(crate) fn take(most: usize) -> Result<i32> {
    if COUNT.fetch_add(1, Ordering::Relaxed) >= most {
        COUNT.fetch_sub(1, Ordering::Relaxed);
        return Err(Errno::EAGAIN);
    }
    // At most a quarter of the numbers are taken, and each has at most two more names: one is found.
    let mut number = LAST.load(Ordering::Relaxed);
    loop {
        number = if number + 1 >= NUMBERS_MAX {
            AGAIN
        } else {
            number + 1
        };
        if TAKEN.is_set(number) || !TAKEN.set(number) {
            continue;
        }
        if !NAMED.is_set(number) {
            LAST.store(number, Ordering::Relaxed);
            return Ok(number);
        }
        TAKEN.clear(number);
    }
}

/// Gives a number back that [`take`] gave.
pub(crate) fn free(number: i32) {
    TAKEN.clear(number);
    COUNT.fetch_sub(1, Ordering::Relaxed);
}

/// A group or session has this number from now on.
pub(crate) fn name(number: i32) {
    NAMED.set(number);
}

/// Neither a group nor a session has this number any more.
pub(crate) fn unname(number: i32) {
    NAMED.clear(number);
}

/// How many processes and threads have a number.
pub(crate) fn count() -> usize {
    COUNT.load(Ordering::Relaxed)
}

/// The number given out last.
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
                    (0..900).map(|_| take(most).unwrap()).collect::<Vec<_>>()
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
        name(kept);
        all.iter().for_each(|&number| free(number));
        let again: Vec<_> = (0..NUMBERS_MAX / 4)
            .map(|_| take(usize::MAX).unwrap())
            .collect();
        assert!(!again.contains(&kept));
        again.iter().for_each(|&number| free(number));
        unname(kept);
        assert_eq!(take(0), Err(Errno::EAGAIN));
    }
}
