//! The kernel's half of every address space: the part that the machine room built at boot, and the tables
//! below it that grow in place.
//!
//! *Interface*: [`entries`] for new spaces; [`tables`] for stacks, code and device registers; [`hide`] and
//! [`show`] for frames of code. The top table's upper entries never change, so every space sees every later
//! mapping.

use crate::boot_cell::BootCell;
use crate::frame::{Frame, Kernel, PhysMemory};
use crate::table::{self, KERNEL_DATA, Tables, no_execute};
use core::sync::atomic::{AtomicU64, Ordering};
use machine::paging::{kernel_root, phys_to_virt, root_slots, window, window_len};

static ENTRIES: BootCell<[(usize, u64); 2]> = BootCell::new([(0, 0); 2]);

/// The entries of the top table's upper half, as (index, entry) pairs, constant after boot.
pub(crate) fn entries() -> &'static [(usize, u64)] {
    ENTRIES.get()
}

/// The kernel's own tables.
pub(crate) fn tables() -> Tables<'static, Kernel> {
    // SAFETY: the machine room built them and they stay for ever.
    unsafe { Tables::new(kernel_root() as u64, Kernel) }
}

/// Takes `frame`, which the caller owns, out of the kernel's maps of memory, as code must be before it is
/// executable. CPUs may remember the mappings until `tlb::forget_kernel`. `false`: no memory for the tables
/// that this takes.
pub(crate) fn hide(frame: Frame) -> bool {
    // All tables before the first change.
    let words: Option<Aliases> = aliases(frame, |address| tables().leaf_or_split(address));
    for word in words.iter().flatten().flatten() {
        word.store(0, Ordering::Release);
    }
    words.is_some()
}

/// Puts a frame that [`hide`] took out back.
pub(crate) fn show(frame: Frame) {
    let entry = frame.address() | KERNEL_DATA | no_execute();
    let words = aliases(frame, |address| tables().leaf_or_split(address));
    for word in words.iter().flatten().flatten() {
        word.store(entry, Ordering::Release);
    }
}

type Aliases = [Option<&'static AtomicU64>; 2];

/// The words that `find` finds for the two addresses of `frame`, the second only below 1 GiB.
fn aliases(frame: Frame, find: impl Fn(usize) -> Option<&'static AtomicU64>) -> Option<Aliases> {
    let physical = frame.address() as usize;
    let direct = find(phys_to_virt(physical))?;
    let mut both = [Some(direct), None];
    if physical < window_len() {
        both[1] = Some(find(window(physical))?);
    }
    Some(both)
}

/// Reads the top entries from the machine room's tables.
///
/// # Safety
/// At boot, before there is a space.
pub(crate) unsafe fn init() {
    let top = Kernel.virt(kernel_root() as u64).cast::<AtomicU64>();
    let entries = root_slots().map(|index| {
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
