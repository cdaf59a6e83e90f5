//! File systems (placeholder shape until they are in).

use alloc::sync::Arc;

/// Where a process stands in the tree of names: root, working directory, umask.
#[derive(Default)]
pub struct FsContext;

impl FsContext {
    /// A copy for a forked child.
    pub fn fork_copy(&self) -> Arc<FsContext> {
        Arc::new(FsContext)
    }
}
