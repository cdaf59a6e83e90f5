//! The life of threads: creation, first steps and end; the room's own threads, and bringing the room up.
//!
//! *Interface*: [`spawn`] creates and ends threads, [`on_demand`] a thread of the kernel when there is work
//! for it; [`grace`] is the thread that ends grace periods; [`start_up`] brings the room up, and [`callouts`]
//! links the operations that `sync` needs.

pub(crate) mod callouts;
pub mod grace;
pub(crate) mod on_demand;
pub(crate) mod spawn;
pub(crate) mod start_up;
