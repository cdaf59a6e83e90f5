//! The scheduling parameters of a thread: policy, priority, niceness, CPU affinity, timer slack.
//!
//! *Interface*: [`SchedParams`], one for each thread. It also has the number of the thread's control group
//! (`group`), which a child inherits with it. The settings are returned and inherited as on Linux. Processors
//! and real-time policies are the thread room's matter. Other threads are paced by the data that they move,
//! around a quantum of their own, which follows from niceness and policy ([`SchedParams::quantum_ns`]); the
//! niceness also chooses the column of `/proc/stat` for the thread's time.

use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};

use abi::linux::{SCHED_DEADLINE, SCHED_FIFO, SCHED_IDLE, SCHED_OTHER, SCHED_RR};
use thread::{QUANTUM_NS, SchedClass, Terms};

/// Timer slack of a thread, as Linux's first process has it, nanoseconds.
const SLACK_NS: u64 = 50_000;

/// The bounds of a thread's own quantum, nanoseconds.
const SHORTEST_NS: u64 = QUANTUM_NS / 8;
const LONGEST_NS: u64 = QUANTUM_NS * 8;

/// The quantum at a niceness, nanoseconds.
fn weighed(nice: i32) -> u64 {
    let mut quantum = QUANTUM_NS;
    for _ in 0..nice.unsigned_abs() {
        quantum = match nice > 0 {
            true => quantum * 4 / 5,
            false => quantum * 5 / 4,
        };
    }
    quantum.clamp(SHORTEST_NS, LONGEST_NS)
}

fn nice_of(standing: u64) -> i32 {
    standing as u32 as i32
}

fn with_nice(standing: u64, nice: i32) -> u64 {
    standing & !u64::from(u32::MAX) | u64::from(nice as u32)
}

/// A thread's settings.
pub struct SchedParams {
    /// Processors on which it may run, a bit each.
    allowed: AtomicU64,
    policy: AtomicI32,
    priority: AtomicI32,
    /// Children begin with the ordinary policy.
    reset: AtomicBool,
    /// With SCHED_DEADLINE: runtime, deadline and period, nanoseconds, and the flags that go with them.
    terms: [AtomicU64; 3],
    options: AtomicU64,
    /// Niceness, and above it the number of the control group: one word, so that it is one comparison to
    /// find both usual.
    standing: AtomicU64,
    /// As `ioprio_set` encodes it.
    pub io: AtomicU32,
    /// Nanoseconds; the value used when it is set to 0.
    slack: AtomicU64,
    first_slack: AtomicU64,
}

/// The priority parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchedPolicy {
    /// `SCHED_…`.
    pub kind: i32,
    /// 1 to 99 for a real-time policy, otherwise 0.
    pub priority: i32,
    /// Whether children begin with the ordinary one.
    pub reset: bool,
    /// The promise of SCHED_DEADLINE; otherwise zeros.
    pub terms: Terms,
    /// `SCHED_FLAG_RECLAIM` and `SCHED_FLAG_DL_OVERRUN` with SCHED_DEADLINE; otherwise 0.
    pub options: u64,
}

impl SchedPolicy {
    /// Whether it has priorities.
    pub fn is_real_time(kind: i32) -> bool {
        matches!(kind, SCHED_FIFO | SCHED_RR)
    }

    /// The priority among all policies: a promise is beyond all priorities.
    pub fn rank(&self) -> i32 {
        match self.kind {
            SCHED_DEADLINE => 100,
            _ => self.priority,
        }
    }
}

impl Default for SchedParams {
    fn default() -> SchedParams {
        SchedParams {
            allowed: AtomicU64::new(u64::MAX),
            policy: AtomicI32::new(SCHED_OTHER),
            priority: AtomicI32::new(0),
            reset: AtomicBool::new(false),
            terms: [const { AtomicU64::new(0) }; 3],
            options: AtomicU64::new(0),
            standing: AtomicU64::new(0),
            io: AtomicU32::new(0),
            slack: AtomicU64::new(SLACK_NS),
            first_slack: AtomicU64::new(SLACK_NS),
        }
    }
}

