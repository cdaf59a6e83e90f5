//! The entries of page tables as this room makes them.
//!
//! *Interface*: the bits of `machine::paging`, combinations of them, and [`page`] and [`along`] which build
//! the entry of a program's page.

use super::Prot;
use crate::frame::Frame;
use core::sync::atomic::{AtomicU64, Ordering};

pub use machine::paging::bits::*;

/// Software: not present because the area allows no access, yet the frame is kept. [`NOWHERE`] goes with it.
pub const HELD: u64 = 1 << 9;

/// The bits of an entry's address that a frame's has: memory ends below 8 TiB.
pub const FRAME: u64 = ADDRESS & ((1 << machine::paging::ADDRESS_BITS) - 1);

/// Set in entries that are not present but keep a frame: a processor with the L1TF defect loads from an
/// address without memory through such an entry. It compares 44 bits at least. [`frame_of`] drops them by the
/// mask that it needs anyway. Source: Linux's "PTE inversion".
pub const NOWHERE: u64 = ADDRESS & !FRAME;

/// Software: the object's own page, mapped only because a neighbour was wanted. Until the machine marks such
/// a page as accessed too, it is not needed, and the pager will give it again.
pub const ALONG: u64 = 1 << 10;

/// Software, in the entry that leads to a leaf table: other spaces have the table too, or had it. Nobody
/// changes it, and the entry lacks [`WRITE`], so nobody writes to its pages either.
pub const SHARED: u64 = 1 << 11;

/// An entry above the leaves; the leaves decide.
pub const TABLE: u64 = PRESENT | WRITE | ACCESSED;
/// The kernel's data; [`no_execute`] goes with it.
pub const KERNEL_DATA: u64 = PRESENT | WRITE | ACCESSED | DIRTY | GLOBAL;
/// Generated code.
pub const KERNEL_TEXT: u64 = PRESENT | ACCESSED | DIRTY | GLOBAL;
/// Device registers; [`no_execute`] goes with it.
pub const KERNEL_DEVICE: u64 = KERNEL_DATA | WRITE_THROUGH | NO_CACHE;

static EXECUTE_BIT: AtomicU64 = AtomicU64::new(NO_EXECUTE);

/// The bit that forbids execution, or nothing where the processor lacks it (then the bit is reserved).
#[inline]
pub fn no_execute() -> u64 {
    EXECUTE_BIT.load(Ordering::Relaxed)
}

/// The processor has no such bit. At boot.
pub(crate) fn without_no_execute() {
    EXECUTE_BIT.store(0, Ordering::Relaxed);
}

/// Does the entry keep a frame?
#[inline]
pub const fn occupied(entry: u64) -> bool {
    entry & (PRESENT | HELD) != 0
}

/// The frame of an occupied entry.
#[inline]
pub const fn frame_of(entry: u64) -> Frame {
    Frame::containing(entry & FRAME)
}

/// The entry of a program's page with rights `prot`, writable only if `writable` as well. It is dirty if
/// `writable`, and stays so without the right: of private memory such a page is the program's, others are
/// still their object's.
#[inline]
pub fn page(frame: Frame, prot: Prot, writable: bool) -> u64 {
    frame.address() | bits(prot, writable)
}

/// All of such an entry but the address.
#[inline]
fn bits(prot: Prot, writable: bool) -> u64 {
    let dirty = if writable { DIRTY } else { 0 };
    let mut bits = USER | ACCESSED | dirty;
    bits |= if prot.bits() == 0 {
        HELD | NOWHERE
    } else {
        PRESENT
    };
    if prot.contains(Prot::WRITE) && writable {
        bits |= WRITE;
    }
    if prot.contains(Prot::EXEC) {
        bits
    } else {
        bits | no_execute()
    }
}

/// The entry of a program's page with rights `prot`. Writable only if it was before.
#[inline]
pub fn with_rights(entry: u64, prot: Prot) -> u64 {
    page(frame_of(entry), prot, entry & WRITE != 0) | entry & DIRTY
}

/// The entry of an object's page that comes along with a neighbour, writable only if `writable` as well: all
/// but the address.
#[inline]
pub fn along(prot: Prot, writable: bool) -> u64 {
    bits(prot, writable) & !ACCESSED | ALONG
}

/// Whether the page came along with a neighbour and has not been used since.
#[inline]
pub const fn is_unused(entry: u64) -> bool {
    entry & (ALONG | ACCESSED) == ALONG
}
