//! The PID map: finds the process or thread with a number, and lets a visitor see all entries while
//! others enter and leave.
//!
//! *Interface*: the owner of a number calls [`PidMap::announce`], [`PidMap::show`],
//! [`PidMap::put_thread`] and [`PidMap::take`]; [`PidMap::get`] finds an entry; a visitor of all
//! numbers reads [`PidMap::arrivals`] before and after.
//!
//! Each number has one word: the address of its entry, and two bits for the kind of the entry. A word that
//! was taken out is freed by its taker, a grace period later.
//!
//! A visitor can miss an entry that arrives behind it if the parent of that entry left in front of it. So
//! each arrival is counted after it happened: when the count is the same before and after a visit, the visit
//! saw every entry that was there at its beginning and still is. A signal to many processes reaches all of
//! them without a lock, under two rules. A parent announces its child first, then asks whether it has a
//! signal to take, and if so takes the child back. The sender signals each process that it finds, and repeats
//! the visit until it brings nothing new and no arrival was counted. A child that is announced too late to be
//! found has a parent that was found, and this parent asks after the sender's last look. Hidden entries are
//! those that may still be taken back.
//!
//! Memory order: an arrival and a reading of the count are exchanges of one word; each sees everything that
//! was done before the earlier exchanges.
//! Progress: wait-free, except for repeated visits.
//! Source: dissertation, section 5.2.3 (one process changes a list while others walk it); the count of
//! arrivals is a version as in section 5.2.

use super::words::NumberTable;
use crate::primitive::{AtomicPtr, AtomicU64, Ordering};

/// The entry is a thread and not a process.
pub(crate) const THREAD: usize = 1;
/// Only a visitor of all numbers sees the entry.
pub(crate) const HIDDEN: usize = 2;

/// A register of the numbers that `W` has words for. Entries are aligned to four bytes. The owner of a number
/// has reserved it.
pub(crate) struct PidMap<W> {
    words: W,
    arrivals: AtomicU64,
}

fn marked(thing: *mut (), mark: usize) -> *mut () {
    thing.map_addr(|address| address | mark)
}

/// The address in a word, and its bits.
fn parts(word: *mut ()) -> (*mut (), usize) {
    let bits = THREAD | HIDDEN;
    (word.map_addr(|address| address & !bits), word.addr() & bits)
}

impl<W> PidMap<W> {
    /// A register over `words`, which are all null: no number has an entry.
    pub(crate) const fn over(words: W, arrivals: AtomicU64) -> Self {
        PidMap { words, arrivals }
    }

    /// The words.
    pub(crate) fn words(&self) -> &W {
        &self.words
    }
}

impl<W: NumberTable<AtomicPtr<()>>> PidMap<W> {
    fn put(&self, number: i32, entry: *mut ()) {
        if let Some(word) = self.words.word(number) {
            word.store(entry, Ordering::Release);
        }
    }

    /// From now on `thing` has `number` for visitors of all numbers.
    pub(crate) fn announce(&self, number: i32, thing: *mut ()) {
        self.put(number, marked(thing, HIDDEN));
        self.arrive();
    }

    /// Counts an arrival. The caller then sees all that was done before each earlier reading of the count.
    pub(crate) fn arrive(&self) {
        self.arrivals.fetch_add(1, Ordering::AcqRel);
    }

    /// Makes the announced entry of `number` visible to lookups. Only its announcer touches a hidden word.
    pub(crate) fn show(&self, number: i32) {
        if let Some(word) = self.words.word(number) {
            let (thing, _) = parts(word.load(Ordering::Relaxed));
            word.store(thing, Ordering::Release);
        }
    }

    /// From now on `thing` is the thread with `number`.
    pub(crate) fn put_thread(&self, number: i32, thing: *mut ()) {
        self.put(number, marked(thing, THREAD));
    }

    /// Takes out and returns the entry of `number` and its bits; null if there is none.
    pub(crate) fn take(&self, number: i32) -> (*mut (), usize) {
        // Most numbers that are given up have no entry: they were never used, or the thread never entered.
        match self.words.word(number) {
            Some(word) if !word.load(Ordering::Relaxed).is_null() => {
                parts(word.swap(core::ptr::null_mut(), Ordering::AcqRel))
            }
            _ => (core::ptr::null_mut(), 0),
        }
    }

    /// The entry of `number` and its bits; null if there is none, or `number` is out of range.
    pub(crate) fn get(&self, number: i32) -> (*mut (), usize) {
        let word = self.words.word(number);
        word.map_or((core::ptr::null_mut(), 0), |word| {
            parts(word.load(Ordering::Acquire))
        })
    }

    /// How many entries have arrived. Reading is an exchange, too, so that it comes before or after each
    /// arrival in the eyes of both sides.
    pub(crate) fn arrivals(&self) -> u64 {
        self.arrivals.fetch_add(0, Ordering::AcqRel)
    }
}
