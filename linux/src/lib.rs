//! The Linux interface: calls by number, the tree of names, and the first program.
//!
//! *Interface*: [`trap`] links the machine's exceptions and calls to this room; [`call`] is the table by
//! number; [`rootfs`] makes the tree of names, with `/proc`, `/sys` and `/syn` in it; [`init`] runs the first
//! program.
#![cfg_attr(not(test), no_std)]
// Every action of a program is answered by a value, never by a panic.

extern crate alloc;

pub mod call;
mod devtmpfs;
pub mod init;
pub mod rootfs;
pub mod trap;
