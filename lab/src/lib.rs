//! Algorithms that wait for no lock and have no user in the kernel, one a file: to be measured beside others,
//! and as the twins of generated queues.
//!
//! *Interface*: each module's first lines. They are written with `sync::primitive` and tested as the
//! structures of `sync` are; the product does not link this package.
#![cfg_attr(not(any(test, loom)), no_std)]

extern crate alloc;

pub mod helping;
pub mod list;
pub mod mcas;
pub mod queue;
pub mod single_server;

pub use helping::{Helping, HelpingLock};
pub use list::List;
