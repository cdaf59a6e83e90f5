//! The Linux interface: calls by number, the tree of names, and the first program.
//!
//! *Interface*: [`trap`] links the machine's exceptions and calls to this room; [`call`] is the table by
//! number; [`rootfs`] makes the tree of names, with `/proc`, `/sys` and `/syn` in it; [`init`] runs the first
//! program.
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

pub mod call;
mod devtmpfs;
pub mod init;
pub mod rootfs;
pub mod trap;
