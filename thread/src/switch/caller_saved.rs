//! The registers that a Rust function may change, saved by the short paths into the kernel: text for
//! `naked_asm!`.
//!
//! *Interface*: [`push_scratch`], [`pop_scratch`], all but rax; [`SAVED`] is their size.

/// Bytes that the eight registers take.
pub(crate) const SAVED: usize = 8 * 8;

macro_rules! push_scratch {
    () => {
        "push rdi
         push rsi
         push rdx
         push rcx
         push r8
         push r9
         push r10
         push r11"
    };
}
pub(crate) use push_scratch;

macro_rules! pop_scratch {
    () => {
        "pop r11
         pop r10
         pop r9
         pop r8
         pop rcx
         pop rdx
         pop rsi
         pop rdi"
    };
}
pub(crate) use pop_scratch;
