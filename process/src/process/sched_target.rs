//! The target of a call about scheduling: a thread, or the first thread of a process after its end.
//!
//! *Interface*: [`SchedTarget::find`]; settings of an ended thread are kept with its process until that has
//! been waited for, and have no effect.

use abi::Result;
use account::Cred;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;

use super::sched_params::{SchedParams, SchedPolicy};
use super::{Process, Task, tree};

/// The settings of a first thread that has ended.
pub(crate) struct EndedLeader {
    sched: SchedParams,
    /// How many programs the process had executed.
    images: u32,
}

/// A thread whose settings can be asked for and changed.
pub enum SchedTarget {
    /// A thread.
    Thread(Arc<Task>),
    /// The ended first thread of this process.
    Ended(Arc<Process>),
}

impl Process {
    /// `task`, its first thread, ends.
    pub(crate) fn keep_sched(&self, task: &Task) {
        let _first = self.ended_leader.set(EndedLeader {
            sched: task.sched.copied(),
            images: self.images.load(Ordering::Relaxed),
        });
    }

    /// The settings of its first thread, if that has ended, and no other thread has executed a program since.
    pub fn ended_sched(&self) -> Option<&SchedParams> {
        let kept = self.ended_leader.get()?;
        let same = kept.images == self.images.load(Ordering::Relaxed);
        (same || self.is_zombie()).then_some(&kept.sched)
    }
}

impl SchedTarget {
    /// The one with number `tid`.
    pub fn find(tid: i32) -> Option<SchedTarget> {
        if let Some(task) = tree::find_task(tid) {
            return Some(SchedTarget::Thread(task));
        }
        let process = tree::find(tid)?;
        if process.ended_sched().is_some() {
            return Some(SchedTarget::Ended(process));
        }
        process.a_thread().map(SchedTarget::Thread)
    }

    /// Its process.
    pub fn process(&self) -> &Arc<Process> {
        match self {
            SchedTarget::Thread(task) => &task.process,
            SchedTarget::Ended(process) => process,
        }
    }

    /// Its identity.
    pub fn cred(&self) -> Arc<Cred> {
        match self {
            SchedTarget::Thread(task) => task.cred.get(),
            SchedTarget::Ended(process) => process.cred.get(),
        }
    }

    /// Its settings; none of a thread whose process has gone meanwhile.
    pub fn sched(&self) -> Option<&SchedParams> {
        match self {
            SchedTarget::Thread(task) => Some(&task.sched),
            SchedTarget::Ended(process) => process.ended_sched(),
        }
    }

    /// As [`Task::set_nice`].
    pub fn set_nice(&self, nice: i32) {
        match self {
            SchedTarget::Thread(task) => task.set_nice(nice),
            SchedTarget::Ended(process) => {
                if let Some(sched) = process.ended_sched() {
                    sched.set_nice(nice);
                }
            }
        }
    }

    /// As [`Task::set_allowed`].
    pub fn set_allowed(&self, allowed: u64, all: u64) -> Result<()> {
        match self {
            SchedTarget::Thread(task) => task.set_allowed(allowed, all)?,
            SchedTarget::Ended(process) => {
                if let Some(sched) = process.ended_sched() {
                    sched.set_allowed(allowed);
                }
            }
        }
        Ok(())
    }

    /// As [`Task::set_policy`].
    pub fn set_policy(&self, policy: SchedPolicy) -> Result<()> {
        match self {
            SchedTarget::Thread(task) => task.set_policy(policy)?,
            SchedTarget::Ended(process) => {
                if let Some(sched) = process.ended_sched() {
                    sched.set_policy(policy);
                }
            }
        }
        Ok(())
    }

    /// The length of its turns, nanoseconds.
    pub fn quantum_ns(&self) -> u64 {
        match self {
            SchedTarget::Thread(task) => task.thread.own_quantum_ns(),
            SchedTarget::Ended(process) => process.ended_sched().map_or(0, SchedParams::quantum_ns),
        }
    }
}
