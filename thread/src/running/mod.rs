//! Who runs: blocking and waking, the ready rings, giving the CPU to another thread; a thread's beginning and
//! end, and the idle threads'.
//!
//! *Interface*: of each file. [`local`] has what the room keeps for a CPU, [`start_up`] brings it up,
//! [`callouts`] links what `sync` needs.

pub(crate) mod asked;
pub(crate) mod block;
pub(crate) mod callouts;
pub(crate) mod donate;
pub(crate) mod idle;
pub(crate) mod kick;
pub(crate) mod local;
pub mod ready;
pub(crate) mod spawn;
pub(crate) mod start_up;
