//! Memory that generated code reaches with a sign-extended 32-bit address.
//!
//! *Interface*: [`NearBlock`] owns zeroed bytes. In the kernel the whole heap is near; on the host, for tests
//! and benchmarks, a block comes from the low two gigabytes.
//!
//! *Unsafe*: allocating near memory.

use core::ptr::NonNull;

#[cfg(any(test, feature = "host"))]
use codegen::host::Low;

/// The place of a block on the host. Most are small, and thousands wait there while a test holds the grace
/// period.
#[cfg(any(test, feature = "host"))]
enum Place {
    Small(#[expect(dead_code, reason = "owns the bytes")] Low<[u8; SMALL]>),
    Large(#[expect(dead_code, reason = "owns the bytes")] Low<[u8; LARGEST]>),
}

#[cfg(any(test, feature = "host"))]
const SMALL: usize = 16 * 1024;
/// The largest block on the host, in bytes.
#[cfg(any(test, feature = "host"))]
const LARGEST: usize = 640 * 1024;

/// Alignment of every block, in bytes.
pub const ALIGN: usize = 64;

/// Zeroed bytes in near memory.
pub struct NearBlock {
    at: NonNull<u8>,
    len: usize,
    #[cfg(any(test, feature = "host"))]
    _place: Place,
}

// SAFETY: it owns plain bytes.
unsafe impl Send for NearBlock {}
// SAFETY: as above; the owner gives the bytes their meaning.
unsafe impl Sync for NearBlock {}

impl NearBlock {
    /// `len` bytes, all zero. None when there is no memory.
    #[cfg(not(any(test, feature = "host")))]
    pub fn new(len: usize) -> Option<NearBlock> {
        let layout = core::alloc::Layout::from_size_align(len.max(1), ALIGN).ok()?;
        if codegen::fault_injection::refused() {
            return None;
        }
        // SAFETY: the size is not zero.
        let at = NonNull::new(unsafe { alloc::alloc::alloc_zeroed(layout) })?;
        Some(NearBlock { at, len })
    }

    /// `len` bytes, all zero. None when there is no memory.
    #[cfg(any(test, feature = "host"))]
    pub fn new(len: usize) -> Option<NearBlock> {
        if len > LARGEST {
            return None;
        }
        let (at, _place) = if len <= SMALL {
            let mut place = Low::new([0; SMALL]);
            (NonNull::from(&mut *place).cast(), Place::Small(place))
        } else {
            let mut place = Low::new([0; LARGEST]);
            (NonNull::from(&mut *place).cast(), Place::Large(place))
        };
        Some(NearBlock { at, len, _place })
    }

    /// Address of the first byte.
    pub fn at(&self) -> NonNull<u8> {
        self.at
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[cfg(not(any(test, feature = "host")))]
impl Drop for NearBlock {
    fn drop(&mut self) {
        if let Ok(layout) = core::alloc::Layout::from_size_align(self.len.max(1), ALIGN) {
            // SAFETY: allocated by `new` with this layout.
            unsafe { alloc::alloc::dealloc(self.at.as_ptr(), layout) };
        }
    }
}
