//! The quajects: building blocks of the kernel, the creator and interfacer that make and connect them, and the
//! generators of the routines behind descriptors.
//!
//! *Interface*: each module's first lines. Knows no threads: blocking and waking are callouts that a higher room links
//! (dissertation, sections 4.1.3 and 4.1.4).
#![cfg_attr(not(any(test, loom)), no_std)]
#![cfg_attr(test, allow(clippy::disallowed_methods, clippy::disallowed_macros))]

extern crate alloc;

// Classes are statics, which loom's atomics cannot be; under loom only what has a model is compiled with it.

#[cfg(not(loom))]
pub mod buffer_in;
#[cfg(not(loom))]
pub mod buffer_out;
pub mod callback;
#[cfg(not(loom))]
pub mod class;
pub mod constant;
#[cfg(not(loom))]
pub mod cook_tty_in;
#[cfg(not(loom))]
pub mod cook_tty_out;
pub mod counter;
mod emit;
pub mod fsmap;
#[cfg(not(loom))]
pub mod gauge;
pub mod guard;
#[cfg(not(loom))]
pub mod interfacer;
pub mod look;
#[cfg(not(loom))]
pub mod near;
pub mod pipe;
pub mod plug;
mod primitive;
#[cfg(not(loom))]
pub mod probe;
#[cfg(not(loom))]
pub mod pump;
#[cfg(not(loom))]
pub mod queue;
pub mod regs;
#[cfg(not(loom))]
pub mod relay;
mod seam;
#[cfg(not(loom))]
pub mod serializer;
#[cfg(not(loom))]
pub mod switch;
pub mod symtab;
#[cfg(all(test, not(loom)))]
mod testing;

pub use seam::{Conv, DescFn, Seam, Sharing, Sleep, Unmade};
