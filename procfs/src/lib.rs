//! The pseudo file systems: `/proc`, `/sys` and `/syn`, and those of control groups.
//!
//! *Interface*: [`proc`], [`sys`], [`syn`] and [`cgroupfs`] each make one file system. [`release`] and
//! [`printk_levels`] are values that calls tell and set, too, and [`nosys`] counts the calls that nobody
//! answers.
//!
//! A text is made anew for each look, and no hot path leads here, so this room alone is compiled for size
//! (`profile.kernel` in `Cargo.toml`).
#![cfg_attr(not(test), no_std)]
// Every action of a program is answered by a value, never by a panic.

extern crate alloc;

pub mod cgroupfs;
pub mod nosys;
pub mod printk_levels;
pub mod proc;
pub mod release;
pub mod syn;
pub mod sys;
