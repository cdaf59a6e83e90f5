//! Lock-free structures, one algorithm in each file (dissertation, chapter 5).
//!
//! *Interface*: docs/sync.md lists the modules and what each is for. Waiting (`wait`, `monitor`) knows
//! threads only through the callouts that the thread room links at boot. The queues that the kernel uses are
//! generated, and are in `quaject/src/catalogue/queue`; versions of them in plain Rust are in
//! `lab/src/queue`, with other structures that the kernel has no use for.
#![cfg_attr(not(any(test, loom)), no_std)]

extern crate alloc;

pub mod array_stack;
pub mod cached_word;
pub mod callout;
pub mod cas2;
pub mod combiner;
pub mod epoch;
pub mod hash_table;
pub mod journal;
pub mod lock_owner;
#[cfg(order)]
pub mod lockdep;
pub mod monitor;
pub mod once;
mod poll_set;
pub mod primitive;
pub mod ready_list;
pub mod seqlock_ring;
pub mod sequencer;
pub mod stack;
pub mod value_stack;
pub mod wait;
mod wait_slot;
pub mod word;

pub use array_stack::ArrayStack;
pub use cached_word::CachedWord;
pub use combiner::Combiner;
pub use hash_table::HashTable;
pub use journal::Journal;
pub use monitor::{Guard, Monitor};
pub use once::Once;
pub use poll_set::PollSet;
pub use seqlock_ring::SeqlockRing;
pub use sequencer::Sequencer;
pub use stack::Stack;
pub use value_stack::ValueStack;
pub use wait::{Callback, Interrupted, WaitList, WaitNode};
pub use word::{Handle, Small, Word};
