//! A lock-free multi-writer log ring with records of any length; readers see whole records, in order, or
//! none.
//!
//! *Interface*: [`Journal::put`] adds a record over the oldest ones, from anywhere. [`Journal::read`] returns
//! the record at a position, [`Look::Nothing`] while it is still to come, or [`Look::Gone`] when it was
//! overwritten, perhaps in the middle of the reading; [`Journal::first`] is then where to go on.
//! [`Journal::end`] is the position behind all that was claimed.
//!
//! A writer claims the places of its whole record and its number by one exchange, and then fills the places.
//! Many do so at once. Each place is one word, which has four bytes of the record and the *lap*: how often
//! the ring had been gone round when the place was claimed. The lap is the flag of the figure: it says that
//! the place is filled, and also for which record. So nobody shows what he has filled, and nobody leaves
//! notes: a position is filled up to where the laps are those of the position.
//!
//! Any number of writers may be between claim and fill, on one CPU too, as handlers interrupt each other. A
//! writer that stops there delays the readers at its record, as in the figure, until the ring has gone round
//! once; it delays no writer. When it goes on after that, its words are older than those in the places, and
//! are not stored.
//!
//! Progress: `put` is lock-free (another party has written when an exchange fails); reading is wait-free, and
//! no writer notices a reader. Memory order: each word says itself what it belongs to. The claim is released
//! with the words, so a reader that was overtaken finds a later end.
//!
//! Source: Massalin and Pu 1989, figure 2 (claims, filled at the same time, and flags), without a consumer
//! that frees places.

use core::cmp::Ordering::{Equal, Greater, Less};

use crate::cas2::AtomicPair;
use crate::primitive::atomic::{AtomicU64, Ordering};
use crate::primitive::constructor;

/// Bytes of a record in one place.
const BYTES: usize = 4;
/// Places in front of a record's bytes: its length and kind, its number, its stamp.
const HEAD: usize = 5;
/// In the first word: its record's length, below the kind.
const LENGTH: usize = u16::MAX as usize;
/// Above these bits of a word is its lap.
const LAP: u32 = 33;
/// In a word: a record begins in this place.
const BEGINS: u64 = 1 << 32;

/// A ring of `PLACES` places, a power of two.
pub struct Journal<const PLACES: usize> {
    /// Low: the position behind all claimed places. High: the number of the next record.
    head: AtomicPair,
    places: [AtomicU64; PLACES],
}

/// A look at a position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Look {
    /// A record.
    Record(Record),
    /// The record that will be here is not filled yet, or not claimed.
    Nothing,
    /// No record begins here, or it was overwritten.
    Gone,
}

/// A record that was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Record {
    /// Its number, counted from 0 without gaps.
    pub number: u64,
    /// The writer's kind and stamp.
    pub kind: u16,
    /// See `kind`.
    pub stamp: u64,
    /// How many bytes it has, also when fewer were copied.
    pub length: usize,
    /// The position behind it.
    pub next: u64,
}

impl<const PLACES: usize> Journal<PLACES> {
    /// The most bytes of a record; a longer one is cut off.
    pub const MOST: usize = {
        assert!(PLACES.is_power_of_two() && PLACES > HEAD);
        let most = (PLACES - HEAD) * BYTES;
        if most < u16::MAX as usize {
            most
        } else {
            u16::MAX as usize
        }
    };

    constructor! {
        /// An empty one.
        pub fn new() -> Journal<PLACES> {
            #[cfg(not(loom))]
            let places = [const { AtomicU64::new(0) }; PLACES];
            #[cfg(loom)]
            let places = core::array::from_fn(|_| AtomicU64::new(0));
            Journal { head: AtomicPair::new(0, 0), places }
        }
    }

    fn place(&self, position: u64) -> &AtomicU64 {
        &self.places[position as usize % PLACES]
    }

    /// The position behind all claimed places.
    pub fn end(&self) -> u64 {
        self.head.read().0
    }

    /// Adds a record of `bytes`.
    pub fn put(&self, kind: u16, stamp: u64, bytes: &[u8]) {
        let bytes = &bytes[..bytes.len().min(Self::MOST)];
        let claimed = self.claim(HEAD + bytes.len().div_ceil(BYTES));
        self.fill(claimed, kind, stamp, bytes);
    }

