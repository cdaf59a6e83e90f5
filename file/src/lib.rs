//! Files: names and what they lead to, descriptors, pipes, sockets, and waiting for many of them.
//!
//! *Interface*: [`fs`] is names, inodes and mounts; [`mod@file`], whose items stand here too, is open files
//! with their generated routines, and [`files`] the descriptors by which programs know them; [`pipe`],
//! [`socket`], [`event`] and [`epoll`] are kinds of them. [`io`] is the buffer of a transfer, [`poll`]
//! waiting for many files, [`seam`] what routines are generated against.
//!
//! Nothing here knows processes: [`callout`] is what it asks about them.
#![cfg_attr(test, allow(clippy::disallowed_methods, clippy::disallowed_macros))]
#![cfg_attr(not(test), no_std)]
// Whatever a program does is answered by a value.
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

pub mod callout;
pub mod epoll;
pub mod event;
pub mod file;
pub mod files;
pub mod fs;
pub mod io;
pub mod pipe;
pub mod poll;
pub mod seam;
pub mod shared;
pub mod socket;

pub use file::*;
