//! Numbers and layouts that the kernel and its user programs share.
#![cfg_attr(not(test), no_std)]
