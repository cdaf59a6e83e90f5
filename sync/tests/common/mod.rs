//! Helpers that several tests need, those of `lab` too.

#[cfg(all(target_os = "linux", not(miri)))]
pub mod freeze;
pub mod tally;
pub mod threads;
#[cfg(all(target_os = "linux", not(miri)))]
pub mod trap;
