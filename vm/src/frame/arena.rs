//! An arena that stands for the machine's physical memory when the kernel's rooms are tested on the host.
//!
//! *Interface*: [`arena`], made at first use.

use super::{Frame, Frames, uninitialized};
use abi::layout::PAGE;
use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::sync::OnceLock;

/// Frames of fake physical memory. The first is left out, so that none has number zero.
const FRAMES: usize = 16384;

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

fn zeroed(bytes: usize) -> *mut u8 {
    let layout = Layout::from_size_align(bytes, PAGE).unwrap_or(Layout::new::<u64>());
    // SAFETY: the size is not zero.
    let memory = unsafe { alloc_zeroed(layout) };
    if memory.is_null() {
        handle_alloc_error(layout);
    }
    memory
}

/// The arena behind [`super::Kernel`].
pub fn arena() -> &'static Arena {
    static ARENA: OnceLock<Arena> = OnceLock::new();
    ARENA.get_or_init(|| {
        let frames = uninitialized();
        // SAFETY: whoever wants the allocator comes by here first; the memory is ours for ever.
        unsafe {
            frames.install(zeroed(Frames::metadata_bytes(FRAMES)), FRAMES);
            frames.add(Frame(1), Frame(FRAMES as u32));
        }
        Arena {
            base: zeroed(FRAMES * PAGE) as usize,
        }
    })
}
