//! The limit of CPU time (`RLIMIT_CPU`), and the run time that a thread was granted.
//!
//! *Interface*: [`watch`] when a process gets a limit, by a call or from its parent; `look` when the alarm
//! set for it has rung; [`Task::overran`] when a thread has used up what it was promised.
//!
//! At the hard limit comes SIGKILL; at the soft one, and each second after it, SIGXCPU: the soft limit moves
//! by a second each time, as on Linux. The alarm is one of the process's
//! [timers](crate::process::timers), which no call reaches. It is set for the earliest time at which all CPUs
//! together could have used up the remaining time.

use alloc::sync::Arc;

use abi::linux::{
    RLIM_INFINITY, RLIMIT_CPU, Rlimit, SCHED_FLAG_DL_OVERRUN, SI_KERNEL, SIGKILL, SIGXCPU, Siginfo,
};

use super::send;
use crate::process::{Process, Task};

const SECOND_NS: u64 = 1_000_000_000;
/// Time may stand still while the process sleeps: it is checked no more often than this, nanoseconds.
const LEAST_NS: u64 = 10_000_000;

/// The action for a process that has used this much.
#[derive(Debug, PartialEq, Eq)]
enum Due {
    /// It has no limit.
    Nothing,
    /// It is over the soft limit, or the hard one: this signal.
    Signal(i32),
    /// So many nanoseconds are left.
    Left(u64),
}

fn due(limit: Rlimit, used_ns: u64) -> Due {
    if limit.cur == RLIM_INFINITY {
        return Due::Nothing;
    }
    let left = |seconds: u64| seconds.saturating_mul(SECOND_NS).saturating_sub(used_ns);
    let (soft, hard) = (left(limit.cur), left(limit.max));
    match (soft, hard) {
        (_, 0) => Due::Signal(SIGKILL),
        (0, _) => Due::Signal(SIGXCPU),
        _ => Due::Left(soft.min(hard)),
    }
}

/// `process` has a limit, or may have.
pub fn watch(process: &Arc<Process>) {
    // Bound: a few words of one process.
    let limited = process.limits.lock().cur(RLIMIT_CPU) != RLIM_INFINITY;
    if limited && !process.signals.is_ending() {
        process.timers.begin_limit(process);
        look(process);
    }
}

/// Sends the due signals and sets the next alarm. Thread context, no monitor held.
pub(super) fn look(process: &Arc<Process>) {
    let used = process.cpu_ns();
    let (now, after) = {
        let mut limits = process.limits.lock();
        let now = due(limits.cpu(), used);
        if now == Due::Signal(SIGXCPU) {
            limits.put_off_cpu();
        }
        (now, due(limits.cpu(), used))
    };
    if let Due::Signal(signo) = now {
        let info = Siginfo {
            signo,
            code: SI_KERNEL,
            ..Siginfo::default()
        };
        // There is always room for both.
        let _ = send(process, None, info);
    }
    let left = match after {
        Due::Nothing | Due::Signal(SIGKILL) => return,
        Due::Signal(_) => 0,
        Due::Left(left) => left,
    };
    let together = machine::cpu::cpus().max(1) as u64;
    let after_ns = left.checked_div(together).unwrap_or(left).max(LEAST_NS);
    process.timers.ring_limit(process, after_ns);
}

impl Task {
    /// It has used up what it was promised for this period: its process has SIGXCPU if it wants to know.
    pub fn overran(&self) {
        if self.sched.policy().options & SCHED_FLAG_DL_OVERRUN != 0 {
            let info = Siginfo {
                signo: SIGXCPU,
                code: SI_KERNEL,
                ..Siginfo::default()
            };
            // A signal that waits already says the same.
            let _ = send(&self.process, None, info);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hard_limit_comes_first() {
        let limit = |cur, max| Rlimit { cur, max };
        let infinite = RLIM_INFINITY;
        assert_eq!(due(limit(infinite, 0), u64::MAX), Due::Nothing);
        assert_eq!(due(limit(1, infinite), 400_000_000), Due::Left(600_000_000));
        assert_eq!(due(limit(1, 2), SECOND_NS), Due::Signal(SIGXCPU));
        assert_eq!(due(limit(2, 2), 2 * SECOND_NS), Due::Signal(SIGKILL));
        assert_eq!(due(limit(0, 0), 0), Due::Signal(SIGKILL));
        assert_eq!(
            due(limit(u64::MAX - 1, infinite), 1),
            Due::Left(u64::MAX - 1)
        );
    }
}
