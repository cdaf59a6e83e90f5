//! Structures that wait for no lock, one algorithm a file (dissertation, chapter 5).
//!
//! *Interface*: each module's first lines. Waiting (`wait`, `monitor`) knows threads
//! only through the callouts that the thread room links at boot.
#![cfg_attr(not(any(test, loom)), no_std)]

extern crate alloc;

pub mod callout;
pub mod epoch;
pub mod monitor;
mod primitive;
pub mod wait;

pub use monitor::{Guard, Monitor};
pub use wait::{Interrupted, WaitList, WaitNode, Watch};
