//! A thread's vector state as programs see it: in signal frames, and at the start of a program.
//!
//! *Interface*: [`save`] an image for a frame, [`restore`] one from user memory, [`reset`]. The images are
//! XSAVE's standard form with Linux's note in the bytes that FXSAVE leaves to software.
//!
//! A thread that has never used vector registers has no state to save: its image is the initial state, and it
//! still gets the registers only at first use.

use abi::errno::{Errno, Result};
use abi::linux::*;
use codegen::{Draft, dynasm};
use core::mem::offset_of;
use machine::fpu;
use vm::user;

/// Bytes of FXSAVE's part.
const LEGACY: usize = 512;
/// Offset and length of XSAVE's header.
const HEADER: usize = LEGACY;
const HEADER_LEN: usize = 64;
/// Offset of SSE's control and status word in the legacy part.
const MXCSR: usize = 24;
/// x87 and SSE.
const LEGACY_COMPONENTS: u64 = 3;

fn with_xsave() -> bool {
    fpu::area_size() > LEGACY
}

/// The largest image: x87, SSE and AVX.
pub const IMAGE_MAX: usize = 1024;

/// The initial state as an image.
const fn initial() -> [u8; IMAGE_MAX] {
    let mut image = [0; IMAGE_MAX];
    // The x87 control word and MXCSR with all exceptions masked.
    [image[0], image[1]] = 0x37fu16.to_le_bytes();
    [image[MXCSR], image[MXCSR + 1], ..] = 0x1f80u32.to_le_bytes();
    image
}

/// As XRSTOR wants it.
#[repr(align(64))]
struct Aligned([u8; IMAGE_MAX]);

static INITIAL: Aligned = Aligned(initial());

/// Address of an image of the initial state, for generated code.
pub(crate) fn initial_address() -> usize {
    INITIAL.0.as_ptr() as usize
}

/// Bytes of what [`save`] writes.
pub fn frame_bytes() -> usize {
    fpu::area_size()
        + if with_xsave() {
            FP_XSTATE_MAGIC2.to_le_bytes().len()
        } else {
            0
        }
}

/// Whether the processor writes and loads frames itself.
pub(crate) fn by_processor() -> bool {
    machine::features::get().xsave()
}

/// Has the processor write the vector registers at r8, and the note about them of `area` bytes; moves the
/// frame's address from rax into r10. eax is the mask of all components then.
pub(crate) fn emit_save(d: &mut Draft, area: i32) {
    const HEADER: i32 = self::HEADER as i32;
    let note = |offset: usize| (FPX_SW_OFFSET + offset) as i32;
    let magic = i64::from(FP_XSTATE_MAGIC1) | (frame_bytes() as i64) << 32;
    dynasm!(d ; .arch x64 ; mov r10, QWORD magic ; mov [r8 + note(0)], r10);
    let words = [
        (offset_of!(FpxSwBytes, xfeatures), fpu::components() as i32),
        (offset_of!(FpxSwBytes, xstate_size), area),
        (24, 0),
        (32, 0),
        (40, 0),
    ];
    for (offset, value) in words {
        dynasm!(d ; .arch x64 ; mov QWORD [r8 + note(offset)], value);
    }
    const { assert!(size_of::<FpxSwBytes>() == 48) };
    for word in 0..8 {
        dynasm!(d ; .arch x64 ; mov QWORD [r8 + HEADER + 8 * word], 0);
    }
    // No component has a bit above 31, so edx may be anything.
    dynasm!(d ; .arch x64
        ; mov DWORD [r8 + area], FP_XSTATE_MAGIC2 as i32
        ; mov r10, rax
        ; mov eax, -1
        ; xsave64 [r8]
    );
}

/// Puts the running thread's state at user address `at`, as a handler finds it. EFAULT.
pub fn save(at: usize) -> Result<()> {
    let size = fpu::area_size();
    user::check(at, frame_bytes())?;
    if with_xsave() && thread::current().uses_fp() {
        // The processor writes the frame itself, and of the header the first word.
        user::put(at + HEADER, &[0u64; HEADER_LEN / 8])?;
        machine::user::save_vectors(at).map_err(|()| Errno::EFAULT)?;
    } else {
        thread::lazy_fpu::look(|state| match state {
            Some(state) => user::copy_out(at, state),
            None => user::copy_out(at, &initial()[..size]),
        })?;
    }
    if !with_xsave() {
        return Ok(());
    }
    let note = FpxSwBytes {
        magic1: FP_XSTATE_MAGIC1,
        extended_size: frame_bytes() as u32,
        xfeatures: fpu::components(),
        xstate_size: size as u32,
        padding: [0; 7],
    };
    user::put(at + FPX_SW_OFFSET, &note)?;
    user::put(at + size, &FP_XSTATE_MAGIC2)
}

