//! What several tests need.

pub mod threads;
#[cfg(all(target_os = "linux", not(miri)))]
pub mod trap;
