//! A task: one thread of a process, as UNIX sees it.
//!
//! *Interface*: [`Task::current`]; the fields that belong to a thread alone.

use alloc::sync::Arc;

use super::Process;

/// One thread of a process.
pub struct Task {
    /// Its number; that of the first thread is the process's.
    pub tid: i32,
    /// The process it belongs to.
    pub process: Arc<Process>,
}

impl Task {
    /// The running task. Panics on a kernel thread that is none.
    pub fn current() -> Arc<Task> {
        todo!("needs the running thread's owner word")
    }
}
