//! Raw reads and writes of frames: the only ones in the kernel besides the walker of tables and the generated
//! routines.
//!
//! *Interface*: [`zero_page`], [`copy_page`] (whole frames, by one string instruction); [`inside`], which
//! every access to a part of a frame asks first.

use abi::errno::{Errno, Result};
use abi::layout::PAGE;

/// The place of `count` bytes from `at` on in the page at `page`. `EIO`, which ends a call before anything is
/// touched, when they do not lie inside it.
#[inline]
pub(crate) fn inside(page: *mut u8, at: usize, count: usize) -> Result<*mut u8> {
    match at.checked_add(count) {
        Some(end) if end <= PAGE => Ok(page.wrapping_add(at)),
        _ => Err(Errno::EIO),
    }
}

/// Fills one page with zeros.
///
/// # Safety
/// `page` is page-aligned, and the caller owns the page.
#[inline]
pub(crate) unsafe fn zero_page(page: *mut u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as the caller promises; the string instruction writes exactly one page.
    unsafe {
        core::arch::asm!(
            "rep stosq",
            inout("rcx") PAGE / 8 => _,
            inout("rdi") page => _,
            in("rax") 0u64,
            options(nostack, preserves_flags),
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: as the caller promises.
    unsafe {
        core::ptr::write_bytes(page, 0, PAGE)
    }
}

/// Copies one page, by words.
///
/// # Safety
/// Both are page-aligned and valid for a page; the caller owns `to`.
#[inline]
pub(crate) unsafe fn copy_page(from: *const u8, to: *mut u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as the caller promises; the string instruction copies exactly one page.
    unsafe {
        core::arch::asm!(
            "rep movsq",
            inout("rcx") PAGE / 8 => _,
            inout("rsi") from => _,
            inout("rdi") to => _,
            options(nostack, preserves_flags),
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: as the caller promises.
    unsafe {
        core::ptr::copy_nonoverlapping(from, to, PAGE)
    }
}
