//! The life of threads: creation, first steps and end; the room's own threads, and bringing the room up.
//!
//! *Interface*: of each file. [`start_up`] brings the room up, [`callouts`] links the operations that `sync`
//! needs.

pub(crate) mod callouts;
pub mod grace;
pub(crate) mod on_demand;
pub(crate) mod spawn;
pub(crate) mod start_up;
