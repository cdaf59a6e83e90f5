//! The kernel's half of every address space: what the machine room built at boot, and the tables below it that
//! grow in place.
//!
//! *Interface*: [`entries`] for new spaces; [`tables`] for stacks, code and device registers.
//! The top table's upper entries never change, so every space sees every later mapping.

use crate::boot_cell::BootCell;
use crate::memory::{Kernel, Memory};
use crate::table::{self, Tables};
use core::sync::atomic::{AtomicU64, Ordering};
use machine::paging::{ROOT_SLOTS, kernel_root};

static ENTRIES: BootCell<[(usize, u64); ROOT_SLOTS.len()]> =
    BootCell::new([(0, 0); ROOT_SLOTS.len()]);

/// The entries of the top table's upper half, as (index, entry) pairs, constant after boot.
pub(crate) fn entries() -> &'static [(usize, u64)] {
    ENTRIES.get()
}

/// The kernel's own tables.
pub(crate) fn tables() -> Tables<Kernel> {
    // SAFETY: the machine room built them and they stay for ever.
    unsafe { Tables::new(kernel_root() as u64, Kernel) }
}

/// Reads the top entries from the machine room's tables.
///
/// # Safety
/// At boot, before there is a space.
pub(crate) unsafe fn init() {
    let top = Kernel.virt(kernel_root() as u64).cast::<AtomicU64>();
    let entries = ROOT_SLOTS.map(|index| {
        // SAFETY: a top table has an entry of that index.
        let entry = unsafe { &*top.add(index) };
        (index, entry.load(Ordering::Relaxed))
    });
    // SAFETY: nobody has asked for them yet.
    unsafe { ENTRIES.set(entries) };
    if !machine::features::get().nx() {
        table::without_no_execute();
    }
}
