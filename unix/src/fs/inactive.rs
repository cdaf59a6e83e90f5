//! The inactive list of an inode.

/// Descriptions of one inode that wait for the next open.
pub struct Inactive(());
