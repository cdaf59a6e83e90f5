//! Balancing between CPUs: threads that have waited long go in the steal queue, and idle CPUs take from all
//! steal queues.
//!
//! *Interface*: [`offer`] and [`turn_over`] at the timer's interrupt, [`begin`] for a new thread; [`follow`]
//! for a thread that another CPU has woken; [`steal`] and [`pass_on`] for an idle CPU. With interrupts off.
//!
//! A ring holds the running thread, the threads woken within the last quantum, and the next in line of each
//! level. A thread that has waited for a whole quantum is in the CPU's steal queue. An idle CPU takes it from
//! there by one exchange, whatever the steal queue's CPU does meanwhile. Two threads that wake each other in
//! turn never wait that long, so they are never separated.
//!
//! A new thread goes to the steal queue too. A program's new thread wakes no idle CPU as long as its creator
//! may be about to wait for it: on this CPU it finds its parent's memory in the cache. When the creator gives
//! up the CPU, the new thread runs here, and further threads in the steal queue wake an idle CPU. When the
//! creator keeps computing, the next tick wakes one.
//!
//! A thread that is woken by an otherwise idle CPU moves there if its home CPU is busy. So two families of
//! threads on one CPU separate when one of them has a thread on an idle CPU. One that is woken by another CPU
//! again and again moves there although its own is idle, if one CPU is enough for both (`wake_affinity.rs`).
//!
//! While no CPU is idle, one with more threads than another gives it some (`push.rs`). Urgent threads do not
//! wait where others could give way to them (`real_time_push.rs`), and are in no steal queue.
//!
//! The switch does not depend on any of this: a ring belongs to one CPU, and its links lead to threads that
//! no other CPU may take. A machine with one CPU leaves its steal queue empty.
//! Source: dissertation, section 5.3.1.

pub mod cpu_time_sampling;
pub(crate) mod load_average;
pub(crate) mod push;
pub(crate) mod real_time_push;
pub(crate) mod wake_affinity;

use crate::ring::idle_cpus::{IDLE, left, may_run, wake_one, wanted_by};
use crate::ring::inbox::send_home;
use crate::ring::per_cpu::{PerCpu, STILL, local};
use crate::ring::ready::{End, rank};
use crate::time::quanta;
use crate::tte::code::SwitchKind;
use crate::tte::{ANYWHERE, Tte};
use core::sync::atomic::Ordering;
use machine::clock::{span_ns, tsc};
use machine::cpu::{Cpu, cpus};

/// Most threads that one tick moves from the ring to the steal queue.
const OFFERS: usize = 4;

/// Puts the threads that have waited for a quantum in the ring in the steal queue, and wakes an idle CPU for
/// each; the next in line goes too when a CPU is idle, or when it is to go round. Returns the number of idle
/// CPUs that were woken.
#[inline]
pub(crate) fn offer(local: &PerCpu, me: &Tte, now: u64) -> usize {
    if cpus() == 1 || !me.on_ring.is_some() {
        return 0;
    }
    offer_spare(local, me, now)
}

#[inline(never)]
fn offer_spare(local: &PerCpu, me: &Tte, now: u64) -> usize {
    let home = me.cpu();
    let mut coming = usize::from(left(&local.ring));
    real_time_push::send_waiting(local, me);
    let is_due = push::is_due_for_rotation(local, me, now);
    for _ in 0..OFFERS {
        let hungry = IDLE.any() || is_due;
        let Some(spare) = local
            .ring
            .spare(me, hungry, |tte| tte.may_leave(home) && waited_long(tte))
        else {
            break;
        };
        if local.ring.steal_queue.is_full() {
            break;
        }
        local.ring.remove(me, spare);
        local.ring.steal_queue.put(spare.as_ptr());
        coming += usize::from(wake_one(spare.allowed.load(Ordering::Relaxed)));
    }
    coming
}

fn waited_long(tte: &Tte) -> bool {
    let waited = tsc().wrapping_sub(tte.in_at.load(Ordering::Relaxed));
    span_ns(waited) >= tte.quantum_ns()
}

