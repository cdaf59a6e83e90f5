//! The alarm of a timer.
//!
//! *Interface*: [`Alarm`].

use machine::cpu::{irq_restore, irq_save};
use thread::clock;

/// Something that will happen at a moment, unless dropped before.
pub(crate) struct Alarm {
    id: clock::AlarmId,
    at_ns: u64,
}

impl Alarm {
    /// Sets an alarm at `at_ns` nanoseconds for a timer with the word `bell` (`time/rung.rs`); it is `now`.
    /// `None`: no memory.
    #[inline]
    pub(crate) fn timer(now: u64, at_ns: u64, bell: usize) -> Option<Alarm> {
        // Bound: one alarm set (`thread/src/time/clock.rs`).
        let irq = irq_save();
        let alarm = Alarm::timer_still(now, at_ns, bell);
        irq_restore(irq);
        alarm
    }

    /// The same with interrupts off.
    #[inline(always)]
    pub(crate) fn timer_still(now: u64, at_ns: u64, bell: usize) -> Option<Alarm> {
        let id = clock::alarm_still(now, at_ns, super::alarm_rang, bell).ok()?;
        Some(Alarm { id, at_ns })
    }

    /// It has happened.
    pub(crate) fn forget(self) {
        core::mem::forget(self);
    }

    /// Its moment, nanoseconds.
    pub(crate) fn at_ns(&self) -> u64 {
        self.at_ns
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        // An alarm that rings meanwhile finds its timer disarmed, or not yet expired.
        clock::cancel(self.id);
    }
}
