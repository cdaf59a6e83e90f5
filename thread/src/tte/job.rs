//! The job that a thread has declared.
//!
//! *Interface*: [`Job`]; `native::job` works with it.

use super::signal::Procedure;
use crate::alarm::AlarmId;
use feedback::estimate::Estimate;

/// A thread's job.
pub(crate) struct Job {
    pub(crate) estimate: Estimate,
    /// The user's procedure, until it has been called.
    pub(crate) procedure: Option<Procedure>,
    /// The time between looks.
    pub(crate) interval_ns: u64,
    pub(crate) next_ns: u64,
    pub(crate) alarm: Option<AlarmId>,
}
