//! Running threads: blocking and waking, giving the CPU to another thread, attending to one's marks, and the
//! step of an idle CPU.
//!
//! *Interface*: of each file.

pub(crate) mod block;
pub(crate) mod donation;
pub(crate) mod handover;
pub(crate) mod idle;
pub(crate) mod ipi_handler;
pub(crate) mod pending_work;
pub(crate) mod procedures;
