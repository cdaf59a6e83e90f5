//! A ring of records under sequence locks: the last records of one writer, which others read while it writes.
//!
//! *Interface*: [`SeqlockRing::put`] adds a record, in the place of the oldest when the ring is full; one
//! party at a time may call it. [`SeqlockRing::get`] reads a record by its number, from anywhere;
//! [`SeqlockRing::numbers`] says which may still be there.
//!
//! Each place has a stamp beside its words: the number of the record in it, counted from one, or none while
//! the words change. A reader takes the words between two looks at the stamp.
//!
//! Progress: wait-free; the writer never notices a reader, and a reader that was overtaken gets nothing.
//! Memory order: the writer clears the stamp before a release fence and then stores the words. A reader that
//! sees one of these words passes an acquire fence afterwards, so that its second look finds the stamp
//! cleared, or a later one. The last store of the stamp releases the words to the first look.
//! Source: Lamport 1977 (concurrent reading and writing), as a sequence lock for each place; dissertation,
//! section 5.1.4 (code isolation: one party writes each ring).

use crate::primitive::atomic::{AtomicU64, Ordering, fence};
use alloc::vec::Vec;
use core::ops::Range;

/// A ring of records of `WORDS` words.
pub struct SeqlockRing<const WORDS: usize> {
    places: Vec<Place<WORDS>>,
    /// Records ever put.
    count: AtomicU64,
}

/// A place for a record.
pub struct Place<const WORDS: usize> {
    /// The number of its record plus one; 0 while there is none.
    stamp: AtomicU64,
    words: [AtomicU64; WORDS],
}

impl<const WORDS: usize> Default for Place<WORDS> {
    fn default() -> Self {
        Place {
            stamp: AtomicU64::new(0),
            words: core::array::from_fn(|_| AtomicU64::new(0)),
        }
    }
}

impl<const WORDS: usize> SeqlockRing<WORDS> {
    /// An empty ring for as many records as it gets places. Without one it keeps nothing.
    pub fn new(places: Vec<Place<WORDS>>) -> SeqlockRing<WORDS> {
        SeqlockRing {
            places,
            count: AtomicU64::new(0),
        }
    }

    fn place(&self, number: u64) -> Option<&Place<WORDS>> {
        let at = number.checked_rem(self.places.len() as u64)?;
        self.places.get(at as usize)
    }

    /// Adds a record. By one party at a time, which has seen what the one before has done.
    pub fn put(&self, record: &[u64; WORDS]) {
        let number = self.count.load(Ordering::Relaxed);
        let Some(place) = self.place(number) else {
            return;
        };
        place.stamp.store(0, Ordering::Relaxed);
        fence(Ordering::Release);
        for (word, value) in place.words.iter().zip(record) {
            word.store(*value, Ordering::Relaxed);
        }
        place.stamp.store(number + 1, Ordering::Release);
        self.count.store(number + 1, Ordering::Release);
    }

    /// Record number `number`, unless it is to come yet, or was overwritten.
    pub fn get(&self, number: u64) -> Option<[u64; WORDS]> {
        let (place, stamp) = (self.place(number)?, number.checked_add(1)?);
        if place.stamp.load(Ordering::Acquire) != stamp {
            return None;
        }
        let record = core::array::from_fn(|n| place.words[n].load(Ordering::Relaxed));
        fence(Ordering::Acquire);
        (place.stamp.load(Ordering::Relaxed) == stamp).then_some(record)
    }

    /// The numbers of the records in the ring. Those before its start were overwritten.
    pub fn numbers(&self) -> Range<u64> {
        let count = self.count.load(Ordering::Acquire);
        count.saturating_sub(self.places.len() as u64)..count
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn ring<const WORDS: usize>(size: usize) -> SeqlockRing<WORDS> {
        SeqlockRing::new((0..size).map(|_| Place::default()).collect())
    }

    #[test]
    fn the_last_ones_stay() {
        let ring = ring(3);
        assert_eq!((ring.numbers(), ring.get(0)), (0..0, None));
        for n in 0..5 {
            ring.put(&[n, n * n]);
        }
        assert_eq!(ring.numbers(), 2..5);
        let kept = [1, 2, 3, 4, 5].map(|n| ring.get(n));
        assert_eq!(
            kept,
            [None, Some([2, 4]), Some([3, 9]), Some([4, 16]), None]
        );
        assert_eq!(ring.get(u64::MAX), None);
    }

    #[test]
    fn a_ring_without_places_keeps_nothing() {
        let ring = ring(0);
        ring.put(&[7]);
        assert_eq!((ring.numbers(), ring.get(0)), (0..0, None));
    }

    #[test]
    fn a_reader_beside_the_writer_sees_whole_records() {
        let ring: SeqlockRing<4> = ring(8);
        let rounds = if cfg!(miri) { 200 } else { 200_000 };
        std::thread::scope(|scope| {
            scope.spawn(|| (0..rounds).for_each(|n| ring.put(&[n, n + 1, n + 2, n + 3])));
            scope.spawn(|| {
                let mut last = 0;
                while last + 1 < rounds {
                    for number in ring.numbers() {
                        if let Some(record) = ring.get(number) {
                            assert_eq!(record, [0, 1, 2, 3].map(|more| number + more));
                            last = number;
                        }
                    }
                }
            });
        });
    }
}
