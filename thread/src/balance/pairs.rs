//! Pairs: a thread that one on another CPU wakes again and again goes to that CPU, if one is enough for both.
//!
//! *Interface*: [`together`], when the running thread wakes one whose home is another CPU. With interrupts
//! off.
//!
//! Two threads that wake each other on one CPU are never separated, and two that both wait for the CPU are,
//! by the first idle CPU. This file decides about the way back: [`feedback::pair`] says when. It looks at
//! the threads' CPU times, and only when one wakes the other across CPUs, which costs an interrupt anyway. No
//! switch and no wake-up within a CPU has an instruction for it.
//!
//! An interrupt that wakes a thread is taken for the thread that it interrupts. So a thread that waits for a
//! device may come to that device's CPU, if it fits.
//! Source: dissertation, section 6.4.3.

use crate::switch::Kind;
use crate::time::timer::ticks_to_ns;
use crate::tte::Tte;
use core::sync::atomic::{AtomicU64, Ordering};
use feedback::pair::{Load, WORDS};
use machine::clock::{now_ns, tsc};

/// A thread's load. Its words may be those of two wakers, half and half, and then a decision comes later. A
/// new thread has the last one's of its entry, which is soon too old to count.
pub(crate) struct Kept([AtomicU64; WORDS]);

impl Kept {
    pub(crate) const fn new() -> Kept {
        Kept([const { AtomicU64::new(0) }; WORDS])
    }

    fn get(&self) -> Load {
        Load::of(core::array::from_fn(|i| self.0[i].load(Ordering::Relaxed)))
    }

    fn set(&self, load: Load) {
        let words = self.0.iter().zip(load.words());
        words.for_each(|(to, word)| to.store(word, Ordering::Relaxed));
    }
}

/// Whether `tte`, which `me` has woken, goes to `me`'s CPU although its own has nothing else to do.
pub(crate) fn together(me: &Tte, tte: &Tte) -> bool {
    let stays = |tte: &Tte| {
        let kind = Kind::from_bits(tte.kind.load(Ordering::Relaxed));
        !kind.contains(Kind::USER) || tte.is_urgent()
    };
    if !me.on_ring.load(Ordering::Relaxed) || stays(me) || stays(tte) {
        return false;
    }
    let now = now_ns();
    let mut woken = tte.load.get();
    let looked = woken.look(now, ticks_to_ns(tte.time.load(Ordering::Relaxed)));
    let mut joins = false;
    if looked {
        // While a thread runs, the time stamp at its switch-in is subtracted.
        let ran = me.time.load(Ordering::Relaxed).wrapping_add(tsc());
        let mut waker = me.load.get();
        waker.look(now, ticks_to_ns(ran));
        me.load.set(waker);
        joins = woken.joins(waker, now);
    }
    tte.load.set(woken);
    joins
}