impl SchedParams {
    /// The initial parameters of a child.
    #[inline]
    pub fn inherited(&self) -> SchedParams {
        let [kind, priority] =
            [&self.policy, &self.priority].map(|word| word.load(Ordering::Relaxed));
        let (mut policy, mut standing) = ([kind, priority], self.standing.load(Ordering::Relaxed));
        if self.reset.load(Ordering::Relaxed) {
            standing = with_nice(standing, nice_of(standing).max(0));
            if SchedPolicy::is_real_time(kind) || kind == SCHED_DEADLINE {
                policy = [SCHED_OTHER, 0];
            }
        }
        let slack = self.slack();
        SchedParams {
            allowed: AtomicU64::new(self.allowed()),
            policy: AtomicI32::new(policy[0]),
            priority: AtomicI32::new(policy[1]),
            standing: AtomicU64::new(standing),
            io: AtomicU32::new(self.io.load(Ordering::Relaxed)),
            slack: AtomicU64::new(slack),
            first_slack: AtomicU64::new(slack),
            ..SchedParams::default()
        }
    }

    /// The same parameters, for after the thread's end.
    pub(super) fn copied(&self) -> SchedParams {
        let copy = SchedParams {
            reset: AtomicBool::new(false),
            ..self.inherited()
        };
        let standing = self.standing.load(Ordering::Relaxed);
        copy.standing.store(standing, Ordering::Relaxed);
        copy.set_policy(self.policy());
        copy
    }

    /// Processors on which the thread may run.
    pub fn allowed(&self) -> u64 {
        self.allowed.load(Ordering::Relaxed)
    }

    /// Sets them.
    pub(super) fn set_allowed(&self, allowed: u64) {
        self.allowed.store(allowed, Ordering::Relaxed);
    }

    /// The policy.
    pub fn policy(&self) -> SchedPolicy {
        let policy = SchedPolicy {
            kind: self.policy.load(Ordering::Relaxed),
            priority: self.priority.load(Ordering::Relaxed),
            reset: self.reset.load(Ordering::Relaxed),
            ..SchedPolicy::default()
        };
        match policy.kind {
            SCHED_DEADLINE => SchedPolicy {
                terms: self.terms(),
                options: self.options.load(Ordering::Relaxed),
                ..policy
            },
            _ => policy,
        }
    }

    fn terms(&self) -> Terms {
        let [runtime_ns, deadline_ns, period_ns] =
            self.terms.each_ref().map(|ns| ns.load(Ordering::Relaxed));
        Terms {
            runtime_ns,
            deadline_ns,
            period_ns,
        }
    }

    /// Whether the thread may have no children: they would share in what it is promised.
    pub(crate) fn refuses_children(&self) -> bool {
        self.policy.load(Ordering::Relaxed) == SCHED_DEADLINE && !self.reset.load(Ordering::Relaxed)
    }

    /// Sets it.
    pub(super) fn set_policy(&self, policy: SchedPolicy) {
        self.policy.store(policy.kind, Ordering::Relaxed);
        self.priority.store(policy.priority, Ordering::Relaxed);
        self.reset.store(policy.reset, Ordering::Relaxed);
        if policy.kind == SCHED_DEADLINE {
            let Terms {
                runtime_ns,
                deadline_ns,
                period_ns,
            } = policy.terms;
            for (word, ns) in self.terms.iter().zip([runtime_ns, deadline_ns, period_ns]) {
                word.store(ns, Ordering::Relaxed);
            }
            self.options.store(policy.options, Ordering::Relaxed);
        }
    }

    /// Whether niceness, control group, policy and processors are those of most threads.
    pub(super) fn is_usual(&self) -> bool {
        self.standing.load(Ordering::Relaxed) == 0
            && self.policy.load(Ordering::Relaxed) == SCHED_OTHER
            && self.allowed() == u64::MAX
    }

    /// Niceness, −20 to 19.
    pub fn nice(&self) -> i32 {
        nice_of(self.standing.load(Ordering::Relaxed))
    }

    /// Sets it.
    pub(super) fn set_nice(&self, nice: i32) {
        self.change(|standing| with_nice(standing, nice));
    }

    /// The number of the control group that the thread is counted in; 0 is the root.
    #[inline]
    pub fn group(&self) -> u32 {
        (self.standing.load(Ordering::Relaxed) >> 32) as u32
    }

    /// Sets it. With the hierarchy held.
    pub(crate) fn set_group(&self, group: u32) {
        self.change(|standing| u64::from(group) << 32 | standing & u64::from(u32::MAX));
    }

