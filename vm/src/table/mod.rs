//! Four-level page tables over [`crate::memory::Memory`].
