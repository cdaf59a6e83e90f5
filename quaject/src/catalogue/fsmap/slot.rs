//! The two words of one page of a file with a backing: its address, and its address for routines that write.
//!
//! *Interface*: [`Slot`]. Callers of [`put`](Slot::put), [`mark`](Slot::mark), [`clean`](Slot::clean) and
//! [`take`](Slot::take) exclude each other by a monitor of the file; generated routines load the words at any
//! time.
//!
//! A page is *dirty* while routines may write it: its bytes may differ from the backing's. A store to the
//! backing first makes the page clean, then waits for a grace period, since a routine that found its address
//! may be copying, and then reads the bytes. A later routine finds 0, takes the slow exit, and the page is
//! marked again. A removed clean page is freed a grace period later, for routines that read. So no byte is
//! lost: bytes written before the page became clean are stored, and later writes mark it again (models in
//! `model.rs`).

use crate::primitive::{AtomicU64, Ordering};

/// The words of one page.
#[derive(Clone, Copy)]
pub struct Slot<'a> {
    page: &'a AtomicU64,
    for_writing: &'a AtomicU64,
}

impl<'a> Slot<'a> {
    /// A page's word in the array of pages, and in that for routines that write.
    pub fn new(page: &'a AtomicU64, for_writing: &'a AtomicU64) -> Slot<'a> {
        Slot { page, for_writing }
    }

    /// The page's address; 0 for none.
    pub fn page(self) -> u64 {
        self.page.load(Ordering::Acquire)
    }

    /// Whether routines may write it.
    pub fn is_dirty(self) -> bool {
        self.for_writing.load(Ordering::Acquire) != 0
    }

    /// Adds a clean page where there is none.
    pub fn put(self, address: u64) {
        self.page.store(address, Ordering::Release);
    }

    /// The page that is there becomes dirty. Whether it was clean.
    pub fn mark(self) -> bool {
        if self.is_dirty() {
            return false;
        }
        self.for_writing.store(self.page(), Ordering::Release);
        true
    }

    /// Makes the page clean. Whether it was dirty: then its bytes must be stored, after a grace period.
    pub fn clean(self) -> bool {
        self.for_writing.swap(0, Ordering::AcqRel) != 0
    }

    /// Removes a clean page, which is freed after a grace period; 0 if there is none.
    pub fn take(self) -> u64 {
        match self.is_dirty() {
            true => 0,
            false => self.page.swap(0, Ordering::AcqRel),
        }
    }
}
