//! The quantum timer: a one-shot interrupt for each CPU, for the end of quanta and for alarms.
//!
//! *Interface*: [`begin`] when a second thread becomes ready, [`arm`] for the alarm heap; [`fired`] is the
//! handler in Rust, for whatever the generated one (`tick.rs`) leaves to it.
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
use crate::running::urgent;
use crate::switch::Kind;
use crate::switch::yielding;
use crate::time::alarm::Due;
use crate::time::demand;
use crate::tte::flags::ATTENTION;
use crate::tte::{QUANTUM_NS, Tte};
use core::ptr::null_mut;
use core::sync::atomic::Ordering;
use machine::clock::{now_ns, tsc, tsc_khz};
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
        look_at(local, now + patient(local, me.look_ns()));
    }
}

/// Has the timer look at the quantum at `at_ns`.
fn look_at(local: &Local, at_ns: u64) {
    local.look_ns.store(at_ns, Ordering::Relaxed);
    arm(local, at_ns);
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

/// Has the timer fire no later than `at_ns`, for an alarm or a sample. With interrupts off.
pub(crate) fn arm_for(local: &Local, at_ns: u64) {
    if at_ns < local.soonest_ns.load(Ordering::Relaxed) {
        local.soonest_ns.store(at_ns, Ordering::Relaxed);
    }
    arm(local, at_ns);
}

/// Has the timer fire no later than `at_ns`. With interrupts off.
fn arm(local: &Local, at_ns: u64) {
    if at_ns < local.armed_ns.load(Ordering::Relaxed) {
        local.armed_ns.store(at_ns, Ordering::Relaxed);
        machine::apic::timer_arm_ns(at_ns.saturating_sub(now_ns()));
    }
}

/// Alarms that are called at a time, with interrupts off.
const AT_A_TIME: usize = 8;

/// The timer interrupt.
pub(crate) fn fired(frame: &mut TrapFrame) {
    let (cpu, local, me) = here();
    local.in_timer.store(true, Ordering::Relaxed);
    if local.chain.is_still() {
        // A routine, which runs with interrupts off, has woken a thread: that keeps to its turn.
        cpu.need_resched.store(0, Ordering::Relaxed);
    }
    sample::take(local, me, frame);
    local.armed_ns.store(u64::MAX, Ordering::Relaxed);
    if frame.from_user() {
        local.program.store(frame, Ordering::Relaxed);
    }
    // A timer interrupt that comes while the chain calls alarms leaves the rest to the chain.
    if !local.alarms_chained.load(Ordering::Relaxed) {
        call_alarms(0);
    }
    local.program.store(null_mut(), Ordering::Relaxed);
    if local.ring.urges(me) {
        cpu.need_resched.store(1, Ordering::Relaxed);
    }
    local.in_timer.store(false, Ordering::Relaxed);
}

/// Shows an alarm's procedure the frame of the program that the timer has interrupted, if nothing else is
/// asked of its thread. The program continues with that frame as the procedure leaves it. Interrupts are off.
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

/// Calls a few of the due alarms, and chains itself while there are more, or behind the procedures that the
/// alarms have chained; then handles the quantum.
fn call_alarms(_: usize) {
    let (cpu, local, me) = here();
    let now = now_ns();
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
    let chained = more && chain(call_alarms, 0).is_ok();
    local.alarms_chained.store(chained, Ordering::Relaxed);
    if !chained {
        keep_quantum(cpu, local, me, now);
    }
}

/// Whether the running thread's quantum is over, and when the timer is to fire next. It is [`TICKING`] so
/// far.
fn keep_quantum(cpu: &Cpu, local: &Local, me: &Tte, now: u64) {
    // Not a thread that was just woken.
    let coming = match cpu.need_resched.load(Ordering::Relaxed) {
        0 => balance::offer(local, me),
        _ => 0,
    };
    let urgent = me.on_ring.load(Ordering::Relaxed) && me.level.load(Ordering::Relaxed) == URGENT;
    if !urgent {
        local.passed_ns.store(now, Ordering::Relaxed);
    }
    let quantum = ns_to_ticks(me.quantum_ns());
    let ran = tsc().wrapping_sub(me.in_at.load(Ordering::Relaxed));
    let patience = match local.patience.load(Ordering::Relaxed) {
        _ if ran >= quantum / 4 || IDLE.any() || !me.on_ring.load(Ordering::Relaxed) => 0,
        // An interrupt for an alarm says nothing about quanta.
        patience if now + me.quantum_ns() / 8 < local.look_ns.load(Ordering::Relaxed) => patience,
        patience => PATIENCE.min(patience + 1),
    };
    local.patience.store(patience, Ordering::Relaxed);
    if contended(local) && urgent {
        look_at(local, now + urgent::keep_turns(cpu, local, me, now, coming));
    } else if contended(local) {
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
            if turn >= me.quantum_ns() {
                local.ticking.store(OVERDUE, Ordering::Relaxed);
                balance::turn_over(local, me, coming);
            }
            let left = ticks_to_ns(patient(local, quantum) - ran);
            left.min(patient(local, QUANTUM_NS))
        };
        look_at(local, now + left);
    } else {
        local.ticking.store(STILL, Ordering::Relaxed);
        yielding::left_alone(me);
    }
    // SAFETY: on this CPU with interrupts off.
    let alarm = unsafe { local.alarms() }.next_ns();
    let soonest = alarm.min(local.sample_ns.load(Ordering::Relaxed));
    local.soonest_ns.store(soonest, Ordering::Relaxed);
    arm(local, soonest);
}
