//! The subjects of torture: an operation that many threads may do at the same time, and what must hold when
//! all have ended.
//!
//! *Interface*: [`Subject`]; [`Tally`] for subjects that move numbers.

use core::sync::atomic::{AtomicU64, Ordering};

/// A structure with its operations.
pub trait Subject: Sync {
    /// Name for the log.
    fn name(&self) -> &'static str;

    /// Kinds of threads: with two, threads of role 0 and of role 1 do different things.
    fn roles(&self) -> usize {
        1
    }

    /// Whether only one thread may have the role at a time.
    fn alone(&self, role: usize) -> bool {
        let _ = role;
        false
    }

    /// Does the operation once.
    fn operate(&self, role: usize, round: u64);

    /// Called when nobody operates: panics if something was lost or doubled, and makes the subject as new.
    fn settle(&self);
}

/// Counts what went in and what came out.
pub struct Tally {
    items: [AtomicU64; 2],
    sums: [AtomicU64; 2],
}

impl Tally {
    /// Nothing yet.
    pub const fn new() -> Tally {
        Tally {
            items: [const { AtomicU64::new(0) }; 2],
            sums: [const { AtomicU64::new(0) }; 2],
        }
    }

    /// `value` went in.
    pub fn entered(&self, value: u64) {
        self.add(0, value);
    }

    /// `value` came out.
    pub fn left(&self, value: u64) {
        self.add(1, value);
    }

    fn add(&self, side: usize, value: u64) {
        self.items[side].fetch_add(1, Ordering::Relaxed);
        self.sums[side].fetch_add(value, Ordering::Relaxed);
    }

    /// Whether as many came out as went in.
    pub fn is_even(&self) -> bool {
        let [entered, left] = &self.items;
        entered.load(Ordering::Relaxed) == left.load(Ordering::Relaxed)
    }

    /// Panics unless the same came out as went in.
    pub fn check(&self, name: &str) {
        let [items, sums] = [&self.items, &self.sums];
        for (what, [entered, left]) in [("items", items), ("their sum", sums)] {
            assert_eq!(
                entered.load(Ordering::Relaxed),
                left.load(Ordering::Relaxed),
                "{name}: {what}, in and out"
            );
        }
    }
}
