//! Copies between kernel and user memory that a bad address ends instead of the kernel.
//!
//! *Interface*: [`copy_in`], [`copy_out`], [`load_word`], [`load_16`], [`load_32`], [`store_word`],
//! [`store_pair`], [`zero`], [`compare_exchange`], [`save_vectors`], [`load_vectors`]. A page fault inside
//! them is first offered to the address space (the exception callout sees an ordinary fault at a user
//! address); when that cannot help, [`fixup`] names the place where the copy ends with an error. May fault
//! and therefore sleep: thread context, interrupts on.

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
    match unsafe { copy_from(to as usize, from, len) } {
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
    match unsafe { copy_to(to, from as usize, len) } {
        0 => Ok(()),
        _ => Err(()),
    }
}

/// Copies four bytes from user address `from` to `to`.
///
/// # Errors
/// As for [`copy_in`].
///
/// # Safety
/// `to` is valid for writes of four bytes.
#[inline]
#[allow(clippy::result_unit_err)]
pub unsafe fn load_word(to: *mut u8, from: usize) -> Result<(), ()> {
    in_range(from, size_of::<u32>())?;
    // SAFETY: the destination is the caller's promise; a bad source ends in the fix-up.
    match unsafe { get_word(to as usize, from) } {
        0 => Ok(()),
        _ => Err(()),
    }
}

/// The words at user address `$from` that `$get` loads into the registers, the last of them into rsi.
#[cfg(target_os = "none")]
macro_rules! load {
    ($get:ident, $from:ident; $($register:tt $word:ident),*; $last:ident) => {{
        let failed: usize;
        let $last: u64;
        $(let $word: u64;)*
        // SAFETY: it changes these registers and the flags alone; a bad source ends in the fix-up.
        unsafe {
            core::arch::asm!(
                "call {get}",
                get = sym $get,
                inout("rsi") $from => $last,
                $(lateout($register) $word,)*
                lateout("rax") failed,
            );
        }
        match failed {
            0 => Ok([$($word,)* $last]),
            _ => Err(()),
        }
    }};
}

/// Loads the two words, as of a time, at user address `from`.
///
/// # Errors
/// As for [`copy_in`].
#[inline]
#[allow(clippy::result_unit_err)]
pub fn load_16(from: usize) -> Result<[u64; 2], ()> {
    in_range(from, 16)?;
    #[cfg(target_os = "none")]
    {
        load!(get_16, from; "rcx" first; second)
    }
    #[cfg(not(target_os = "none"))]
    Ok(on_host(from))
}

/// Loads the four words, as of two times, at user address `from`.
///
/// # Errors
/// As for [`copy_in`].
#[inline]
#[allow(clippy::result_unit_err)]
pub fn load_32(from: usize) -> Result<[u64; 4], ()> {
    in_range(from, 32)?;
    #[cfg(target_os = "none")]
    {
        load!(get_32, from; "rcx" first, "rdx" second, "rdi" third; fourth)
    }
    #[cfg(not(target_os = "none"))]
    Ok(on_host(from))
}

/// Writes `value` at user address `to`.
///
/// # Errors
/// As for [`copy_out`].
#[inline]
#[allow(clippy::result_unit_err)]
pub fn store_word(to: usize, value: u32) -> Result<(), ()> {
    in_range(to, size_of::<u32>())?;
    // SAFETY: a bad destination ends in the fix-up.
    match unsafe { put_word(to, value) } {
        0 => Ok(()),
        _ => Err(()),
    }
}

