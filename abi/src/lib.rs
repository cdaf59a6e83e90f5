//! Numbers and layouts that the kernel and its user programs share.
//!
//! *Interface*: [`layout`] (addresses), [`nr`] (call numbers), [`errno`]
//! (error numbers), [`native`] (thread operations), [`linux`] (structures and flags of the Linux x86-64 ABI).
//! Nothing here has behaviour beyond conversions.
#![cfg_attr(not(test), no_std)]

pub mod errno;
pub mod layout;
pub mod linux;
pub mod native;
pub mod nr;

pub use errno::{Errno, Result};
