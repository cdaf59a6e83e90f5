//! The quantum timer: a one-shot interrupt for each CPU, for the end of quanta and for alarms.
//!
//! *Interface*: [`begin`] when a second thread becomes ready, [`arm_for`] for the alarm heap; [`fired`] is
//! the handler in Rust, for whatever the generated one (`tick.rs`) leaves to it, and [`fired_in_program`] the
//! same for an interrupted program, which the generated handler calls.
//!
//! A CPU with at most one ready thread has no quanta; it is interrupted only for samples (`sample.rs`) and
//! alarms. A running timer is not stopped when the ring shrinks to one thread: it fires once more and finds
//! nothing to do. So two threads that wake each other in turn arm it once in each quantum, not at each
//! wake-up. A thread that gets the CPU in the middle of another's quantum starts its own quantum then.
//!
//! When threads give up the CPU long before their quanta end, timer interrupts are wasted. Each time the
//! timer finds a thread that has hardly begun, it doubles its interval, up to four quanta; a computing
//! thread, or an idle CPU, brings it back to one. So a thread that starts to compute among such threads may
//! hold the CPU for four quanta, once.
//! Source: dissertation, section 4.3.3.

use crate::balance;
use crate::balance::sample;
use crate::entry::chain::chain;
use crate::running::local::{IDLE, Local, OVERDUE, STILL, TICKING, here};
use crate::running::ready::{End, URGENT};
use crate::running::{budget, urgent};
use crate::switch::Kind;
use crate::switch::yielding;
use crate::time::alarm::Due;
use crate::time::demand;
use crate::tte::flags::ATTENTION;
use crate::tte::{QUANTUM_NS, Tte};
use core::ptr::null_mut;
use core::sync::atomic::Ordering;
use machine::clock::{now_ns, span_ns, tsc, tsc_khz};
use machine::cpu::Cpu;
use machine::trap::TrapFrame;

/// `ticks` of the time-stamp counter in nanoseconds.
pub(crate) fn ticks_to_ns(ticks: u64) -> u64 {
    let khz = tsc_khz().max(1);
    match ticks.checked_mul(1_000_000) {
        Some(product) => product / khz,
        None => (u128::from(ticks) * 1_000_000 / u128::from(khz)) as u64,
    }
}

/// Nanoseconds in counts of the time-stamp counter.
pub(crate) fn ns_to_ticks(ns: u64) -> u64 {
    match ns.checked_mul(tsc_khz()) {
        Some(product) => product / 1_000_000,
        None => (u128::from(ns) * u128::from(tsc_khz()) / 1_000_000) as u64,
    }
}

/// Whether another thread waits for this CPU. With interrupts off.
fn contended(local: &Local) -> bool {
    local.ring.ready() >= 2 || local.ring.shelf.is_used() && local.ring.shelf.sweep()
}

/// Starts the quanta if another thread is ready. With interrupts off.
#[cold]
#[inline(never)]
pub(crate) fn begin(local: &Local, me: &Tte) {
    if contended(local) {
        let now = now_ns();
        local.ticking.store(TICKING, Ordering::Relaxed);
        local.turn_ns.store(now, Ordering::Relaxed);
        look_at(local, now + patient(local, me.look_ns()), now);
    }
}

/// Has the timer look at the quantum at `at_ns`; it is `now`.
fn look_at(local: &Local, at_ns: u64, now: u64) {
    local.look_ns.store(at_ns, Ordering::Relaxed);
    arm(local, at_ns, now);
}

/// The most times that the time to the next look at a quantum is doubled.
pub(crate) const PATIENCE: u8 = 2;

/// When a quantum that begins now is looked at, from now.
fn patient(local: &Local, quantum: u64) -> u64 {
    quantum << local.patience.load(Ordering::Relaxed)
}

/// After `tte` has joined a ring whose timer is not just ticking: starts it, or sends `tte` to the back when
/// the waiting threads have waited long enough. A thread that an alarm woke keeps its place at the front, and
/// so does a thread that a kernel thread wakes on an alarm's behalf. With interrupts off.
#[cold]
#[inline(never)]
pub(crate) fn joined(local: &Local, me: &Tte, tte: &Tte) {
    if local.ticking.load(Ordering::Relaxed) == STILL {
        begin(local, me);
    } else if Kind::from_bits(me.kind.load(Ordering::Relaxed)).contains(Kind::USER) {
        local.ring.remove(me, tte);
        local.ring.insert(me, tte, End::Back);
        local.ticking.store(TICKING, Ordering::Relaxed);
        local.turn_ns.store(now_ns(), Ordering::Relaxed);
    }
}

