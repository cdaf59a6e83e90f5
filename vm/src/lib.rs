//! Frames, page tables, address spaces, and the kernel's code space.
#![cfg_attr(not(test), no_std)]
