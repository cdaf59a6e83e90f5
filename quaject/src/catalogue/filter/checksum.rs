//! Checksum: Adler-32 of the bytes that have passed.
//!
//! *Interface*: that of every filter; its value is the checksum. Streams pass their bytes one at a time;
//! where several threads call `pass` or `put` of one filter at once, sums may get lost.
//!
//! Source: RFC 1950, section 8.2.
//!
//! *Unsafe*: words in a near block.

use super::{Treatment, filter};
use crate::kit::assembly::Assembly;
use crate::kit::class::Header;
use crate::kit::near_memory::NearBlock;
use crate::kit::routine_env::{RoutineError, near};
use codegen::dynasm;
use core::sync::atomic::{AtomicU32, Ordering};

/// The largest prime below 65536.
const BASE: i32 = 65521;

#[repr(C)]
struct Words {
    /// The sum of the bytes. One less than the algorithm has it, so that it begins with 0.
    bytes: AtomicU32,
    /// The sum of these sums.
    sums: AtomicU32,
}

/// The filter's treatment.
pub struct Sums(NearBlock);

filter! {
    /// Computes the checksum of the bytes that pass
    Checksum = "Checksum", Sums, spec (), make |()| {
        NearBlock::new(size_of::<Words>()).map(Sums).ok_or(RoutineError::OutOfMemory)
    }
}

impl Treatment for Sums {
    fn note(&self, a: &mut Assembly, _: &'static Header) -> Result<(), RoutineError> {
        let base = near(self.0.at().as_ptr())? as i32;
        let bytes = base + core::mem::offset_of!(Words, bytes) as i32;
        let sums = base + core::mem::offset_of!(Words, sums) as i32;
        dynasm!(a ; .arch x64
            ; mov eax, [bytes]
            ; add eax, edi
            ; cmp eax, BASE
            ; jb >small
            ; sub eax, BASE
            ; small:
            ; mov [bytes], eax
            ; inc eax
            ; add eax, [sums]
            ; cmp eax, BASE
            ; jb >less
            ; sub eax, BASE
            ; less:
            ; mov [sums], eax
        );
        Ok(())
    }

    /// The checksum of the bytes so far.
    fn value(&self, _: &'static Header) -> u64 {
        // SAFETY: the block holds the words, zeroed.
        let words = unsafe { self.0.at().cast::<Words>().as_ref() };
        let bytes = (words.bytes.load(Ordering::Relaxed) + 1) % BASE as u32;
        u64::from(words.sums.load(Ordering::Relaxed) << 16 | bytes)
    }
}
