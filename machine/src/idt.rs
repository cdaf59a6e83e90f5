//! The interrupt descriptor table, which all processors share.
//!
//! *Interface*: a [`Gate`] leads to code; [`write`] and [`read`] one of them. [`address`] is for the
//! processor, [`place`] for whoever maps the table.

use crate::paging;
use crate::trap_frame::KERNEL_CS;
use core::cell::UnsafeCell;

/// A gate of the interrupt descriptor table.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Gate([u64; 2]);

impl Gate {
    /// The gate to `entry`, on stack `ist` of the task state (0: as the privilege says), for `int` from
    /// `ring` on.
    pub const fn new(entry: usize, ist: u8, ring: u64) -> Gate {
        let entry = entry as u64;
        Gate([
            entry & 0xffff
                | KERNEL_CS << 16
                | (ist as u64) << 32
                | (0x8e | ring << 5) << 40
                | (entry >> 16 & 0xffff) << 48,
            entry >> 32,
        ])
    }

    /// Where it leads.
    pub fn entry(self) -> usize {
        let [low, high] = self.0;
        (low & 0xffff | (low >> 48) << 16 | high << 32) as usize
    }
}

#[repr(align(4096))]
struct Idt(UnsafeCell<[Gate; 256]>);
// SAFETY: written at boot, and later one gate at a time by `write`, which orders the two halves.
unsafe impl Sync for Idt {}
static IDT: Idt = Idt(UnsafeCell::new([Gate([0; 2]); 256]));

/// The limit that the processor is told.
pub(crate) const LIMIT: u16 = size_of::<[Gate; 256]>() as u16 - 1;

/// Sets the gate of `vector`.
pub(crate) fn write(vector: u8, gate: Gate) {
    // SAFETY: one of the 256 gates in the table's page; the upper half never changes once set (every
    // entry is in the top 2 GiB), and the lower is one aligned store.
    paging::patch(place().start, |page| unsafe {
        let slot = page.cast::<u64>().add(2 * vector as usize);
        slot.add(1).write_volatile(gate.0[1]);
        slot.write_volatile(gate.0[0]);
    });
}

/// The gate of `vector`.
pub(crate) fn read(vector: u8) -> Gate {
    // SAFETY: one of the 256 gates, whose lower half, which alone changes, is one aligned word.
    unsafe {
        IDT.0
            .get()
            .cast::<Gate>()
            .add(usize::from(vector))
            .read_volatile()
    }
}

/// Where the table is in the image.
pub(crate) fn address() -> usize {
    IDT.0.get() as usize
}

/// The physical addresses of the table, whose page is read-only once there are tables.
pub(crate) fn place() -> core::ops::Range<usize> {
    let start = address() - paging::window(0);
    start..start + size_of::<Idt>()
}
