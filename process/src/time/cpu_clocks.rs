//! CPU clocks: the CPU time of a process or a thread as a clock.
//!
//! *Interface*: [`CpuClock`] names one; [`CpuClock::from_id`] as `clock_getcpuclockid` makes numbers of them.

use abi::errno::{Errno, Result};
use abi::linux::NSEC_PER_SEC;
use machine::clock::now_ns;

use crate::process::timers::CpuClock;
use crate::process::{Process, Task, tree};

/// Bits of a clock's number: which time, and that it is a thread's.
const WHICH: i32 = 3;
const VIRTUAL: i32 = 1;
/// No time but a descriptor.
const DESCRIPTOR: i32 = 3;
const OF_THREAD: i32 = 4;
/// The shortest time between two checks of an account by a sleeper: the account may stand still.
const LEAST_NS: u64 = 1_000_000;
/// The granularity of times that are not exact, nanoseconds.
const TICK_NS: u64 = NSEC_PER_SEC / 100;

impl CpuClock {
    /// All time of process `pid`, or what its program has used.
    pub const fn process(pid: i32, user: bool) -> CpuClock {
        CpuClock {
            who: pid,
            of_thread: false,
            user,
            exact: !user,
        }
    }

    /// All time of thread `tid`.
    pub const fn thread(tid: i32) -> CpuClock {
        CpuClock {
            who: tid,
            of_thread: true,
            user: false,
            exact: true,
        }
    }

    /// The clock with this number, which is below zero: a process's, or that of a thread of the caller's
    /// process. EINVAL.
    pub fn from_id(id: i32) -> Result<CpuClock> {
        let which = id & WHICH;
        if which == DESCRIPTOR {
            return Err(Errno::EINVAL);
        }
        let me = Task::current();
        let of_thread = id & OF_THREAD != 0;
        let who = match (!(id >> 3), of_thread) {
            (0, true) => me.tid,
            (0, false) => me.process.pid,
            (tid, true) => me.process.task(tid).ok_or(Errno::EINVAL)?.tid,
            (pid, false) => tree::find(pid).ok_or(Errno::EINVAL)?.pid,
        };
        Ok(CpuClock {
            who,
            of_thread,
            user: which == VIRTUAL,
            exact: which & WHICH == 2,
        })
    }

    /// Its time; 0 when it no longer exists.
    pub fn now(self) -> u64 {
        let time = if self.of_thread {
            tree::find_task(self.who).map(|task| match self.user {
                true => task.usage().user_ns,
                false => task.cpu_ns(),
            })
        } else {
            tree::find(self.who).map(|process| self.of(&process))
        };
        time.unwrap_or(0)
    }

    fn of(self, process: &Process) -> u64 {
        match self.user {
            true => process.usage().user_ns,
            false => process.cpu_ns(),
        }
    }

    /// Between two of its values, nanoseconds.
    pub fn grain_ns(self) -> u64 {
        if self.exact { 1 } else { TICK_NS }
    }

    /// Whether it stands still while the caller, the only thread that advances it, sleeps on it.
    pub fn is_of_caller_alone(self) -> bool {
        self.of_thread && self.who == Task::current().tid
    }

    /// How long at least until `left` of it has passed, nanoseconds: all CPUs may work for a process.
    pub fn soonest(self, left: u64) -> u64 {
        let together = match self.of_thread {
            true => 1,
            false => machine::cpu::cpus().max(1) as u64,
        };
        left.checked_div(together).unwrap_or(left).max(LEAST_NS)
    }

    /// When to look again whether it has reached `at`, on the monotonic clock; `None` if it has.
    pub fn look_at(self, at: u64) -> Option<u64> {
        let left = at.checked_sub(self.now()).filter(|left| *left != 0)?;
        Some(now_ns().saturating_add(self.soonest(left)))
    }
}
