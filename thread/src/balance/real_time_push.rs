//! Pushing real-time threads: an urgent thread that would have to wait goes to a CPU whose threads are less
//! urgent.
//!
//! *Interface*: [`spread`] for one that has been woken, [`send_waiting`] at the timer's interrupt. With
//! interrupts off.
//!
//! Urgent threads of one priority do not take turns, so one that is woken behind another could wait as long
//! as that computes, while a CPU beside it runs threads without any priority. A thread that is woken goes at
//! once; one that waits because a more urgent one has come, or because all CPUs had urgent ones, goes at the
//! next look of the timer at the quantum. It goes to an idle CPU, or else to that with the least urgent
//! threads. If that CPU has got a more urgent thread when this one comes there, it sends this one on by the
//! same rule.

use crate::ring::idle_cpus::IDLE;
use crate::ring::inbox::send_home;
use crate::ring::per_cpu::{PerCpu, local};
use crate::tte::{ANYWHERE, Tte};
use core::sync::atomic::Ordering;
use machine::cpu::cpus;

/// An urgent thread that is ready and in no ring, and that would wait here where `me` runs, goes to a CPU
/// where it need not, if there is one. Whether it does.
pub(crate) fn spread(local: &PerCpu, me: &Tte, tte: &Tte) -> bool {
    cpus() > 1 && tte.is_urgent() && !local.ring.is_next(me, tte) && send(tte)
}

/// An urgent thread of this CPU's ring that waits goes to a CPU where it need not, if there is one.
pub(crate) fn send_waiting(local: &PerCpu, me: &Tte) {
    let Some(tte) = local.ring.spare_urgent(me, IDLE.any()) else {
        return;
    };
    let Some(there) = elsewhere(tte) else {
        return;
    };
    local.ring.remove(me, tte);
    go(tte, there);
}

fn send(tte: &Tte) -> bool {
    let there = elsewhere(tte);
    if let Some(there) = there {
        go(tte, there);
    }
    there.is_some()
}

fn go(tte: &Tte, there: usize) {
    tte.invited.store(0, Ordering::Relaxed);
    tte.move_to(there);
    send_home(tte);
}

/// Another CPU than its own where it would run at once.
fn elsewhere(tte: &Tte) -> Option<usize> {
    let here = tte.cpu();
    if tte.pinned.load(Ordering::Relaxed) || !tte.may_leave(here) {
        return None;
    }
    let may = tte.allowed.load(Ordering::Relaxed) & (ANYWHERE ^ 1 << here);
    IDLE.claim(may).or_else(|| {
        let urgency = |cpu| local(cpu).ring.urgency();
        least_urgent(
            (here, cpus()),
            may,
            urgency,
            tte.urgency.load(Ordering::Relaxed),
        )
    })
}

/// Of the CPUs of the mask `may` the one whose most urgent thread is the least urgent, and of several the
/// next in turn behind CPU number `here` of `count`, if a thread of the urgency `own` precedes all that is
/// there.
fn least_urgent(
    (here, count): (usize, usize),
    may: u32,
    urgency: impl Fn(usize) -> u64,
    own: u64,
) -> Option<usize> {
    let others = (1..count).map(|distance| (here + distance) % count);
    others
        .filter(|cpu| may >> cpu & 1 != 0)
        .map(|cpu| (urgency(cpu), cpu))
        .min_by_key(|(urgency, _)| *urgency)
        .filter(|(urgency, _)| *urgency < own)
        .map(|(_, cpu)| cpu)
}

#[cfg(test)]
mod tests {
    use super::least_urgent;

    #[test]
    fn the_least_urgent_cpu_that_is_allowed_and_less_urgent() {
        let at = |urgencies: [u64; 4], here, may, own| {
            least_urgent((here, 4), may, |cpu| urgencies[cpu], own)
        };
        // Without urgent threads, the next in turn.
        assert_eq!(at([40, 0, 0, 0], 0, 0b1110, 40), Some(1));
        assert_eq!(at([40, 40, 0, 0], 1, 0b1101, 40), Some(2));
        assert_eq!(at([0, 40, 40, 40], 3, 0b0111, 40), Some(0));
        // Where it may run.
        assert_eq!(at([40, 0, 0, 0], 0, 0b1000, 40), Some(3));
        assert_eq!(at([40, 0, 0, 0], 0, 0, 40), None);
        // The least urgent, and never one of its own urgency.
        assert_eq!(at([50, 30, 10, 20], 0, 0b1110, 40), Some(2));
        assert_eq!(at([50, 40, 40, 40], 0, 0b1110, 40), None);
        assert_eq!(at([50, 40, 39, 40], 0, 0b1110, 40), Some(2));
    }
}
