//! The alarm of a timer, set.
//!
//! *Interface*: [`ArmedAlarm::timer`], and [`ArmedAlarm::timer_still`] with interrupts off.

use machine::cpu::{irq_restore, irq_save};
use thread::clock;

use crate::process::timers::ArmedAlarm;

impl ArmedAlarm {
    /// Sets an alarm at `at_ns` nanoseconds for a timer with the word `bell` (`time/timer_interrupt.rs`); it is `now`.
    /// `None`: no memory.
    #[inline]
    pub(crate) fn timer(now: u64, at_ns: u64, bell: usize) -> Option<ArmedAlarm> {
        // Bound: one alarm set (`thread/src/clock/mod.rs`).
        let irq = irq_save();
        let alarm = ArmedAlarm::timer_still(now, at_ns, bell);
        irq_restore(irq);
        alarm
    }

    /// The same with interrupts off.
    #[inline(always)]
    pub(crate) fn timer_still(now: u64, at_ns: u64, bell: usize) -> Option<ArmedAlarm> {
        let id = clock::alarm_still(now, at_ns, super::alarm_rang, bell).ok()?;
        Some(ArmedAlarm::set(id, at_ns))
    }
}
