//! The promise to a thread of so much time in each period: its terms, the share that a CPU has promised, the
//! standing of the budget (SCHED_DEADLINE).
//!
//! *Interface*: [`Terms`]; [`Budget`], a thread's part; [`Tte::promise`] admits a thread to a CPU. The rings
//! and the timer act on a budget by `ring::budget`.
//!
//! A CPU promises at most [`MOST`] of its time, and a thread stays on the CPU that has promised. So every
//! deadline on that CPU is met, if deadlines are the ends of periods.
//! Source: Abeni and Buttazzo 1998 (the constant bandwidth server), as Linux has it for bad cases.

use super::Tte;
use core::sync::atomic::Ordering::{AcqRel, Relaxed};
use core::sync::atomic::{AtomicBool, AtomicU64};
use machine::clock::span_ns;
use machine::cpu::{MAX_CPUS, cpus};

/// A share of a CPU in these units: all of it is [`ONE`].
const ONE_BITS: u32 = 20;
/// A whole CPU.
const ONE: u64 = 1 << ONE_BITS;
/// The most that a CPU promises: 95 %, the rest is for all other threads.
const MOST: u64 = ONE * 95 / 100;
/// A budget with less left is spent, nanoseconds.
const LEAST_NS: i64 = 2_000;

/// The shares that the CPUs have promised.
static PROMISED: [AtomicU64; MAX_CPUS] = [const { AtomicU64::new(0) }; MAX_CPUS];

/// A promise to a thread, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// So much CPU time,
    pub runtime_ns: u64,
    /// within this time after the beginning of
    pub deadline_ns: u64,
    /// each period.
    pub period_ns: u64,
}

/// No CPU has so much left to promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

/// The rest of a budget, and its deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BudgetState {
    pub(crate) left_ns: i64,
    /// The deadline; 0 before the first.
    pub(crate) due_ns: u64,
}

impl BudgetState {
    pub(crate) fn is_spent(&self) -> bool {
        self.left_ns < LEAST_NS
    }
}

impl Terms {
    /// The share of a CPU that they take.
    fn share(&self) -> u64 {
        let share = (u128::from(self.runtime_ns) << ONE_BITS) / u128::from(self.period_ns.max(1));
        share.min(u128::from(u32::MAX)) as u64
    }

    /// When the period after the one whose deadline is `due_ns` begins.
    pub(crate) fn next_ns(&self, due_ns: u64) -> u64 {
        due_ns
            .saturating_sub(self.deadline_ns)
            .saturating_add(self.period_ns)
    }

    /// A whole budget from `now` on.
    fn fresh(&self, now: u64) -> BudgetState {
        BudgetState {
            left_ns: self.runtime_ns as i64,
            due_ns: now.saturating_add(self.deadline_ns),
        }
    }

    /// The standing of a thread that is to run, having `slept` or not; none if it has to wait for its next
    /// period.
    pub(crate) fn renewed(&self, at: BudgetState, now: u64, slept: bool) -> Option<BudgetState> {
        if at.due_ns == 0 {
            return Some(self.fresh(now));
        }
        if at.is_spent() {
            if now < self.next_ns(at.due_ns) {
                return None;
            }
            // Time that it has overdrawn is paid back by later periods.
            let periods = at.left_ns.min(0).unsigned_abs() / self.runtime_ns.max(1) + 1;
            let due_ns = at
                .due_ns
                .saturating_add(self.period_ns.saturating_mul(periods));
            let left_ns = at
                .left_ns
                .saturating_add_unsigned(self.runtime_ns.saturating_mul(periods));
            return Some(match due_ns < now {
                true => self.fresh(now),
                false => BudgetState { left_ns, due_ns },
            });
        }
        if !slept || !self.exceeds(at, now) {
            return Some(at);
        }
        if self.deadline_ns >= self.period_ns {
            return Some(self.fresh(now));
        }
        // A second budget within one period would be more than was promised.
        if at.due_ns <= now {
            return match now < self.next_ns(at.due_ns) {
                true => None,
                false => Some(self.fresh(now)),
            };
        }
        let laxity = u128::from(at.due_ns - now);
        let left = u128::from(self.runtime_ns) * laxity / u128::from(self.deadline_ns.max(1));
        Some(BudgetState {
            left_ns: left as i64,
            ..at
        })
    }

    /// Whether what is left until the deadline is more than its share.
    fn exceeds(&self, at: BudgetState, now: u64) -> bool {
        let until = u128::from(at.due_ns.saturating_sub(now));
        let left = at.left_ns.max(0) as u128;
        left * u128::from(self.deadline_ns) > until * u128::from(self.runtime_ns)
    }
}

/// A thread's part. Its CPU alone writes `limit` and `due_ns` while it may run.
pub(crate) struct Budget {
    /// 0: nothing is promised.
    runtime_ns: AtomicU64,
    deadline_ns: AtomicU64,
    period_ns: AtomicU64,
    /// The thread's CPU time at which the budget is spent, in counts of the time-stamp counter.
    pub(crate) limit: AtomicU64,
    /// The deadline; 0 before the first.
    pub(crate) due_ns: AtomicU64,
    /// It has slept since it was last put into a ring.
    pub(crate) slept: AtomicBool,
    /// The alarm for the beginning of a period that was set last.
    pub(crate) alarm_ns: AtomicU64,
    /// It has used up its budget, and has not been told so yet.
    pub(crate) overran: AtomicBool,
    /// The share that is promised, above the CPU's number; 0 for none.
    promised: AtomicU64,
}

