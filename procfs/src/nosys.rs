//! System calls that are not implemented, counted by number (`/syn/nosys`).
//!
//! *Interface*: [`count`] one; [`each`] of them is a line of `/syn/nosys`.

use abi::nr;
use core::sync::atomic::{AtomicU32, Ordering};

static UNKNOWN: [AtomicU32; nr::COUNT] = [const { AtomicU32::new(0) }; nr::COUNT];

/// Counts a call of this number; whether it is the first. Numbers beyond the table, which a thread's
/// dispatcher refuses itself, are not counted.
pub fn count(number: usize) -> bool {
    (UNKNOWN.get(number)).is_some_and(|count| count.fetch_add(1, Ordering::Relaxed) == 0)
}

/// The calls that were tried: number and count.
pub fn each() -> impl Iterator<Item = (usize, u32)> {
    UNKNOWN
        .iter()
        .map(|count| count.load(Ordering::Relaxed))
        .enumerate()
        .filter(|&(_, count)| count != 0)
}
