//! The Linux ABI on top of quajects.
#![cfg_attr(not(test), no_std)]