    fn change(&self, change: impl Fn(u64) -> u64) {
        let relaxed = Ordering::Relaxed;
        let _ = (self.standing).fetch_update(relaxed, relaxed, |standing| Some(change(standing)));
    }

    /// The thread's own quantum, nanoseconds: each step of niceness changes it by a quarter, as the weights
    /// of Linux do, between an eighth and eight times the usual one. `SCHED_IDLE` has the shortest, a
    /// real-time policy the longest.
    pub fn quantum_ns(&self) -> u64 {
        match self.policy().kind {
            SCHED_IDLE => SHORTEST_NS,
            SCHED_FIFO | SCHED_RR | SCHED_DEADLINE => LONGEST_NS,
            _ => weighed(self.nice()),
        }
    }

    /// Where its policy puts the thread.
    pub fn place(&self) -> SchedClass {
        let policy = self.policy();
        match policy.kind {
            SCHED_FIFO | SCHED_RR => SchedClass::Urgent {
                priority: policy.priority.clamp(1, 99) as u8,
                takes_turns: policy.kind == SCHED_RR,
            },
            SCHED_DEADLINE => SchedClass::Promised(policy.terms),
            SCHED_IDLE => SchedClass::Last,
            _ => SchedClass::Usual,
        }
    }

    /// How late its timers may be, nanoseconds. They never are on purpose.
    pub fn slack(&self) -> u64 {
        self.slack.load(Ordering::Relaxed)
    }

    /// Sets it; 0 stands for the initial value.
    pub fn set_slack(&self, ns: u64) {
        let first = self.first_slack.load(Ordering::Relaxed);
        let ns = if ns == 0 { first } else { ns };
        self.slack.store(ns, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_begin_with_what_their_parent_has_unless_it_says_otherwise() {
        let sched = SchedParams::default();
        sched.set_policy(SchedPolicy {
            kind: SCHED_FIFO,
            priority: 7,
            ..SchedPolicy::default()
        });
        sched.set_nice(-3);
        sched.set_allowed(2);
        sched.set_group(u32::MAX);
        let child = sched.inherited();
        assert_eq!((child.policy(), child.group()), (sched.policy(), u32::MAX));
        assert_eq!((child.nice(), child.allowed()), (-3, 2));
        sched.set_policy(SchedPolicy {
            reset: true,
            ..sched.policy()
        });
        let child = sched.inherited();
        assert_eq!((child.policy(), child.nice()), (SchedPolicy::default(), 0));
        assert_eq!(child.group(), u32::MAX);
        sched.set_policy(SchedPolicy {
            kind: SCHED_DEADLINE,
            reset: true,
            terms: Terms {
                runtime_ns: 1,
                deadline_ns: 2,
                period_ns: 3,
            },
            ..SchedPolicy::default()
        });
        assert!(!sched.refuses_children());
        assert_eq!(sched.place(), SchedClass::Promised(sched.policy().terms));
        assert_eq!(sched.inherited().policy(), SchedPolicy::default());
        sched.set_policy(SchedPolicy {
            reset: false,
            ..sched.policy()
        });
        assert!(sched.refuses_children());
    }

    #[test]
    fn a_quantum_follows_niceness_and_policy() {
        let sched = SchedParams::default();
        assert_eq!(sched.quantum_ns(), QUANTUM_NS);
        let at = |nice| {
            sched.set_nice(nice);
            sched.quantum_ns()
        };
        assert_eq!((at(1), at(-1)), (QUANTUM_NS * 4 / 5, QUANTUM_NS * 5 / 4));
        assert!((-19..20).all(|nice| at(nice) <= at(nice - 1)));
        assert_eq!((at(19), at(-20)), (SHORTEST_NS, LONGEST_NS));
        let with = |kind| {
            sched.set_policy(SchedPolicy {
                kind,
                ..SchedPolicy::default()
            });
            sched.quantum_ns()
        };
        assert_eq!(
            (with(SCHED_IDLE), with(SCHED_FIFO)),
            (SHORTEST_NS, LONGEST_NS)
        );
    }

    #[test]
    fn slack_goes_back_to_the_parents() {
        let sched = SchedParams::default();
        sched.set_slack(1);
        let child = sched.inherited();
        child.set_slack(9);
        assert_eq!(child.slack(), 9);
        child.set_slack(0);
        assert_eq!(child.slack(), 1);
    }
}
