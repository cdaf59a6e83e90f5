//! Sleeping directly from a reading routine: the implementation of `quaject::Seam::waiting`.
//!
//! *Interface*: [`entry`]. Entered by a jump from a routine that found nothing, at any depth of the kernel
//! stack, interrupts off, the user's registers as at the routine's entry, rax = address of the object's
//! `quaject::Sleep`.
//!
//! It saves the registers that a Rust function may change, calls the function that puts the thread to sleep,
//! and starts the call again in the thread's dispatcher. So a reader that waits for another thread costs two
//! short passes of generated code and one switch, and no trap frame. It is kernel text and not generated
//! code, because a thread sleeps in it. The slow path serves a thread that gets a request meanwhile, or for
//! which no data can come.
//! Source: dissertation, section 3.3.2 (a thread that blocks has saved what it needs already).

/// The code address.
pub fn entry() -> usize {
    #[cfg(target_os = "none")]
    {
        bare::wait as *const () as usize
    }
    #[cfg(not(target_os = "none"))]
    0
}

#[cfg(target_os = "none")]
mod bare {
    use crate::switch::saved::{SAVED, pop_scratch, push_scratch};
    use crate::switch::yielding::slow;
    use crate::tte::Tte;
    use crate::tte::flags::ATTENTION;
    use core::mem::offset_of;
    use machine::cpu::StackBase;

    #[unsafe(naked)]
    pub(super) unsafe extern "C" fn wait() {
        core::arch::naked_asm!(
            "or rsp, {mask}",
            "sub rsp, {less}",
            push_scratch!(),
            "mov rdi, rax",
            "mov rsi, [rsp + {tte}]",
            "call [rdi]",
            "cli",
            "mov rcx, [rsp + {tte}]",
            "test eax, eax",
            "jz 2f",
            "test dword ptr [rcx + {state}], {attention}",
            "jnz 2f",
            "mov rax, [rcx + {again}]",
            pop_scratch!(),
            "jmp rax",
            "2:",
            pop_scratch!(),
            "mov eax, {number}",
            "jmp {slow}",
            mask = const StackBase::SLOT - 1,
            less = const StackBase::SIZE - 1,
            tte = const SAVED + StackBase::TTE,
            state = const offset_of!(Tte, state),
            attention = const ATTENTION,
            again = const offset_of!(Tte, read_again),
            number = const abi::nr::READ,
            slow = sym slow,
        )
    }
}
