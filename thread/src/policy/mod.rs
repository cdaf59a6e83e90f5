//! Policies and affinity: where a thread is put by its policy, and on which CPUs.
//!
//! *Interface*: of each file; [`real_time::settle`] by a thread itself before it enters user mode.

pub(crate) mod affinity;
pub(crate) mod real_time;
