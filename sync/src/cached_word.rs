//! Cached words: they are computed from other words, and are never older than the last completed change.
//!
//! *Interface*. A [`CachedWord`] holds 32 bits that are computed from other words (a routine's address from
//! what a descriptor refers to). A thread that changes one of those calls [`CachedWord::refresh`] afterwards.
//! When `refresh` returns, the change is complete: from then on the words reflect that change or a later one,
//! whatever other threads are still about to write. [`CachedWord::merge`] is for a word in which each party
//! computes only its own bits. A reader takes the low half of the word with one load.
//!
//! The upper half is a tag, which each exchange advances. A party reads the word, computes the value from the
//! current state, and exchanges both if the tag is unchanged. A party that read the word before a change, and
//! was stopped, finds another tag: so no old value is written, and no party waits for it.
//!
//! Why this is enough: let Q make a change and then exchange, and let P have computed from the state before.
//! If P had read the tag after Q's exchange, it would have acquired that exchange, which released Q's change,
//! and computed from it. So P read the tag before. Then P's exchange either came before Q's, which overwrote
//! it, or fails.
//!
//! If Q's exchange fails twice, some S has exchanged after Q's second read, and has read after Q's first,
//! since its tag is a later one. Q's change is before a fence before that read, and S computes after a fence
//! after its own read: so S has computed from Q's change, and Q need do nothing. The same fences serve
//! parties that read each other's words (a walk that sets a mark and then searches for the users; a user that
//! installs something and then computes from the mark): the walk has its own fence in between.
//!
//! Progress: `get`, `set` and `refresh` are wait-free; `merge` is lock-free, it repeats only when another
//! party's exchange succeeded. A party that is stopped between its read and its exchange while others make a
//! multiple of 2^32 exchanges, and finds the same value, is misled.
//!
//! Source: load-linked and store-conditional by a tag (Moir 1997), used as the double refresh of Jayanti's
//! f-arrays (PODC 2002).

use crate::primitive::atomic::{AtomicU64, Ordering, fence};
use crate::primitive::constructor;

/// 32 bits that follow from other words; the upper half is the tag.
#[repr(transparent)]
pub struct CachedWord(AtomicU64);

impl CachedWord {
    constructor! {
        /// Holds `value`.
        pub fn new(value: u32) -> CachedWord {
            CachedWord(AtomicU64::new(value as u64))
        }
    }

    /// The value.
    #[inline(always)]
    pub fn get(&self) -> u32 {
        self.0.load(Ordering::Acquire) as u32
    }

    /// Computes `words` anew with `derive` and puts the values in place. `derive` is called a second time
    /// when another came between.
    #[inline]
    pub fn refresh<const N: usize>(words: [&CachedWord; N], mut derive: impl FnMut() -> [u32; N]) {
        fence(Ordering::SeqCst);
        for _ in 0..2 {
            let seen = words.map(|word| word.0.load(Ordering::Acquire));
            fence(Ordering::SeqCst);
            let values = derive();
            let mut put = true;
            for (i, word) in words.into_iter().enumerate() {
                put &= word.exchange(seen[i], values[i]).is_ok();
            }
            if put {
                return;
            }
        }
    }

    /// Computes some of the bits anew with `part`, which is given all and leaves the others as they are.
    /// `part` is called again when another came between.
    #[inline]
    pub fn merge(&self, mut part: impl FnMut(u32) -> u32) {
        let mut seen = self.0.load(Ordering::Acquire);
        while let Err(now) = self.exchange(seen, part(seen as u32)) {
            seen = now;
        }
    }

    /// Replaces the value that was read by `value` and the next tag; or returns the current value.
    #[inline]
    fn exchange(&self, seen: u64, value: u32) -> Result<u64, u64> {
        let tag = (seen >> 32) as u32;
        let new = u64::from(tag.wrapping_add(1)) << 32 | u64::from(value);
        self.0
            .compare_exchange(seen, new, Ordering::AcqRel, Ordering::Acquire)
    }

    /// Puts the low half of `word` in place, with a store. For a caller that knows that no other change is in
    /// progress; the upper half is the tag from here on.
    #[inline(always)]
    pub fn set(&self, word: u64) {
        self.0.store(word, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn one_that_was_overtaken_computes_again() {
        let word = CachedWord::new(7);
        assert_eq!(word.get(), 7);
        let mut calls = 0;
        CachedWord::refresh([&word], || {
            calls += 1;
            if calls == 1 {
                // Another comes between, there and back.
                word.merge(|_| 8);
                word.merge(|_| 7);
            }
            [calls]
        });
        assert_eq!((calls, word.get()), (2, 2));
        word.set(u64::MAX);
        word.merge(|old| old - 1);
        assert_eq!(word.get(), u32::MAX - 1);
    }

    #[test]
    fn one_that_was_overtaken_twice_leaves_it_to_the_other() {
        let word = CachedWord::new(0);
        let mut calls = 0;
        CachedWord::refresh([&word], || {
            calls += 1;
            word.merge(|_| 100 + calls);
            [calls]
        });
        assert_eq!((calls, word.get()), (2, 102));
    }
}
