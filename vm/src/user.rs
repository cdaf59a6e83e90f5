//! The kernel's access to the running program's memory, checked.
//!
//! *Interface*: [`get`], [`put`], [`put_pair`] (typed values), [`copy_in`], [`copy_out`], [`zero`], [`cstr`],
//! [`array()`].
//! Error: always `EFAULT`, also when the page cannot be had for lack of memory.
//!
//! The copies are `machine::user`'s: a page fault in them goes to the vm like any other, and only when that
//! cannot resolve it do they stop. Nothing may be held meanwhile that a pager could want.

use abi::errno::{Errno, Result};
use abi::layout::{PAGE, USER_END};
use alloc::vec::Vec;
use codegen::fault_injection::refused;
use core::mem::MaybeUninit;

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

/// Copies `into.len()` bytes from the program. On an error some may have been copied.
#[inline]
pub fn copy_in(into: &mut [u8], address: usize) -> Result<()> {
    // SAFETY: the slice is valid for its length.
    unsafe { machine::user::copy_in(into.as_mut_ptr(), address, into.len()) }
        .map_err(|()| Errno::EFAULT)
}

/// Copies `from` to the program. On an error some may have been copied.
#[inline]
pub fn copy_out(address: usize, from: &[u8]) -> Result<()> {
    // SAFETY: the slice is valid for its length.
    unsafe { machine::user::copy_out(address, from.as_ptr(), from.len()) }
        .map_err(|()| Errno::EFAULT)
}

/// Reads a value at `address`, aligned or not.
pub fn get<T: Plain>(address: usize) -> Result<T> {
    match size_of::<T>() {
        16 => {
            return machine::user::load_16(address)
                .map(made)
                .map_err(|()| Errno::EFAULT);
        }
        32 => {
            return machine::user::load_32(address)
                .map(made)
                .map_err(|()| Errno::EFAULT);
        }
        _ => {}
    }
    let mut value = MaybeUninit::<T>::uninit();
    let room = value.as_mut_ptr().cast();
    let read = match size_of::<T>() {
        // SAFETY: there is room for a value, of which nothing is read.
        WORD => unsafe { machine::user::load_word(room, address) },
        // SAFETY: as above.
        length => unsafe { machine::user::copy_in(room, address, length) },
    };
    read.map_err(|()| Errno::EFAULT)?;
    // SAFETY: every byte of it has been written, and any bytes are a value.
    Ok(unsafe { value.assume_init() })
}

/// A value of as many bytes as `words`.
#[inline(always)]
fn made<T: Plain, const WORDS: usize>(words: [u64; WORDS]) -> T {
    bytemuck::pod_read_unaligned(bytemuck::bytes_of(&words))
}

/// Writes a value at `address`, aligned or not.
pub fn put<T: Plain>(address: usize, value: &T) -> Result<()> {
    let bytes = bytemuck::bytes_of(value);
    match size_of::<T>() {
        WORD => machine::user::store_word(address, bytemuck::pod_read_unaligned(bytes))
            .map_err(|()| Errno::EFAULT),
        _ => copy_out(address, bytes),
    }
}

/// Bytes of what most calls read and write.
const WORD: usize = size_of::<u32>();

/// Writes a word and twice as many bytes behind it at `address`, aligned or not.
#[inline]
pub fn put_pair(address: usize, first: u32, second: u64) -> Result<()> {
    machine::user::store_pair(address, first, second).map_err(|()| Errno::EFAULT)
}

/// Writes `length` zero bytes at `address`.
pub fn zero(address: usize, length: usize) -> Result<()> {
    machine::user::zero(address, length).map_err(|()| Errno::EFAULT)
}

/// The bytes of a string before its NUL. `ENAMETOOLONG` when there is none in the first `limit` bytes.
#[expect(
    clippy::disallowed_methods,
    reason = "room is made, which may be refused"
)]
pub fn cstr(address: usize, limit: usize) -> Result<Vec<u8>> {
    const PART: usize = 256;
    let mut text = Vec::new();
    let mut part = [0; PART];
    while text.len() < limit {
        let at = address.checked_add(text.len()).ok_or(Errno::EFAULT)?;
        // Never into the next page: the string may end in this one, and the next not exist.
        let count = (limit - text.len()).min(PAGE - at % PAGE).min(PART);
        let part = &mut part[..count];
        copy_in(part, at)?;
        let end = part.iter().position(|byte| *byte == 0);
        let found = &part[..end.unwrap_or(count)];
        if refused() || text.try_reserve(found.len()).is_err() {
            return Err(Errno::ENOMEM);
        }
        text.extend_from_slice(found);
        if end.is_some() {
            return Ok(text);
        }
    }
    Err(Errno::ENAMETOOLONG)
}

/// `count` values from `address` on. `ENOMEM` when there is no memory for them.
#[expect(
    clippy::disallowed_methods,
    reason = "room is made, which may be refused"
)]
pub fn array<T: Plain>(address: usize, count: usize) -> Result<Vec<T>> {
    check(
        address,
        count.checked_mul(size_of::<T>()).ok_or(Errno::EFAULT)?,
    )?;
    let mut values = Vec::new();
    if refused() || values.try_reserve_exact(count).is_err() {
        return Err(Errno::ENOMEM);
    }
    values.resize(count, T::zeroed());
    copy_in(bytemuck::cast_slice_mut(&mut values), address)?;
    Ok(values)
}
