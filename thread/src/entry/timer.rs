//! The timer's interrupt, a one-shot for each CPU: alarms, samples, the ends of quanta.
//!
//! *Interface*: [`fired`] is the handler in Rust, for whatever the generated one (`tick.rs`) leaves to it,
//! and [`fired_in_program`] the same for an interrupted program, which the generated handler calls. The
//! quanta begin in `time/quanta.rs`.
//!
//! A thread that gets the CPU in the middle of another's quantum starts its own quantum then.
//!
//! When threads give up the CPU long before their quanta end, timer interrupts are wasted. Each time the
//! timer finds a thread that has hardly begun, it doubles its interval, up to four quanta; a computing
//! thread, or an idle CPU, brings it back to one. So a thread that starts to compute among such threads may
//! hold the CPU for four quanta, once.
//! Source: dissertation, section 4.3.3.

use crate::alarm::Due;
use crate::balance;
use crate::balance::cpu_time_sampling;
use crate::policy::real_time;
use crate::ring::chain::chain;
use crate::ring::cpu_timer::arm;
use crate::ring::idle_cpus::IDLE;
use crate::ring::per_cpu::{OVERDUE, PATIENCE, PerCpu, STILL, TICKING, here, running};
use crate::ring::{budget, granularity};
use crate::switch::yielding;
use crate::time::demand;
use crate::time::quanta::{arm_check, contended, next_check_delay};
use crate::tte::flags::ATTENTION;
use crate::tte::{QUANTUM_NS, Tte, URGENT};
use core::ptr::null_mut;
use core::sync::atomic::Ordering;
use machine::clock::{at_ns, span_ns, tsc};
use machine::cpu::Cpu;
use machine::trap::TrapFrame;

/// Alarms that are called at a time, with interrupts off.
const AT_A_TIME: usize = 8;

/// The timer interrupt.
pub(crate) fn fired(frame: &mut TrapFrame) {
    let (cpu, local, me) = here();
    let of_program = frame.from_user();
    handle(cpu, local, me, frame, of_program);
}

/// The timer interrupt of a program on `cpu`, whose part `local` is, from the generated handler, which has
/// noted a quiescent point: the rest of the interrupt. Returns whether the program goes on at once with
/// `frame`. Otherwise something is asked of the CPU or the thread, and the interrupt ends as one does that
/// has woken a thread.
pub(crate) extern "sysv64" fn fired_in_program(
    frame: &mut TrapFrame,
    local: &PerCpu,
    cpu: &Cpu,
) -> bool {
    let me = running(cpu);
    cpu.dispatcher
        .store(me.dispatch.load(Ordering::Acquire), Ordering::Relaxed);
    cpu.handles(|| handle(cpu, local, me, frame, true));
    machine::irq::timer_taken(cpu);
    local.chain.is_still()
        && cpu.need_resched.load(Ordering::Relaxed) == 0
        && me.state.load(Ordering::Relaxed) & ATTENTION == 0
}

#[inline(always)]
fn handle(cpu: &Cpu, local: &PerCpu, me: &Tte, frame: &mut TrapFrame, of_program: bool) {
    let stamp = tsc();
    let now = at_ns(stamp);
    local.in_timer.store(true, Ordering::Relaxed);
    if local.chain.is_still() {
        // A routine, which runs with interrupts off, has woken a thread: that keeps to its turn.
        cpu.need_resched.store(0, Ordering::Relaxed);
    }
    let look = cpu_time_sampling::take(local, me, frame, now)
        || local.ticking.load(Ordering::Relaxed) != STILL;
    local.armed_ns.store(u64::MAX, Ordering::Relaxed);
    if of_program {
        local.interrupted_ns.store(now, Ordering::Relaxed);
        local.program.store(frame, Ordering::Relaxed);
    }
    // A timer interrupt that comes while the chain calls alarms leaves the rest to the chain.
    if !local.alarms_chained.load(Ordering::Relaxed) {
        call_alarms(cpu, local, me, (stamp, now), look);
    }
    local.program.store(null_mut(), Ordering::Relaxed);
    if local.ring.urges(me) {
        cpu.need_resched.store(1, Ordering::Relaxed);
    }
    local.in_timer.store(false, Ordering::Relaxed);
}

/// [`call_alarms`], from the chain.
fn call_later_alarms(_: usize) {
    let (cpu, local, me) = here();
    let stamp = tsc();
    call_alarms(cpu, local, me, (stamp, at_ns(stamp)), true);
}

