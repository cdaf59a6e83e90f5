//! Device servers: protocol from kept crates where one exists, data path synthesized (dissertation, 4.4.2).
//!
//! *Interface*: [`serial`], the 16550 lines; [`names`], the symbol table by which the rooms above find a device. Drivers wake threads only through `sync`'s
//! wait lists.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

pub mod names;
pub mod serial;
