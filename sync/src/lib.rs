//! Structures that wait for no lock, one algorithm a file (dissertation, chapter 5).
//!
//! *Interface*: each module's first lines. Waiting (`wait`, `monitor`) knows threads
//! only through the callouts that the thread room links at boot.
#![cfg_attr(not(any(test, loom)), no_std)]

extern crate alloc;

pub mod array_stack;
pub mod callout;
pub mod cas2;
pub mod epoch;
pub mod list;
pub mod monitor;
pub mod once;
mod primitive;
pub mod queue;
pub mod stack;
pub mod wait;
pub mod word;

pub use array_stack::ArrayStack;
pub use list::List;
pub use monitor::{Guard, Monitor};
pub use once::Once;
pub use stack::Stack;
pub use wait::{Interrupted, WaitList, WaitNode, Watch};
pub use word::{Handle, Word};
