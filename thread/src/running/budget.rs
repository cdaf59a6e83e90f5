//! Budgets: threads that are promised so much time in each period (SCHED_DEADLINE).
//!
//! *Interface*: [`Terms`]; [`Tte::promise`] admits a thread to a CPU, and `urgent::Place::Promised` puts it
//! among the urgent ones. The ring of these asks [`admits`] and tells [`watch`]; the timer asks
//! [`is_spent`], [`demote`] and [`end_ns`]; `urgent::settle` waits for [`wait`].
//!
//! Such a thread is an urgent one whose urgency is the complement of its deadline, so the earliest deadline
//! is the first. Nothing is added to a switch: a thread's clock runs anyway, and its budget is the reading of
//! that clock at which it is spent ([`Budget::limit`]). The timer is set for the end of the budget of the
//! first thread in the ring. One whose budget is spent goes among the usual threads for what it still has to
//! do in the kernel, where it may hold what others wait for, and sleeps before it is in user mode again. An
//! alarm brings it back when its next period begins.
//!
//! A CPU promises at most [`MOST`] of its time, and a thread stays on the CPU that has promised. So every
//! deadline on that CPU is met, if deadlines are the ends of periods.
//! Source: Abeni and Buttazzo 1998 (the constant bandwidth server), as Linux has it for bad cases.

use crate::running::local::{Local, here};
use crate::running::ready::{End, ReadyRing, URGENT};
use crate::time::clock::{self, WakeUp};
use crate::time::timer::{ns_to_ticks, ticks_to_ns};
use crate::tte::Tte;
use crate::tte::flags::{KILLED, SEQUENCE};
use core::sync::atomic::Ordering::{AcqRel, Relaxed};
use core::sync::atomic::{AtomicBool, AtomicU64};
use machine::clock::now_ns;
use machine::cpu::{MAX_CPUS, cpus, irq_disable, irq_enable};

/// A share of a CPU in these units: all of it is [`ONE`].
const ONE_BITS: u32 = 20;
/// A whole CPU.
const ONE: u64 = 1 << ONE_BITS;
/// The most that a CPU promises: 95 %, the rest is for all other threads.
const MOST: u64 = ONE * 95 / 100;
/// A budget with less left is spent, nanoseconds.
const LEAST_NS: i64 = 2_000;
/// The timer looks at a budget after no less than this, nanoseconds: a thread gets on however short its
/// budgets are, and what it has overdrawn is paid back.
const SHORTEST_LOOK_NS: i64 = 20_000;

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
struct Standing {
    left_ns: i64,
    /// The deadline; 0 before the first.
    due_ns: u64,
}

