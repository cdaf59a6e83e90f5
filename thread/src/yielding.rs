//! A switch straight out of the dispatcher: `sched_yield` with somebody else ready.
//!
//! *Interface*: [`entry`], for the dispatcher generator. Entered by a jump with the user's stack pointer in the stack base, rsp at the
//! stack base, interrupts off and the user's registers in place. It is plain kernel text and not part of an image,
//! because a thread sleeps in it.
//!
//! When the thread runs again, something may have been asked of it meanwhile; then it goes through the slow
//! entry, where the call is done once more and the way back to user mode looks at everything.
//! Source: dissertation, section 3.3.2 (a synchronous switch preserves only what it must).

/// The code address.
pub(crate) fn entry() -> usize {
    #[cfg(target_os = "none")]
    {
        bare::yielding as *const () as usize
    }
    #[cfg(not(target_os = "none"))]
    0
}

#[cfg(target_os = "none")]
pub(crate) use bare::slow;

#[cfg(target_os = "none")]
mod bare {
    use crate::flags::ATTENTION;
    use crate::saved::{SAVED, pop_scratch, push_scratch};
    use crate::tte::Tte;
    use core::mem::offset_of;
    use machine::cpu::StackBase;

    #[unsafe(naked)]
    pub(super) unsafe extern "C" fn yielding() {
        core::arch::naked_asm!(
            push_scratch!(),
            "mov rdi, [rsp + {cpu}]",
            "mov rax, [rsp + {tte}]",
            "call [rax + {sw_out}]",
            "mov rax, [rsp + {tte}]",
            pop_scratch!(),
            "test dword ptr [rax + {state}], {attention}",
            "jnz 2f",
            "mov rsp, [rsp + {user_rsp}]",
            "xor eax, eax",
            "sysretq",
            "2:",
            "mov eax, {number}",
            "jmp {slow}",
            cpu = const SAVED + StackBase::CPU,
            tte = const SAVED + StackBase::TTE,
            user_rsp = const StackBase::USER_RSP,
            sw_out = const offset_of!(Tte, sw_out),
            state = const offset_of!(Tte, state),
            attention = const ATTENTION,
            number = const abi::nr::SCHED_YIELD,
            slow = sym slow,
        )
    }

    /// Jumps to the machine's slow entry.
    #[unsafe(naked)]
    pub(crate) unsafe extern "C" fn slow() {
        core::arch::naked_asm!("jmp qword ptr [{entry}]", entry = sym SLOW)
    }

    /// Where the machine's slow entry is; filled in by `init`.
    static SLOW: core::sync::atomic::AtomicUsize = core::sync::atomic::AtomicUsize::new(0);

    pub(super) fn init() {
        SLOW.store(
            machine::trap::syscall_slow(),
            core::sync::atomic::Ordering::Relaxed,
        );
    }
}

/// Once, before the first dispatcher.
pub(crate) fn init() {
    #[cfg(target_os = "none")]
    bare::init();
}
