//! Running threads: blocking and waking, the ready rings, giving the CPU to another thread; creation and end
//! of threads, and the idle threads.
//!
//! *Interface*: of each file. [`local`] has the per-CPU data, [`start_up`] brings a CPU up, [`callouts`]
//! links the operations that `sync` needs.

pub(crate) mod asked;
pub(crate) mod block;
pub(crate) mod budget;
pub(crate) mod callouts;
pub(crate) mod donate;
pub(crate) mod idle;
pub(crate) mod kick;
pub(crate) mod local;
pub(crate) mod on_demand;
pub mod ready;
pub(crate) mod spawn;
pub(crate) mod start_up;
pub(crate) mod urgent;