    fn fill(&self, (position, number): (u64, u64), kind: u16, stamp: u64, bytes: &[u8]) {
        let shape = u64::from(kind) << 16 | bytes.len() as u64 | BEGINS;
        let head = [number as u32, upper(number), stamp as u32, upper(stamp)];
        let body = bytes.chunks(BYTES).map(|piece| {
            let mut content = [0; BYTES];
            content[..piece.len()].copy_from_slice(piece);
            u32::from_le_bytes(content)
        });
        let rest = head.into_iter().chain(body).map(u64::from);
        let contents = core::iter::once(shape).chain(rest);
        for (n, content) in contents.enumerate() {
            let position = position.wrapping_add(n as u64);
            let word = Self::lap(position) << LAP | content;
            self.place(position).fetch_max(word, Ordering::Release);
        }
    }

    /// Claims `count` places for a record. Its position and number.
    fn claim(&self, count: usize) -> (u64, u64) {
        let mut head = self.head.read();
        loop {
            let behind = (head.0.wrapping_add(count as u64), head.1.wrapping_add(1));
            match self.head.compare_exchange(head, behind) {
                Ok(()) => return head,
                Err(now) => head = now,
            }
        }
    }

    /// The record at `position`, as many of its bytes as fit into `out`.
    pub fn read(&self, position: u64, out: &mut [u8]) -> Look {
        match self.record(position, out) {
            Ok(record) => Look::Record(record),
            Err(other) => other,
        }
    }

    /// Whether reading at `position` need not wait.
    pub fn is_there(&self, position: u64) -> bool {
        self.read(position, &mut []) != Look::Nothing
    }

    /// Where the first record begins that is neither before `position` nor overwritten. It may be still to
    /// come.
    pub fn first(&self, position: u64) -> u64 {
        let end = self.end();
        let oldest = end.saturating_sub(PLACES as u64);
        let begins = |at: &u64| {
            self.word(*at)
                .map_or_else(|other| other == Look::Nothing, |word| word & BEGINS != 0)
        };
        (position.clamp(oldest, end)..end)
            .find(begins)
            .unwrap_or(end)
    }

    /// The word of `position`, unless another one's is there.
    fn word(&self, position: u64) -> Result<u64, Look> {
        let word = self.place(position).load(Ordering::Acquire);
        match (word >> LAP).cmp(&Self::lap(position)) {
            Less => Err(Look::Nothing),
            Equal => Ok(word),
            Greater => Err(Look::Gone),
        }
    }

    fn record(&self, position: u64, out: &mut [u8]) -> Result<Record, Look> {
        let first = self.word(position)?;
        if first & BEGINS == 0 {
            return Err(Look::Gone);
        }
        let content = |n: usize| Ok(self.word(position.wrapping_add(n as u64))? as u32);
        let long = |n: usize| Ok(u64::from(content(n)?) | u64::from(content(n + 1)?) << 32);
        let (number, stamp) = (long(1)?, long(3)?);
        let (kind, length) = ((first >> 16) as u16, first as usize & LENGTH);
        let count = length.div_ceil(BYTES);
        for n in 0..count {
            let piece = content(HEAD + n)?.to_le_bytes();
            let from = (n * BYTES).min(out.len());
            let fits = (length - n * BYTES).min(BYTES).min(out.len() - from);
            out[from..from + fits].copy_from_slice(&piece[..fits]);
        }
        Ok(Record {
            number,
            kind,
            stamp,
            length,
            next: position.wrapping_add((HEAD + count) as u64),
        })
    }

    /// How often the ring had been gone round at `position`, and once more: no place has lap 0.
    fn lap(position: u64) -> u64 {
        position / PLACES as u64 + 1
    }
}

impl<const PLACES: usize> Default for Journal<PLACES> {
    fn default() -> Self {
        Self::new()
    }
}

