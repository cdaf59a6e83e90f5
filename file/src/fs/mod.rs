//! Names and inodes: the targets of paths.
//!
//! *Interface.* [`Inode`] is a file as a file system knows it; [`Place`] is an inode reached through a mount;
//! [`FsContext`] is a process's root, working directory and umask; [`perm`] decides what a process may do.
//! [`dev::register`] gives a device number its behaviour.

pub mod acl;
pub mod attr;
pub mod busy;
pub mod cache;
pub mod context;
pub mod dev;
pub mod directory;
pub mod entry;
pub mod fifo;
mod fresh;
pub mod inactive;
pub mod inode;
pub mod kept;
pub mod kinds;
pub mod lease;
pub(crate) mod length;
pub mod lock;
pub mod mem;
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
pub mod share;
pub mod shown;
pub mod spot;
pub mod text;
pub mod unpack;
pub mod walk;
pub mod watch;
pub mod way;

/// The root exists: from now on files in memory may take half of the free memory.
pub use mem::budget::bind as limit;

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
