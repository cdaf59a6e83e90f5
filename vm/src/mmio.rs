//! Device registers, mapped uncached into `MMIO`.
//!
//! *Interface*: [`map`]. Mappings stay for ever; the same range twice gives two mappings.

use crate::kernel;
use crate::table::{KERNEL_DEVICE, no_execute};
use abi::layout::{MACHINE_MMIO_LEN, MMIO, MMIO_LEN, PAGE, page_ceil, page_floor};
use core::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of `MMIO` that are given out; the machine room's come first.
static USED: AtomicUsize = AtomicUsize::new(MACHINE_MMIO_LEN);

/// Maps `length` bytes from physical address `physical` on; both of any alignment. `None`: no room or no
/// memory.
pub fn map(physical: u64, length: usize) -> Option<*mut u8> {
    let offset = physical as usize % PAGE;
    let bytes = page_ceil(offset.checked_add(length)?)?;
    let start = USED
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            used.checked_add(bytes).filter(|end| *end <= MMIO_LEN)
        })
        .ok()?;
    let tables = kernel::tables();
    for done in (0..bytes).step_by(PAGE) {
        let word = tables.leaf_or_make(MMIO + start + done)?;
        let page = page_floor(physical as usize + done) as u64;
        word.store(page | KERNEL_DEVICE | no_execute(), Ordering::Release);
    }
    Some((MMIO + start + offset) as *mut u8)
}