/// The upper half.
fn upper(word: u64) -> u32 {
    (word >> 32) as u32
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    type Small = Journal<32>;

    /// The records from `at` on, as text, until there is none.
    fn texts<const N: usize>(journal: &Journal<N>, at: &mut u64) -> Vec<(u64, String)> {
        let mut found = Vec::new();
        loop {
            let mut bytes = [0; 256];
            match journal.read(*at, &mut bytes) {
                Look::Record(record) => {
                    let text = String::from_utf8_lossy(&bytes[..record.length]);
                    found.push((record.number, text.into_owned()));
                    *at = record.next;
                }
                Look::Nothing => return found,
                Look::Gone => *at = journal.first(*at),
            }
        }
    }

    #[test]
    fn records_come_back_as_they_were() {
        let journal = Small::new();
        assert_eq!((journal.end(), journal.first(7)), (0, 0));
        assert_eq!(journal.read(0, &mut []), Look::Nothing);
        journal.put(7, 1 << 40 | 3, b"hello");
        journal.put(u16::MAX, u64::MAX, b"");
        let mut bytes = [0; 3];
        let first = Record {
            number: 0,
            kind: 7,
            stamp: 1 << 40 | 3,
            length: 5,
            next: 7,
        };
        assert_eq!(journal.read(0, &mut bytes), Look::Record(first));
        assert_eq!(&bytes, b"hel", "what fits");
        let second = Record {
            number: 1,
            kind: u16::MAX,
            stamp: u64::MAX,
            length: 0,
            next: 12,
        };
        assert_eq!(journal.read(7, &mut bytes), Look::Record(second));
        assert_eq!(journal.read(12, &mut bytes), Look::Nothing);
        assert_eq!(journal.read(3, &mut bytes), Look::Gone, "inside a record");
        assert_eq!((journal.first(3), journal.first(99)), (7, 12));
        assert_eq!(journal.read(u64::MAX, &mut bytes), Look::Nothing);
    }

    #[test]
    fn the_oldest_are_overwritten_and_a_reader_goes_on_behind_them() {
        let journal = Small::new();
        let mut at = 0;
        for n in 0..20 {
            journal.put(0, 0, format!("line {n}").as_bytes());
        }
        // Of 7 places each.
        let kept: Vec<_> = (16..20).map(|n| (n, format!("line {n}"))).collect();
        assert_eq!(texts(&journal, &mut at), kept);
        // A record of another round begins at the place.
        let even = Small::new();
        (0..5).for_each(|_| even.put(0, 0, b"eight places"));
        assert_eq!(even.read(0, &mut []), Look::Gone);
        assert_eq!((even.first(0), even.is_there(8)), (8, true));
        journal.put(0, 0, &[b'x'; 500]);
        let longest = "x".repeat(Small::MOST);
        assert_eq!(texts(&journal, &mut at), [(20, longest)]);
    }

    /// Writers that stopped at each place of a record, and one that comes back when the ring has gone round.
    #[test]
    fn who_stops_in_the_middle_delays_readers_until_the_ring_has_gone_round() {
        let journal = Small::new();
        let stopped = journal.claim(HEAD + 1);
        journal.put(0, 0, b"next");
        let mut at = 0;
        assert_eq!(texts(&journal, &mut at), []);
        assert!(!journal.is_there(0) && journal.first(0) == 0);
        for _ in 0..5 {
            journal.put(0, 0, b"more");
        }
        let kept: Vec<_> = texts(&journal, &mut at);
        assert_eq!(kept.first(), Some(&(2, "more".into())));
        journal.fill(stopped, 0, 0, b"late");
        let mut again = 0;
        assert_eq!(
            texts(&journal, &mut again),
            kept,
            "late words are not stored"
        );
    }

    #[test]
    fn many_write_whole_lines_in_order() {
        const WRITERS: usize = 4;
        let lines = if cfg!(miri) { 20 } else { 20_000 };
        let journal = Arc::new(Journal::<1024>::new());
        let over = Arc::new(AtomicBool::new(false));
        let writers: Vec<_> = (0..WRITERS)
            .map(|me| {
                let journal = journal.clone();
                std::thread::spawn(move || {
                    for n in 0..lines {
                        let text = format!("{me} {n} {}", "z".repeat((n * 7 + me) % 50));
                        journal.put(me as u16, n as u64, text.as_bytes());
                    }
                })
            })
            .collect();
        let reader = {
            let (journal, over) = (journal.clone(), over.clone());
            std::thread::spawn(move || {
                let (mut at, mut next, mut told) = (0, 0, [0; WRITERS]);
                loop {
                    let last = over.load(Ordering::Acquire);
                    for (number, text) in texts(&journal, &mut at) {
                        assert!(number >= next, "in order");
                        next = number + 1;
                        let mut words = text.split(' ');
                        let mut word = || words.next().unwrap();
                        let me: usize = word().parse().unwrap();
                        let n: usize = word().parse().unwrap();
                        assert_eq!(word(), "z".repeat((n * 7 + me) % 50));
                        assert!(n >= told[me]);
                        told[me] = n + 1;
                    }
                    if last {
                        return (next, told);
                    }
                }
            })
        };
        writers.into_iter().for_each(|t| t.join().unwrap());
        over.store(true, Ordering::Release);
        let (next, told) = reader.join().unwrap();
        assert_eq!(next, (WRITERS * lines) as u64, "all that is left");
        assert!(told.contains(&lines));
    }
}