/// It is `now`, where the time stamp counter is at `stamp`: calls a few of the due alarms, and chains itself
/// while there are more, or behind the procedures that the alarms have chained; then handles the quantum.
/// `look` says that more may have to be looked at than alarms.
#[inline(always)]
fn call_alarms(cpu: &Cpu, local: &PerCpu, me: &Tte, (stamp, now): (u64, u64), look: bool) {
    // A thread that an alarm wakes always goes to the front.
    local.ticking.store(TICKING, Ordering::Relaxed);
    let waited = local.chain.mark();
    let more = call_alarm(local, now) && next_ns(local) <= now && call_others(local, now);
    // Without room in the chain, the next interrupt, which comes at once, continues.
    let chained = (more || local.chain.mark() != waited) && chain(call_later_alarms, 0).is_ok();
    local.alarms_chained.store(chained, Ordering::Relaxed);
    if !chained {
        keep_quantum(cpu, local, me, (stamp, now), look);
    }
}

/// When the next alarm is due.
fn next_ns(local: &PerCpu) -> u64 {
    // SAFETY: on this CPU with interrupts off; the borrow ends here.
    unsafe { local.alarms() }.next_ns()
}

/// Calls the first alarm if it is due at `now`, and returns whether it was.
#[inline(always)]
fn call_alarm(local: &PerCpu, now: u64) -> bool {
    // SAFETY: on this CPU with interrupts off; the borrow ends before the call.
    match unsafe { local.alarms() }.due(now) {
        Some(Due::Call(call, argument)) => call(argument),
        Some(Due::Nothing) => {}
        None => return false,
    }
    true
}

/// Calls those behind it, and returns whether there are still more.
#[inline(never)]
fn call_others(local: &PerCpu, now: u64) -> bool {
    (1..AT_A_TIME).all(|_| call_alarm(local, now)) && next_ns(local) <= now
}

/// Whether the running thread's quantum is over, and when the timer is to fire next. It is [`TICKING`] so
/// far.
#[inline(always)]
fn keep_quantum(cpu: &Cpu, local: &PerCpu, me: &Tte, (stamp, now): (u64, u64), look: bool) {
    let mut soonest = local.sample_ns.load(Ordering::Relaxed);
    if !look && local.ring.is_calm() {
        local.passed_ns.store(now, Ordering::Relaxed);
        local.ticking.store(STILL, Ordering::Relaxed);
        yielding::left_alone(me);
    } else {
        keep_turn(cpu, local, me, stamp, now);
        soonest = soonest.min(budget::end_ns(local, now));
    }
    soonest = soonest.min(next_ns(local));
    local.soonest_ns.store(soonest, Ordering::Relaxed);
    arm(local, soonest, now);
}

/// The same where the timer kept quanta or takes a sample, other threads may wait for this CPU, or there are
/// urgent ones.
#[inline(never)]
fn keep_turn(cpu: &Cpu, local: &PerCpu, me: &Tte, stamp: u64, now: u64) {
    let quantum = me.quantum_ns();
    let turn = quantum * local.granularity.times();
    let ran = span_ns(stamp.wrapping_sub(me.in_at.load(Ordering::Relaxed)));
    let patience = match local.patience.load(Ordering::Relaxed) {
        _ if ran >= quantum / 4 || IDLE.any() || !me.on_ring.is_some() => 0,
        // An interrupt for an alarm says nothing about quanta.
        patience if now + quantum / 8 < local.look_ns.load(Ordering::Relaxed) => patience,
        patience => PATIENCE.min(patience + 1),
    };
    local.patience.store(patience, Ordering::Relaxed);
    // Not a thread that was just woken.
    let coming = match cpu.need_resched.load(Ordering::Relaxed) {
        0 => balance::offer(local, me, now),
        _ => {
            granularity::woke(local);
            0
        }
    };
    let mut urgent = me.on_ring.is_some() && me.level.load(Ordering::Relaxed) == URGENT;
    if urgent && budget::is_spent(me) {
        budget::demote(local, me);
        cpu.need_resched.store(1, Ordering::Relaxed);
        urgent = false;
    }
    if !urgent {
        local.passed_ns.store(now, Ordering::Relaxed);
    }
    if !contended(local) {
        local.ticking.store(STILL, Ordering::Relaxed);
        yielding::left_alone(me);
    } else if urgent {
        let left = real_time::keep_turns(cpu, local, me, now, coming);
        arm_check(local, now + left, now);
    } else {
        // An eighth early is the end of the quantum too; the remainder is not worth an interrupt.
        let left = if ran >= turn - turn / 8 {
            cpu.need_resched.store(1, Ordering::Relaxed);
            local.turn_ns.store(now, Ordering::Relaxed);
            balance::turn_over(local, me, now, coming);
            demand::used_up(me);
            next_check_delay(local, local.ring.after(me).map_or(QUANTUM_NS, Tte::look_ns))
        } else {
            // A thread has got the CPU in the middle of another's quantum; a series of such threads could
            // continue for ever.
            let passed = now.saturating_sub(local.turn_ns.load(Ordering::Relaxed));
            if passed >= turn {
                local.ticking.store(OVERDUE, Ordering::Relaxed);
                balance::turn_over(local, me, now, coming);
            }
            let left = turn.max(next_check_delay(local, quantum)) - ran;
            left.min(next_check_delay(local, QUANTUM_NS))
        };
        arm_check(local, now + left, now);
    }
}
