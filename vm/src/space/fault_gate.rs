//! The fault gate of a space: while it is open, faults pass without the space's monitor.
//!
//! *Interface*: [`FaultGate::pass`] for a fault that is *pinned* (it runs with interrupts off on a CPU that
//! has the space loaded); all else for the holder of the monitor: [`FaultGate::close`] and
//! [`FaultGate::open`] around a change, [`FaultGate::waited`] for a fault.
//!
//! A change of the areas closes the gate, and then waits until all earlier passers are out again: every CPU
//! that has the space loaded answers an interrupt, which it cannot while a thread is pinned there. A thread
//! that is pinned later finds the gate closed. So while the gate is open, the data that a pinned fault reads
//! does not change, and between close and open only the changer accesses it.
//!
//! That order holds because a CPU stores that it has a space before it loads it, which serializes, and pins
//! only later; the changer closes, passes a sequentially consistent fence, and then reads which CPUs have the
//! space. A single-threaded program's space is loaded nowhere else, so no CPU is interrupted.
//!
//! After an interrupt, the gate stays closed until a few faults have waited for the monitor: consecutive
//! changes interrupt only once, and alternating changes and faults interrupt only as seldom as faults could
//! have passed.
//!
//! Progress: a pinned fault never waits; it changes the table by compare-and-swap. Sources: quasi-invariants,
//! where the seldom party pays for the guard (Pu and others 1995); a gate that stays closed for a while is
//! the bias of Dice and Kogan's BRAVO (2019).

use crate::primitive::atomic::{AtomicU32, AtomicU64, Ordering};

/// Bit 0: closed. Above: how many changes there were.
const CLOSED: u64 = 1;
const CHANGE: u64 = 2;

/// Faults that wait for the monitor before a gate that was left closed opens again.
const PATIENCE: u32 = 4;

pub(crate) struct FaultGate {
    word: AtomicU64,
    /// Faults that have waited since the last change. Only the holder of the monitor touches it.
    waited: AtomicU32,
}

impl FaultGate {
    /// An open gate.
    pub(crate) fn new() -> FaultGate {
        FaultGate {
            word: AtomicU64::new(0),
            waited: AtomicU32::new(0),
        }
    }

    /// How many changes there were, if the gate is open: then no change begins its work before the caller's
    /// pinned part has ended.
    #[inline]
    pub(crate) fn pass(&self) -> Option<u64> {
        let word = self.word.load(Ordering::Acquire);
        (word & CLOSED == 0).then_some(word / CHANGE)
    }

    /// How many changes there were. With the monitor held.
    #[inline]
    pub(crate) fn changes(&self) -> u64 {
        self.word.load(Ordering::Relaxed) / CHANGE
    }

    /// A change begins. Answers whether the gate was open: then some may have passed that are not out again.
    /// With the monitor held.
    #[inline]
    pub(crate) fn close(&self) -> bool {
        let word = self.word.load(Ordering::Relaxed);
        self.word.store((word | CLOSED) + CHANGE, Ordering::Relaxed);
        self.waited.store(0, Ordering::Relaxed);
        word & CLOSED == 0
    }

    /// All changes are done. With the monitor held.
    #[inline]
    pub(crate) fn open(&self) {
        let word = self.word.load(Ordering::Relaxed);
        self.word.store(word & !CLOSED, Ordering::Release);
    }

    /// A fault has waited for the monitor, and holds it.
    pub(crate) fn waited(&self) {
        if self.word.load(Ordering::Relaxed) & CLOSED != 0 {
            let waited = self.waited.load(Ordering::Relaxed) + 1;
            self.waited.store(waited, Ordering::Relaxed);
            if waited >= PATIENCE {
                self.open();
            }
        }
    }
}
