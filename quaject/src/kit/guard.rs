//! The guard word of a quasi-invariant, folded into a routine's existing arithmetic.
//!
//! *Interface*: a routine adds [`Guard::word`] into the sum whose sign decides between its fast and its
//! general path. While no flag is raised the word holds the constant that the sum needs anyway, so the guard
//! costs no instruction: a pipe's write of one byte takes the general path if `tail - head + guard < 0`,
//! where the guard is `size - 1` as long as no flag is raised. [`Guard::raise`] makes every such sum
//! negative, and the routine then checks the flags. Flags are single bits that generated code can test.
//!
//! A waiting party raises a flag, then checks its condition again, then sleeps; the other party publishes,
//! then checks the guard. On several CPUs both the raise and the publication are locked instructions, so one
//! of the two sees the other (modelled in `pipe/model.rs`).
//!
//! Source: quasi-invariants and guards after Pu et al. 1995; section 3.3.1's test that is part of
//! an addition.

use crate::primitive::{AtomicI64, Ordering, in_order};

/// The flags of a guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flag {
    /// A thread waits for the routine's publication.
    Waited,
    /// The other side is gone: the routine must not publish at all.
    Closed,
}

/// The word, and the constant that it holds while nothing is raised.
#[repr(C)]
#[derive(Debug)]
pub struct Guard {
    word: AtomicI64,
    calm: i64,
}

/// Bits 63 and 62 make the sum negative for every small number that is added; bits 60 and 61 are the flags.
const RAISED: i64 = 3 << 62;
const WAITED: i64 = 1 << 60;
const CLOSED: i64 = 1 << 61;

/// Offset in the word of the byte that generated code tests for a flag.
pub(crate) const FLAG_BYTE: i32 = 7;

impl Flag {
    /// The flag's bit in the byte at [`FLAG_BYTE`]. It is inverted where the calm word is negative.
    pub(crate) const fn bit(self) -> i8 {
        match self {
            Flag::Waited => (WAITED >> 56) as i8,
            Flag::Closed => (CLOSED >> 56) as i8,
        }
    }

    const fn mask(self) -> i64 {
        match self {
            Flag::Waited => WAITED,
            Flag::Closed => CLOSED,
        }
    }
}

impl Guard {
    /// A guard that holds `calm` while nothing is raised; -1 or a number from 0 to 2^31.
    pub fn new(calm: i64) -> Guard {
        Guard {
            word: AtomicI64::new(calm),
            calm,
        }
    }

    /// The word as the routines see it.
    pub fn word(&self) -> i64 {
        self.word.load(Ordering::SeqCst)
    }

    /// The value for a set of flag bits. For a negative `calm` the flags are cleared bits and the sign is
    /// there already.
    fn encode(&self, flags: i64) -> i64 {
        if flags == 0 {
            self.calm
        } else if self.calm < 0 {
            self.calm ^ (1 << 62) ^ flags
        } else {
            self.calm | RAISED | flags
        }
    }

    fn decode(&self, word: i64) -> i64 {
        (word ^ self.calm) & (WAITED | CLOSED)
    }

    /// Lowers every flag. Only the caller can reach the guard.
    pub fn calm_down(&self) {
        self.word.store(self.calm, Ordering::Relaxed);
    }

    /// Whether `flag` is raised.
    pub fn is_raised(&self, flag: Flag) -> bool {
        self.decode(self.word.load(Ordering::SeqCst)) & flag.mask() != 0
    }

    /// Raises `flag`. A full barrier: the caller's next loads are not older.
    pub fn raise(&self, flag: Flag) {
        // The effect of one more flag on the encoding, in one step: where flags are set bits, so is the sign;
        // where they are cleared bits, so is bit 62.
        if self.calm < 0 {
            self.word
                .fetch_and(!(1 << 62 | flag.mask()), Ordering::SeqCst);
        } else {
            self.word.fetch_or(RAISED | flag.mask(), Ordering::SeqCst);
        }
        in_order();
    }

    /// Lowers `flag`; returns whether it was raised.
    pub fn lower(&self, flag: Flag) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let flags = self.decode(word);
            let new = self.encode(flags & !flag.mask());
            match self
                .word
                .compare_exchange(word, new, Ordering::SeqCst, Ordering::Relaxed)
            {
                Ok(_) => return flags & flag.mask() != 0,
                Err(now) => word = now,
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_raised_word_makes_the_sum_negative_and_keeps_its_flags_apart() {
        for calm in [-1, 0, 4095, 65535, 1 << 30] {
            let guard = Guard::new(calm);
            for flags in [
                &[][..],
                &[Flag::Waited],
                &[Flag::Closed],
                &[Flag::Waited, Flag::Closed],
            ] {
                flags.iter().for_each(|flag| guard.raise(*flag));
                for sum in [-(1i64 << 31), -1, 0, 1, 1 << 31] {
                    assert!(flags.is_empty() || guard.word() + sum < 0);
                }
                for flag in [Flag::Waited, Flag::Closed] {
                    let byte = guard.word().to_le_bytes()[FLAG_BYTE as usize] as i8;
                    let raised = flags.contains(&flag);
                    assert_eq!(guard.is_raised(flag), raised);
                    assert_eq!((byte & flag.bit() != 0) ^ (calm < 0), raised);
                    assert_eq!(guard.lower(flag), raised);
                }
                assert_eq!(guard.word(), calm);
            }
        }
    }
}
