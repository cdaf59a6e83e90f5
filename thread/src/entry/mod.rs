//! The ways into the kernel and out of it: calls directly from dispatchers, the timer's interrupt, the ends
//! of interrupts, procedures in user mode.
//!
//! *Interface*: of each file.

pub(crate) mod blocking_read;
pub(crate) mod exit_to_user;
pub mod frameless;
pub mod jump_words;
pub(crate) mod protect;
pub(crate) mod tick;
pub(crate) mod timer;
