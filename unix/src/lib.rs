//! The Linux ABI on top of quajects.
//!
//! *Interface*: [`trap`] links the machine's exceptions and calls to this room; [`call`] is the table by
//! number; [`process`], [`signal`] and [`exec`] are what runs; [`fs`] is names, inodes and mounts, [`mod@file`] and
//! [`files`] open files and descriptors with their generated routines, [`io`] the buffer of a transfer,
//! [`poll`] waiting for many files.
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

pub mod boot;
pub mod call;
pub mod callout;
pub mod dispatch;
mod epoll;
mod event;
pub mod exec;
pub mod file;
pub mod files;
pub mod fp;
pub mod fs;
pub mod futex;
pub mod init;
pub mod io;
mod ipc;
mod memory;
pub mod pipe;
pub mod poll;
mod primitive;
mod proc;
pub mod process;
pub mod seam;
pub mod signal;
pub mod socket;
mod syn;
mod sys;
pub mod time;
pub mod trap;
pub mod tty;
