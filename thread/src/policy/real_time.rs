//! Real-time threads, and threads of the last level: where policies put a thread.
//!
//! *Interface*: [`Tte::set_sched_class`] from any thread, at any time; [`apply_policy`] by the thread itself
//! before it enters user mode; [`keep_turns`] at the timer's interrupt while an urgent thread runs.
//!
//! An urgent thread runs before all others of its CPU, the one with the highest priority first; of several
//! with the same priority each runs until it blocks, or, if it takes turns, to the end of its quantum. Those
//! that are promised time in each period (`ring/budget.rs`) precede those with priorities. A thread that
//! wakes a more urgent one gives it the CPU at once. The others are not forgotten: when urgent threads have
//! had the CPU for [`WITHHELD_NS`], the next turn is one of theirs, unless a thread has it that was promised
//! it.

use crate::balance;
use crate::clock::WakeUp;
use crate::policy::affinity;
use crate::ring::inbox::send_home;
use crate::ring::per_cpu::{PerCpu, here, local};
use crate::ring::ready::End;
use crate::ring::{budget, reschedule_ipi};
use crate::running::block;
use crate::switch::yielding;
use crate::tte::budget::Terms;
use crate::tte::cpu_time::ns_to_ticks;
use crate::tte::flags::{KILLED, SEQUENCE};
use crate::tte::{LEVELS, QUANTUM_NS, Tte, URGENT, current};
use core::sync::atomic::Ordering;
use machine::clock::{now_ns, span_ns, tsc};
use machine::cpu::{Cpu, irq_disable, irq_enable};

/// How long urgent threads may keep the CPU from the others, nanoseconds: these then have a turn of a
/// twentieth of that at least.
pub const WITHHELD_NS: u64 = 19 * QUANTUM_NS;
/// The shortest time to the next look, nanoseconds.
const SHORTEST_NS: u64 = QUANTUM_NS / 8;

/// Where a policy puts a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchedClass {
    /// With most others.
    Usual,
    /// At the last level of the table, which has one turn in 128.
    Last,
    /// Before all that are not urgent or have a lower priority.
    Urgent {
        /// 1 to 99, the highest.
        priority: u8,
        /// Whether it takes turns with others of the same priority.
        takes_turns: bool,
    },
    /// Before all that have priorities, for so long in each period. A CPU has promised it
    /// ([`Tte::promise`]).
    Promised(Terms),
}

impl Tte {
    /// Puts the thread where its policy says. It is there at the latest when it has been in user mode once
    /// more, or has slept.
    pub fn set_sched_class(&self, place: SchedClass) {
        let mut terms = Terms::default();
        let (level, urgency, takes_turns) = match place {
            SchedClass::Usual => (0, 0, false),
            SchedClass::Last => (LEVELS as u8 - 1, 0, false),
            SchedClass::Urgent {
                priority,
                takes_turns,
            } => (URGENT, u64::from(priority), takes_turns),
            // Until its deadline is known: the first of those with budgets has it.
            SchedClass::Promised(promised) => {
                terms = promised;
                (URGENT, u64::MAX, false)
            }
        };
        let is_there = match place {
            SchedClass::Promised(_) => true,
            _ => urgency == self.urgency.load(Ordering::Relaxed),
        };
        if is_there
            && level == self.wanted_level.load(Ordering::Relaxed)
            && takes_turns == self.takes_turns.load(Ordering::Relaxed)
            && self.budget.has(terms)
        {
            return;
        }
        let had_budget = self.budget.is_set();
        self.budget.begin(terms);
        self.urgency.store(urgency, Ordering::Relaxed);
        self.takes_turns.store(takes_turns, Ordering::Relaxed);
        self.wanted_level.store(level, Ordering::Relaxed);
        self.is_raised.store(true, Ordering::Relaxed);
        self.tell_handler();
        self.state.fetch_or(SEQUENCE, Ordering::AcqRel);
        // Bound: at most 64 places of the ring of urgent threads, and a switch.
        irq_disable();
        let (cpu, local, me) = here();
        if self.on_ring.is_of(local.ring.ring) {
            if !me.is(self) {
                local.ring.remove(me, self);
                local.ring.insert(me, self, End::Back);
                give_way(cpu, local, me);
            }
        } else if self.on_ring.is_some() {
            reschedule_ipi::send(self.cpu());
        } else if level == URGENT && local_of(self).ring.steal_queue.take_thread(self.as_ptr()) {
            if self.cpu() == cpu.number() {
                local.ring.insert(me, self, End::Back);
                give_way(cpu, local, me);
            } else {
                send_home(self);
            }
        }
        irq_enable();
        if had_budget {
            // It may wait for its next period.
            block::resume(self);
        }
    }
}

