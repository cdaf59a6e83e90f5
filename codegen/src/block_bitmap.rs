//! Which of a page's 64 blocks are taken: one word.
//!
//! *Interface*: [`BlockBitmap::take`] a run, [`BlockBitmap::give`] it back; [`BlockBitmap::open`] and
//! [`BlockBitmap::close`] a page as its memory comes and goes.
//!
//! Progress: lock-free; a failed exchange means that another succeeded. Memory order: giving releases, taking
//! acquires, so the former owner's stores are over before the next one's begin.

use crate::primitive::atomic::{AtomicU64, Ordering};
use crate::primitive::constructor;

/// A bit per block; all ones also while the page has no memory.
pub(crate) struct BlockBitmap(AtomicU64);

impl BlockBitmap {
    constructor! {
        /// A page without memory.
        pub fn new() -> BlockBitmap {
            BlockBitmap(AtomicU64::new(!0))
        }
    }

    /// Take the lowest run of `n` free blocks; the first one's number.
    pub fn take(&self, n: usize) -> Option<usize> {
        let mut seen = self.0.load(Ordering::Relaxed);
        while let Some(mask) = run_of_zeros(seen, n) {
            match self.0.compare_exchange_weak(
                seen,
                seen | mask,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Some(mask.trailing_zeros() as usize),
                Err(now) => seen = now,
            }
        }
        None
    }

    /// Blocks in its longest run of free ones.
    pub fn longest(&self) -> usize {
        longest_run_of_zeros(self.0.load(Ordering::Acquire))
    }

    /// Give the blocks of `mask` back, which the caller took.
    pub fn give(&self, mask: u64) {
        self.0.fetch_and(!mask, Ordering::AcqRel);
    }

    /// The page has memory now; `used` blocks are the caller's.
    pub fn open(&self, used: u64) {
        self.0.store(used, Ordering::Release);
    }

    /// Take a page of which no block is taken out of use. False when one is, or the page has no memory.
    pub fn close(&self) -> bool {
        self.0
            .compare_exchange(0, !0, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }
}

/// The lowest run of `n` zero bits (1 to 64), as a mask.
pub(crate) fn run_of_zeros(word: u64, n: usize) -> Option<u64> {
    let mut free = !word;
    let mut have = 1usize;
    // The starts of so many free blocks are left. None of the numbers wraps.
    while have < n {
        let step = n.wrapping_sub(have).min(have);
        free &= free.wrapping_shr(step as u32);
        have = have.wrapping_add(step);
    }
    if free == 0 {
        return None;
    }
    Some(run(n).wrapping_shl(free.trailing_zeros()))
}

/// The length of the longest run of zero bits.
fn longest_run_of_zeros(word: u64) -> usize {
    // Where runs of 1, 2, 4 … 64 begin.
    let mut powers = [!word; 7];
    for k in 1..7 {
        powers[k] = powers[k - 1] & (powers[k - 1] >> (1 << (k - 1)));
    }
    if powers[6] != 0 {
        return 64;
    }
    let (mut starts, mut length) = (!0, 0);
    for k in (0..6).rev() {
        let longer = starts & (powers[k] >> length);
        if longer != 0 {
            (starts, length) = (longer, length + (1 << k));
        }
    }
    length
}

/// The lowest `n` bits (1 to 64).
pub(crate) fn run(n: usize) -> u64 {
    debug_assert!((1..=64).contains(&n));
    (!0u64).wrapping_shr((n as u32).wrapping_neg())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{longest_run_of_zeros, run_of_zeros};

    #[test]
    fn longest_runs() {
        let mut word = 0x0123_4567_89ab_cdef_u64;
        let mut words = std::vec![0, !0, 1, 1 << 63, !1, 1 << 31, 0xf0f0_f0f0_0f0f_0f0f];
        for _ in 0..1000 {
            word = word.wrapping_mul(6364136223846793005).wrapping_add(1);
            words.extend([
                word,
                word & word.rotate_left(7),
                word & word >> 9 & word << 20,
            ]);
        }
        for word in words {
            let slow = (1..=64).rev().find(|&n| run_of_zeros(word, n).is_some());
            assert_eq!(longest_run_of_zeros(word), slow.unwrap_or(0), "{word:x}");
        }
    }

    #[test]
    fn runs() {
        assert_eq!(run_of_zeros(0, 64), Some(!0));
        assert_eq!(run_of_zeros(1, 64), None);
        assert_eq!(run_of_zeros(1, 63), Some(!1));
        assert_eq!(run_of_zeros(0b0110_1001, 2), Some(0b110));
        assert_eq!(run_of_zeros(0b0110_1001, 1), Some(0b10));
        assert_eq!(run_of_zeros(!0, 1), None);
        assert_eq!(run_of_zeros(!(0b11111 << 59), 5), Some(0b11111 << 59));
        for n in 1..=64 {
            for word in [
                0u64,
                0x8000_0000_0000_0001,
                0xf0f0_f0f0_0f0f_0f0f,
                0x0123_4567_89ab_cdef,
            ] {
                let slow = (0..=64 - n)
                    .map(|s| super::run(n) << s)
                    .find(|m| word & m == 0);
                assert_eq!(run_of_zeros(word, n), slow, "{word:x} {n}");
            }
        }
    }
}