/// Loads the state at user address `at`; 0 is the initial state. EFAULT, ENOMEM.
pub fn restore(at: usize) -> Result<()> {
    if at == 0 {
        reset();
        return Ok(());
    }
    if !at.is_multiple_of(16) {
        return Err(Errno::EFAULT);
    }
    let size = fpu::area_size();
    user::check(at, LEGACY)?;
    let note: FpxSwBytes = user::get(at + FPX_SW_OFFSET)?;
    let extended = with_xsave()
        && note.magic1 == FP_XSTATE_MAGIC1
        && note.xstate_size as usize == size
        && user::get::<u32>(at + size).is_ok_and(|magic| magic == FP_XSTATE_MAGIC2);
    // An unchanged frame of `save` is loaded directly; parts that the processor would refuse are corrected
    // first.
    if extended && thread::current().uses_fp() && machine::user::load_vectors(at).is_ok() {
        return Ok(());
    }
    restore_mended(at, size, extended)
}

#[cold]
fn restore_mended(at: usize, size: usize, extended: bool) -> Result<()> {
    let mut buffer = [0; IMAGE_MAX];
    let image = &mut buffer[..size];
    user::copy_in(&mut image[..if extended { size } else { LEGACY }], at)?;
    sanitize(image, extended, fpu::components());
    if !thread::current().uses_fp() && is_initial(image) {
        return Ok(());
    }
    thread::lazy_fpu::load(image).map_err(|_| Errno::ENOMEM)
}

/// The running thread's state, as [`replace`] takes it.
pub fn snapshot(image: &mut [u8; IMAGE_MAX]) {
    *image = initial();
    thread::lazy_fpu::look(|state| {
        if let Some(state) = state {
            let count = state.len().min(IMAGE_MAX);
            image[..count].copy_from_slice(&state[..count]);
        }
    });
}

/// Gives the running thread the state `image`, as far as the processor accepts it. Without memory it keeps
/// its own.
pub fn replace(image: &mut [u8; IMAGE_MAX]) {
    let image = &mut image[..fpu::area_size().min(IMAGE_MAX)];
    sanitize(image, true, fpu::components());
    if thread::current().uses_fp() || !is_initial(image) {
        let _no_memory = thread::lazy_fpu::load(image);
    }
}

/// Notes in the bytes that are software's which components there are, as debuggers read them.
pub fn note_components(image: &mut [u8; IMAGE_MAX]) {
    let mask = fpu::components();
    image[FPX_SW_OFFSET..FPX_SW_OFFSET + 8].copy_from_slice(&mask.to_le_bytes());
}

/// Bytes of an image, and of its part for x87 and SSE.
pub fn image_bytes() -> (usize, usize) {
    (fpu::area_size().min(IMAGE_MAX), LEGACY)
}

/// Makes an image acceptable to XRSTOR, whatever the program wrote.
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
    let plain = &mut plain[..image.len()];
    // Software's note and the list of components do not count.
    plain[FPX_SW_OFFSET..LEGACY].copy_from_slice(&image[FPX_SW_OFFSET..LEGACY]);
    if image.len() >= HEADER + HEADER_LEN {
        plain[HEADER..HEADER + HEADER_LEN].copy_from_slice(&image[HEADER..HEADER + HEADER_LEN]);
    }
    plain == image
}

/// Puts the running thread's state back to the initial one, if it has any.
pub fn reset() {
    thread::lazy_fpu::start_over();
}

/// The unmasked exceptions recorded in the running thread's state: bit 0 invalid, 1 denormal, 2 division by
/// zero, 3 overflow, 4 underflow, 5 precision. Of SSE or of x87.
pub fn exceptions(sse: bool) -> u32 {
    thread::lazy_fpu::look(|state| {
        let Some(image) = state else { return 0 };
        if sse {
            let mxcsr: u32 = bytemuck::pod_read_unaligned(&image[MXCSR..MXCSR + 4]);
            mxcsr & !(mxcsr >> 7) & 0x3f
        } else {
            let control = u32::from(u16::from_le_bytes([image[0], image[1]]));
            let status = u32::from(u16::from_le_bytes([image[2], image[3]]));
            status & !control & 0x3f
        }
    })
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
