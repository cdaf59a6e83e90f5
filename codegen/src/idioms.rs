//! The three methods of code generation (dissertation, section 3.2), as idioms.
//!
//! **Factoring invariants** (3.2.1): `F_create(p1)` is a Rust function that takes the constant parameters and
//! emits only what is left to compute. Its `if`s on known values are Rust `if`s; its constants go through
//! [`constant`], the lowest generator of the hierarchy; its sub-generators are functions over the same
//! `&mut Draft`. Where all that changes are values in fixed fields, the generator takes
//! [`Hole`](crate::Hole)s and becomes a [`Template`](crate::Template).
//!
//! **Collapsing layers** (3.2.2): a lower layer is a function that emits its body in-line, over the same
//! `&mut Draft`. Whether it is called instead is decided where links are known (`quaject`'s `Assembly`).
//!
//! **Executable data structures** (3.2.3): each node carries the code that handles it, and ends by going to
//! the next node's code. On this machine the link is a word beside the code, not bytes inside it (rewriting a
//! jump and running it costs five times the word): [`jump_through`].

pub use crate::reg::Reg;
use crate::{Draft, dynasm, harden};

/// Move a constant into a register in the most efficient way possible. Changes the flags when `value` is 0.
pub fn constant(d: &mut Draft, to: Reg, value: u64) {
    // Not dynasm's dynamic registers: they always spend a prefix byte, which the lower eight need not.
    let r = to as u8;
    let (low, high) = (r & 7, r >> 3);
    let short = |d: &mut Draft, bytes: &[u8]| {
        if high != 0 {
            d.push(0x41);
        }
        d.extend(bytes);
    };
    if value == 0 {
        // xor r32, r32
        if high != 0 {
            d.push(0x45);
        }
        d.extend(&[0x31, 0xc0 | low << 3 | low]);
    } else if let Ok(value) = u32::try_from(value) {
        // mov r32, imm32
        short(d, &[0xb8 | low]);
        d.push_u32(value);
    } else if let Ok(value) = i32::try_from(value as i64) {
        // mov r64, simm32
        d.extend(&[0x48 | high, 0xc7, 0xc0 | low]);
        d.push_i32(value);
    } else {
        // mov r64, imm64
        d.extend(&[0x48 | high, 0xb8 | low]);
        d.push_i64(value as i64);
    }
}

/// `jmp` through the word at a sign-extended 32-bit address: the link of an executable data structure.
pub fn jump_through(d: &mut Draft, word: i32) {
    harden::jump(
        d,
        |d| dynasm!(d ; .arch x64 ; jmp QWORD [word]),
        |d| dynasm!(d ; .arch x64 ; push QWORD [word]),
    );
}

/// `call` through the word at a sign-extended 32-bit address: a callout that is linked later.
pub fn call_through(d: &mut Draft, word: i32) {
    harden::call(
        d,
        |d| dynasm!(d ; .arch x64 ; call QWORD [word]),
        |d| dynasm!(d ; .arch x64 ; push QWORD [word]),
    );
}
