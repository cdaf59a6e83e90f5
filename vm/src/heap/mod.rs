//! The kernel's heap: lock-free size classes in frames below 1 GiB, the global allocator.
//!
//! *Interface*: Rust's `alloc`; [`stats`] for leak checks, [`trim`] to give empty pages back.

/// Counts of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Bytes that callers hold now (as they asked, not rounded).
    pub used: usize,
    /// Bytes of frames that the heap holds.
    pub held: usize,
}

/// Counts of bytes.
pub fn stats() -> Stats {
    todo!()
}

/// Gives pages without objects back to the frame allocator. Answers how many.
pub fn trim() -> usize {
    todo!()
}
