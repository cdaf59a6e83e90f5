//! Pages by the length of their longest run of free blocks: where an image that needs so many may find room.
//!
//! *Interface*: [`FreeRuns::note`] enters a page that has got room, [`FreeRuns::find`] finds one for `n`
//! blocks, and [`FreeRuns::correct`] enters one anew that has not what it was entered with. The lengths of
//! the pages themselves are the caller's (`block_bitmap.rs`): what is kept here is only where to look. So the
//! time of a search does not grow with the number of pages.
//!
//! Three levels of words: for each length the pages of a chunk, the chunks, and above both one word with the
//! lengths. A bit may stand though nothing is below it any more: the party that finds it so clears it and
//! looks again. A bit is missing only while the party that enters the page is under way. No page stays
//! entered with less than it has, since its length is read after its old bit is cleared.
//!
//! Progress: lock-free. Memory order: setting a bit releases what is below it, clearing one acquires that.

use crate::primitive::atomic::{AtomicU64, Ordering};
use crate::primitive::{constructor, zeros};

/// Lengths of runs, and the bits of a word.
const BITS: usize = 64;

/// The pages of a chunk: a word for each length, from one block on.
pub(crate) struct Pages([AtomicU64; BITS]);

impl Pages {
    constructor! {
        /// No page.
        pub fn new() -> Pages {
            Pages(zeros!())
        }
    }
}

/// All pages, in as many chunks of 64 as there are `WORDS`, a multiple of 64.
pub(crate) struct FreeRuns<const WORDS: usize> {
    /// Lengths with chunks.
    lengths: AtomicU64,
    /// For each length the chunks with pages.
    chunks: [AtomicU64; WORDS],
}

/// A page that was entered with this length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) page: usize,
    length: usize,
}

impl<const WORDS: usize> FreeRuns<WORDS> {
    constructor! {
        /// No page.
        pub fn new() -> FreeRuns<WORDS> {
            FreeRuns {
                lengths: AtomicU64::new(0),
                chunks: zeros!(),
            }
        }
    }

    /// The words of a length.
    fn chunks(&self, length: usize) -> &[AtomicU64] {
        let each = WORDS / BITS;
        &self.chunks[length * each..][..each]
    }

    /// Enters `page`, of the chunk with `pages`, with the length that it has now, if it has any room.
    pub(crate) fn note(&self, pages: &Pages, page: usize, length: impl FnOnce() -> usize) {
        let Some(length) = length().checked_sub(1) else {
            return;
        };
        let chunk = page / BITS;
        if pages.0[length].fetch_or(bit(page), Ordering::AcqRel) == 0 {
            self.enter(length, chunk);
        }
    }

    /// The page of `found` has not that length: enters it with what it has.
    pub(crate) fn correct(&self, pages: &Pages, found: Found, length: impl FnOnce() -> usize) {
        pages.0[found.length].fetch_and(!bit(found.page), Ordering::AcqRel);
        self.note(pages, found.page, length);
    }

    fn enter(&self, length: usize, chunk: usize) {
        if self.chunks(length)[chunk / BITS].fetch_or(bit(chunk), Ordering::AcqRel) == 0 {
            self.lengths.fetch_or(bit(length), Ordering::AcqRel);
        }
    }

    /// A page that was entered with the smallest length of at least `n`, 1 to 64. `pages` are a chunk's.
    pub(crate) fn find<'a>(
        &self,
        n: usize,
        pages: impl Fn(usize) -> Option<&'a Pages>,
    ) -> Option<Found> {
        loop {
            let lengths = self.lengths.load(Ordering::Acquire) & (!0 << (n - 1));
            if lengths == 0 {
                return None;
            }
            let length = lengths.trailing_zeros() as usize;
            let Some(chunk) = self.first_chunk(length) else {
                self.lengths.fetch_and(!bit(length), Ordering::AcqRel);
                if self.first_chunk(length).is_some() {
                    self.lengths.fetch_or(bit(length), Ordering::AcqRel);
                }
                continue;
            };
            let word = || pages(chunk).map_or(0, |pages| pages.0[length].load(Ordering::Acquire));
            match word() {
                0 => {
                    let group = &self.chunks(length)[chunk / BITS];
                    group.fetch_and(!bit(chunk), Ordering::AcqRel);
                    if word() != 0 {
                        self.enter(length, chunk);
                    }
                }
                word => {
                    let page = chunk * BITS + word.trailing_zeros() as usize;
                    return Some(Found { page, length });
                }
            }
        }
    }

    fn first_chunk(&self, length: usize) -> Option<usize> {
        let words = self.chunks(length).iter().enumerate();
        let mut seen = words.map(|(group, word)| (group, word.load(Ordering::Acquire)));
        let (group, word) = seen.find(|(_, word)| *word != 0)?;
        Some(group * BITS + word.trailing_zeros() as usize)
    }
}

fn bit(number: usize) -> u64 {
    1 << (number % BITS)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::vec::Vec;

    /// Against a list of what each page has: a page is found if one has room, it has it after corrections,
    /// and it is one of those with the least.
    #[test]
    fn a_page_is_found_if_one_has_room() {
        const CHUNKS: usize = 130;
        let runs = FreeRuns::<{ 3 * BITS }>::new();
        let pages: Vec<Pages> = (0..CHUNKS).map(|_| Pages::new()).collect();
        let mut lengths = std::vec![0usize; CHUNKS * BITS];
        let mut seed = 1u64;
        let mut random = |below: usize| {
            seed = seed
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (seed >> 33) as usize % below
        };
        let mut corrected = 0;
        for round in 0..60_000 {
            let page = random(lengths.len());
            if random(4) != 0 {
                lengths[page] = random(if round % 3 == 0 { 65 } else { 5 });
                runs.note(&pages[page / BITS], page, || lengths[page]);
            } else {
                // It is still entered with what it had.
                lengths[page] = 0;
            }
            let n = random(64) + 1;
            let found = loop {
                let found = runs.find(n, |chunk| pages.get(chunk));
                let Some(found) = found else { break None };
                if lengths[found.page] >= n {
                    break Some(found.page);
                }
                corrected += 1;
                runs.correct(&pages[found.page / BITS], found, || lengths[found.page]);
            };
            let any = lengths.iter().any(|&length| length >= n);
            assert_eq!(found.is_some(), any, "round {round}, {n} blocks");
        }
        assert!(corrected > 100, "{corrected}");
    }

    #[test]
    fn the_smallest_that_serves_is_found_first() {
        let runs = FreeRuns::<BITS>::new();
        let pages = Pages::new();
        for (page, length) in [(3, 64), (5, 7), (9, 12)] {
            runs.note(&pages, page, || length);
        }
        let at = |n| runs.find(n, |_| Some(&pages)).map(|found| found.page);
        assert_eq!([1, 7, 8, 12, 13, 64].map(at), [5, 5, 9, 9, 3, 3].map(Some));
        runs.correct(&pages, runs.find(64, |_| Some(&pages)).unwrap(), || 0);
        assert_eq!(at(13), None);
        assert_eq!(at(12), Some(9));
    }
}
