//! The processor's debug registers: what is written there, and what a debug exception says.
//!
//! *Interface*: [`load`]; [`take_cause`] for the exception's entry; the bits of DR6 and DR7 that others look
//! at. Which thread has which is `thread::hw_breakpoints`.
//! Source: Intel, Software Developer's Manual, volume 3, section 18.2.

/// Bits of DR7 that enable the registers.
pub const ENABLED: u64 = 0xff;
/// Bits of DR6 for the registers.
pub const HITS: u32 = 0xf;
/// The bit of DR6 for the end of a single step.
pub const STEP: u32 = 1 << 14;
/// The bits of DR7 that the processor takes in any combination: which registers are on, what each is about,
/// and 8 to 10.
pub const TAKEN: u64 = 0xffff_07ff;
/// DR6 when nothing has happened; a bit that is clear here is set by what it is for, and the other way round.
pub const NOTHING: u32 = 0xffff_0ff0;

/// Has the processor watch these addresses as `control`, DR7, says. With interrupts off; addresses of user
/// mode alone.
///
/// # Safety
/// `control` has no other bits than [`TAKEN`].
pub unsafe fn load(addresses: [u64; 4], control: u64) {
    #[cfg(target_os = "none")]
    // SAFETY: whatever is watched, the exception's entry bears it at any instruction (`trap.rs`). The caller
    // promises a control that the processor takes.
    unsafe {
        let [first, second, third, fourth] = addresses;
        core::arch::asm!(
            "mov dr7, {off}",
            "mov dr0, {}", "mov dr1, {}", "mov dr2, {}", "mov dr3, {}",
            "mov dr7, {control}",
            in(reg) first, in(reg) second, in(reg) third, in(reg) fourth,
            off = in(reg) 0u64, control = in(reg) control,
            options(nostack, preserves_flags),
        );
    }
    #[cfg(not(target_os = "none"))]
    let _ = (addresses, control);
}

/// The reasons of the debug exception that is being handled: the bits of DR6 that say something, set. Until
/// interrupts are on.
pub(crate) fn take_cause() -> u32 {
    #[cfg(target_os = "none")]
    {
        let cause: u64;
        // SAFETY: reads and clears what the last exception has left; nobody else uses it.
        unsafe {
            core::arch::asm!(
                "mov {}, dr6", "mov dr6, {}",
                out(reg) cause, in(reg) u64::from(NOTHING),
                options(nomem, nostack, preserves_flags),
            );
        }
        cause as u32 ^ NOTHING
    }
    #[cfg(not(target_os = "none"))]
    0
}
