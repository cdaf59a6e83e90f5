//! Interrupt vectors: who handles which, and which source goes where.
//!
//! *Interface*: [`alloc_vector`], [`quiet`] and [`free_vector`], [`set_handler`] (Rust) or [`set_image`]
//! (generated code), [`route`], [`hold`], [`isa`], [`message`], [`eoi`].
//! Source: dissertation, section 3.3.3.

use core::sync::atomic::{AtomicU64, Ordering};

pub use crate::apic::{SPURIOUS_VECTOR, TIMER_VECTOR, eoi, eoi_address};
use crate::handlers;
pub use crate::handlers::{Handler, count, count_on, timer_taken};

const FIRST: usize = 0x30;
const LAST: usize = 0xef;

/// A bit for each vector: somebody has it.
static TAKEN: [AtomicU64; 4] = [const { AtomicU64::new(0) }; 4];

/// A vector that nobody uses; `None` when all are taken. Vectors are the same on all CPUs.
pub fn alloc_vector() -> Option<u8> {
    (FIRST..=LAST).find_map(|vector| {
        let bit = 1 << (vector % 64);
        let before = TAKEN[vector / 64].fetch_or(bit, Ordering::Relaxed);
        (before & bit == 0).then_some(vector as u8)
    })
}

/// Unlinks what handles `vector`, whose source is masked. An interrupt that is still on its way is
/// acknowledged and forgotten.
pub fn quiet(vector: u8) {
    handlers::set(vector, None);
    #[cfg(target_os = "none")]
    crate::segments::set_gate(vector, crate::trap::stub(vector));
}

/// Gives a vector back, whose source is masked: [`quiet`], and somebody else may have it.
pub fn free_vector(vector: u8) {
    let at = usize::from(vector);
    quiet(vector);
    TAKEN[at / 64].fetch_and(!(1 << (at % 64)), Ordering::Relaxed);
}

/// The message by which a device interrupts CPU number `cpu` at `vector`: the address, and the word.
/// Source: Intel, Software Developer's Manual, volume 3, "Message Signalled Interrupts".
pub fn message(vector: u8, cpu: usize) -> (u64, u32) {
    const TO_LOCAL_APICS: u64 = 0xfee0_0000;
    let target = crate::cpu::cpu(cpu).apic_id.load(Ordering::Relaxed);
    (TO_LOCAL_APICS | u64::from(target) << 12, u32::from(vector))
}

/// Links `handler` to `vector`, in place of what was there. Takes effect with the next interrupt.
pub fn set_handler(vector: u8, handler: Handler) {
    handlers::set(vector, Some(handler));
    #[cfg(target_os = "none")]
    crate::segments::set_gate(vector, crate::trap::stub(vector));
}

/// Makes `vector` enter generated code at `entry`. It starts on the kernel stack with interrupts off and the
/// processor's frame alone on it (no error code); it saves what it uses, acknowledges (a zero to
/// [`eoi_address`]) and leaves with `iretq`, or, when it has woken a thread, restores everything and jumps to
/// [`crate::trap::irq_tail`]. With SMAP it must not assume that AC is clear.
///
/// # Safety
/// `entry` is such code, and stays until the vector is set again and a grace period has passed.
pub unsafe fn set_image(vector: u8, entry: usize) {
    #[cfg(target_os = "none")]
    crate::segments::set_gate(vector, entry);
    #[cfg(not(target_os = "none"))]
    let _ = (vector, entry);
}

/// The entry of the generated code that `vector` enters; `None` where it has the usual way in.
pub fn image(vector: u8) -> Option<usize> {
    #[cfg(target_os = "none")]
    return crate::segments::entry_of(vector);
    #[cfg(not(target_os = "none"))]
    {
        let _ = vector;
        None
    }
}

/// The global interrupt number of an ISA interrupt (the firmware may have moved it).
pub fn isa(irq: u8) -> u32 {
    crate::ioapic::isa(irq)
}

/// Sends global interrupt `gsi` to `vector` on CPU number `cpu`, and unmasks it. Returns whether a controller
/// has it.
pub fn route(gsi: u32, vector: u8, cpu: usize) -> bool {
    crate::ioapic::route(gsi, vector, cpu)
}

/// Masks global interrupt `gsi`.
pub fn mask(gsi: u32) {
    crate::ioapic::mask(gsi);
}

/// Masks global interrupt `gsi`, or lets it interrupt again as it was routed. An edge that comes meanwhile is
/// forgotten. False: nothing is changed, as another CPU is at the controller just now.
pub fn hold(gsi: u32, held: bool) -> bool {
    crate::ioapic::hold(gsi, held)
}

/// Masks the two 8259s for good, moved away from the exceptions first (a spurious interrupt of theirs still
/// arrives).
#[cfg(target_os = "none")]
pub(crate) fn init() {
    // SAFETY: the classic initialization sequence; on machines without 8259s nothing is at the ports.
    unsafe {
        for (port, value) in [
            (0x20, 0x11u8),
            (0xa0, 0x11),
            (0x21, 0x20),
            (0xa1, 0x28),
            (0x21, 4),
            (0xa1, 2),
            (0x21, 1),
            (0xa1, 1),
            (0x21, 0xff),
            (0xa1, 0xff),
        ] {
            crate::port::outb(port, value);
        }
    }
    crate::ioapic::init();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_is_one_owners_until_it_is_given_back() {
        let taken: Vec<u8> = core::iter::from_fn(alloc_vector).collect();
        assert_eq!(taken.len(), LAST - FIRST + 1);
        assert_eq!(alloc_vector(), None);
        free_vector(taken[7]);
        assert_eq!(alloc_vector(), Some(taken[7]));
        assert_eq!(alloc_vector(), None);
    }
}
