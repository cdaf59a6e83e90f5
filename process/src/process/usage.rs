//! The resource usage of a process: CPU time, memory, faults, switches, for `times`, `getrusage`, `wait4` and
//! `/proc`.
//!
//! *Interface*: [`Usage`]; [`Process::usage`], [`Process::children_usage`], [`Process::cpu_ns`];
//! [`Task::usage`].
//!
//! CPU time is exact, counted by the threads' switch code. It is divided into user and system time in
//! proportion to samples (`thread::cpu_time_sampling`), and neither part ever falls below a reported value,
//! as on Linux without accounting at each kernel entry.

use core::sync::atomic::{AtomicU64, Ordering};

use abi::layout::PAGE;
use abi::linux::{Rusage, Timeval};

use super::{Process, Task};

/// Consumption so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time of the user, nanoseconds.
    pub user_ns: u64,
    /// CPU time of the kernel, nanoseconds.
    pub system_ns: u64,
    /// Largest resident set, bytes.
    pub max_resident: u64,
    /// Page faults; none has to wait for a disk.
    pub faults: u64,
    /// Switches because it waited.
    pub voluntary: u64,
    /// Other switches.
    pub forced: u64,
}

impl Usage {
    /// Adds what another has used.
    pub fn add(&mut self, other: &Usage) {
        self.user_ns += other.user_ns;
        self.system_ns += other.system_ns;
        self.max_resident = self.max_resident.max(other.max_resident);
        self.faults += other.faults;
        self.voluntary += other.voluntary;
        self.forced += other.forced;
    }

    /// As Linux's structure.
    pub fn rusage(&self) -> Rusage {
        Rusage {
            utime: Timeval::from_ns(self.user_ns),
            stime: Timeval::from_ns(self.system_ns),
            maxrss: (self.max_resident / 1024) as i64,
            minflt: self.faults as i64,
            nvcsw: self.voluntary as i64,
            nivcsw: self.forced as i64,
            ..Rusage::default()
        }
    }
}

/// The threads' counts: exact times and sampled ones.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    cpu_ns: u64,
    user: u64,
    system: u64,
    faults: u64,
    switches: u64,
    preempted: u64,
}

impl Counts {
    /// Those of `task`.
    pub(crate) fn of(task: &Task) -> Counts {
        let split = task.thread.split();
        Counts {
            cpu_ns: task.cpu_ns(),
            user: split.user,
            system: split.system,
            faults: task.faults.load(Ordering::Relaxed),
            switches: task.thread.switches(),
            preempted: task.thread.preempted(),
        }
    }

    /// CPU time, and the samples by which it is divided.
    pub(crate) fn sum(&self) -> [u64; 3] {
        [self.cpu_ns, self.user, self.system]
    }

    #[inline]
    fn add(&mut self, other: &Counts) {
        self.cpu_ns += other.cpu_ns;
        self.user += other.user;
        self.system += other.system;
        self.faults += other.faults;
        self.switches += other.switches;
        self.preempted += other.preempted;
    }

    fn usage(&self, told: &ReportedTimes, max_resident: u64) -> Usage {
        let (user_ns, system_ns) = told.divide(self);
        Usage {
            user_ns,
            system_ns,
            max_resident,
            faults: self.faults,
            voluntary: self.switches.saturating_sub(self.preempted),
            forced: self.preempted,
        }
    }
}

/// The last reported parts of CPU time. With the process's account held, or what stands for it.
#[derive(Default)]
pub(crate) struct ReportedTimes {
    user: AtomicU64,
    system: AtomicU64,
}

impl ReportedTimes {
    /// The user's part of `counts` and the kernel's.
    fn divide(&self, counts: &Counts) -> (u64, u64) {
        self.divide_sum(counts.sum()).into()
    }

    /// The same of what [`Counts::sum`] says.
    pub(crate) fn divide_sum(&self, [cpu_ns, user, system]: [u64; 3]) -> [u64; 2] {
        let told = (
            self.user.load(Ordering::Relaxed),
            self.system.load(Ordering::Relaxed),
        );
        let parts = divide(cpu_ns, (user, system), told);
        self.user.store(parts.0, Ordering::Relaxed);
        self.system.store(parts.1, Ordering::Relaxed);
        parts.into()
    }
}

