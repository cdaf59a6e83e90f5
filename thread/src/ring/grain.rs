//! The grain of each CPU's time: one quantum where short turns serve somebody, several where all threads that
//! share the CPU only compute.
//!
//! *Interface*: [`Grain`], of each CPU, for the ends of turns; [`stir`] when a thread is served by short
//! turns: one whose channels show a need, or a new one; [`woke`] when an alarm's thread takes the CPU from
//! another; [`sampled`] at each sample.
//!
//! The grain is coarse from the second sample on that sees nothing stirred, and fine at once. It is the same
//! for all threads of a CPU, so shares stay as quanta make them. A thread from which an alarm takes the CPU
//! waits for a round: that is to be short where it happens more than once in a sample's time.
//! Source: dissertation, section 6.3.1 (a quantum is as short as the data want it); [`feedback::grain`].

use crate::ring::local::{Local, local};
use crate::tte::{QUANTUM_NS, Tte};
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use feedback::grain::{WHOLE, times};

/// Samples without a stir after which the grain is coarse.
const CALM: u8 = 2;

/// The grain of a CPU. It is written there, but for [`stir`]; the two words may differ until the next sample.
pub(crate) struct Grain {
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

impl Grain {
    pub(crate) const fn new() -> Grain {
        Grain {
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
    /// The thread's turns as they are at present, nanoseconds: its quantum, as many times as the grain of its
    /// CPU says.
    pub fn turn_ns(&self) -> u64 {
        self.quantum_ns() * local(self.cpu()).grain.times()
    }
}

/// A thread of this CPU is served by short turns. From anywhere.
#[inline]
pub(crate) fn stir(local: &Local) {
    local.grain.stirred.store(true, Ordering::Relaxed);
    if local.grain.times() != 1 {
        local.grain.set(1);
    }
}

/// An alarm has woken a thread, which takes the CPU from another. With interrupts off.
#[inline]
pub(crate) fn woke(local: &Local) {
    if local.grain.woken.swap(true, Ordering::Relaxed) {
        stir(local);
    }
}

/// A sample has found `me` running; none on an idle CPU. With interrupts off.
pub(crate) fn sampled(local: &Local, me: Option<&Tte>) {
    let grain = &local.grain;
    grain.woken.store(false, Ordering::Relaxed);
    let stirred = grain.stirred.swap(false, Ordering::Relaxed);
    let is_calm = me.is_some_and(|me| !stirred && !me.is_urgent() && is_usual(me));
    let calm = match is_calm {
        true => CALM.min(grain.calm.load(Ordering::Relaxed) + 1),
        false => 0,
    };
    grain.calm.store(calm, Ordering::Relaxed);
    grain.set(match calm {
        CALM => times(local.ring.all_ready()),
        _ => 1,
    });
}

/// Whether the quantum of `me` is about the usual one: neither weights nor data have made it another.
fn is_usual(me: &Tte) -> bool {
    me.quantum_ns().abs_diff(QUANTUM_NS) <= QUANTUM_NS / 4
}
