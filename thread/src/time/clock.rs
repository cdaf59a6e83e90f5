//! The Clock quaject: alarms, sleeping, and deadlines for waits.
//!
//! *Interface*: [`alarm`] and [`cancel`]; [`sleep_until`]; [`WakeUp`], which wakes the running thread once;
//! [`quaject`], the clocks that programs make.
//! Times are `machine::clock::now_ns`, nanoseconds since boot. Alarms live in the heap of the CPU that set
//! them; `docs/thread.md` has the bounds.
//! Source: dissertation, section 6.4 and table 4.3.

pub use crate::alarm::AlarmId;
use crate::running::block::{resume_address, suspend};
use crate::running::local::{here, slots};
use crate::time::timer;
pub use crate::time::timer::{Interrupted, interrupted};
use crate::tte::{NoMemory, current};
use machine::clock::now_ns;
use machine::cpu::{irq_restore, irq_save};

pub mod quaject;

/// Calls `call(argument)` at `at_ns`, in the timer interrupt: it may resume threads and set alarms, not
/// sleep.
///
/// # Errors
/// No memory, or 4096 alarms on this CPU already.
pub fn alarm(at_ns: u64, call: fn(usize), argument: usize) -> Result<AlarmId, NoMemory> {
    // Bound: O(log n) of at most 4096 alarms, and of two that were cancelled from elsewhere.
    let irq = irq_save();
    let id = alarm_still(now_ns(), at_ns, call, argument);
    irq_restore(irq);
    id
}

/// The same with interrupts off; it is `now`, or a moment later.
///
/// # Errors
/// As above.
#[inline(always)]
pub fn alarm_still(
    now: u64,
    at_ns: u64,
    call: fn(usize),
    argument: usize,
) -> Result<AlarmId, NoMemory> {
    let (cpu, local, _) = here();
    // SAFETY: on this CPU with interrupts off; the borrow ends here.
    let key = unsafe { local.alarms() }
        .add(at_ns, call, argument)
        .ok_or(NoMemory)?;
    timer::arm_for(local, at_ns, now);
    Ok(AlarmId {
        cpu: cpu.number() as u32,
        key,
    })
}

/// Cancels an alarm. True: it has not been called and will not be. False: it has been, or is being called on
/// another CPU just now.
pub fn cancel(id: AlarmId) -> bool {
    let irq = irq_save();
    let (cpu, local, _) = here();
    let done = if id.cpu as usize == cpu.number() {
        // SAFETY: on this CPU with interrupts off; the borrow ends here.
        unsafe { local.alarms() }.remove(id.key)
    } else {
        slots(id.cpu as usize).is_some_and(|slots| slots.cancel(id.key))
    };
    irq_restore(irq);
    done
}

/// Resumes the running thread at a certain time, unless dropped before.
pub struct WakeUp {
    at_ns: u64,
    alarm: Option<AlarmId>,
}

impl WakeUp {
    /// One `resume` of the running thread at `at_ns`; `u64::MAX` for never.
    ///
    /// # Errors
    /// As [`alarm`].
    pub fn at(at_ns: u64) -> Result<WakeUp, NoMemory> {
        let alarm = match at_ns {
            u64::MAX => None,
            _ => Some(alarm(at_ns, resume_address, current().address())?),
        };
        Ok(WakeUp { at_ns, alarm })
    }

    /// Whether the time has come.
    pub fn passed(&self) -> bool {
        now_ns() >= self.at_ns
    }
}

impl Drop for WakeUp {
    fn drop(&mut self) {
        if let Some(id) = self.alarm.take() {
            cancel(id);
        }
    }
}

/// Sleeps until `at_ns`.
///
/// # Errors
/// As [`alarm`]; then it has not slept.
pub fn sleep_until(at_ns: u64) -> Result<(), NoMemory> {
    let deadline = WakeUp::at(at_ns)?;
    while !deadline.passed() {
        suspend();
    }
    Ok(())
}
