//! Running threads: blocking and waking, giving the CPU to another thread, attending to one's marks, and the
//! step of an idle CPU.
//!
//! *Interface*: [`block`] blocks and wakes; [`handover`] steps from one thread to the next, [`donation`]
//! gives the turn to the holder of a lock; [`pending_work`] and [`procedures`] do what a thread's flags
//! request; [`idle`] is the step of an idle CPU, [`ipi_handler`] the work of a CPU that another one has
//! interrupted.

pub(crate) mod block;
pub(crate) mod donation;
pub(crate) mod handover;
pub(crate) mod idle;
pub(crate) mod ipi_handler;
pub(crate) mod pending_work;
pub(crate) mod procedures;
