//! The bits of a page-table entry (AMD64 Architecture Programmer's Manual, volume 2, section 5.4).
//!
//! *Interface*: constants, and [`page`] which builds the entry of a program's page.

use crate::frame::Frame;
use crate::space::Prot;
use core::sync::atomic::{AtomicU64, Ordering};

/// The entry maps something.
pub const PRESENT: u64 = 1;
/// Writable.
pub const WRITE: u64 = 1 << 1;
/// Accessible to programs.
pub const USER: u64 = 1 << 2;
/// Write-through.
pub const WRITE_THROUGH: u64 = 1 << 3;
/// Not cached.
pub const NO_CACHE: u64 = 1 << 4;
/// Has been accessed. Always set here, so that the CPU never writes a table by itself.
pub const ACCESSED: u64 = 1 << 5;
/// Has been written. Always set here, for the same reason.
pub const DIRTY: u64 = 1 << 6;
/// A large page (levels 2 and 3).
pub const LARGE: u64 = 1 << 7;
/// Stays when CR3 is loaded (with CR4.PGE).
pub const GLOBAL: u64 = 1 << 8;
/// Software: not present because the area allows no access, yet the frame is kept.
pub const HELD: u64 = 1 << 9;
/// Never executable.
pub const NO_EXECUTE: u64 = 1 << 63;
/// The frame's or table's address.
pub const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

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
    Frame::containing(entry & ADDRESS)
}

/// The entry of a program's page with rights `prot`, writable only if `writable` as well.
#[inline]
pub fn page(frame: Frame, prot: Prot, writable: bool) -> u64 {
    let mut entry = frame.address() | USER | ACCESSED | DIRTY;
    entry |= if prot.bits() == 0 { HELD } else { PRESENT };
    if prot.contains(Prot::WRITE) && writable {
        entry |= WRITE;
    }
    if prot.contains(Prot::EXEC) {
        entry
    } else {
        entry | no_execute()
    }
}
