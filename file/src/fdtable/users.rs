//! The users of a descriptor table: its threads, and readers from outside (*visitors*).
//!
//! *Interface*. Threads [`join`](TableUsers::join) and [`leave`](TableUsers::leave); a visitor of another's
//! table [`enter`](TableUsers::enter)s and [`depart`](TableUsers::depart)s. The thread of a table with one
//! thread and no visitor is [`is_sole`](TableUsers::is_sole): with interrupts off, it may then change the
//! table by plain stores, and free removed files at once.
//!
//! A second thread comes only through the first. A visitor may come at any time, and so waits for a grace
//! period between entering and its first read: changes that the thread makes with interrupts off, having
//! found itself alone, are over by then, and later changes see the visitor. No other thread waits for a
//! visitor, however long it stays: the table's thread then takes the path for several threads.
//!
//! Source: quasi-invariants with guards (Pu et al. 1995); grace periods: `sync::epoch`.

use core::sync::atomic::{AtomicU64, Ordering};

const USER: u64 = 1;
const VISITOR: u64 = 1 << 32;

/// Threads in the low half, visitors in the upper half.
pub(super) struct TableUsers(AtomicU64);

impl TableUsers {
    /// One thread.
    pub fn new() -> TableUsers {
        TableUsers(AtomicU64::new(USER))
    }

    /// Whether there is one thread, the caller's, and no visitor. The answer holds while interrupts are off.
    #[inline(always)]
    pub fn is_sole(&self) -> bool {
        self.0.load(Ordering::Acquire) == USER
    }

    /// Threads that use the table.
    #[inline]
    pub fn users(&self) -> u32 {
        self.0.load(Ordering::Acquire) as u32
    }

    /// Another thread will use the table; returns how many there were.
    pub fn join(&self) -> u32 {
        self.0.fetch_add(USER, Ordering::AcqRel) as u32
    }

    /// A thread no longer uses the table, and is not in it; returns how many there were.
    pub fn leave(&self) -> u32 {
        self.0.fetch_sub(USER, Ordering::AcqRel) as u32
    }

    /// A visitor comes. True: it may look after a grace period; false: now, since several threads use the
    /// table and expect others.
    #[must_use]
    pub fn enter(&self) -> bool {
        (self.0.fetch_add(VISITOR, Ordering::SeqCst) as u32) < 2
    }

    /// A visitor, which is not in the table any more, goes.
    pub fn depart(&self) {
        self.0.fetch_sub(VISITOR, Ordering::AcqRel);
    }

    /// The holder of the table has the only reference to it.
    pub fn reset(&mut self) {
        *self.0.get_mut() = USER;
    }
}
