//! The holding tank: records that are unlinked but that a listing may still be reading.
//!
//! *Interface*: [`Reader::enter`] around every walk over records one holds no count of; [`free`] instead of dropping an unlinked one.
//!
//! Source: the inside flag and holding tank of Optimistic Incremental Specialization (slides, "replugging"), made lock-free.
//! A record is pushed only after nothing reachable points to it. Whoever leaves takes the tank *before* giving up its inside count, so what
//! it took was unlinked while it was inside; if the count then reaches zero no earlier reader is left that could have seen those records,
//! and they are freed; else they are put back for the next one. Progress: lock-free; no one waits for a reader.
//! Memory order: the unlinking store, the push (`Release`), the take (`Acquire`) and the count (`SeqCst`) order "unlinked" before "count was zero".

use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// First field of every record that goes through the tank.
#[repr(C)]
pub(crate) struct Limbo {
    next: AtomicPtr<Limbo>,
    /// Frees the record that this is the first field of.
    drop: unsafe fn(*mut Limbo),
}

impl Limbo {
    pub const fn new(drop: unsafe fn(*mut Limbo)) -> Limbo {
        Limbo {
            next: AtomicPtr::new(ptr::null_mut()),
            drop,
        }
    }
}

static INSIDE: AtomicUsize = AtomicUsize::new(0);
static TANK: AtomicPtr<Limbo> = AtomicPtr::new(ptr::null_mut());

/// Inside the registry: no record that could be seen since `enter` is freed before the drop.
pub(crate) struct Reader(());

impl Reader {
    pub fn enter() -> Reader {
        INSIDE.fetch_add(1, Ordering::SeqCst);
        Reader(())
    }
}

impl Drop for Reader {
    /// Leaves without freeing anything: readers may be fault handlers.
    fn drop(&mut self) {
        INSIDE.fetch_sub(1, Ordering::SeqCst);
    }
}

fn push_all(first: *mut Limbo) {
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
    let mut head = TANK.load(Ordering::Relaxed);
    loop {
        // SAFETY: as above; `last` is ours until the exchange succeeds.
        unsafe { (*last).next.store(head, Ordering::Relaxed) };
        match TANK.compare_exchange_weak(head, first, Ordering::SeqCst, Ordering::Relaxed) {
            Ok(_) => return,
            Err(now) => head = now,
        }
    }
}

/// Free a record now, or when the readers that may see it have left.
///
/// # Safety
/// `record` is the first field of a record that its `drop` function can free, unlinked from everything readers walk, and given up.
pub(crate) unsafe fn free(record: *mut Limbo) {
    push_all(record);
    drain();
}

/// Free what no reader can see any more.
pub(crate) fn drain() {
    let inside = Reader::enter();
    let mut taken = TANK.swap(ptr::null_mut(), Ordering::SeqCst);
    core::mem::forget(inside);
    if INSIDE.fetch_sub(1, Ordering::SeqCst) != 1 {
        // Someone else is inside and may have seen some of these; a later drain frees them.
        push_all(taken);
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
