//! Lock-free structures, one algorithm in each file (dissertation, chapter 5).
//!
//! *Interface*: each module's first lines. Waiting (`wait`, `monitor`) knows threads
//! only through the callouts that the thread room links at boot. Structures that the kernel has no use for
//! are in `lab`.
#![cfg_attr(not(any(test, loom)), no_std)]

extern crate alloc;

pub mod array_stack;
pub mod batch;
pub mod callout;
pub mod cas2;
pub mod claims;
pub mod derived;
pub mod epoch;
pub mod holder;
pub mod journal;
pub mod monitor;
pub mod once;
#[cfg(order)]
pub mod order;
mod place;
pub mod primitive;
pub mod ready;
pub mod recent;
pub mod stack;
pub mod table;
pub mod value_stack;
pub mod wait;
mod watch;
pub mod word;

pub use array_stack::ArrayStack;
pub use batch::Batch;
pub use claims::Claims;
pub use derived::Derived;
pub use journal::Journal;
pub use monitor::{Guard, Monitor};
pub use once::Once;
pub use recent::Recent;
pub use stack::Stack;
pub use table::Table;
pub use value_stack::ValueStack;
pub use wait::{Callback, Interrupted, WaitList, WaitNode};
pub use watch::Watch;
pub use word::{Handle, Small, Word};
