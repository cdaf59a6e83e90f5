//! `/syn`: what the kernel made of itself.
//!
//! *Interface.* [`file_system`].

use alloc::sync::Arc;

use super::place::FileSystem;
use super::text::{Fixed, TextFs};

/// What `statfs` shows.
const MAGIC: i64 = 0x5359_4e54;

/// A new instance.
pub fn file_system() -> Arc<dyn FileSystem> {
    TextFs::new("synfs", MAGIC, Arc::new(Fixed(&[])))
}
