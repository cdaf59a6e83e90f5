//! Wake affinity: a thread that one on another CPU wakes again and again goes to that CPU, if one is enough
//! for both.
//!
//! *Interface*: [`together`], when the running thread wakes one whose home is another CPU. With interrupts
//! off.
//!
//! Two threads that wake each other on one CPU are never separated, and two that both wait for the CPU are,
//! by the first idle CPU. This file decides about the way back: [`feedback::wake_affinity`] says when. It
//! looks at the threads' CPU times, and only when one wakes the other across CPUs, which costs an interrupt
//! anyway. No switch and no wake-up within a CPU has an instruction for it.
//!
//! An interrupt that wakes a thread is taken for the thread that it interrupts. So a thread that waits for a
//! device may come to that device's CPU, if it fits.
//! Source: dissertation, section 6.4.3.

use crate::tte::Tte;
use crate::tte::code::SwitchKind;
use core::sync::atomic::Ordering;
use machine::clock::{now_ns, span_ns, tsc};

/// Whether `tte`, which `me` has woken, goes to `me`'s CPU although its own has nothing else to do.
pub(crate) fn together(me: &Tte, tte: &Tte) -> bool {
    is_pair(me, tte) && joins(me, tte, now_ns(), tsc())
}

/// Whether both are threads of programs without a priority.
fn is_pair(me: &Tte, tte: &Tte) -> bool {
    let stays = |tte: &Tte| {
        let kind = SwitchKind::from_bits(tte.kind.load(Ordering::Relaxed));
        !kind.contains(SwitchKind::USER) || tte.is_urgent()
    };
    me.on_ring.is_some() && !stays(me) && !stays(tte)
}

/// It is `now`, where the time-stamp counter is at `stamp`: looks at both, and says whether `tte` joins `me`,
/// which runs.
fn joins(me: &Tte, tte: &Tte, now: u64, stamp: u64) -> bool {
    let mut woken = tte.load.get();
    let looked = woken.look(now, span_ns(tte.time.load(Ordering::Relaxed)));
    let mut joins = false;
    if looked {
        // While a thread runs, the time stamp at its switch-in is subtracted.
        let ran = me.time.load(Ordering::Relaxed).wrapping_add(stamp);
        let mut waker = me.load.get();
        waker.look(now, span_ns(ran));
        me.load.set(waker);
        joins = woken.joins(waker, now);
    }
    tte.load.set(woken);
    joins
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tte::cpu_time::ns_to_ticks;
    use crate::tte::membership::Ring;
    use crate::tte::{URGENT, detached};
    use feedback::wake_affinity::WINDOW_NS;

    const MS: u64 = 1_000_000;

    /// Looks until the second of two threads joins, at most 100, of which each has used so much of ten
    /// milliseconds; `calls` times at each look.
    fn looks(waker: u64, woken: u64, calls: u64) -> u64 {
        let (me, tte) = (detached(), detached());
        for look in 1..=100 {
            let now = 10 * MS * look;
            let stamp = ns_to_ticks(now);
            // The stamp at its switch-in is subtracted from the one that runs.
            let ran = ns_to_ticks(MS * look * waker);
            me.time.store(ran.wrapping_sub(stamp), Ordering::Relaxed);
            tte.time
                .store(ns_to_ticks(MS * look * woken), Ordering::Relaxed);
            for call in 0..calls {
                if joins(&me, &tte, now + call * (WINDOW_NS / 10), stamp) {
                    return look;
                }
            }
        }
        u64::MAX
    }

    #[test]
    fn two_that_fit_join_and_a_call_is_not_always_a_look() {
        let light = looks(1, 1, 1);
        assert!((4..20).contains(&light), "{light}");
        assert_eq!(looks(1, 1, 5), light);
        assert!(looks(4, 4, 1) < 30);
    }

    #[test]
    fn the_part_of_each_counts() {
        for (waker, woken) in [(9, 1), (1, 9), (5, 5), (10, 10)] {
            assert_eq!(looks(waker, woken, 1), u64::MAX, "{waker} {woken}");
        }
    }

    #[test]
    fn pairs_are_threads_of_programs_without_a_priority() {
        let new = || {
            let tte = detached();
            tte.kind.store(SwitchKind::USER.bits(), Ordering::Relaxed);
            tte.on_ring.enter(Ring::of_cpu(0));
            tte
        };
        let (me, tte) = (new(), new());
        assert!(is_pair(&me, &tte));
        let other = new();
        other.kind.store(0, Ordering::Relaxed);
        assert!(!is_pair(&me, &other) && !is_pair(&other, &tte));
        let other = new();
        other.wanted_level.store(URGENT, Ordering::Relaxed);
        assert!(!is_pair(&me, &other) && !is_pair(&other, &tte));
        // The idle thread.
        me.on_ring.leave();
        assert!(!is_pair(&me, &tte));
    }
}
