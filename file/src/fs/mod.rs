//! Names, inodes and open files: the targets of paths, and the objects behind descriptors.
//!
//! *Interface.* [`Inode`] is a file as a file system knows it; [`VfsPath`] is an inode reached through a
//! mount; [`mod@file`] is open files, each of which may be one of an inode, as an inode makes them;
//! [`FsContext`] is a process's root, working directory and umask; [`perm`] decides what a process may do.
//! [`dev::register`] gives a device number its behaviour.

pub mod acl;
pub mod attr;
pub mod context;
pub mod dentry;
pub mod dev;
pub mod directory;
pub mod dirents;
mod fast_open;
pub mod file;
pub(crate) mod file_size_limit;
pub mod fs_types;
pub mod fsnotify;
pub mod inactive;
pub mod inactive_inodes;
pub mod inode;
pub mod klog;
pub mod kmsg;
pub mod lease;
pub mod lock;
pub mod lockfree_walk;
pub(crate) mod meta;
pub mod mount;
pub mod mount_tree;
pub mod open;
pub mod ownership;
mod parent_cache;
pub mod parent_lookup;
pub mod path_cache;
pub mod perm;
pub mod pseudofs;
pub mod published;
pub mod remove;
pub mod rename_seq;
pub mod unnamed;
pub mod walk;
pub mod write_count;
pub(crate) mod xattrs;

pub use attr::{Attr, FileKind, FileTime, SetAttr};
pub use context::FsContext;
pub use inode::{DirEntry, DirSink, Inode, OpenRequest, XattrFlags};
pub use mount::{FileSystem, Mount, VfsPath};

/// The time of day.
pub fn now() -> FileTime {
    let ns = machine::clock::real_ns();
    FileTime {
        sec: (ns / abi::linux::NSEC_PER_SEC) as i64,
        nsec: (ns % abi::linux::NSEC_PER_SEC) as u32,
    }
}