/// `total` in the proportion of `sampled`, and neither part less than `told`.
fn divide(total: u64, sampled: (u64, u64), told: (u64, u64)) -> (u64, u64) {
    let both = u128::from(sampled.0) + u128::from(sampled.1);
    let share = u128::from(total) * u128::from(sampled.1);
    // Time without any sample counts as user time.
    let system = share.checked_div(both).unwrap_or(0) as u64;
    if told.0.saturating_add(told.1) >= total {
        return told;
    }
    let system = system.clamp(told.1, total - told.0);
    (total - system, system)
}

/// The usage of threads that no longer exist.
#[derive(Default)]
pub(crate) struct EndedUsage {
    ended_threads: Counts,
    max_resident: u64,
    told: ReportedTimes,
    pub(crate) children: Usage,
}

impl EndedUsage {
    /// `task`, which runs, is about to end.
    pub(crate) fn thread_ends(&mut self, task: &Task) {
        self.ended_threads.add(&Counts::of(task));
    }

    /// The memory of a program that is about to go had so much at most, bytes.
    pub(crate) fn memory_goes(&mut self, most: u64) {
        self.max_resident = self.max_resident.max(most);
    }
}

impl Process {
    /// The usage of all its threads, including ended ones.
    pub fn usage(&self) -> Usage {
        let most = self.most_resident();
        // Bound: a few words.
        let account = self.usage.lock();
        let counts = self.counts(&account);
        counts.usage(&account.told, account.max_resident.max(most))
    }

    /// CPU time of the user and of the kernel, as in [`Process::usage`].
    pub(crate) fn times_ns(&self) -> [u64; 2] {
        let account = self.usage.lock();
        let counts = self.counts(&account);
        account.told.divide(&counts).into()
    }

    /// The counts of its threads, including ended ones.
    fn counts(&self, account: &EndedUsage) -> Counts {
        let mut counts = account.ended_threads;
        // Bound: **linear**: the threads of one process.
        for task in self.threads.lock().iter() {
            counts.add(&Counts::of(task));
        }
        counts
    }

    /// CPU time of all its threads, nanoseconds.
    pub fn cpu_ns(&self) -> u64 {
        let account = self.usage.lock();
        let living = self.threads.lock();
        let sum: u64 = living.iter().map(|task| task.cpu_ns()).sum();
        account.ended_threads.cpu_ns + sum
    }

    /// The most that its present memory has had, bytes.
    pub(crate) fn most_resident(&self) -> u64 {
        let most = self.space().map_or(0, |space| space.most_resident());
        (most * PAGE) as u64
    }

    /// The usage of children that were waited for, including their children's.
    pub fn children_usage(&self) -> Usage {
        self.usage.lock().children
    }
}

impl Task {
    /// Its usage; the memory is that of its process.
    pub fn usage(&self) -> Usage {
        let most = self.process.most_resident();
        // Bound: a few words.
        let account = self.process.usage.lock();
        Counts::of(self).usage(&self.told, account.max_resident.max(most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_divides_as_the_samples_say() {
        assert_eq!(divide(1000, (0, 0), (0, 0)), (1000, 0));
        assert_eq!(divide(1000, (0, 5), (0, 0)), (0, 1000));
        assert_eq!(divide(1000, (30, 10), (0, 0)), (750, 250));
        assert_eq!(
            divide(u64::MAX, (u64::MAX, u64::MAX), (0, 0)),
            (u64::MAX / 2 + 1, u64::MAX / 2)
        );
    }

    #[test]
    fn neither_part_goes_back() {
        // All the user's so far; then a sample finds the kernel.
        assert_eq!(divide(1000, (0, 10), (900, 0)), (900, 100));
        assert_eq!(divide(1000, (10, 0), (0, 900)), (100, 900));
        assert_eq!(divide(1000, (10, 10), (800, 300)), (800, 300));
        assert_eq!(divide(2000, (10, 10), (800, 300)), (1000, 1000));
    }
}