/// The data of the thread's CPU.
fn local_of(tte: &Tte) -> &'static PerCpu {
    local(tte.cpu())
}

/// The running thread goes where its policy and its CPUs say, and waits for its next period if it has spent
/// its budget. Whether it has used one up. With interrupts on.
pub fn apply_policy() -> bool {
    let me = current();
    let mut raised = me.is_raised.swap(false, Ordering::Relaxed);
    if raised && me.budget.is_set() && wait_for_period(me) {
        raised = false;
    }
    irq_disable();
    let (cpu, local, me) = here();
    if raised {
        // An urgent thread is always in the ordinary way: its `sched_yield` is a matter of priorities.
        yielding::left_alone(me);
        local.ring.remove(me, me);
        local.ring.insert(me, me, End::Back);
        give_way(cpu, local, me);
    }
    irq_enable();
    affinity::apply_affinity();
    me.budget.take_overrun()
}

/// The running thread, which has a budget, sleeps until its next period if it has spent that. Whether it has,
/// and is among the urgent threads again. Without memory for an alarm it does not, and is marked anew when it
/// goes back into the ring; one that is to end, or is promised something else, does not wait either. With
/// interrupts on.
fn wait_for_period(me: &Tte) -> bool {
    // Bound: a reading of a thread's clock.
    irq_disable();
    let spent = budget::is_spent(me);
    irq_enable();
    let (terms, due_ns) = (me.budget.terms(), me.budget.due_ns.load(Ordering::Relaxed));
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
        block::suspend();
    }
    me.budget.has(terms) && me.level.load(Ordering::Relaxed) == URGENT
}

/// The running thread, if it is an urgent one, goes behind those of its priority, or gives up the rest of its
/// budget: it is about to yield. Thread context, interrupts on.
pub fn give_up_turn() {
    irq_disable();
    let (_, local, me) = here();
    if me.budget.is_set() {
        budget::give_up(me);
    } else if me.level.load(Ordering::Relaxed) == URGENT {
        local.ring.rotate(me, me);
    }
    irq_enable();
}

/// Lets a more urgent thread run than `me`, the running one, if there is any. With interrupts off, in thread
/// context.
pub(crate) fn give_way(cpu: &Cpu, local: &PerCpu, me: &Tte) {
    if local.ring.urges(me) {
        block::preempt(cpu, local, me);
    }
}

/// Whether the CPU of `me`, an urgent thread that runs, goes to another thread, and when the timer is to look
/// again, nanoseconds from now. It is called while others are ready.
pub(crate) fn keep_turns(cpu: &Cpu, local: &PerCpu, me: &Tte, now: u64, coming: usize) -> u64 {
    if me.budget.is_set() {
        return me.quantum_ns();
    }
    let quantum = ns_to_ticks(me.quantum_ns());
    let ran = tsc().wrapping_sub(me.in_at.load(Ordering::Relaxed));
    let passed = local.passed_ns.load(Ordering::Relaxed);
    let withheld = now.saturating_sub(passed);
    if withheld >= WITHHELD_NS {
        local.passed_ns.store(now, Ordering::Relaxed);
        balance::turn_over(local, me, now, coming);
        if local.ring.has_usual() {
            local.ring.pass.store(true, Ordering::Relaxed);
            cpu.need_resched.store(1, Ordering::Relaxed);
            return QUANTUM_NS;
        }
    }
    let over = ran >= quantum - quantum / 8;
    if over && me.takes_turns.load(Ordering::Relaxed) && local.ring.rotate(me, me) {
        cpu.need_resched.store(1, Ordering::Relaxed);
    }
    let left = match over {
        true => me.quantum_ns(),
        false => span_ns(quantum - ran),
    };
    left.min(WITHHELD_NS.saturating_sub(withheld))
        .max(SHORTEST_NS)
}
