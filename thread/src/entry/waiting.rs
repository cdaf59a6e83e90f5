//! Sleeping directly from a reading routine: the implementation of `quaject::Seam::waiting`.
//!
//! *Interface*: [`entry`], for a routine behind `read`, and [`named_entry`], for one behind `recvfrom` with
//! an address. Entered by a jump from a routine that found nothing, at any depth of the kernel stack,
//! interrupts off, the user's registers as at the routine's entry, rax = address of the object's
//! `quaject::Sleep`.
//!
//! It saves the registers that a Rust function may change, calls the function that says whether to sleep,
//! and starts the call again in the thread's dispatcher, or, `recvfrom`, where dispatchers lead it to. So a
//! reader that waits for another thread costs two short passes of generated code and one switch, and no trap
//! frame. It is kernel text and not generated code, because a thread sleeps in it. The slow path serves a
//! thread that gets a request meanwhile, or for which no data can come.
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

/// The code address for `recvfrom` with an address.
pub fn named_entry() -> usize {
    #[cfg(target_os = "none")]
    {
        bare::wait_named as *const () as usize
    }
    #[cfg(not(target_os = "none"))]
    0
}

#[cfg(target_os = "none")]
mod bare {
    use crate::entry::outright::REST;
    use crate::native::ops::woken;
    use crate::running::block::nap;
    use crate::switch::saved::{SAVED, pop_scratch, push_scratch};
    use crate::switch::yielding::slow;
    use crate::tte::Tte;
    use crate::tte::flags::{ATTENTION, POKED};
    use core::mem::offset_of;
    use machine::cpu::StackBase;

    /// To the stack's base.
    macro_rules! to_base {
        () => {
            "or rsp, {mask}
             sub rsp, {less}"
        };
    }

    /// With the registers saved: sleeps if there is a reason to.
    macro_rules! sleep {
        () => {
            "mov rdi, rax
             mov rsi, [rsp + {tte}]
             call [rdi]
             mov rdi, [rsp + {tte}]
             cmp eax, {again}
             jb 3f
             je 2f
             call {nap}
             mov rdi, [rsp + {tte}]
             2:
             test dword ptr [rdi + {state}], {marks}
             jnz 4f"
        };
    }

    /// Leaves the call to the slow path.
    macro_rules! leave {
        () => {
            "4:
             call {woken}
             3:"
        };
    }

    #[unsafe(naked)]
    pub(super) unsafe extern "C" fn wait() {
        core::arch::naked_asm!(
            to_base!(),
            push_scratch!(),
            sleep!(),
            "mov rax, [rdi + {read_again}]",
            pop_scratch!(),
            "jmp rax",
            leave!(),
            pop_scratch!(),
            "mov eax, {number}",
            "jmp {slow}",
            mask = const StackBase::SLOT - 1,
            less = const StackBase::SIZE - 1,
            tte = const SAVED + StackBase::TTE,
            state = const offset_of!(Tte, state),
            marks = const ATTENTION | POKED,
            again = const quaject::Sleep::AGAIN,
            read_again = const offset_of!(Tte, read_again),
            nap = sym nap,
            woken = sym woken,
            number = const abi::nr::READ,
            slow = sym slow,
        )
    }

    #[unsafe(naked)]
    pub(super) unsafe extern "C" fn wait_named() {
        core::arch::naked_asm!(
            to_base!(),
            push_scratch!(),
            sleep!(),
            pop_scratch!(),
            "mov eax, {number}",
            "jmp qword ptr [{rest}]",
            leave!(),
            pop_scratch!(),
            "mov eax, {number}",
            "jmp {slow}",
            mask = const StackBase::SLOT - 1,
            less = const StackBase::SIZE - 1,
            tte = const SAVED + StackBase::TTE,
            state = const offset_of!(Tte, state),
            marks = const ATTENTION | POKED,
            again = const quaject::Sleep::AGAIN,
            rest = sym REST,
            nap = sym nap,
            woken = sym woken,
            number = const abi::nr::RECVFROM,
            slow = sym slow,
        )
    }
}
