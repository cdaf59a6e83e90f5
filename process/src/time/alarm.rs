//! The alarm of a timer, set.
//!
//! *Interface*: [`ArmedAlarm::timer`], and [`ArmedAlarm::timer_still`] with interrupts off.

use machine::cpu::{irq_restore, irq_save};
use thread::clock;

use crate::process::timers::ArmedAlarm;

impl ArmedAlarm {
    /// Sets an alarm at `at_ns` nanoseconds for a timer with the word `timer_id` (`time/timer_interrupt.rs`);
    /// it is `now`. `None`: no memory, with interrupts on for seconds.
    #[inline]
    pub(crate) fn timer(now: u64, at_ns: u64, timer_id: usize) -> Option<ArmedAlarm> {
        // Bound: one alarm set (`thread/src/clock/mod.rs`).
        let irq = irq_save();
        let alarm = ArmedAlarm::timer_still(now, at_ns, timer_id);
        irq_restore(irq);
        alarm.or_else(|| ArmedAlarm::timer_with_room(at_ns, timer_id))
    }

    /// The same with interrupts off. `None`: no memory at once.
    #[inline(always)]
    pub(crate) fn timer_still(now: u64, at_ns: u64, timer_id: usize) -> Option<ArmedAlarm> {
        let id = clock::alarm_still(now, at_ns, super::on_alarm, timer_id).ok()?;
        Some(ArmedAlarm::set(id, at_ns))
    }

    /// As [`ArmedAlarm::timer`], where there is no memory at once.
    #[cold]
    fn timer_with_room(at_ns: u64, timer_id: usize) -> Option<ArmedAlarm> {
        let id = clock::alarm(at_ns, super::on_alarm, timer_id).ok()?;
        Some(ArmedAlarm::set(id, at_ns))
    }
}
