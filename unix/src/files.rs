//! A process's descriptors (placeholder shape until the descriptor table is in).

use abi::errno::Result;
use alloc::sync::Arc;

/// The descriptor table.
#[derive(Default)]
pub struct Files;

impl Files {
    /// A copy for a forked child. ENOMEM.
    pub fn fork_copy(&self) -> Result<Arc<Files>> {
        Ok(Arc::new(Files))
    }

    /// Closes what is marked close-on-exec.
    pub fn close_on_exec(&self) {}
}
