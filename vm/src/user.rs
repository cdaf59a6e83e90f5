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
pub use bytemuck::Pod as Plain;

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
    let mut value = T::zeroed();
    copy_in(bytemuck::bytes_of_mut(&mut value), address)?;
    Ok(value)
}

/// Writes a value at `address`, aligned or not.
pub fn put<T: Plain>(address: usize, value: &T) -> Result<()> {
    copy_out(address, bytemuck::bytes_of(value))
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
