//! The quantum timer: one one-shot interrupt a CPU, for the end of quanta and for alarms.
//!
//! *Interface*: [`begin`] when a second thread becomes ready, [`arm`] for the alarm heap; [`fired`] is the
//! handler.
//!
//! No quanta are kept while a CPU has one ready thread or none; then it is interrupted for samples
//! (`sample.rs`) and alarms alone. A running timer is left alone when the ring shrinks to one thread: it
//! fires once more and finds nothing to do. So two threads that wake each other in turn arm it once a
//! quantum, not once a wake-up. A thread that got the CPU in the middle of another's quantum has its own
//! quantum from there.
//!
//! Where threads give the CPU up long before their quanta end, the timer only costs: each time that it finds
//! one which has hardly begun, it waits twice as long, up to four quanta; the first that it finds computing
//! brings it back to one, as does a CPU with nothing to do. So whoever starts to compute among such threads
//! may hold the CPU for four quanta, once.
//! Source: dissertation, section 4.3.3.

use crate::balance;
use crate::balance::sample;
use crate::entry::chain::chain;
use crate::running::local::{IDLE, Local, OVERDUE, STILL, TICKING, here};
use crate::running::ready::End;
use crate::switch::Kind;
use crate::switch::yielding;
use crate::time::alarm::Due;
use crate::tte::Tte;
use core::sync::atomic::Ordering;
use machine::clock::{now_ns, tsc, tsc_khz};
use machine::cpu::Cpu;
use machine::trap::TrapFrame;

/// `ticks` of the time-stamp counter in nanoseconds.
pub(crate) fn ticks_to_ns(ticks: u64) -> u64 {
    (u128::from(ticks) * 1_000_000 / u128::from(tsc_khz().max(1))) as u64
}

fn ns_to_ticks(ns: u64) -> u64 {
    (u128::from(ns) * u128::from(tsc_khz()) / 1_000_000) as u64
}

/// Whether somebody waits here for the CPU. With interrupts off.
fn contended(local: &Local) -> bool {
    local.ring.ready() >= 2 || local.ring.shelf.is_used() && local.ring.shelf.sweep()
}

/// Starts keeping quanta if there is anybody to give the CPU to. With interrupts off.
#[cold]
#[inline(never)]
pub(crate) fn begin(local: &Local, me: &Tte) {
    if contended(local) {
        let now = now_ns();
        local.ticking.store(TICKING, Ordering::Relaxed);
        local.turn_ns.store(now, Ordering::Relaxed);
        look_at(local, now + patient(local, me.quantum_ns()));
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
/// those who wait have waited long enough. What an alarm woke keeps its place in front, and so does what a
/// kernel thread wakes on its behalf. With interrupts off.
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

/// Has the timer fire no later than `at_ns`. With interrupts off.
pub(crate) fn arm(local: &Local, at_ns: u64) {
    if at_ns < local.armed_ns.load(Ordering::Relaxed) {
        local.armed_ns.store(at_ns, Ordering::Relaxed);
        machine::apic::timer_arm_ns(at_ns.saturating_sub(now_ns()));
    }
}

/// Alarms that are called at a time, with interrupts off.
const AT_A_TIME: usize = 8;

/// The timer interrupt.
pub(crate) fn fired(frame: &mut TrapFrame) {
    let (_, local, me) = here();
    sample::take(local, me, frame);
    local.armed_ns.store(u64::MAX, Ordering::Relaxed);
    // One that comes while the chain calls alarms leaves the rest to it.
    if !local.alarms_chained.load(Ordering::Relaxed) {
        call_alarms(0);
    }
}

/// Calls a few of the alarms that are due, and chains itself while there are more, or behind what they have
/// chained; then looks after the quantum.
fn call_alarms(_: usize) {
    let (cpu, local, me) = here();
    let now = now_ns();
    // Whom an alarm wakes goes in front, whoever waits.
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
    // Without room in the chain the next interrupt goes on, which comes at once.
    let chained = more && chain(call_alarms, 0).is_ok();
    local.alarms_chained.store(chained, Ordering::Relaxed);
    if !chained {
        keep_quantum(cpu, local, me, now);
    }
}

/// Whether the running thread's quantum is over, and when the timer is to fire next. It is [`TICKING`] so
/// far.
fn keep_quantum(cpu: &Cpu, local: &Local, me: &Tte, now: u64) {
    // Not who was woken just now.
    let coming = match cpu.need_resched.load(Ordering::Relaxed) {
        0 => balance::offer(local, me),
        _ => 0,
    };
    let quantum = ns_to_ticks(me.quantum_ns());
    let ran = tsc().wrapping_sub(me.in_at.load(Ordering::Relaxed));
    let patience = match local.patience.load(Ordering::Relaxed) {
        _ if ran >= quantum / 4 || IDLE.any() => 0,
        // What fires for an alarm says nothing about quanta.
        patience if now + me.quantum_ns() / 8 < local.look_ns.load(Ordering::Relaxed) => patience,
        patience => PATIENCE.min(patience + 1),
    };
    local.patience.store(patience, Ordering::Relaxed);
    if contended(local) {
        // An eighth early is the end of the quantum too; the remainder is not worth an interrupt.
        let left = if ran >= quantum - quantum / 8 {
            cpu.need_resched.store(1, Ordering::Relaxed);
            local.turn_ns.store(now, Ordering::Relaxed);
            balance::turn_over(local, me, coming);
            quantum
        } else {
            // Somebody has got the CPU in the middle of another's quantum; a chain of such could go on for
            // ever.
            let turn = now.saturating_sub(local.turn_ns.load(Ordering::Relaxed));
            if turn >= me.quantum_ns() {
                local.ticking.store(OVERDUE, Ordering::Relaxed);
                balance::turn_over(local, me, coming);
            }
            patient(local, quantum) - ran
        };
        look_at(local, now + ticks_to_ns(left));
    } else {
        local.ticking.store(STILL, Ordering::Relaxed);
        yielding::left_alone(me);
    }
    // SAFETY: on this CPU with interrupts off.
    let alarm = unsafe { local.alarms() }.next_ns();
    arm(local, alarm.min(local.sample_ns.load(Ordering::Relaxed)));
}
