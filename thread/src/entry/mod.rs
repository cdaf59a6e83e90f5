//! The ways into the kernel and out of it: dispatchers, calls directly from them, the ends of interrupts,
//! procedures in user mode.
//!
//! *Interface*: of each file.

pub mod chain;
pub mod dispatch;
pub(crate) mod gate;
pub mod outright;
pub(crate) mod protect;
pub(crate) mod waiting;
pub mod ways;
