//! The inactive list of an inode: closed descriptions that wait, with their code, for the next open.
//!
//! *Interface.* [`Inactive::put`] at the last close, [`Inactive::take`] at an open; one description for each
//! access mode. Only an inode that the name cache knows, or that was opened again and is kept
//! ([`super::kept`]), has any ([`Inactive::admit`], [`Inactive::expel`]), so their number is bounded by the
//! numbers of entries and inodes, and a file that is opened only once keeps nothing. Lock-free; every word is
//! one pointer, taken by exchange.
//!
//! Source: dissertation, 4.1.2: quajects that were destroyed wait in an inactive list, so that creating one
//! is cheap.
//!
//! *Unsafe*: counted pointers in atomic slots.

use alloc::sync::Arc;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use crate::fs::file::OpenFile;

/// The waiting descriptions of one inode, by access mode.
pub struct Inactive {
    waiting: [AtomicPtr<OpenFile>; 3],
    /// Entries of the name cache that lead here, and whether the inode is among those that are kept.
    entries: AtomicU32,
    /// It was opened the ordinary way.
    opened: AtomicBool,
    /// Places of the name cache where there were entries that lead here, a bit each.
    known_at: AtomicU64,
    /// Its place among the kept inodes, plus one; 0 for none.
    place: AtomicU32,
}

impl Inactive {
    /// Nothing waits, and nothing may.
    pub const fn new() -> Inactive {
        Inactive {
            waiting: [const { AtomicPtr::new(ptr::null_mut()) }; 3],
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
    pub fn set_place(&self, place: Option<usize>) {
        let word = place.map_or(0, |place| place as u32 + 1);
        self.place.store(word, Ordering::Relaxed);
    }

    /// The name cache is about to lead here from its place `at`.
    pub fn note_known(&self, at: usize) {
        self.known_at.fetch_or(1 << (at % 64), Ordering::Release);
    }

    /// Places of the name cache that may lead here, a bit each.
    pub fn known_at(&self) -> u64 {
        self.known_at.load(Ordering::Acquire)
    }

    /// The name cache leads here by one more entry.
    pub fn admit(&self) {
        self.entries.fetch_add(1, Ordering::AcqRel);
    }

    /// The name cache leads here by one entry less; after the last, nothing waits any more.
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

    /// Whether the name cache leads here.
    pub fn admitted(&self) -> bool {
        self.entries.load(Ordering::Acquire) != 0
    }

    /// A description opened with access mode `mode` (`O_RDONLY`, `O_WRONLY`, `O_RDWR`).
    #[inline]
    pub fn take(&self, mode: u32) -> Option<Arc<OpenFile>> {
        let slot = self.waiting.get(mode as usize)?;
        if slot.load(Ordering::Relaxed).is_null() {
            return None;
        }
        let raw = slot.swap(ptr::null_mut(), Ordering::Acquire);
        // SAFETY: a pointer in a slot came from `Arc::into_raw`, and the exchange made its one count ours.
        (!raw.is_null()).then(|| unsafe { Arc::from_raw(raw) })
    }

    /// Leaves `of` to wait, or gives it back when the place is taken or the inode may keep none.
    #[inline(always)]
    pub fn put(&self, mode: u32, of: Arc<OpenFile>) -> Result<(), Arc<OpenFile>> {
        let Some(slot) = self.waiting.get(mode as usize) else {
            return Err(of);
        };
        if !self.admitted() {
            return Err(of);
        }
        let raw = Arc::into_raw(of).cast_mut();
        match slot.compare_exchange(ptr::null_mut(), raw, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => {
                if !self.admitted() {
                    // The last entry left in between; its `clear` may have been too early to see this one.
                    self.clear();
                }
                Ok(())
            }
            // SAFETY: the exchange failed, so the count that `into_raw` gave up is still ours.
            Err(_) => Err(unsafe { Arc::from_raw(raw) }),
        }
    }

    /// Lets all that wait go.
    pub fn clear(&self) {
        for mode in 0..self.waiting.len() as u32 {
            drop(self.take(mode));
        }
    }
}

impl Default for Inactive {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Inactive {
    fn drop(&mut self) {
        self.clear();
    }
}
