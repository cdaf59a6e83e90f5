//! The floating-point and vector state: its size and components.
//!
//! *Interface*: [`area_size`], [`components`], [`MOST_COMPONENTS`], [`set_trap`]/[`clear_trap`]. Saving and
//! restoring itself is code generated for each thread that uses it (dissertation, section 3.3.2).

use core::sync::atomic::{AtomicUsize, Ordering};

/// Alignment that XSAVE wants of its area, in bytes.
pub const ALIGN: usize = 64;

/// Every component that may be enabled in XCR0: x87, SSE, AVX.
pub const MOST_COMPONENTS: u64 = 7;

static SIZE: AtomicUsize = AtomicUsize::new(512);
static COMPONENTS: AtomicUsize = AtomicUsize::new(3);

/// Bytes of the save area (FXSAVE's 512 without XSAVE).
pub fn area_size() -> usize {
    SIZE.load(Ordering::Relaxed)
}

/// The components enabled in XCR0: x87, SSE, AVX.
pub fn components() -> u64 {
    COMPONENTS.load(Ordering::Relaxed) as u64
}

/// Makes the next floating-point instruction trap (#NM).
pub fn set_trap() {
    #[cfg(target_os = "none")]
    // SAFETY: sets CR0.TS only.
    unsafe {
        core::arch::asm!("mov {0}, cr0", "or {0}, 8", "mov cr0, {0}", out(reg) _, options(nomem, nostack));
    }
}

/// Lets floating-point instructions run.
pub fn clear_trap() {
    #[cfg(target_os = "none")]
    // SAFETY: clears CR0.TS only.
    unsafe {
        core::arch::asm!("clts", options(nomem, nostack));
    }
}

#[cfg(target_os = "none")]
pub(crate) fn init_this_cpu() {
    let found = crate::features::get();
    if found.xsave() {
        let components: u32 = if found.avx() {
            MOST_COMPONENTS as u32
        } else {
            3
        };
        // SAFETY: CR4.OSXSAVE is set, and the processor has the components.
        unsafe {
            core::arch::asm!("xsetbv", in("ecx") 0, in("eax") components, in("edx") 0, options(nomem, nostack));
        }
        COMPONENTS.store(components as usize, Ordering::Relaxed);
        SIZE.store(
            crate::features::cpuid(0xd, 0)[1] as usize,
            Ordering::Relaxed,
        );
    }
    set_trap();
}
