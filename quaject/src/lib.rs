//! Quajects: their definition, linking, and the catalogue (dissertation, chapter 4).
#![cfg_attr(not(test), no_std)]

extern crate alloc;

pub mod cook_tty_in;
pub mod cook_tty_out;
