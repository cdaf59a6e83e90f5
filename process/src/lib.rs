//! Processes: what runs programs, and what happens to it.
//!
//! *Interface*: [`mod@process`], whose items stand here too, is processes and their threads; [`signal`],
//! [`time`] and [`futex`] are what happens between them, [`exec`] puts a program into one, [`ipc`] is what
//! System V and POSIX let them share by name. [`dispatch`] makes the code that answers a thread's calls,
//! [`fp`] shows its registers, [`memory`] says who has to end when there is none.
//!
//! Nothing here knows the calls by number, or terminals.
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

pub mod dispatch;
pub mod exec;
pub mod fp;
pub mod futex;
pub mod ipc;
pub mod itself;
pub mod memory;
mod primitive;
pub mod process;
pub mod signal;
pub mod time;

pub use process::*;