/// Writes `first`, and `second` behind it, at user address `to`.
///
/// # Errors
/// As for [`copy_out`].
#[inline]
#[allow(clippy::result_unit_err)]
pub fn store_pair(to: usize, first: u32, second: u64) -> Result<(), ()> {
    in_range(to, size_of::<u32>() + size_of::<u64>())?;
    // SAFETY: a bad destination ends in the fix-up.
    match unsafe { put_pair(to, first, second) } {
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

/// Compares the 4-aligned word at user address `at` with `expected`, stores `new` if they are equal, and
/// returns what was there: one atomic step.
///
/// # Errors
/// The address is not the user's, not aligned, or cannot be written.
#[allow(clippy::result_unit_err)]
pub fn compare_exchange(at: usize, expected: u32, new: u32) -> Result<u32, ()> {
    in_range(at, 4)?;
    if !at.is_multiple_of(4) {
        return Err(());
    }
    let mut seen = 0;
    // SAFETY: a bad address ends in the fix-up; `seen` is valid.
    match unsafe { exchange(at, expected, new, &mut seen) } {
        0 => Ok(seen),
        _ => Err(()),
    }
}

/// Saves the running thread's vector registers at user address `at`, a multiple of 64, in XSAVE's standard
/// format: all but the header's words after the first and what is left to software.
///
/// # Errors
/// The place is not the user's or cannot be written, or the processor has no XSAVE.
#[allow(clippy::result_unit_err)]
pub fn save_vectors(at: usize) -> Result<(), ()> {
    vectors(at, save)
}

/// Loads the running thread's vector registers from user address `at`, a multiple of 64.
///
/// # Errors
/// The place is not the user's, cannot be read, or holds no state that the processor accepts; or it has no
/// XSAVE. The registers may have changed.
#[allow(clippy::result_unit_err)]
pub fn load_vectors(at: usize) -> Result<(), ()> {
    vectors(at, load)
}

fn vectors(at: usize, pass: unsafe extern "C" fn(usize) -> usize) -> Result<(), ()> {
    in_range(at, crate::fpu::area_size())?;
    if !crate::features::get().xsave() {
        return Err(());
    }
    // SAFETY: what is no state or not the user's ends in the fix-up; the kernel itself uses none of the
    // registers.
    match unsafe { pass(at) } {
        0 => Ok(()),
        _ => Err(()),
    }
}

/// Where execution continues after a fault at `rip` that nobody could resolve; `None` when `rip` is
/// no instruction of this module.
pub fn fixup(rip: usize) -> Option<usize> {
    #[cfg(target_os = "none")]
    {
        let accesses = [
            &raw const user_exchange_access as usize,
            &raw const user_save_access as usize,
            &raw const user_load_access as usize,
        ];
        if accesses.contains(&rip) {
            return Some(&raw const user_exchange_fixup as usize);
        }
        let start = copy_from as *const () as usize;
        let end = copy_fixup as *const () as usize;
        (start..end).contains(&rip).then_some(end)
    }
    #[cfg(not(target_os = "none"))]
    {
        let _ = rip;
        None
    }
}

/// `stac`, recorded so that where mitigations want it ([`crate::mitigate`]) it becomes a jump to `masked!`,
/// which stands behind the routine.
#[cfg(target_os = "none")]
macro_rules! open_user {
    () => {
        concat!(
            ".pushsection .masksites,\"a\"\n.quad 771f, 773f\n.popsection\n",
            crate::trap::stac!(),
            "\n774:"
        )
    };
}

/// The user's address in `$reg` without the bit that would make it the kernel's, however far the processor
/// has run ahead of the comparison; and user access open.
#[cfg(target_os = "none")]
macro_rules! masked {
    ($reg:literal) => {
        concat!(
            "773: btr ",
            $reg,
            ", 63\n",
            crate::trap::stac!(),
            "\njmp 774b"
        )
    };
}

/// Makes each recorded site a jump to its masked part.
///
/// # Safety
/// At boot, while the image is still writable and no other code runs.
#[cfg(target_os = "none")]
pub(crate) unsafe fn mask_sites() {
    unsafe extern "C" {
        static __masksites_start: [[usize; 2]; 0];
        static __masksites_end: [[usize; 2]; 0];
    }
    const SHORT_JUMP: usize = 2;
    let start = (&raw const __masksites_start).cast::<[usize; 2]>();
    let end = (&raw const __masksites_end).cast::<[usize; 2]>();
    // SAFETY: the linker script bounds the table; each site is a 3-byte instruction in writable, not yet
    // running code, and its masked part is less than 128 bytes behind it.
    unsafe {
        for i in 0..end.offset_from(start) {
            let [site, masked] = start.offset(i).read();
            let distance = (masked - site - SHORT_JUMP) as u8;
            // jmp SHORT masked; nop
            (site as *mut u8).copy_from_nonoverlapping([0xeb, distance, 0x90].as_ptr(), 3);
        }
    }
}

/// Copies rdx bytes from rsi to rdi with user access open: words first, then the rest. Returns 0. `$user` is
/// the user's address.
#[cfg(target_os = "none")]
macro_rules! copy {
    ($user:literal) => {
        naked_asm!(
            open_user!(),
            "mov rcx, rdx",
            "shr rcx, 3",
            "rep movsq",
            "mov ecx, edx",
            "and ecx, 7",
            "rep movsb",
            crate::trap::clac!(),
            "xor eax, eax",
            "ret",
            masked!($user),
        )
    };
}

/// From the user.
#[cfg(target_os = "none")]
#[unsafe(naked)]
#[unsafe(link_section = ".text.usercopy.a")]
unsafe extern "C" fn copy_from(_to: usize, _from: usize, _len: usize) -> usize {
    copy!("rsi")
}

/// To the user.
#[cfg(target_os = "none")]
#[unsafe(naked)]
#[unsafe(link_section = ".text.usercopy.b")]
unsafe extern "C" fn copy_to(_to: usize, _from: usize, _len: usize) -> usize {
    copy!("rdi")
}

/// The user's four bytes at rsi to rdi. Returns 0.
#[cfg(target_os = "none")]
#[unsafe(naked)]
#[unsafe(link_section = ".text.usercopy.b")]
unsafe extern "C" fn get_word(_to: usize, _from: usize) -> usize {
    naked_asm!(
        open_user!(),
        "mov eax, [rsi]",
        "mov [rdi], eax",
        crate::trap::clac!(),
        "xor eax, eax",
        "ret",
        masked!("rsi"),
    )
}

/// The user's sixteen bytes at rsi into rcx and rsi; 0 into rax.
#[cfg(target_os = "none")]
#[unsafe(naked)]
#[unsafe(link_section = ".text.usercopy.b")]
unsafe extern "C" fn get_16() {
    naked_asm!(
        open_user!(),
        "mov rcx, [rsi]",
        "mov rsi, [rsi + 8]",
        crate::trap::clac!(),
        "xor eax, eax",
        "ret",
        masked!("rsi"),
    )
}

/// The user's 32 bytes at rsi into rcx, rdx, rdi and rsi; 0 into rax.
#[cfg(target_os = "none")]
#[unsafe(naked)]
#[unsafe(link_section = ".text.usercopy.b")]
unsafe extern "C" fn get_32() {
    naked_asm!(
        open_user!(),
        "mov rcx, [rsi]",
        "mov rdx, [rsi + 8]",
        "mov rdi, [rsi + 16]",
        "mov rsi, [rsi + 24]",
        crate::trap::clac!(),
        "xor eax, eax",
        "ret",
        masked!("rsi"),
    )
}

/// esi to the user at rdi. Returns 0.
#[cfg(target_os = "none")]
#[unsafe(naked)]
#[unsafe(link_section = ".text.usercopy.b")]
unsafe extern "C" fn put_word(_to: usize, _value: u32) -> usize {
    naked_asm!(
        open_user!(),
        "mov [rdi], esi",
        crate::trap::clac!(),
        "xor eax, eax",
        "ret",
        masked!("rdi"),
    )
}

/// esi and rdx, one behind the other, to the user at rdi. Returns 0.
#[cfg(target_os = "none")]
#[unsafe(naked)]
#[unsafe(link_section = ".text.usercopy.b")]
unsafe extern "C" fn put_pair(_to: usize, _first: u32, _second: u64) -> usize {
    naked_asm!(
        open_user!(),
        "mov [rdi], esi",
        "mov [rdi + 4], rdx",
        crate::trap::clac!(),
        "xor eax, eax",
        "ret",
        masked!("rdi"),
    )
}

/// Where a fault in these routines continues: closes user access, returns 1 to the caller.
#[cfg(target_os = "none")]
#[unsafe(naked)]
#[unsafe(link_section = ".text.usercopy.c")]
unsafe extern "C" fn copy_fixup() -> usize {
    naked_asm!(crate::trap::clac!(), "mov eax, 1", "ret")
}

#[cfg(target_os = "none")]
unsafe extern "C" {
    static user_exchange_access: u8;
    static user_exchange_fixup: u8;
    static user_save_access: u8;
    static user_load_access: u8;
}

/// XSAVE with user access open. Returns 0, or 1 after a fault.
#[cfg(target_os = "none")]
#[unsafe(naked)]
unsafe extern "C" fn save(_at: usize) -> usize {
    naked_asm!(
        open_user!(),
        "mov eax, -1",
        "mov edx, -1",
        ".global user_save_access",
        "user_save_access:",
        "xsave64 [rdi]",
        crate::trap::clac!(),
        "xor eax, eax",
        "ret",
        masked!("rdi"),
    )
}

/// XRSTOR with user access open. Returns 0, or 1 after a fault.
#[cfg(target_os = "none")]
#[unsafe(naked)]
unsafe extern "C" fn load(_at: usize) -> usize {
    naked_asm!(
        open_user!(),
        "mov eax, -1",
        "mov edx, -1",
        ".global user_load_access",
        "user_load_access:",
        "xrstor64 [rdi]",
        crate::trap::clac!(),
        "xor eax, eax",
        "ret",
        masked!("rdi"),
    )
}

/// On a host nobody's registers are saved.
#[cfg(not(target_os = "none"))]
unsafe extern "C" fn save(_at: usize) -> usize {
    1
}

/// As [`save`].
#[cfg(not(target_os = "none"))]
unsafe extern "C" fn load(_at: usize) -> usize {
    1
}

/// One compare-and-exchange with user access open. Returns 0, or 1 after a fault.
#[cfg(target_os = "none")]
#[unsafe(naked)]
unsafe extern "C" fn exchange(_at: usize, _expected: u32, _new: u32, _seen: *mut u32) -> usize {
    naked_asm!(
        open_user!(),
        "mov eax, esi",
        ".global user_exchange_access",
        "user_exchange_access:",
        "lock cmpxchg dword ptr [rdi], edx",
        crate::trap::clac!(),
        "mov dword ptr [rcx], eax",
        "xor eax, eax",
        "ret",
        ".global user_exchange_fixup",
        "user_exchange_fixup:",
        crate::trap::clac!(),
        "mov eax, 1",
        "ret",
        masked!("rdi"),
    )
}

#[cfg(not(target_os = "none"))]
unsafe fn exchange(at: usize, expected: u32, new: u32, seen: &mut u32) -> usize {
    use core::sync::atomic::{AtomicU32, Ordering::SeqCst};
    // SAFETY: on a host the "user" is the test itself, which passes its own aligned memory.
    let word = unsafe { &*(at as *const AtomicU32) };
    *seen = word
        .compare_exchange(expected, new, SeqCst, SeqCst)
        .unwrap_or_else(|now| now);
    0
}

#[cfg(not(target_os = "none"))]
unsafe fn copy_from(to: usize, from: usize, len: usize) -> usize {
    // SAFETY: on a host the "user" is the test itself, which passes its own memory.
    unsafe { core::ptr::copy_nonoverlapping(from as *const u8, to as *mut u8, len) };
    0
}

#[cfg(not(target_os = "none"))]
use copy_from as copy_to;

#[cfg(not(target_os = "none"))]
unsafe fn get_word(to: usize, from: usize) -> usize {
    // SAFETY: as above.
    unsafe { copy_from(to, from, size_of::<u32>()) }
}

#[cfg(not(target_os = "none"))]
fn on_host<const WORDS: usize>(from: usize) -> [u64; WORDS] {
    // SAFETY: a test's own memory.
    unsafe { (from as *const [u64; WORDS]).read_unaligned() }
}

#[cfg(not(target_os = "none"))]
unsafe fn put_word(to: usize, value: u32) -> usize {
    // SAFETY: as above.
    unsafe { (to as *mut u32).write_unaligned(value) };
    0
}

#[cfg(not(target_os = "none"))]
unsafe fn put_pair(to: usize, first: u32, second: u64) -> usize {
    // SAFETY: as above.
    unsafe {
        (to as *mut u32).write_unaligned(first);
        ((to + size_of::<u32>()) as *mut u64).write_unaligned(second);
    }
    0
}
