//! Names, inodes and open files: the targets of paths, and the objects behind descriptors.
//!
//! *Interface.* [`Inode`] is a file as a file system knows it; [`Place`] is an inode reached through a mount;
//! [`mod@file`] is open files, each of which may be one of an inode, as an inode makes them;
//! [`FsContext`] is a process's root, working directory and umask; [`perm`] decides what a process may do.
//! [`dev::register`] gives a device number its behaviour.

pub mod acl;
pub mod attr;
pub mod busy;
pub mod context;
pub mod dev;
pub mod directory;
pub mod entry;
pub(crate) mod extra;
pub mod file;
mod fresh;
pub mod inactive;
pub mod inode;
pub mod kept;
pub mod kinds;
pub mod klog;
pub mod kmsg;
pub mod lease;
pub(crate) mod length;
pub mod lock;
pub(crate) mod meta;
pub mod mounts;
pub mod moves;
pub mod names;
pub mod open;
pub mod ownership;
pub mod perm;
pub mod place;
mod recent;
pub mod records;
pub mod remove;
pub mod shown;
pub mod spot;
pub mod text;
pub mod walk;
pub mod watch;
pub mod way;

pub use attr::{Attr, Kind, SetAttr, Time};
pub use context::FsContext;
pub use inode::{DirEntry, DirSink, How, Inode, SetValue};
pub use place::{FileSystem, Mount, Place};

/// The time of day.
pub fn now() -> Time {
    let ns = machine::clock::real_ns();
    Time {
        sec: (ns / abi::linux::NSEC_PER_SEC) as i64,
        nsec: (ns % abi::linux::NSEC_PER_SEC) as u32,
    }
}
