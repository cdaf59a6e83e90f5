//! A whole call by one Rust function, straight out of the dispatcher: one that may sleep, and makes no trap frame.
//!
//! *Interface*: [`entry`], [`OutrightFn`], [`LEFT`]; [`way_out`] and [`link_way_out`] at boot. Entered by a jump from a routine at any depth of the kernel stack, interrupts off, the user's
//! registers as at the routine's entry, rax = the function. It gets the call's first three arguments, may sleep, and comes back with interrupts off
//! and the answer, or [`LEFT`]: then the call is made from its start the slow way. `futex` is the one call that goes here.
//!
//! It is kernel text and no image, because a thread sleeps in it. The dispatcher that it came from may have gone meanwhile, so it does not return there: what leads to user
//! mode is the same for all threads.
//! Source: dissertation, section 3.3.2 (a thread that blocks has saved what it needs already).

use core::sync::atomic::{AtomicUsize, Ordering};

pub use crate::dispatch::way_out;

/// A call's work.
pub type OutrightFn = extern "sysv64" fn(usize, usize, usize) -> isize;

/// Not an answer: the call is made again the slow way.
pub const LEFT: isize = i32::MIN as isize;

/// Where the way out is.
static OUT: AtomicUsize = AtomicUsize::new(0);

/// Links the code that [`way_out`] makes, before the first program.
pub fn link_way_out(entry: usize) {
    OUT.store(entry, Ordering::Relaxed);
}

/// The code address.
pub fn entry() -> usize {
    #[cfg(target_os = "none")]
    {
        bare::call as *const () as usize
    }
    #[cfg(not(target_os = "none"))]
    0
}

#[cfg(target_os = "none")]
mod bare {
    use super::{LEFT, OUT};
    use crate::saved::{pop_scratch, push_scratch};
    use crate::yielding::slow;
    use machine::cpu::StackBase;

    #[unsafe(naked)]
    pub(super) unsafe extern "C" fn call() {
        core::arch::naked_asm!(
            "or rsp, {mask}",
            "sub rsp, {less}",
            push_scratch!(),
            "call rax",
            "cmp rax, {left}",
            pop_scratch!(),
            "je 2f",
            "jmp qword ptr [{out}]",
            "2:",
            "mov eax, {number}",
            "jmp {slow}",
            mask = const StackBase::SLOT - 1,
            less = const StackBase::SIZE - 1,
            left = const LEFT,
            out = sym OUT,
            number = const abi::nr::FUTEX,
            slow = sym slow,
        )
    }
}
