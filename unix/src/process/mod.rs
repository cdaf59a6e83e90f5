//! The process: what all its threads share.
//!
//! *Interface*: [`Process::current`] and [`Task::current`]; the tree of processes and its groups in
//! [`tree`]; [`Session`] for terminals. A process is alive until its last thread has ended, then a zombie
//! until its parent has waited ([`wait`]).
//!
//! Lock order: the tree, then one process's monitors, then files.

pub mod cred;
pub mod limits;
pub mod session;
pub mod shared;
pub mod task;
pub mod tree;

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicI32, Ordering};

use sync::monitor::Monitor;

pub use cred::Cred;
pub use limits::Limits;
pub use session::{Session, Terminal};
pub use shared::Shared;
pub use task::Task;

use crate::files::Files;
use crate::fs::FsContext;

/// What runs: for `/proc` and for people.
#[derive(Clone, Default)]
pub struct Program {
    /// The path of the executable file, absolute.
    pub exe: String,
    /// The arguments, each ended by a NUL byte.
    pub cmdline: Vec<u8>,
    /// The short name, at most 15 bytes.
    pub comm: String,
}

/// A process (Linux: a thread group).
pub struct Process {
    /// Its number, that of its first thread.
    pub pid: i32,
    /// Its descriptors.
    pub files: Shared<Files>,
    /// Its root, working directory and umask.
    pub fs: Shared<FsContext>,
    /// Its identities.
    pub cred: Shared<Cred>,
    /// Its resource limits.
    pub limits: Monitor<Limits>,
    /// What it runs.
    pub program: Monitor<Program>,
    /// Its session, with the controlling terminal.
    pub session: Shared<Session>,
    pub(crate) ppid: AtomicI32,
    pub(crate) pgrp: AtomicI32,
}

impl Process {
    /// The process of the running thread. Panics on a kernel thread that belongs to none.
    pub fn current() -> Arc<Process> {
        Task::current().process.clone()
    }

    /// Its parent's number, 0 for the first process.
    pub fn ppid(&self) -> i32 {
        self.ppid.load(Ordering::Relaxed)
    }

    /// Its process group's number.
    pub fn pgrp(&self) -> i32 {
        self.pgrp.load(Ordering::Relaxed)
    }

    /// Its session's number.
    pub fn sid(&self) -> i32 {
        self.session.get().id
    }
}
