//! The ways into the kernel and out of it: calls directly from dispatchers, the timer's interrupt, the ends
//! of interrupts, procedures in user mode.
//!
//! *Interface*: of each file.

pub(crate) mod gate;
pub mod outright;
pub(crate) mod protect;
pub(crate) mod tick;
pub(crate) mod timer;
pub(crate) mod waiting;
pub mod ways;
