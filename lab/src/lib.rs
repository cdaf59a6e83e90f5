//! Algorithms that wait for no lock and have no user in the kernel, one a file: to be measured beside others,
//! and as the reference implementations of generated queues.
//!
//! *Interface*: [`queue`] has the queues, [`list`] a linked list, [`mcas`] compare-and-swap of many words,
//! [`helping`] and [`single_server`] locks. They are written with `sync::primitive` and tested as the
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
