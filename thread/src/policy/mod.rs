//! Policies and affinity: where a thread is put by its policy, and on which CPUs.
//!
//! *Interface*: [`real_time`] has the scheduling classes, [`affinity`] the CPUs on which a thread may run. A
//! thread itself applies both before it enters user mode ([`real_time::apply_policy`]).

pub(crate) mod affinity;
pub(crate) mod real_time;
