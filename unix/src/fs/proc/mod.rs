//! `/proc`: processes and the system as Linux shows them.
//!
//! *Interface.* [`file_system`].

use abi::linux::PROC_SUPER_MAGIC;
use alloc::sync::Arc;

use super::place::FileSystem;
use super::text::{Fixed, TextFs};

/// A new instance.
pub fn file_system() -> Arc<dyn FileSystem> {
    TextFs::new("proc", PROC_SUPER_MAGIC, Arc::new(Fixed(&[])))
}
