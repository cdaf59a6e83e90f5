//! The inactive list of an inode: closed descriptions that wait, with their code, for the next open.
//!
//! *Interface.* [`Inactive::put`] at the last close, [`Inactive::take`] at an open; one description for each
//! access mode. Only an inode that the path cache knows, or that was opened again and is kept
//! ([`super::inactive_inodes`]), has any ([`Inactive::admit`], [`Inactive::expel`]), so their number is
//! bounded by the numbers of entries and inodes, and a file that is opened only once keeps nothing.
//! Lock-free.
//!
//! The places are in the inode, not in a list of the kind ([`quaject::inactive`]): a description is of use
//! only to an open of the same file, which has the inode at hand and so needs no search.
//!
//! Source: dissertation, 4.1.2: quajects that were destroyed wait in an inactive list, so that creating one
//! is cheap.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use quaject::inactive::InactiveSlot;

use crate::fs::file::OpenFile;

/// The waiting descriptions of one inode, by access mode.
pub struct Inactive {
    waiting: [InactiveSlot<Arc<OpenFile>>; 3],
    /// Entries of the path cache that lead here, and whether the inode is among those that are kept.
    entries: AtomicU32,
    /// It was opened the ordinary way.
    opened: AtomicBool,
    /// Places of the path cache where there were entries that lead here, a bit each.
    known_at: AtomicU64,
    /// Its place among the kept inodes, plus one; 0 for none.
    place: AtomicU32,
}

impl Inactive {
    /// Nothing waits, and nothing may.
    pub const fn new() -> Inactive {
        Inactive {
            waiting: [const { InactiveSlot::new() }; 3],
            entries: AtomicU32::new(0),
            opened: AtomicBool::new(false),
            known_at: AtomicU64::new(0),
            place: AtomicU32::new(0),
        }
    }

    /// It is opened the ordinary way; whether it was before.
    pub fn opened_again(&self) -> bool {
        self.opened.swap(true, Ordering::Relaxed)
    }

    /// Its place among the inodes that are kept.
    pub fn place(&self) -> Option<usize> {
        (self.place.load(Ordering::Relaxed) as usize).checked_sub(1)
    }

    /// Records it; called with their monitor held.
    pub fn set_sched_class(&self, place: Option<usize>) {
        let word = place.map_or(0, |place| place as u32 + 1);
        self.place.store(word, Ordering::Relaxed);
    }

    /// The path cache is about to lead here from its place `at`.
    pub fn note_known(&self, at: usize) {
        self.known_at.fetch_or(1 << (at % 64), Ordering::Release);
    }

    /// Places of the path cache that may lead here, a bit each.
    pub fn known_at(&self) -> u64 {
        self.known_at.load(Ordering::Acquire)
    }

    /// The path cache leads here by one more entry.
    pub fn admit(&self) {
        self.entries.fetch_add(1, Ordering::AcqRel);
    }

    /// The path cache leads here by one entry less; after the last, nothing waits any more.
    pub fn expel(&self) {
        if self.entries.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.clear();
        }
    }

    /// Whether anything may have to be let go of when it loses its last name.
    #[inline]
    pub fn is_known(&self) -> bool {
        self.place().is_some() || self.admitted()
    }

    /// Whether the path cache leads here.
    pub fn admitted(&self) -> bool {
        self.entries.load(Ordering::Acquire) != 0
    }

    /// A description opened with access mode `mode` (`O_RDONLY`, `O_WRONLY`, `O_RDWR`).
    #[inline]
    pub fn take(&self, mode: u32) -> Option<Arc<OpenFile>> {
        self.waiting.get(mode as usize)?.take()
    }

    /// Leaves `of` to wait, or gives it back when the place is taken or the inode may keep none.
    #[inline(always)]
    pub fn put(&self, mode: u32, of: Arc<OpenFile>) -> Result<(), Arc<OpenFile>> {
        let Some(place) = self.waiting.get(mode as usize) else {
            return Err(of);
        };
        if !self.admitted() {
            return Err(of);
        }
        place.put(of)?;
        if !self.admitted() {
            // The last entry left in between; its `clear` may have been too early to see this one.
            self.clear();
        }
        Ok(())
    }

    /// Lets all that wait go.
    pub fn clear(&self) {
        for place in &self.waiting {
            drop(place.take());
        }
    }
}

impl Default for Inactive {
    fn default() -> Self {
        Self::new()
    }
}
