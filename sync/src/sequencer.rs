//! `Sequencer`: many producers reserve (claim) places of one ring and fill them at the same time; the places
//! are published to consumers in the order of the claims.
//!
//! *Interface*: [`claim`] takes some of the places in front of the word `head`, next to each other;
//! [`claim_at`] takes them if no other party has claimed any since. The claimant fills them and calls
//! [`Sequencer::publish`]. [`Sequencer::published`] is the position up to which all places are filled: what a
//! consumer reads where a ring of one producer has its head. Generated code does the undisturbed `publish`
//! itself, with the words at [`PUBLISHED`] and [`NOTED`], and calls [`Sequencer::go_on`] when there is a
//! note.
//!
//! A claim that is filled before an older one is published later: its claimant records the range (a note) for
//! the older claim's owner to publish. So nobody waits; a party that stops between claim and publish delays
//! what was claimed after it, as in the figure, and no other party.
//!
//! Each position is passed by one party: by the owner of the claim that begins there, or by the party that
//! has taken the note of this claim. The claimant leaves its note and then looks whether the older claims
//! have been published meanwhile; the owner of an older claim publishes it and then looks for notes. So one
//! of the two sees the other.
//!
//! Progress: `claim` is lock-free, `publish` wait-free for up to [`NOTES`] parties that are between claim and
//! publish. Memory order: the bytes are released with the word `published` or with the note, whose taker
//! acquires them and releases them with `published`.
//!
//! Source: Massalin and Pu 1989, figure 2 (claims, filled at the same time, and flags); dissertation, section
//! 5.1.4 (work that is left to the active party).

use crate::primitive::atomic::{AtomicU64, Ordering, fence};

/// Claims that may be between claim and publish while another one is: at least as many as there are
/// processors, where claimants are not interrupted.
#[cfg(not(loom))]
pub const NOTES: usize = 16;
/// As many as a model has threads.
#[cfg(loom)]
pub const NOTES: usize = 2;

/// The most places of one claim.
pub const MOST: usize = 1 << 15;

/// Offset of the word that says up to where places are filled.
pub const PUBLISHED: usize = core::mem::offset_of!(Sequencer, published);
/// Offset of the number of notes.
pub const NOTED: usize = core::mem::offset_of!(Sequencer, noted);

/// Bits of a note that hold the number of places; above them is the position, without its upper bits.
const COUNT: u32 = 16;

/// The claims on one ring. All zeros is a new one.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Sequencer {
    published: AtomicU64,
    /// Notes that are left or about to be.
    noted: AtomicU64,
    notes: [AtomicU64; NOTES],
}

fn note(first: u64, count: u64) -> u64 {
    first << COUNT | count
}

/// Claims as many of `wanted` places as are free in a ring of `size`; the first position and their number.
/// None where none is free.
pub fn claim(
    head: &AtomicU64,
    tail: &AtomicU64,
    size: usize,
    wanted: usize,
) -> Option<(u64, usize)> {
    loop {
        let first = head.load(Ordering::Relaxed);
        let used = first.wrapping_sub(tail.load(Ordering::Acquire));
        if used > size as u64 {
            // The head has moved meanwhile, and so has the tail.
            continue;
        }
        let count = wanted.min(size - used as usize).min(MOST);
        if count == 0 {
            return None;
        }
        if take(head, first, count) {
            return Some((first, count));
        }
    }
}

/// Claims `count` places from position `first` on; whether they were free, and nothing was claimed since.
pub fn claim_at(head: &AtomicU64, tail: &AtomicU64, size: usize, first: u64, count: usize) -> bool {
    let used = first.wrapping_sub(tail.load(Ordering::Acquire));
    // A position that is behind the tail is old.
    used <= size as u64 && count <= (size - used as usize).min(MOST) && take(head, first, count)
}

fn take(head: &AtomicU64, first: u64, count: usize) -> bool {
    let behind = first.wrapping_add(count as u64);
    head.compare_exchange(first, behind, Ordering::Relaxed, Ordering::Relaxed)
        .is_ok()
}

impl Sequencer {
    /// The position up to which all places are filled.
    pub fn published(&self) -> u64 {
        self.published.load(Ordering::Acquire)
    }

    /// The places that were claimed from `first` on, `count` of them and at least one, are filled.
    pub fn publish(&self, first: u64, count: usize) {
        let behind = first.wrapping_add(count as u64);
        if self.published() == first {
            self.pass(behind);
            return;
        }
        self.noted.fetch_add(1, Ordering::Relaxed);
        let note = note(first, count as u64);
        let left = self.leave(note);
        fence(Ordering::SeqCst);
        if self.published() == first && self.takes(left, note) {
            self.pass(behind);
        }
    }

    /// The position `published` was passed by this party, and there are notes: passes what was noted behind
    /// it.
    pub fn go_on(&self) {
        let mut published = self.published();
        while let Some(count) = self.find(published) {
            published = published.wrapping_add(count);
            self.published.store(published, Ordering::Release);
            fence(Ordering::SeqCst);
        }
    }

    fn pass(&self, behind: u64) {
        self.published.store(behind, Ordering::Release);
        fence(Ordering::SeqCst);
        if self.noted.load(Ordering::Relaxed) > 0 {
            self.go_on();
        }
    }

    /// Leaves a note; its place.
    fn leave(&self, note: u64) -> &AtomicU64 {
        loop {
            let free = self.notes.iter().find(|place| {
                place.load(Ordering::Relaxed) == 0
                    && place
                        .compare_exchange(0, note, Ordering::Release, Ordering::Relaxed)
                        .is_ok()
            });
            if let Some(place) = free {
                return place;
            }
        }
    }

    /// Whether this party is the one that gets `note`.
    fn takes(&self, place: &AtomicU64, note: u64) -> bool {
        let taken = place
            .compare_exchange(note, 0, Ordering::Acquire, Ordering::Relaxed)
            .is_ok();
        if taken {
            self.noted.fetch_sub(1, Ordering::Relaxed);
        }
        taken
    }

    /// Takes the note of the claim that begins at `first`; its places.
    fn find(&self, first: u64) -> Option<u64> {
        self.notes.iter().find_map(|place| {
            let seen = place.load(Ordering::Relaxed);
            let count = seen & ((1 << COUNT) - 1);
            (count > 0 && seen == note(first, count) && self.takes(place, seen)).then_some(count)
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn claims_are_shown_in_their_order() {
        let (claims, head, tail) = (Sequencer::default(), AtomicU64::new(0), AtomicU64::new(0));
        let take = |wanted| claim(&head, &tail, 8, wanted);
        let (first, second) = (take(3).unwrap(), take(2).unwrap());
        assert_eq!((first, second), ((0, 3), (3, 2)));
        let third = take(9).unwrap();
        assert_eq!((third, take(1)), ((5, 3), None));
        claims.publish(third.0, third.1);
        assert_eq!(claims.published(), 0);
        claims.publish(second.0, second.1);
        assert_eq!(claims.published(), 0);
        claims.publish(first.0, first.1);
        assert_eq!(claims.published(), 8);
        tail.store(4, Ordering::Release);
        assert!(!claim_at(&head, &tail, 8, 7, 1), "an old position");
        assert!(!claim_at(&head, &tail, 8, 8, 5), "no room");
        assert!(claim_at(&head, &tail, 8, 8, 4));
        claims.publish(8, 4);
        assert_eq!((claims.published(), take(1)), (12, None));
    }
}