/// Has the timer fire no later than `at_ns`, for an alarm or a sample; it is `now`. With interrupts off.
pub(crate) fn arm_for(local: &Local, at_ns: u64, now: u64) {
    if at_ns < local.soonest_ns.load(Ordering::Relaxed) {
        local.soonest_ns.store(at_ns, Ordering::Relaxed);
    }
    arm(local, at_ns, now);
}

/// Has the timer fire no later than `at_ns`; it is `now`. With interrupts off.
fn arm(local: &Local, at_ns: u64, now: u64) {
    if at_ns < local.armed_ns.load(Ordering::Relaxed) {
        local.armed_ns.store(at_ns, Ordering::Relaxed);
        machine::apic::timer_arm_ns(at_ns.saturating_sub(now));
    }
}

/// Alarms that are called at a time, with interrupts off.
const AT_A_TIME: usize = 8;

/// The timer interrupt.
pub(crate) fn fired(frame: &mut TrapFrame) {
    let (cpu, local, me) = here();
    handle(cpu, local, me, frame);
}

/// The timer interrupt of a program, from the generated handler: all of the interrupt. Returns whether the
/// program goes on at once with `frame`. Otherwise something is asked of the CPU or the thread, and the
/// interrupt ends as one does that has woken a thread.
pub(crate) extern "sysv64" fn fired_in_program(frame: &mut TrapFrame) -> bool {
    let (cpu, local, me) = here();
    sync::epoch::quiescent(cpu.number());
    cpu.dispatcher
        .store(me.dispatch.load(Ordering::Acquire), Ordering::Relaxed);
    cpu.handles(|| handle(cpu, local, me, frame));
    machine::irq::timer_taken(cpu);
    local.chain.is_still()
        && cpu.need_resched.load(Ordering::Relaxed) == 0
        && me.state.load(Ordering::Relaxed) & ATTENTION == 0
}

#[inline(always)]
fn handle(cpu: &Cpu, local: &Local, me: &Tte, frame: &mut TrapFrame) {
    let now = now_ns();
    local.in_timer.store(true, Ordering::Relaxed);
    if local.chain.is_still() {
        // A routine, which runs with interrupts off, has woken a thread: that keeps to its turn.
        cpu.need_resched.store(0, Ordering::Relaxed);
    }
    sample::take(local, me, frame, now);
    local.armed_ns.store(u64::MAX, Ordering::Relaxed);
    if frame.from_user() {
        local.program.store(frame, Ordering::Relaxed);
    }
    // A timer interrupt that comes while the chain calls alarms leaves the rest to the chain.
    if !local.alarms_chained.load(Ordering::Relaxed) {
        call_alarms(cpu, local, me, now);
    }
    local.program.store(null_mut(), Ordering::Relaxed);
    if local.ring.urges(me) {
        cpu.need_resched.store(1, Ordering::Relaxed);
    }
    local.in_timer.store(false, Ordering::Relaxed);
}

/// Shows an alarm's procedure the frame of the program that the timer has interrupted, if nothing else is
/// asked of its thread. The program continues with that frame as the procedure leaves it, which fits user
/// mode. Interrupts are off.
pub fn interrupted<R>(look: impl FnOnce(&mut TrapFrame) -> R) -> Option<R> {
    let (_, local, me) = here();
    if me.state.load(Ordering::Relaxed) & ATTENTION != 0 {
        return None;
    }
    let frame = local.program.load(Ordering::Relaxed);
    local.program.store(null_mut(), Ordering::Relaxed);
    // SAFETY: `fired` on this CPU, below this call, has stored its own frame, and does not use it until the
    // alarms have been called; the word is null while a procedure has it.
    let result = look(unsafe { frame.as_mut() }?);
    local.program.store(frame, Ordering::Relaxed);
    Some(result)
}

/// [`call_alarms`], from the chain.
fn call_later_alarms(_: usize) {
    let (cpu, local, me) = here();
    call_alarms(cpu, local, me, now_ns());
}

