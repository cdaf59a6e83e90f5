//! Lock-order checking, as by Linux’s lockdep: records the monitors that threads hold while they take
//! another, only in kernels for the suite `order` (`--cfg order`), which compares the record with the list in
//! docs/locks.md.
//!
//! *Interface*: [`took`] and [`gave`], called by monitors; [`pairs`] for the report. A monitor is named by
//! the type of its data, or, if the type is not specific, by the file that takes it.
//!
//! A possible deadlock of two threads shows when each does its part alone: two kinds taken in both orders are
//! enough, the threads need not meet. `try_lock` never waits, so its monitor counts as held but not as waited
//! for.

use crate::callout;
use core::cell::UnsafeCell;
use core::hint::spin_loop;
use core::panic::Location;
use core::sync::atomic::{AtomicBool, Ordering};

/// The most monitors that all threads together hold at a time, and the most pairs; more are not recorded.
const MOST: usize = 512;

type Pair = (&'static str, &'static str);

struct Book {
    /// Thread, monitor, its kind.
    held: [(usize, usize, &'static str); MOST],
    holds: usize,
    pairs: [Pair; MOST],
    known: usize,
}

struct Shelf(UnsafeCell<Book>, AtomicBool);

// SAFETY: the book is reached through `read` only, by one at a time.
unsafe impl Sync for Shelf {}

static SHELF: Shelf = Shelf(
    UnsafeCell::new(Book {
        held: [(0, 0, ""); MOST],
        holds: 0,
        pairs: [("", ""); MOST],
        known: 0,
    }),
    AtomicBool::new(false),
);

fn read<R>(look: impl FnOnce(&mut Book) -> R) -> R {
    // Bound: the kernel of the suite `order` only: at most 512 entries.
    callout::without_interrupts(|| {
        while SHELF.1.swap(true, Ordering::Acquire) {
            // Bound: the kernel of the suite `order` only: at most 512 entries, by another CPU.
            spin_loop();
        }
        // SAFETY: the word was false, and a thread that finds it true waits until it is false again.
        let result = look(unsafe { &mut *SHELF.0.get() });
        SHELF.1.store(false, Ordering::Release);
        result
    })
}

/// The running thread has taken the monitor at `at`, whose data are of type `kind`; `waits`: it would have
/// waited.
#[track_caller]
pub(crate) fn took(at: usize, kind: &'static str, waits: bool) {
    let thread = (callout::get().current)();
    let kind = match kind {
        "" | "()" => Location::caller().file(),
        other => other,
    };
    read(|book| {
        for &(_, _, first) in book.held[..book.holds]
            .iter()
            .filter(|held| held.0 == thread)
        {
            let pair = (first, kind);
            if waits && book.known < MOST && !book.pairs[..book.known].contains(&pair) {
                book.pairs[book.known] = pair;
                book.known += 1;
            }
        }
        if book.holds < MOST {
            book.held[book.holds] = (thread, at, kind);
            book.holds += 1;
        }
    });
}

/// The running thread gives back the monitor at `at`.
pub(crate) fn gave(at: usize) {
    read(|book| {
        if let Some(i) = (0..book.holds).find(|&i| book.held[i].1 == at) {
            book.holds -= 1;
            book.held[i] = book.held[book.holds];
        }
    });
}

/// Calls `f(held, taken)` for each pair that was seen.
pub fn pairs(mut f: impl FnMut(&str, &str)) {
    let mut i = 0;
    while let Some((held, taken)) = read(|book| book.pairs[..book.known].get(i).copied()) {
        f(held, taken);
        i += 1;
    }
}
