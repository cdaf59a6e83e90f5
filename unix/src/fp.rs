//! A thread's vector state as programs see it: in signal frames, and at the start of a program.
//!
//! *Interface*: [`save`] an image for a frame, [`restore`] one from user memory, [`reset`]. The images are XSAVE's
//! standard form with Linux's note in the bytes that FXSAVE leaves to software.
//!
//! A thread that has never used vector registers has none to save: its image is the initial state, and stays lazy.

use abi::errno::{Errno, Result};
use abi::linux::*;
use alloc::vec::Vec;
use bytemuck::bytes_of;
use machine::fpu;
use vm::user;

/// Bytes of FXSAVE's part.
const LEGACY: usize = 512;
/// Where XSAVE's header starts, and how long it is.
const HEADER: usize = LEGACY;
const HEADER_LEN: usize = 64;
/// Where the legacy part has the control and status word of SSE.
const MXCSR: usize = 24;
/// x87 and SSE.
const LEGACY_COMPONENTS: u64 = 3;

fn with_xsave() -> bool {
    fpu::area_size() > LEGACY
}

/// The initial state as an image.
fn initial() -> Vec<u8> {
    let mut image = alloc::vec![0; fpu::area_size()];
    // The x87 control word and MXCSR with all exceptions masked.
    image[..2].copy_from_slice(&0x37fu16.to_le_bytes());
    image[MXCSR..MXCSR + 4].copy_from_slice(&0x1f80u32.to_le_bytes());
    image
}

/// The running thread's state, as it is put on the stack for a handler.
pub fn save() -> Vec<u8> {
    let mut image = initial();
    // Without a state of its own the image stays the initial one.
    let _ = thread::fp::save(&mut image);
    if !with_xsave() {
        return image;
    }
    let note = FpxSwBytes {
        magic1: FP_XSTATE_MAGIC1,
        extended_size: image.len() as u32 + 4,
        xfeatures: fpu::components(),
        xstate_size: image.len() as u32,
        padding: [0; 7],
    };
    image[FPX_SW_OFFSET..LEGACY].copy_from_slice(bytes_of(&note));
    image.extend_from_slice(&FP_XSTATE_MAGIC2.to_le_bytes());
    image
}

/// Loads the state at user address `at`; 0 is the initial state. EFAULT.
pub fn restore(at: usize) -> Result<()> {
    if at == 0 {
        reset();
        return Ok(());
    }
    if !at.is_multiple_of(16) {
        return Err(Errno::EFAULT);
    }
    let mut image = initial();
    user::copy_in(&mut image[..LEGACY], at)?;
    let note: FpxSwBytes = bytemuck::pod_read_unaligned(&image[FPX_SW_OFFSET..LEGACY]);
    let size = image.len();
    let extended = with_xsave()
        && note.magic1 == FP_XSTATE_MAGIC1
        && note.xstate_size as usize == size
        && user::get::<u32>(at + size).is_ok_and(|magic| magic == FP_XSTATE_MAGIC2);
    if extended {
        user::copy_in(&mut image[LEGACY..], at + LEGACY)?;
    }
    sanitize(&mut image, extended, fpu::components());
    if !thread::current().uses_fp() && is_initial(&image) {
        return Ok(());
    }
    thread::fp::load(&image).map_err(|_| Errno::ENOMEM)
}

/// Makes an image one that XRSTOR accepts whatever the program wrote.
fn sanitize(image: &mut [u8], extended: bool, components: u64) {
    // Reserved bits of MXCSR fault.
    let mxcsr: u32 = bytemuck::pod_read_unaligned(&image[MXCSR..MXCSR + 4]);
    image[MXCSR..MXCSR + 4].copy_from_slice(&(mxcsr & 0xffff).to_le_bytes());
    if image.len() >= HEADER + HEADER_LEN {
        let present: u64 = bytemuck::pod_read_unaligned(&image[HEADER..HEADER + 8]);
        let present = if extended {
            present & components
        } else {
            LEGACY_COMPONENTS
        };
        image[HEADER..HEADER + HEADER_LEN].fill(0);
        image[HEADER..HEADER + 8].copy_from_slice(&present.to_le_bytes());
    }
}

/// Is there nothing in an image that the initial state does not have?
fn is_initial(image: &[u8]) -> bool {
    let mut plain = initial();
    // The x87 part holds no more than its control word, and software's note does not count.
    plain[FPX_SW_OFFSET..LEGACY].copy_from_slice(&image[FPX_SW_OFFSET..LEGACY]);
    if image.len() >= HEADER + HEADER_LEN {
        plain[HEADER..HEADER + HEADER_LEN].copy_from_slice(&image[HEADER..HEADER + HEADER_LEN]);
    }
    plain == image
}

/// Puts the running thread's state back to the initial one, if it has any.
pub fn reset() {
    thread::fp::forget();
}

/// The unmasked exceptions that the running thread's state notes: bit 0 invalid, 1 denormal, 2 division by zero, 3 overflow,
/// 4 underflow, 5 precision. Of SSE or of x87.
pub fn exceptions(sse: bool) -> u32 {
    let image = save();
    if sse {
        let mxcsr: u32 = bytemuck::pod_read_unaligned(&image[MXCSR..MXCSR + 4]);
        mxcsr & !(mxcsr >> 7) & 0x3f
    } else {
        let control = u32::from(u16::from_le_bytes([image[0], image[1]]));
        let status = u32::from(u16::from_le_bytes([image[2], image[3]]));
        status & !control & 0x3f
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_images_are_sanitized() {
        let mut image = alloc::vec![0xff; 832];
        sanitize(&mut image, true, 7);
        let header: [u64; 8] = bytemuck::pod_read_unaligned(&image[HEADER..HEADER + HEADER_LEN]);
        assert_eq!(header, [7, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(image[MXCSR..MXCSR + 4], 0xffffu32.to_le_bytes());
        sanitize(&mut image, false, 7);
        assert_eq!(image[HEADER], 3);
    }
}