/// It is `now`: calls a few of the due alarms, and chains itself while there are more, or behind the
/// procedures that the alarms have chained; then handles the quantum.
#[inline(always)]
fn call_alarms(cpu: &Cpu, local: &Local, me: &Tte, now: u64) {
    // A thread that an alarm wakes always goes to the front.
    local.ticking.store(TICKING, Ordering::Relaxed);
    let waited = local.chain.count();
    for _ in 0..AT_A_TIME {
        // SAFETY: on this CPU with interrupts off; the borrow ends before the call.
        let due = unsafe { local.alarms() }.due(now);
        match due {
            Some(Due::Call(call, argument)) => call(argument),
            Some(Due::Nothing) => {}
            None => break,
        }
    }
    // SAFETY: as above.
    let more = unsafe { local.alarms() }.next_ns() <= now || local.chain.count() > waited;
    // Without room in the chain, the next interrupt, which comes at once, continues.
    let chained = more && chain(call_later_alarms, 0).is_ok();
    local.alarms_chained.store(chained, Ordering::Relaxed);
    if !chained {
        keep_quantum(cpu, local, me, now);
    }
}

/// Whether the running thread's quantum is over, and when the timer is to fire next. It is [`TICKING`] so
/// far.
#[inline(always)]
fn keep_quantum(cpu: &Cpu, local: &Local, me: &Tte, now: u64) {
    // Not a thread that was just woken.
    let coming = match cpu.need_resched.load(Ordering::Relaxed) {
        0 => balance::offer(local, me),
        _ => 0,
    };
    let mut urgent =
        me.on_ring.load(Ordering::Relaxed) && me.level.load(Ordering::Relaxed) == URGENT;
    if urgent && budget::is_spent(me) {
        budget::demote(local, me);
        cpu.need_resched.store(1, Ordering::Relaxed);
        urgent = false;
    }
    if !urgent {
        local.passed_ns.store(now, Ordering::Relaxed);
    }
    let quantum = me.quantum_ns();
    let ran = span_ns(tsc().wrapping_sub(me.in_at.load(Ordering::Relaxed)));
    let patience = match local.patience.load(Ordering::Relaxed) {
        _ if ran >= quantum / 4 || IDLE.any() || !me.on_ring.load(Ordering::Relaxed) => 0,
        // An interrupt for an alarm says nothing about quanta.
        patience if now + quantum / 8 < local.look_ns.load(Ordering::Relaxed) => patience,
        patience => PATIENCE.min(patience + 1),
    };
    local.patience.store(patience, Ordering::Relaxed);
    if contended(local) {
        keep_turn(cpu, local, me, now, (ran, quantum), urgent, coming);
    } else {
        local.ticking.store(STILL, Ordering::Relaxed);
        yielding::left_alone(me);
    }
    // SAFETY: on this CPU with interrupts off.
    let alarm = unsafe { local.alarms() }.next_ns();
    let soonest = alarm
        .min(local.sample_ns.load(Ordering::Relaxed))
        .min(budget::end_ns(local, now));
    local.soonest_ns.store(soonest, Ordering::Relaxed);
    arm(local, soonest, now);
}

/// The same while other threads wait for this CPU, where the running thread `ran` so long of its `quantum`.
#[inline(never)]
fn keep_turn(
    cpu: &Cpu,
    local: &Local,
    me: &Tte,
    now: u64,
    (ran, quantum): (u64, u64),
    urgent: bool,
    coming: usize,
) {
    if urgent {
        let left = urgent::keep_turns(cpu, local, me, now, coming);
        look_at(local, now + left, now);
    } else {
        // An eighth early is the end of the quantum too; the remainder is not worth an interrupt.
        let left = if ran >= quantum - quantum / 8 {
            cpu.need_resched.store(1, Ordering::Relaxed);
            local.turn_ns.store(now, Ordering::Relaxed);
            balance::turn_over(local, me, coming);
            demand::used_up(me);
            local.ring.after(me).map_or(QUANTUM_NS, Tte::look_ns)
        } else {
            // A thread has got the CPU in the middle of another's quantum; a series of such threads could
            // continue for ever.
            let turn = now.saturating_sub(local.turn_ns.load(Ordering::Relaxed));
            if turn >= quantum {
                local.ticking.store(OVERDUE, Ordering::Relaxed);
                balance::turn_over(local, me, coming);
            }
            let left = patient(local, quantum) - ran;
            left.min(patient(local, QUANTUM_NS))
        };
        look_at(local, now + left, now);
    }
}
