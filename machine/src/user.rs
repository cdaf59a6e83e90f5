//! Copies between kernel and user memory that a bad address ends instead of the kernel.
//!
//! *Interface*: [`copy_in`], [`copy_out`], [`zero`]. A page fault inside them is first offered to the
//! address space (the exception callout sees an ordinary fault at a user address); when that cannot help, [`fixup`] names the place
//! where the copy ends with an error. May fault and therefore sleep: thread context, interrupts on.

use abi::layout::USER_END;
#[cfg(target_os = "none")]
use core::arch::naked_asm;

fn in_range(address: usize, len: usize) -> Result<(), ()> {
    match address.checked_add(len) {
        Some(end) if end <= USER_END || !cfg!(target_os = "none") => Ok(()),
        _ => Err(()),
    }
}

/// Copies `len` bytes from user address `from` to `to`.
///
/// # Errors
/// The range is not the user's, or a page of it cannot be read. A part may have been copied.
///
/// # Safety
/// `to` is valid for writes of `len` bytes.
#[allow(clippy::result_unit_err)]
pub unsafe fn copy_in(to: *mut u8, from: usize, len: usize) -> Result<(), ()> {
    in_range(from, len)?;
    // SAFETY: the destination is the caller's promise; a bad source ends in the fix-up.
    match unsafe { copy(to as usize, from, len) } {
        0 => Ok(()),
        _ => Err(()),
    }
}

/// Copies `len` bytes from `from` to user address `to`.
///
/// # Errors
/// The range is not the user's, or a page of it cannot be written. A part may have been copied.
///
/// # Safety
/// `from` is valid for reads of `len` bytes.
#[allow(clippy::result_unit_err)]
pub unsafe fn copy_out(to: usize, from: *const u8, len: usize) -> Result<(), ()> {
    in_range(to, len)?;
    // SAFETY: the source is the caller's promise; a bad destination ends in the fix-up.
    match unsafe { copy(to, from as usize, len) } {
        0 => Ok(()),
        _ => Err(()),
    }
}

/// Writes `len` zero bytes at user address `to`.
///
/// # Errors
/// As for [`copy_out`].
#[allow(clippy::result_unit_err)]
pub fn zero(to: usize, len: usize) -> Result<(), ()> {
    static ZEROS: [u8; 256] = [0; 256];
    let mut done = 0;
    while done < len {
        let part = (len - done).min(ZEROS.len());
        // SAFETY: `part` bytes of `ZEROS` are valid.
        unsafe { copy_out(to.checked_add(done).ok_or(())?, ZEROS.as_ptr(), part)? };
        done += part;
    }
    Ok(())
}

/// Where execution continues after a page fault at `rip` that nobody could resolve; `None` when `rip` is
/// no instruction of this module.
pub fn fixup(rip: usize) -> Option<usize> {
    #[cfg(target_os = "none")]
    {
        let start = copy as *const () as usize;
        let end = copy_fixup as *const () as usize;
        (start..end).contains(&rip).then_some(end)
    }
    #[cfg(not(target_os = "none"))]
    {
        let _ = rip;
        None
    }
}

/// Copies rdx bytes from rsi to rdi with user access open: words first, then the rest. Returns 0.
#[cfg(target_os = "none")]
#[unsafe(naked)]
#[unsafe(link_section = ".text.usercopy.a")]
unsafe extern "C" fn copy(_to: usize, _from: usize, _len: usize) -> usize {
    naked_asm!(
        crate::trap::stac!(),
        "mov rcx, rdx",
        "shr rcx, 3",
        "rep movsq",
        "mov ecx, edx",
        "and ecx, 7",
        "rep movsb",
        crate::trap::clac!(),
        "xor eax, eax",
        "ret",
    )
}

/// Where a fault in [`copy`] continues: closes user access, returns 1 to the caller.
#[cfg(target_os = "none")]
#[unsafe(naked)]
#[unsafe(link_section = ".text.usercopy.b")]
unsafe extern "C" fn copy_fixup() -> usize {
    naked_asm!(crate::trap::clac!(), "mov eax, 1", "ret")
}

#[cfg(not(target_os = "none"))]
unsafe fn copy(to: usize, from: usize, len: usize) -> usize {
    // SAFETY: on a host the "user" is the test itself, which passes its own memory.
    unsafe { core::ptr::copy_nonoverlapping(from as *const u8, to as *mut u8, len) };
    0
}
