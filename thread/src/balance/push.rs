//! Push migration: a CPU on which more threads are ready than on another gives one away.
//!
//! *Interface*: [`give`], when a quantum has ended; before it [`is_due_for_rotation`]. With interrupts off.
//!
//! Idle CPUs take threads for themselves; this is for the time when none is idle. A CPU with one thread keeps
//! no quanta and looks at nothing, so the CPU with more threads does the work, in some hundred instructions
//! every [`EVERY_NS`]: it sends the thread that has waited longest in its steal queue, first those that move
//! no data, since a stream's data are in this CPU's caches.
//!
//! A difference of one cannot be levelled. The surplus thread is rotated among the CPUs: after [`ROUND_NS`]
//! it is given away all the same, so five threads on four CPUs have four fifths of a CPU each.
//! Source: dissertation, section 6.4.3.

use crate::ring::inbox::send_home;
use crate::ring::per_cpu::{PerCpu, local};
use crate::ring::ready::{RINGS, ReadyRing, rank};
use crate::tte::Tte;
use core::sync::atomic::Ordering;
use machine::cpu::cpus;

/// Time between two looks of a CPU at the others, nanoseconds.
const EVERY_NS: u64 = 4_000_000;
/// Time after which a difference of one changes its place, nanoseconds.
const ROUND_NS: u64 = 100_000_000;

/// The CPU that is to have one of this CPU's threads now, if it is time for a look.
fn choose(here: &PerCpu, me: &Tte, now: u64) -> Option<usize> {
    let ready = |cpu| local(cpu).ring.all_ready();
    look(here, now, |may| receiver(me.cpu(), cpus(), ready, may))
}

/// If it is time for a look, the CPU that `receiver` finds, which is told whether a difference of one may go
/// round. A look that finds none is the last for a while.
fn look(here: &PerCpu, now: u64, receiver: impl FnOnce(bool) -> Option<usize>) -> Option<usize> {
    if now < here.level_ns.load(Ordering::Relaxed) {
        return None;
    }
    let rested = now.saturating_sub(here.gave_ns.load(Ordering::Relaxed)) >= ROUND_NS;
    let there = receiver(rested);
    if there.is_none() {
        here.level_ns.store(now + EVERY_NS, Ordering::Relaxed);
    }
    there
}

/// Whether a thread that is next in line here is to go to another CPU: the steal queue would never have one
/// of two.
pub(crate) fn is_due_for_rotation(here: &PerCpu, me: &Tte, now: u64) -> bool {
    lets_next_go(&here.ring) && choose(here, me, now).is_some()
}

fn lets_next_go(ring: &ReadyRing) -> bool {
    !ring.steal_queue.is_used() && !ring.has_urgent()
}

/// Gives a thread of the steal queue to a CPU that has fewer, if it is time for a look, `now`. Urgent ones
/// have rules of their own.
pub(crate) fn give(here: &PerCpu, me: &Tte, now: u64) {
    let Some(there) = choose(here, me, now) else {
        return;
    };
    here.level_ns.store(now + EVERY_NS, Ordering::Relaxed);
    // SAFETY: steal queues hold entries, which are never unmapped.
    let its = |tte: *mut Tte| place(unsafe { &*tte }, there);
    let Some(tte) = here.ring.steal_queue.take_here(its) else {
        return;
    };
    // SAFETY: as above.
    let tte = unsafe { &*tte };
    // One that goes round rests there as long.
    for cpu in [here, local(there)] {
        cpu.gave_ns.store(now, Ordering::Relaxed);
    }
    tte.invited.store(0, Ordering::Relaxed);
    tte.move_to(there);
    send_home(tte);
}

/// The place of a thread among those that may be given to CPU number `there`, the first of which goes: in
/// the order of levels, and behind all these those that move data.
fn place(tte: &Tte, there: usize) -> Option<u8> {
    let later = if tte.channels() > 0 { RINGS as u8 } else { 0 };
    rank(tte.as_ptr())
        .filter(|_| !tte.is_urgent() && tte.may_run_on(there))
        .map(|rank| rank + later)
}

