//! An inode reached through a mount, and the table of mounts.

use super::inode::Inode;
use abi::linux::Statfs;
use alloc::string::String;
use alloc::sync::Arc;

/// A file system that can be mounted.
pub trait FileSystem: Send + Sync {
    /// The name of its kind, as in `/proc/filesystems`.
    fn kind(&self) -> &'static str;
    /// Its root directory.
    fn root(&self) -> Arc<dyn Inode>;
    /// What `statfs` says.
    fn statfs(&self) -> Statfs;
}

/// A file system in its place in the tree.
pub struct Mount {
    /// Number, as in `/proc/PID/mountinfo`.
    pub id: u32,
    /// What is mounted.
    pub fs: Arc<dyn FileSystem>,
    /// Its root directory.
    pub root: Arc<dyn Inode>,
    /// The directory it covers; `None` for the root.
    pub covers: Option<Place>,
    /// First column of `/proc/mounts`.
    pub source: String,
    /// `MS_*`.
    pub flags: u64,
}

/// An inode reached through a mount.
#[derive(Clone)]
pub struct Place {
    /// The mount.
    pub mount: Arc<Mount>,
    /// The inode.
    pub inode: Arc<dyn Inode>,
}
