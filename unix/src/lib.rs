//! The Linux ABI on top of quajects.
//!
//! *Interface*: [`trap`] links the machine's exceptions and calls to this room; [`call`] is the table by
//! number; [`process`], [`signal`] and [`exec`] are what runs; [`fs`], [`files`] what it opens.
#![cfg_attr(not(test), no_std)]

extern crate alloc;

pub mod call;
pub mod files;
pub mod fs;
pub mod process;