/// The CPU that CPU number `here` of `count` gives a thread to: the one with the fewest that are `ready`, and
/// of several the next in turn, if it has two fewer, or if it `may` have as many afterwards as this one had,
/// one fewer. An idle CPU takes what it finds, and is given nothing.
fn receiver(here: usize, count: usize, ready: impl Fn(usize) -> u32, may: bool) -> Option<usize> {
    let others = (1..count).map(|distance| (here + distance) % count);
    let busy = others
        .map(|cpu| (ready(cpu), cpu))
        .filter(|(ready, _)| *ready > 0);
    let (fewest, there) = busy.min_by_key(|(ready, _)| *ready)?;
    let less = ready(here).saturating_sub(fewest);
    (less >= 2 || may && less == 1).then_some(there)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::ready::End;
    use crate::tte::{URGENT, detached};
    use machine::cpu::MAX_CPUS;

    #[test]
    fn looks_are_some_time_apart_and_rests_are_long() {
        // Nobody else's on the host.
        let here = local(MAX_CPUS - 1);
        let (now, mut asked) = (1_000_000_000, Vec::new());
        let mut at = |now: u64, finds: Option<usize>| {
            look(here, now, |rested| {
                asked.push(rested);
                finds
            })
        };
        // One that finds nothing is the last for a while; one that finds a CPU is not.
        assert_eq!(at(now, Some(3)), Some(3));
        assert_eq!(at(now, None), None);
        assert_eq!(at(now + EVERY_NS - 1, Some(3)), None);
        assert_eq!(at(now + EVERY_NS, Some(3)), Some(3));
        // A difference of one goes round when it has rested.
        here.gave_ns.store(now, Ordering::Relaxed);
        at(now + ROUND_NS - 1, Some(3));
        at(now + ROUND_NS, Some(3));
        assert_eq!(asked, [true, true, true, false, true]);
    }

    #[test]
    fn those_that_move_data_go_last_and_urgent_ones_never() {
        let [usual, last, moving, urgent, bound] = core::array::from_fn(|_| detached());
        last.wanted_level.store(7, Ordering::Relaxed);
        moving.channels.store(1, Ordering::Relaxed);
        urgent.wanted_level.store(URGENT, Ordering::Relaxed);
        bound.allowed.store(1 << 2, Ordering::Relaxed);
        for tte in [&usual, &last, &urgent, &bound] {
            tte.channels.store(0, Ordering::Relaxed);
        }
        let [usual_place, last_place, moving_place] =
            [&usual, &last, &moving].map(|tte| place(tte, 1).unwrap());
        assert!(usual_place < last_place && last_place < moving_place);
        assert_eq!(place(&urgent, 1), None);
        assert_eq!(
            (place(&bound, 1), place(&bound, 2)),
            (None, Some(usual_place))
        );
    }

    #[test]
    fn the_next_in_line_goes_only_where_no_other_would() {
        let [usual, urgent, idle] = core::array::from_fn(|_| detached());
        let ring = ReadyRing::new(0);
        ring.idle.store(idle.as_ptr(), Ordering::Relaxed);
        assert!(lets_next_go(&ring));
        assert!(ring.steal_queue.put(usual.as_ptr()));
        assert!(!lets_next_go(&ring));
        assert!(ring.steal_queue.take_thread(usual.as_ptr()) && !ring.steal_queue.sweep());
        assert!(lets_next_go(&ring));
        urgent.wanted_level.store(URGENT, Ordering::Relaxed);
        ring.insert(&idle, &urgent, End::Back);
        assert!(!lets_next_go(&ring));
    }

    /// Has each CPU in turn look once, with or without a long pause before it.
    fn round(ready: &mut [u32], may: bool) {
        for here in 0..ready.len() {
            if let Some(there) = receiver(here, ready.len(), |cpu| ready[cpu], may) {
                ready[here] -= 1;
                ready[there] += 1;
            }
        }
    }

    #[test]
    fn a_crowd_spreads_over_all_that_are_busy() {
        let mut ready = [20, 1, 1, 1];
        (0..20).for_each(|_| round(&mut ready, false));
        assert_eq!(ready.iter().sum::<u32>(), 23);
        assert!(ready.iter().all(|cpu| (5..=6).contains(cpu)), "{ready:?}");
        let settled = ready;
        round(&mut ready, false);
        assert_eq!(ready, settled);
    }

    #[test]
    fn one_too_many_goes_round() {
        let mut ready = [2, 1, 1, 1];
        let mut had = [0; 4];
        for _ in 0..400 {
            // One look after a long pause; the others' pauses are not over yet.
            let here = ready.iter().position(|&cpu| cpu == 2).unwrap();
            had[here] += 1;
            let there = receiver(here, 4, |cpu| ready[cpu], true).unwrap();
            (ready[here], ready[there]) = (1, 2);
        }
        assert_eq!(had, [100; 4]);
    }

    #[test]
    fn idle_cpus_and_single_ones_are_left_alone() {
        assert_eq!(receiver(0, 2, |cpu| [5, 0][cpu], true), None);
        assert_eq!(receiver(0, 1, |_| 5, true), None);
        assert_eq!(receiver(1, 2, |cpu| [2, 2][cpu], true), None);
        assert_eq!(receiver(1, 2, |cpu| [1, 2][cpu], false), None);
    }
}