impl Standing {
    fn is_spent(&self) -> bool {
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
    fn next_ns(&self, due_ns: u64) -> u64 {
        due_ns
            .saturating_sub(self.deadline_ns)
            .saturating_add(self.period_ns)
    }

    /// A whole budget from `now` on.
    fn fresh(&self, now: u64) -> Standing {
        Standing {
            left_ns: self.runtime_ns as i64,
            due_ns: now.saturating_add(self.deadline_ns),
        }
    }

    /// The standing of a thread that is to run, having `slept` or not; none if it has to wait for its next
    /// period.
    fn renewed(&self, at: Standing, now: u64, slept: bool) -> Option<Standing> {
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
                false => Standing { left_ns, due_ns },
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
        Some(Standing {
            left_ns: left as i64,
            ..at
        })
    }

    /// Whether what is left until the deadline is more than its share.
    fn exceeds(&self, at: Standing, now: u64) -> bool {
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
    limit: AtomicU64,
    /// The deadline; 0 before the first.
    due_ns: AtomicU64,
    /// It has slept since it was last put into a ring.
    slept: AtomicBool,
    /// The alarm for the beginning of a period that was set last.
    alarm_ns: AtomicU64,
    /// It has used up its budget, and has not been told so yet.
    overran: AtomicBool,
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

    fn terms(&self) -> Terms {
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

fn standing(tte: &Tte) -> Standing {
    let (limit, ran) = (tte.budget.limit.load(Relaxed), tte.ran());
    let left_ns = match limit.checked_sub(ran) {
        Some(left) => ticks_to_ns(left) as i64,
        None => -(ticks_to_ns(ran - limit) as i64),
    };
    Standing {
        left_ns,
        due_ns: tte.budget.due_ns.load(Relaxed),
    }
}

/// Whether the thread, which has a budget, may run as an urgent one now; it has a new budget then if it is
/// time. Otherwise it is marked to wait for its next period, and an alarm is set.
pub(crate) fn admits(tte: &Tte) -> bool {
    let slept = tte.budget.slept.swap(false, Relaxed);
    let at = standing(tte);
    let terms = tte.budget.terms();
    let Some(next) = terms.renewed(at, now_ns(), slept) else {
        if !at.is_spent() {
            tte.budget.limit.store(tte.ran(), Relaxed);
        }
        let next = terms.next_ns(at.due_ns);
        // Without memory for an alarm it comes back when it has had a turn as a usual thread.
        if tte.budget.alarm_ns.swap(next, Relaxed) != next {
            let _ = clock::alarm(next, come_back, tte.address());
        }
        tte.is_raised.store(true, Relaxed);
        tte.state.fetch_or(SEQUENCE, AcqRel);
        return false;
    };
    if next != at {
        let left = ns_to_ticks(next.left_ns.max(0) as u64);
        tte.budget.limit.store(tte.ran() + left, Relaxed);
        tte.budget.due_ns.store(next.due_ns, Relaxed);
    }
    tte.urgency.store(u64::MAX - next.due_ns, Relaxed);
    true
}

/// A period begins of the thread with this address: it is an urgent one again, if it is ready. Called by the
/// alarm.
fn come_back(address: usize) {
    // SAFETY: the address of an entry, which is never unmapped.
    let tte = unsafe { &*(address as *const Tte) };
    let (_, local, me) = here();
    if tte.budget.is_set()
        && tte.on_ring.is_of(local.ring.ring)
        && tte.level.load(Relaxed) != URGENT
    {
        local.ring.remove(me, tte);
        local.ring.insert(me, tte, End::Back);
    }
}

/// Another thread may be the first of the urgent ones: the timer fires at the end of its budget at the
/// latest.
pub(crate) fn watch(ring: &ReadyRing) {
    if let Some(left_ns) = left_of_first(ring) {
        #[cfg(target_os = "none")]
        {
            let (_, local, _) = here();
            let now = now_ns();
            crate::time::timer::arm_for(local, now + left_ns, now);
        }
        #[cfg(not(target_os = "none"))]
        let _ = left_ns;
    }
}

#[inline]
fn left_of_first(ring: &ReadyRing) -> Option<u64> {
    // SAFETY: null, or an entry, which is never unmapped.
    let first = unsafe { ring.heads[URGENT as usize].load(Relaxed).as_ref() }?;
    first
        .budget
        .is_set()
        .then(|| standing(first).left_ns.max(SHORTEST_LOOK_NS) as u64)
}

/// When the first thread of the CPU has spent its budget, if it has one.
pub(crate) fn end_ns(local: &Local, now: u64) -> u64 {
    left_of_first(&local.ring).map_or(u64::MAX, |left| now + left)
}

/// Whether the thread has a budget, and has spent it.
pub(crate) fn is_spent(tte: &Tte) -> bool {
    tte.budget.is_set() && standing(tte).is_spent()
}

/// The running thread, which is in the ring of urgent threads, has spent its budget: it goes among the usual
/// ones. With interrupts off.
pub(crate) fn demote(local: &Local, me: &Tte) {
    if me.budget.due_ns.load(Relaxed) != 0 {
        me.budget.overran.store(true, Relaxed);
    }
    local.ring.remove(me, me);
    local.ring.insert(me, me, End::Back);
}

/// The running thread gives up the rest of its budget: it waits for its next period before it is in user mode
/// again.
pub(crate) fn give_up(me: &Tte) {
    me.budget.limit.store(me.ran(), Relaxed);
    me.is_raised.store(true, Relaxed);
    me.state.fetch_or(SEQUENCE, AcqRel);
}

/// The running thread, which has a budget, sleeps until its next period if it has spent that. Whether it has,
/// and is among the urgent threads again. Without memory for an alarm it does not, and is marked anew when it
/// goes back into the ring; one that is to end, or is promised something else, does not wait either. With
/// interrupts on.
pub(crate) fn wait(me: &Tte) -> bool {
    // Bound: a reading of a thread's clock.
    irq_disable();
    let spent = is_spent(me);
    irq_enable();
    let (terms, due_ns) = (me.budget.terms(), me.budget.due_ns.load(Relaxed));
    let at = terms.next_ns(due_ns);
    if !spent || due_ns == 0 || now_ns() >= at {
        return false;
    }
    let Ok(wake_up) = WakeUp::at(at) else {
        return false;
    };
    while !wake_up.passed() {
        if me.flags() & KILLED != 0 || !me.budget.has(terms) {
            return false;
        }
        crate::running::block::suspend();
    }
    me.budget.has(terms) && me.level.load(Relaxed) == URGENT
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
