//! An arena that stands for the machine's physical memory when the kernel's rooms are tested on the host.
//!
//! *Interface*: [`arena`], made at first use.

use std::sync::OnceLock;

/// Bytes of fake physical memory. The first page is left out, so that no frame has number zero.
const BYTES: usize = 64 << 20;

/// Fake physical memory.
pub struct Arena {
    base: usize,
}

impl Arena {
    /// Where fake physical address `physical` is.
    pub fn virt(&self, physical: u64) -> *mut u8 {
        (self.base + physical as usize) as *mut u8
    }
}

/// The arena behind [`crate::memory::Kernel`].
pub fn arena() -> &'static Arena {
    static ARENA: OnceLock<Arena> = OnceLock::new();
    ARENA.get_or_init(|| todo!())
}
