//! The kernel's access to the running program's memory, checked.
//!
//! *Interface*: [`get`], [`put`] (typed values), [`copy_in`], [`copy_out`], [`cstr`], [`fill`]; [`UserSlice`] is a checked range to take
//! bytes from bit by bit. Error: always `EFAULT`, also when the page cannot be had for lack of memory.
//!
//! The copies are `machine::user`'s: a page fault in them goes to the vm like any other, and only when that cannot
//! resolve it do they stop. Nothing may be held meanwhile that a pager could want.

use abi::errno::{Errno, Result};
use abi::layout::USER_END;
use alloc::vec::Vec;

/// Is `address..address + length` in the half of the address space that belongs to programs?
#[inline]
pub fn check(address: usize, length: usize) -> Result<()> {
    if length <= USER_END && address <= USER_END - length {
        Ok(())
    } else {
        Err(Errno::EFAULT)
    }
}

/// Types of which every bit pattern is a value and which have no padding to leak.
///
/// # Safety
/// Both must hold, and the type has no pointers that the kernel would follow.
pub unsafe trait Plain: Copy {}

macro_rules! plain {
    ($($t:ty)*) => { $(
        // SAFETY: an integer.
        unsafe impl Plain for $t {}
    )* };
}
plain!(u8 u16 u32 u64 usize i8 i16 i32 i64 isize);

// SAFETY: an array has no padding beyond its elements'.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

/// Copies `into.len()` bytes from the program.
pub fn copy_in(into: &mut [u8], address: usize) -> Result<()> {
    todo!()
}

/// Copies `from` to the program.
pub fn copy_out(address: usize, from: &[u8]) -> Result<()> {
    todo!()
}

/// Reads a value at `address`, aligned or not.
pub fn get<T: Plain>(address: usize) -> Result<T> {
    todo!()
}

/// Writes a value at `address`, aligned or not.
pub fn put<T: Plain>(address: usize, value: &T) -> Result<()> {
    todo!()
}

/// Writes `length` zero bytes at `address`.
pub fn zero(address: usize, length: usize) -> Result<()> {
    todo!()
}

/// The bytes of a string before its NUL. `ENAMETOOLONG` when there is none in the first `limit` bytes.
pub fn cstr(address: usize, limit: usize) -> Result<Vec<u8>> {
    todo!()
}

/// `count` values from `address` on; the caller has bounded `count`.
pub fn array<T: Plain>(address: usize, count: usize) -> Result<Vec<T>> {
    todo!()
}
