//! The holding tank: records that are unlinked but that a listing may still be reading.
//!
//! *Interface*: [`HoldingTank::enter`] around every walk over records one holds no count of;
//! [`HoldingTank::free`] instead of dropping an unlinked one.
//!
//! Source: the inside flag and holding tank of Optimistic Incremental Specialization (slides, "replugging"),
//! made lock-free. A record is pushed only after nothing reachable points to it. A leaving reader takes the
//! tank *before* it drops its inside count, so the records that it took were unlinked while it was inside. If
//! the count then reaches zero, no earlier reader is left that could have seen those records, and they are
//! freed; else they are put back for the next reader.
//!
//! Progress: lock-free; no one waits for a reader. Memory order: `enter` is an exchange followed by a
//! sequentially consistent fence before the reader loads a link, the unlinking store is followed by one
//! before the count is read: either the reader sees the record unlinked, or its count is seen.

use core::ptr;

use crate::primitive::atomic::{AtomicPtr, AtomicUsize, Ordering, fence};
use crate::primitive::constructor;

/// First field of every record that goes through the tank.
#[repr(C)]
pub(crate) struct TankLink {
    next: AtomicPtr<TankLink>,
    /// Frees the record that this is the first field of.
    drop: unsafe fn(*mut TankLink),
}

impl TankLink {
    constructor! {
        pub fn new(drop: unsafe fn(*mut TankLink)) -> TankLink {
            TankLink { next: AtomicPtr::new(ptr::null_mut()), drop }
        }
    }
}

/// Readers, and what waits for them.
pub(crate) struct HoldingTank {
    inside: AtomicUsize,
    first: AtomicPtr<TankLink>,
}

impl HoldingTank {
    constructor! {
        pub fn new() -> HoldingTank {
            HoldingTank { inside: AtomicUsize::new(0), first: AtomicPtr::new(ptr::null_mut()) }
        }
    }

    pub fn enter(&self) -> Reader<'_> {
        self.inside.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        Reader(self)
    }

    fn push_all(&self, first: *mut TankLink) {
        if first.is_null() {
            return;
        }
        let mut last = first;
        loop {
            // SAFETY: the caller owns this chain; its records are alive.
            let next = unsafe { (*last).next.load(Ordering::Relaxed) };
            if next.is_null() {
                break;
            }
            last = next;
        }
        let mut head = self.first.load(Ordering::Relaxed);
        loop {
            // SAFETY: as above; `last` is ours until the exchange succeeds.
            unsafe { (*last).next.store(head, Ordering::Relaxed) };
            match self
                .first
                .compare_exchange_weak(head, first, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Free a record now, or when the readers that may see it have left.
    ///
    /// # Safety
    /// `record` is the first field of a record that its `drop` function can free, unlinked from everything
    /// readers walk, and given up.
    pub unsafe fn free(&self, record: *mut TankLink) {
        fence(Ordering::SeqCst);
        self.push_all(record);
        self.drain();
    }

    /// Free what no reader can see any more.
    pub fn drain(&self) {
        if self.first.load(Ordering::Relaxed).is_null() {
            return;
        }
        self.inside.fetch_add(1, Ordering::SeqCst);
        let mut taken = self.first.swap(ptr::null_mut(), Ordering::AcqRel);
        fence(Ordering::SeqCst);
        if self.inside.fetch_sub(1, Ordering::SeqCst) != 1 {
            // Someone else is inside and may have seen some of these; a later drain frees them.
            self.push_all(taken);
            return;
        }
        while !taken.is_null() {
            // SAFETY: taken by us alone, and by the argument in the file's head no reader holds it.
            unsafe {
                let next = (*taken).next.load(Ordering::Relaxed);
                ((*taken).drop)(taken);
                taken = next;
            }
        }
    }
}

/// Inside: no record that could be seen since `enter` is freed before the drop.
pub(crate) struct Reader<'a>(&'a HoldingTank);

impl Drop for Reader<'_> {
    /// Leaves without freeing anything: readers may be fault handlers.
    fn drop(&mut self) {
        self.0.inside.fetch_sub(1, Ordering::SeqCst);
    }
}
