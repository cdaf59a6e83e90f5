//! Files: names and inodes, descriptors, pipes, sockets, and waiting for many of them.
//!
//! *Interface*: [`fs`] is names, inodes, mounts and, in [`fs::file`], whose items are also here, open files
//! with their generated routines; [`files`] is the descriptors by which programs name them. [`mem`] and
//! [`share`] are file systems, [`cache`] the pages of files; [`pipe`], [`socket`], [`event`] and [`epoll`]
//! are kinds of files. [`io`] is the buffer of a transfer, [`poll`] has the wait lists that a file shows,
//! [`select`] waits for many files, and [`seam`] has the constants for generated routines.
//!
//! Nothing here knows processes: [`callout`] has the questions about them.
#![cfg_attr(test, allow(clippy::disallowed_methods, clippy::disallowed_macros))]
#![cfg_attr(not(test), no_std)]
// Every action of a program is answered by a value, never by a panic.
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable,
        clippy::todo,
        clippy::unimplemented
    )
)]

extern crate alloc;

pub mod cache;
pub mod callout;
pub mod epoll;
pub mod event;
pub mod files;
pub mod fs;
pub mod gauge;
pub mod io;
pub mod mem;
pub mod pipe;
pub mod poll;
pub mod seam;
pub mod select;
pub mod share;
pub mod shared;
pub mod socket;
pub mod stubs;
pub mod ties;

pub use fs::file::*;
