//! Files: names and inodes, descriptors, pipes, sockets, and waiting for many of them.
//!
//! *Interface*: [`fs`] is names, inodes, mounts and, in [`fs::file`], whose items are also here, open files
//! with their generated routines; [`fdtable`] is the descriptors by which programs name them. [`tmpfs`] and
//! [`p9`] are file systems, [`page_cache`] the pages of files; [`pipe`], [`socket`], [`event`] and [`epoll`]
//! are kinds of files. [`io`] is the buffer of a transfer, [`poll`] has the wait lists that a file shows,
//! [`select`] waits for many files, and [`routine_env`] has the constants for generated routines.
//!
//! Nothing here knows processes: [`callout`] has the questions about them.
#![cfg_attr(not(test), no_std)]
// Every action of a program is answered by a value, never by a panic.

extern crate alloc;

pub mod arc_swap;
pub mod callout;
pub mod close_cleanup;
pub mod epoll;
pub mod event;
pub mod fdtable;
pub mod fs;
pub mod gauge;
pub mod io;
pub mod p9;
pub mod page_cache;
pub mod pipe;
pub mod poll;
pub mod routine_env;
pub mod select;
pub mod socket;
pub mod stubs;
pub mod tmpfs;

pub use fs::file::*;
