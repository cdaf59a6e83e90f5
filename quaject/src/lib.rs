//! The quajects: building blocks of the kernel, the creator and interfacer that make and connect them, and the
//! generators of the routines behind descriptors.
//!
//! *Interface*: each module's first lines. Knows no threads: blocking and waking are callouts that a higher room links
//! (dissertation, sections 4.1.3 and 4.1.4).
#![cfg_attr(not(any(test, loom)), no_std)]

extern crate alloc;

pub mod buffer_in;
pub mod buffer_out;
pub mod callback;
pub mod class;
pub mod constant;
pub mod cook_tty_in;
pub mod cook_tty_out;
mod emit;
pub mod fsmap;
pub mod gauge;
pub mod guard;
pub mod interfacer;
pub mod near;
pub mod pipe;
pub mod plug;
mod primitive;
pub mod probe;
pub mod pump;
pub mod queue;
pub mod regs;
mod seam;
pub mod serializer;
pub mod switch;
pub mod symtab;
#[cfg(test)]
mod testing;

pub use seam::{Conv, DescFn, Seam, Sharing, Unmade};
