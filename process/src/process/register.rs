//! A register by number that one looks into, and goes through from the first to the last, while others enter and leave.
//!
//! *Interface*: [`Register::announce`], [`Register::show`], [`Register::put_thread`] and [`Register::take`] for who owns a number; [`Register::get`] looks at one;
//! [`Register::arrivals`] before and after going through all of them.
//!
//! One word a number: what has it, with two bits of what kind of thing that is. Who has taken a word out frees what it named a grace period later.
//!
//! Someone who goes through the register can miss one who comes behind him and was brought by one who leaves before him. So arrivals are counted, after each: where the count is
//! the same before and after, everyone was seen who was in at the beginning and still is. That makes a signal to many reach all of them without a lock, if each who brings another
//! acts in this order: *announce, then ask whether a signal is to be taken*, and take back if so; and who sends acts in this order: *send to each that is found, then
//! go through all again until nobody is new and nobody has arrived*. One who is announced too late to be found asks after the last look, and who brings it was found.
//! Hidden entries are those that may be taken back. Memory order: arriving and asking for arrivals are exchanges of one word, each of which sees all that was done before the earlier ones.
//!
//! Progress: all is wait-free but going through again.
//! Source: dissertation, section 5.2.3 (one process changes a list while others walk it); the count of arrivals is a version as in section 5.2.

use crate::primitive::{AtomicPtr, AtomicU64, Ordering};

/// The thing is a thread and not a process.
pub(crate) const THREAD: usize = 1;
/// Only who goes through all sees it.
pub(crate) const HIDDEN: usize = 2;

/// A register of numbers below `COUNT`. What is entered is aligned to four bytes.
pub(crate) struct Register<const COUNT: usize> {
    words: [AtomicPtr<()>; COUNT],
    arrivals: AtomicU64,
}

fn marked(thing: *mut (), mark: usize) -> *mut () {
    thing.map_addr(|address| address | mark)
}

/// What a word names, and its bits.
fn parts(word: *mut ()) -> (*mut (), usize) {
    let bits = THREAD | HIDDEN;
    (word.map_addr(|address| address & !bits), word.addr() & bits)
}

impl<const COUNT: usize> Register<COUNT> {
    /// Over `words`, all null: nobody has a number.
    pub(crate) const fn over(words: [AtomicPtr<()>; COUNT], arrivals: AtomicU64) -> Self {
        Register { words, arrivals }
    }

    /// `thing` has `number` from now on, for who goes through all.
    pub(crate) fn announce(&self, number: i32, thing: *mut ()) {
        self.words[number as usize].store(marked(thing, HIDDEN), Ordering::Release);
        self.arrive();
    }

    /// Something is found where it was not before. Who asked for arrivals before has done all that he did then, for what the caller looks at next.
    pub(crate) fn arrive(&self) {
        self.arrivals.fetch_add(1, Ordering::AcqRel);
    }

    /// What was announced as having `number` is there for all. Nobody but who has announced it touches the word while it is hidden.
    pub(crate) fn show(&self, number: i32) {
        let word = &self.words[number as usize];
        let (thing, _) = parts(word.load(Ordering::Relaxed));
        word.store(thing, Ordering::Release);
    }

    /// `thing` is the thread with `number` from now on.
    pub(crate) fn put_thread(&self, number: i32, thing: *mut ()) {
        self.words[number as usize].store(marked(thing, THREAD), Ordering::Release);
    }

    /// What had `number`, and its bits; null for nothing. Nobody finds it any more.
    pub(crate) fn take(&self, number: i32) -> (*mut (), usize) {
        let word = &self.words[number as usize];
        // Most numbers that are given up unused, or by a thread that nobody has entered, have nothing.
        if word.load(Ordering::Relaxed).is_null() {
            return (core::ptr::null_mut(), 0);
        }
        parts(word.swap(core::ptr::null_mut(), Ordering::AcqRel))
    }

    /// What has `number`, and its bits; null for nothing, and for what is no number.
    pub(crate) fn get(&self, number: i32) -> (*mut (), usize) {
        let word = self.words.get(number as usize);
        word.map_or((core::ptr::null_mut(), 0), |word| {
            parts(word.load(Ordering::Acquire))
        })
    }

    /// How many have arrived so far. An exchange too, so it stands before or after each arrival for both.
    pub(crate) fn arrivals(&self) -> u64 {
        self.arrivals.fetch_add(0, Ordering::AcqRel)
    }
}