impl Budget {
    pub const fn new() -> Self {
        Budget {
            runtime_ns: AtomicU64::new(0),
            deadline_ns: AtomicU64::new(0),
            period_ns: AtomicU64::new(0),
            limit: AtomicU64::new(0),
            due_ns: AtomicU64::new(0),
            slept: AtomicBool::new(false),
            alarm_ns: AtomicU64::new(0),
            overran: AtomicBool::new(false),
            promised: AtomicU64::new(0),
        }
    }

    /// Whether the thread is promised anything.
    #[inline]
    pub fn is_set(&self) -> bool {
        self.runtime_ns.load(Relaxed) != 0
    }

    /// Has the thread begin a period by `terms`, or without any.
    pub fn begin(&self, terms: Terms) {
        self.deadline_ns.store(terms.deadline_ns, Relaxed);
        self.period_ns.store(terms.period_ns, Relaxed);
        self.due_ns.store(0, Relaxed);
        self.limit.store(0, Relaxed);
        self.runtime_ns.store(terms.runtime_ns, Relaxed);
    }

    /// It has the terms that it began with, and is in the middle of a period.
    pub fn has(&self, terms: Terms) -> bool {
        self.terms() == terms
    }

    pub(crate) fn terms(&self) -> Terms {
        Terms {
            runtime_ns: self.runtime_ns.load(Relaxed),
            deadline_ns: self.deadline_ns.load(Relaxed),
            period_ns: self.period_ns.load(Relaxed),
        }
    }

    /// The thread goes to sleep.
    pub fn sleeps(&self) {
        self.slept.store(true, Relaxed);
    }

    /// Whether the budget was used up since the last call.
    pub fn take_overrun(&self) -> bool {
        self.overran.load(Relaxed) && self.overran.swap(false, Relaxed)
    }
}

/// The standing of the thread, which has a budget.
pub(crate) fn standing(tte: &Tte) -> BudgetState {
    let (limit, ran) = (tte.budget.limit.load(Relaxed), tte.ran());
    let left_ns = match limit.checked_sub(ran) {
        Some(left) => span_ns(left) as i64,
        None => -(span_ns(ran - limit) as i64),
    };
    BudgetState {
        left_ns,
        due_ns: tte.budget.due_ns.load(Relaxed),
    }
}

/// The CPU of a promise, and its share.
fn split(promised: u64) -> (usize, u64) {
    ((promised & 0xff) as usize % MAX_CPUS, promised >> 8)
}

impl Tte {
    /// The thread ends, or has ended: it is promised nothing any more.
    #[inline]
    pub fn promise_nothing(&self) {
        if self.budget.promised.load(Relaxed) != 0 {
            let _ = self.promise(None);
        }
    }

    /// Promises the thread the share that `terms` take, on the CPU that has promised least, in place of the
    /// promise before: the CPU's number, which is to be the only one on which the thread may run. None:
    /// it is promised nothing any more.
    ///
    /// # Errors
    /// No CPU has so much left; nothing has changed.
    pub fn promise(&self, terms: Option<Terms>) -> Result<Option<usize>, Busy> {
        if terms.is_none() && self.budget.promised.load(Relaxed) == 0 {
            return Ok(None);
        }
        // Ours alone from here on, so that two that change it at once do not give one share back twice.
        let former = self.budget.promised.swap(0, AcqRel);
        let (old_cpu, old) = split(former);
        let Some(share) = terms.map(|terms| terms.share()) else {
            PROMISED[old_cpu].fetch_sub(old, AcqRel);
            return Ok(None);
        };
        loop {
            let rest = |cpu: usize| {
                let promised = PROMISED[cpu].load(Relaxed);
                (
                    promised - if cpu == old_cpu { old.min(promised) } else { 0 },
                    promised,
                )
            };
            let here = self.cpu();
            let least = (0..cpus().min(MAX_CPUS)).min_by_key(|&cpu| (rest(cpu).0, cpu != here));
            let found = least.map(|cpu| (cpu, rest(cpu)));
            let Some((cpu, (others, promised))) = found.filter(|at| at.1.0 + share <= MOST) else {
                self.keep(former);
                return Err(Busy);
            };
            let changed = PROMISED[cpu].compare_exchange(promised, others + share, AcqRel, Relaxed);
            if changed.is_ok() {
                if cpu != old_cpu {
                    PROMISED[old_cpu].fetch_sub(old, AcqRel);
                }
                self.keep(share << 8 | cpu as u64);
                return Ok(Some(cpu));
            }
        }
    }

    /// `promised` is the thread's; what another party has got for it meanwhile goes back.
    fn keep(&self, promised: u64) {
        let (cpu, share) = split(self.budget.promised.swap(promised, AcqRel));
        PROMISED[cpu].fetch_sub(share, AcqRel);
    }
}

#[cfg(test)]
#[path = "budget_tests.rs"]
mod tests;
