//! The word of the frame of a table above the leaves: which of its entries were ever asked for.
//!
//! *Interface*: [`note`] before an entry is set, [`UsedEntries::of`] when the table is taken apart.
//!
//! Most such tables have one to three entries, and the word has their indices: so who takes the table apart
//! goes to them, and does not search. With more it has a bit for each part of the table, as a leaf table's.
//!
//! Progress: lock-free; an exchange fails only where another's has succeeded.

use super::owners::MARKS;
use crate::primitive::atomic::{AtomicU32, Ordering};

/// Indices that a word has room for.
const FEW: usize = 3;
/// Bits of an index.
const BITS: usize = 9;
/// How many indices there are, above them.
const COUNT: usize = FEW * BITS;
/// There are marks instead, a bit for each part.
const PARTS: u32 = 1 << 31;
/// Entries for which there is a bit then.
const PART: usize = (1 << BITS) / MARKS.count_ones() as usize;

/// The meaning of a word.
pub(super) enum UsedEntries {
    /// These entries, so many.
    Few([usize; FEW], usize),
    /// Those of the parts with a bit here.
    Parts(u32),
}

impl UsedEntries {
    pub(super) fn of(word: u32) -> UsedEntries {
        match word & PARTS {
            0 => {
                let index = |at: usize| (word >> (at * BITS)) as usize % (1 << BITS);
                let count = (word >> COUNT) as usize % (FEW + 1);
                UsedEntries::Few(core::array::from_fn(index), count)
            }
            _ => UsedEntries::Parts(word & MARKS),
        }
    }
}

fn mark(index: usize) -> u32 {
    1 << (index / PART)
}

/// The word with entry `index` as well.
#[inline]
fn with(word: u32, index: usize) -> u32 {
    if word == 0 {
        return 1 << COUNT | index as u32;
    }
    with_more(word, index)
}

/// The same for a table that has had an entry before.
#[inline(never)]
fn with_more(word: u32, index: usize) -> u32 {
    match UsedEntries::of(word) {
        UsedEntries::Parts(_) => word | mark(index),
        UsedEntries::Few(indices, count) => match indices.get(..count) {
            Some(there) if there.contains(&index) => word,
            _ if count < FEW => (word + (1 << COUNT)) | (index as u32) << (count * BITS),
            _ => indices
                .iter()
                .fold(PARTS | mark(index), |all, index| all | mark(*index)),
        },
    }
}

/// Entry `index` may be set from now on.
#[inline]
pub(super) fn note(word: &AtomicU32, index: usize) {
    let more = |now: u32| Some(with(now, index)).filter(|new| *new != now);
    // An error says that it is there already.
    let _ = word.fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_entries_are_noted_one_by_one_and_more_by_parts() {
        let word = AtomicU32::new(0);
        let noted = || UsedEntries::of(word.load(Ordering::Relaxed));
        assert!(matches!(noted(), UsedEntries::Few(_, 0)));
        for (count, index) in [0, 511, 511, 0, 255].into_iter().enumerate() {
            note(&word, index);
            let UsedEntries::Few(indices, now) = noted() else {
                panic!("more than a few")
            };
            assert!(indices[..now].contains(&index) && now <= count + 1);
        }
        assert!(matches!(noted(), UsedEntries::Few([0, 511, 255], 3)));
        note(&word, 64);
        assert!(matches!(noted(), UsedEntries::Parts(0b1000_0000_1000_0101)));
        note(&word, 100);
        note(&word, 0);
        assert!(matches!(noted(), UsedEntries::Parts(0b1000_0000_1000_1101)));
    }
}
