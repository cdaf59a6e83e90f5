//! Names, inodes and open files: the targets of paths, and the objects behind descriptors.
//!
//! *Interface.* [`Inode`] is a file as a file system knows it; [`VfsPath`] is an inode reached through a mount;
//! [`mod@file`] is open files, each of which may be one of an inode, as an inode makes them;
//! [`FsContext`] is a process's root, working directory and umask; [`perm`] decides what a process may do.
//! [`dev::register`] gives a device number its behaviour.

pub mod acl;
pub mod attr;
pub mod write_count;
pub mod context;
pub mod dev;
pub mod directory;
pub mod dentry;
pub(crate) mod xattrs;
pub mod file;
mod fast_open;
pub mod inactive;
pub mod inode;
pub mod inactive_inodes;
pub mod fs_types;
pub mod klog;
pub mod kmsg;
pub mod lease;
pub(crate) mod file_size_limit;
pub mod lock;
pub(crate) mod meta;
pub mod mount_tree;
pub mod rename_seq;
pub mod path_cache;
pub mod open;
pub mod ownership;
pub mod perm;
pub mod mount;
mod parent_cache;
pub mod dirents;
pub mod remove;
pub mod published;
pub mod parent_lookup;
pub mod pseudofs;
pub mod walk;
pub mod fsnotify;
pub mod lockfree_walk;

pub use attr::{Attr, FileKind, SetAttr, FileTime};
pub use context::FsContext;
pub use inode::{DirEntry, DirSink, OpenHow, Inode, XattrFlags};
pub use mount::{FileSystem, Mount, VfsPath};

/// The time of day.
pub fn now() -> FileTime {
    let ns = machine::clock::real_ns();
    FileTime {
        sec: (ns / abi::linux::NSEC_PER_SEC) as i64,
        nsec: (ns % abi::linux::NSEC_PER_SEC) as u32,
    }
}
