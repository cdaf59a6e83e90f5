//! The pages that the children of a space write first: the next child gets copies of them at once.
//!
//! *Interface*: [`PrecopyHints::note`] by a child that has copied a page, [`PrecopyHints::each`] and
//! [`PrecopyHints::forget`] by the parent that forks.
//!
//! Wait-free hints: whatever is in it, a page is shared or copied, and both are right. Relaxed order
//! suffices, since no other memory is reached by way of it.

use crate::table::SPAN;
use core::sync::atomic::{AtomicUsize, Ordering};

/// Writable pages that are copied at once, if there are no more; and as many that children write.
pub(super) const FEW: usize = 4;

/// The first few distinct pages that children have copied since [`forget`](Self::forget). Zero is none.
pub(super) struct PrecopyHints {
    pages: [AtomicUsize; FEW],
}

impl PrecopyHints {
    pub(super) fn new() -> Self {
        PrecopyHints {
            pages: [const { AtomicUsize::new(0) }; FEW],
        }
    }

    /// A child has copied `page`.
    pub(super) fn note(&self, page: usize) {
        for place in &self.pages {
            match place.compare_exchange(0, page, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(other) if other == page => return,
                Err(_) => {}
            }
        }
    }

    /// The pages.
    pub(super) fn each(&self) -> impl Iterator<Item = usize> {
        let pages = self.pages.iter();
        pages
            .map(|page| page.load(Ordering::Relaxed))
            .take_while(|page| *page != 0)
    }

    /// The first addresses of the leaf tables with the pages; `usize::MAX` for none.
    pub(super) fn spans(&self) -> [usize; FEW] {
        let span = |page: &AtomicUsize| match page.load(Ordering::Relaxed) {
            0 => usize::MAX,
            page => page & !(SPAN - 1),
        };
        self.pages.each_ref().map(span)
    }

    /// Begins anew.
    pub(super) fn forget(&self) {
        for place in &self.pages {
            place.store(0, Ordering::Relaxed);
        }
    }
}
