//! The registers of one processor that mitigations set.
//!
//! *Interface*: `init_this_cpu` as each comes up; [`PRED_CMD`]; [`running`] and [`resting`] are what
//! [`SPEC_CTRL`] holds in the kernel and in user mode, but for what a thread asks for itself ([`STIBP`],
//! [`SSBD`]). Source: Intel, "Speculative Execution Side Channel Mitigations".

use super::Mitigations;
use crate::trap_frame::KERNEL_SS;
use core::sync::atomic::AtomicU16;

/// IA32_PRED_CMD.
pub const PRED_CMD: u32 = 0x49;
/// Its bit that makes indirect branch predictors forget.
pub const IBPB: u32 = 1;
/// IA32_SPEC_CTRL.
pub const SPEC_CTRL: u32 = 0x48;
const IBRS: u32 = 1;
/// Single-thread indirect branch predictors.
pub const STIBP: u32 = 1 << 1;
/// Speculative store bypass disable.
pub const SSBD: u32 = 1 << 2;
const BHI_DIS_S: u32 = 1 << 10;

/// The operand of VERW: a selector that it can read. Only with one in memory does it clear.
pub(crate) static SELECTOR: AtomicU16 = AtomicU16::new(KERNEL_SS as u16);

/// The contents of [`SPEC_CTRL`] in user mode.
pub const fn resting(measures: Mitigations) -> u32 {
    let mut value = 0;
    if measures.enhanced_ibrs() {
        value |= IBRS;
    }
    if measures.stibp_always() {
        value |= STIBP;
    }
    if measures.no_history() {
        value |= BHI_DIS_S;
    }
    value
}

/// The contents of [`SPEC_CTRL`] in the kernel.
pub const fn running(measures: Mitigations) -> u32 {
    let entry = if measures.ibrs_by_entry() { IBRS } else { 0 };
    resting(measures) | entry
}

#[cfg(target_os = "none")]
pub(crate) fn init_this_cpu() {
    use crate::cpu::{rdmsr, wrmsr};
    use core::sync::atomic::Ordering;
    const EFER: u32 = 0xc000_0080;
    const AUTOMATIC_IBRS: u64 = 1 << 21;
    const TSX_CTRL: u32 = 0x122;
    const NO_RTM_AND_HIDDEN: u64 = 3;
    let measures = super::measures();
    let cpu = crate::cpu::this_cpu();
    cpu.spec_running.store(running(measures), Ordering::Relaxed);
    cpu.spec_resting.store(resting(measures), Ordering::Relaxed);
    // SAFETY: each register is written only where the processor says that it has it, or lets it be written;
    // none changes what code does.
    unsafe {
        if running(measures) != 0 {
            wrmsr(SPEC_CTRL, u64::from(running(measures)));
        }
        if measures.automatic_ibrs() {
            wrmsr(EFER, rdmsr(EFER) | AUTOMATIC_IBRS);
        }
        if measures.no_transactions() {
            wrmsr(TSX_CTRL, NO_RTM_AND_HIDDEN);
        }
    }
}

#[cfg(not(target_os = "none"))]
pub(crate) fn init_this_cpu() {}
