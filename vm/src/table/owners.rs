//! The word of a page table's frame: which parts of the table may have entries, and how many further owners
//! it has.
//!
//! *Interface*: [`join`] by an owner for another one, [`leave`] by an owner, [`is_sole`].
//!
//! A table of several owners stays as it is: none of them changes an entry, and the marks stand still. An
//! owner that is alone stays alone until it lets another join, so it may change the table without a look at
//! the word.
//!
//! Progress: lock-free; an exchange fails only where another owner's has succeeded.

use crate::primitive::atomic::{AtomicU32, Ordering};

/// The marks of a table, a bit for each part.
pub(crate) const MARKS: u32 = u16::MAX as u32;

/// A further owner.
const OWNER: u32 = MARKS + 1;

/// Another owner has the table from now on; false: it has as many as can be counted.
#[inline]
pub(crate) fn join(word: &AtomicU32) -> bool {
    let more = |now: u32| now.checked_add(OWNER);
    word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
        .is_ok()
}

/// An owner has the table no more; true: it was the only one, and still has it.
#[inline]
pub(crate) fn leave(word: &AtomicU32) -> bool {
    let less = |now: u32| now.checked_sub(OWNER);
    word.fetch_update(Ordering::AcqRel, Ordering::Acquire, less)
        .is_err()
}

/// Whether the caller, an owner, is the only one. Then all that others did with the table is done.
#[inline]
pub(crate) fn is_sole(word: &AtomicU32) -> bool {
    word.load(Ordering::Acquire) < OWNER
}

/// How many further owners there are.
#[inline]
pub(crate) fn others(word: &AtomicU32) -> u32 {
    word.load(Ordering::Relaxed) / OWNER
}
