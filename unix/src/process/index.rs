//! Processes by number, found without the tree's monitor: who sends a signal waits for nobody.
//!
//! *Interface*: [`find`] from any thread, [`with`] from interrupts; [`add`] and [`remove`] by the holder of the tree's monitor; [`Unlinked::retire`] without it.
//!
//! A hash table of chains. An entry is published by one store and unlinked by one; it keeps its link, so a reader that
//! stands on it goes on, and is freed after a grace period. It holds its process weakly: freeing an entry runs no process's
//! destructor. Progress: looking is wait-free but for the count of a handle, which is lock-free.
//! Source: dissertation, section 5.2.3 (one process changes a list while others walk it).

use alloc::boxed::Box;
use alloc::sync::{Arc, Weak};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};

use machine::cpu::{irq_restore, irq_save};
use sync::epoch;

use super::Process;

/// Chains. With the most processes that a large machine allows, a chain has 32 entries.
const CHAINS: usize = 256;

struct Entry {
    pid: i32,
    process: Weak<Process>,
    next: AtomicPtr<Entry>,
}

static TABLE: [AtomicPtr<Entry>; CHAINS] = [const { AtomicPtr::new(null_mut()) }; CHAINS];

fn chain(pid: i32) -> &'static AtomicPtr<Entry> {
    &TABLE[pid as usize % CHAINS]
}

/// Makes `process` visible. The caller holds the tree's monitor.
pub(crate) fn add(process: &Arc<Process>) {
    let head = chain(process.pid);
    let entry = Box::new(Entry {
        pid: process.pid,
        process: Arc::downgrade(process),
        next: AtomicPtr::new(head.load(Ordering::Relaxed)),
    });
    head.store(Box::into_raw(entry), Ordering::Release);
}

/// An entry that was taken out: nobody new comes to it.
#[must_use]
pub(crate) struct Unlinked(*mut Entry);

impl Unlinked {
    /// Frees it after a grace period. Needs no monitor.
    pub(crate) fn retire(self) {
        // SAFETY: `add` made the entry with `Box::into_raw`, and it has been unlinked, once.
        epoch::retire(
            |e| drop(unsafe { Box::from_raw(e as *mut Entry) }),
            self.0 as usize,
        );
    }
}

/// Takes process `pid` out, if it is there. The caller holds the tree's monitor.
pub(crate) fn remove(pid: i32) -> Option<Unlinked> {
    let mut link = chain(pid);
    loop {
        let at = link.load(Ordering::Relaxed);
        // SAFETY: the caller alone unlinks entries, so what a link leads to has not been freed.
        let entry = unsafe { at.as_ref() }?;
        if entry.pid == pid {
            link.store(entry.next.load(Ordering::Relaxed), Ordering::Release);
            return Some(Unlinked(at));
        }
        link = &entry.next;
    }
}

/// Calls `look` with the process with number `pid`, if there is one, without counting.
///
/// # Safety
/// Interrupts are off until this returns, and the process, if there is one, will not be freed before they are on again: a part of it that `look`
/// may see waits for a grace period first.
pub(crate) unsafe fn with<R>(pid: i32, look: impl FnOnce(&Process) -> R) -> Option<R> {
    let mut at = chain(pid).load(Ordering::Acquire);
    // SAFETY: what a link leads to is freed after a grace period only.
    while let Some(entry) = unsafe { at.as_ref() } {
        if entry.pid == pid {
            // SAFETY: the entry's own count keeps the memory, the caller what is in it.
            return Some(look(unsafe { &*entry.process.as_ptr() }));
        }
        at = entry.next.load(Ordering::Acquire);
    }
    None
}

/// The process with number `pid`.
pub(crate) fn find(pid: i32) -> Option<Arc<Process>> {
    // Entries live on while interrupts are off here.
    let irq = irq_save();
    let mut found = None;
    let mut at = chain(pid).load(Ordering::Acquire);
    // SAFETY: what a link leads to is freed after a grace period only.
    while let Some(entry) = unsafe { at.as_ref() } {
        if entry.pid == pid {
            found = entry.process.upgrade();
            break;
        }
        at = entry.next.load(Ordering::Acquire);
    }
    irq_restore(irq);
    found
}