/// Called when a quantum is over, or has passed in which threads only woke each other or yielded to each
/// other: a thread of the steal queue goes to a CPU that has fewer, and the one that has been there longest
/// joins the ring again, if there are more than CPUs are `coming`.
pub(crate) fn turn_over(local: &PerCpu, me: &Tte, now: u64, coming: usize) {
    if local.ring.steal_queue.is_used() && local.ring.steal_queue.len() > coming {
        push::give(local, me, now);
        local.ring.take_back(me);
    }
}

/// Puts a new thread, which may run anywhere, in the steal queue of this CPU, where a thread runs. False when
/// it has to go into a ring.
pub(crate) fn begin(cpu: &Cpu, local: &PerCpu, me: &Tte, tte: &Tte) -> bool {
    if cpus() == 1 || !me.on_ring.is_some() || tte.is_urgent() {
        return false;
    }
    tte.move_to(cpu.number());
    if !local.ring.steal_queue.put(tte.as_ptr()) {
        return false;
    }
    if local.ticking.load(Ordering::Relaxed) == STILL {
        quanta::begin(local, me);
    }
    // A kernel thread is made to do something beside its maker.
    if !SwitchKind::from_bits(tte.kind.load(Ordering::Relaxed)).contains(SwitchKind::USER) {
        wake_one(ANYWHERE);
    }
    true
}

/// After an idle CPU, which counts as idle no more, has found something: wakes the next if there is more.
pub(crate) fn pass_on() {
    if IDLE.any() {
        let wanted = |all, cpu| all | wanted_by(&local(cpu).ring.steal_queue);
        wake_one((0..cpus()).fold(0, wanted));
    }
}

/// In the word of the CPU that invites a thread: it is to come also when its home is idle.
const TOGETHER: u8 = 0x80;

/// `me`, which runs on CPU number `cpu`, wakes `tte` from another one, and nothing else is to be done here:
/// the thread's invitation.
pub(crate) fn invite(cpu: usize, me: &Tte, tte: &Tte) -> u8 {
    let place = cpu as u8 + 1;
    if wake_affinity::together(me, tte) {
        place | TOGETHER
    } else {
        place
    }
}

/// `tte` has come home, woken by another CPU, and the caller has to put it into the ring: sends it on to that
/// CPU instead if that has nothing else to do and this one has, or if they are to be together. Whether it
/// did.
pub(crate) fn follow(local: &PerCpu, me: &Tte, tte: &Tte) -> bool {
    let word = tte.invited.load(Ordering::Relaxed);
    let invited = usize::from(word & !TOGETHER);
    let wanted = word & TOGETHER != 0 || me.on_ring.is_some();
    if invited == 0 || !wanted || tte.pinned.load(Ordering::Relaxed) {
        return false;
    }
    tte.invited.store(0, Ordering::Relaxed);
    let there = &crate::ring::per_cpu::local(invited - 1).ring;
    if there.ready() > 1 || core::ptr::eq(there, &local.ring) || !tte.may_run_on(invited - 1) {
        return false;
    }
    tte.move_to(invited - 1);
    send_home(tte);
    true
}

/// Takes the most urgent thread from the nearest steal queue that has any for this CPU, its own first, into
/// the ring. Whether there was one.
pub(crate) fn steal(cpu: &Cpu, here: &PerCpu, me: &Tte) -> bool {
    let (number, count) = (cpu.number(), cpus());
    if count == 1 {
        // Its steal queue has always been empty.
        return false;
    }
    for distance in 0..count {
        let from = local((number + distance) % count);
        // Its own steal queue may have a thread that has to go elsewhere, and only from a ring can.
        let its = |tte| rank(tte).filter(|_| distance == 0 || may_run(tte, number));
        let Some(tte) = from.ring.steal_queue.take(its) else {
            continue;
        };
        // SAFETY: steal queues hold entries, which are never unmapped.
        unsafe { &*tte }.move_to(number);
        here.ring.join(me, Some(tte), End::Back);
        if distance > 0 {
            let stolen = here.stolen.load(Ordering::Relaxed);
            here.stolen.store(stolen.wrapping_add(1), Ordering::Relaxed);
        }
        return true;
    }
    false
}
