//! Sleeping directly from a reading routine: the implementation of `quaject::RoutineEnv::waiting`.
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
    use crate::dispatch::REST;
    use crate::running::block::nap;
    use crate::running::procedures::woken;
    use crate::switch::caller_saved::{SAVED, pop_scratch, push_scratch};
    use crate::switch::yielding::slow;
    use crate::tte::Tte;
    use crate::tte::flags::{ATTENTION, POKED};
    use core::mem::offset_of;
    use machine::cpu::StackBase;

    /// A way to sleep for calls of this number; the instructions start the call again, with rdi = the
    /// running thread and the registers yet saved.
    macro_rules! way {
        ($name:ident, $number:expr, [$($again:expr),*], $($operand:tt)*) => {
            #[unsafe(naked)]
            pub(super) unsafe extern "C" fn $name() {
                core::arch::naked_asm!(
                    // To the stack's base.
                    "or rsp, {mask}",
                    "sub rsp, {less}",
                    push_scratch!(),
                    // Sleeps, if there is a reason to.
                    "mov rdi, rax",
                    "mov rsi, [rsp + {tte}]",
                    "call [rdi]",
                    "mov rdi, [rsp + {tte}]",
                    "cmp eax, {suspend}",
                    "jb 2f",
                    "call {nap}",
                    "mov rdi, [rsp + {tte}]",
                    "jmp 3f",
                    "2:",
                    "test eax, eax",
                    "jz 5f",
                    "3:",
                    "test dword ptr [rdi + {state}], {marks}",
                    "jnz 4f",
                    $($again,)*
                    // Leaves the call to the slow path.
                    "4:",
                    "call {woken}",
                    "5:",
                    pop_scratch!(),
                    "mov eax, {number}",
                    "jmp {slow}",
                    mask = const StackBase::SLOT - 1,
                    less = const StackBase::SIZE - 1,
                    tte = const SAVED + StackBase::TTE,
                    state = const offset_of!(Tte, state),
                    marks = const ATTENTION | POKED,
                    suspend = const quaject::Sleep::SUSPEND,
                    nap = sym nap,
                    woken = sym woken,
                    number = const $number,
                    slow = sym slow,
                    $($operand)*
                )
            }
        };
    }

    way!(
        wait,
        abi::nr::READ,
        ["mov rax, [rdi + {read_again}]", pop_scratch!(), "jmp rax"],
        read_again = const offset_of!(Tte, read_again),
    );
    way!(
        wait_named,
        abi::nr::RECVFROM,
        [pop_scratch!(), "mov eax, {number}", "jmp qword ptr [{rest}]"],
        rest = sym REST,
    );
}
