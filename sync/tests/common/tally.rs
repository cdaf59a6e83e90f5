//! The values that came out of a structure, counted.
//!
//! *Interface*: [`Tally`]; [`until`] something comes.

use std::sync::atomic::{AtomicBool, Ordering};

/// Values that came out: each of `0..total` once.
pub struct Tally(Vec<AtomicBool>);

impl Tally {
    pub fn new(total: u64) -> Tally {
        Tally((0..total).map(|_| AtomicBool::new(false)).collect())
    }
    pub fn see(&self, value: u64) {
        assert!(
            !self.0[value as usize].swap(true, Ordering::Relaxed),
            "{value} came twice"
        );
    }
    pub fn complete(&self) {
        assert!(
            self.0.iter().all(|seen| seen.load(Ordering::Relaxed)),
            "a value is lost"
        );
    }
}

/// Call `f` until it gives something.
pub fn until<T>(mut f: impl FnMut() -> Option<T>) -> T {
    loop {
        match f() {
            Some(value) => return value,
            None => std::thread::yield_now(),
        }
    }
}
