//! The granularity of each CPU's time: one quantum where short turns serve somebody, several where all
//! threads that share the CPU only compute.
//!
//! *Interface*: [`Granularity`], of each CPU, for the ends of turns; [`stir`] when a thread is served by
//! short turns: one whose channels show a need, or a new one; [`woke`] when an alarm's thread takes the CPU
//! from another; [`sampled`] at each sample.
//!
//! The granularity is coarse from the second sample on that sees nothing stirred, and fine at once. It is the
//! same for all threads of a CPU, so shares stay as quanta make them. A thread from which an alarm takes the
//! CPU waits for a round: that is to be short where it happens more than once in a sample's time. Source:
//! dissertation, section 6.3.1 (a quantum is as short as the data want it); [`feedback::granularity`].

use crate::ring::per_cpu::{PerCpu, local};
use crate::tte::{QUANTUM_NS, Tte};
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use feedback::granularity::{WHOLE, times};

/// Samples without a stir after which the granularity is coarse.
const CALM: u8 = 2;

/// The granularity of a CPU. It is written there, but for [`stir`]; the two words may differ until the next
/// sample.
pub(crate) struct Granularity {
    /// Quanta in a turn, for the timer's generated handler.
    pub times: AtomicU64,
    /// [`WHOLE`] divided by that.
    pub part: AtomicU64,
    /// Since the last sample a thread was served by short turns; an alarm has woken one.
    stirred: AtomicBool,
    woken: AtomicBool,
    /// Samples that have seen nothing stirred, up to [`CALM`].
    calm: AtomicU8,
}

impl Granularity {
    pub(crate) const fn new() -> Granularity {
        Granularity {
            times: AtomicU64::new(1),
            part: AtomicU64::new(WHOLE as u64),
            stirred: AtomicBool::new(false),
            woken: AtomicBool::new(false),
            calm: AtomicU8::new(0),
        }
    }

    /// Quanta in a turn.
    pub(crate) fn times(&self) -> u64 {
        self.times.load(Ordering::Relaxed)
    }

    fn set(&self, times: u32) {
        self.times.store(u64::from(times), Ordering::Relaxed);
        self.part.store(u64::from(WHOLE / times), Ordering::Relaxed);
    }
}

impl Tte {
    /// The thread's turns as they are at present, nanoseconds: its quantum, as many times as the granularity
    /// of its CPU says.
    pub fn turn_ns(&self) -> u64 {
        self.quantum_ns() * local(self.cpu()).granularity.times()
    }
}

/// A thread of this CPU is served by short turns. From anywhere.
#[inline]
pub(crate) fn stir(local: &PerCpu) {
    local.granularity.stirred.store(true, Ordering::Relaxed);
    if local.granularity.times() != 1 {
        local.granularity.set(1);
    }
}

/// An alarm has woken a thread, which takes the CPU from another. With interrupts off.
#[inline]
pub(crate) fn woke(local: &PerCpu) {
    if local.granularity.woken.swap(true, Ordering::Relaxed) {
        stir(local);
    }
}

/// A sample has found `me` running; none on an idle CPU. With interrupts off.
pub(crate) fn sampled(local: &PerCpu, me: Option<&Tte>) {
    let granularity = &local.granularity;
    granularity.woken.store(false, Ordering::Relaxed);
    let stirred = granularity.stirred.swap(false, Ordering::Relaxed);
    let is_calm = me.is_some_and(|me| !stirred && !me.is_urgent() && is_usual(me));
    let calm = match is_calm {
        true => CALM.min(granularity.calm.load(Ordering::Relaxed) + 1),
        false => 0,
    };
    granularity.calm.store(calm, Ordering::Relaxed);
    granularity.set(match calm {
        CALM => times(local.ring.all_ready()),
        _ => 1,
    });
}

/// Whether the quantum of `me` is about the usual one: neither weights nor data have made it another.
fn is_usual(me: &Tte) -> bool {
    me.quantum_ns().abs_diff(QUANTUM_NS) <= QUANTUM_NS / 4
}
