//! What a process has used: CPU time, for `times`, `getrusage` and `wait4`.
//!
//! *Interface*: [`Usage`]; [`Process::usage`], [`Process::children_usage`].

use abi::linux::{Rusage, Timeval};

use super::Process;

/// Consumption so far. The threads count their time as one; all of it is reported as user time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time, nanoseconds.
    pub cpu_ns: u64,
    /// Largest resident set, bytes.
    pub max_resident: u64,
    /// Voluntary and forced switches.
    pub switches: u64,
}

impl Usage {
    /// Adds what another has used.
    pub fn add(&mut self, other: &Usage) {
        self.cpu_ns += other.cpu_ns;
        self.max_resident = self.max_resident.max(other.max_resident);
        self.switches += other.switches;
    }

    /// As Linux's structure.
    pub fn rusage(&self) -> Rusage {
        Rusage {
            utime: Timeval::from_ns(self.cpu_ns),
            maxrss: (self.max_resident / 1024) as i64,
            nvcsw: self.switches as i64,
            ..Rusage::default()
        }
    }
}

/// What is no longer visible in living threads.
#[derive(Default)]
pub(crate) struct Account {
    pub(crate) ended_threads: Usage,
    pub(crate) children: Usage,
}

impl Process {
    /// What all its threads have used, ended ones included.
    pub fn usage(&self) -> Usage {
        let mut usage = self.usage.lock().ended_threads;
        for task in self.threads.lock().iter() {
            usage.cpu_ns += task.cpu_ns();
            usage.switches += task.thread.switches();
        }
        if let Some(space) = self.space() {
            let resident = (space.resident() * abi::layout::PAGE) as u64;
            usage.max_resident = usage.max_resident.max(resident);
        }
        usage
    }

    /// What the children that were waited for have used, theirs included.
    pub fn children_usage(&self) -> Usage {
        self.usage.lock().children
    }
}
