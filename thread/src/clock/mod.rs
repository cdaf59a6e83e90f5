//! The Clock quaject: alarms, sleeping, and deadlines for waits.
//!
//! *Interface*: [`alarm`] and [`cancel`]; [`sleep_until`]; [`WakeUp`], which wakes the running thread once;
//! [`deadline`], the time limit of a wait; [`quaject`], the clocks that programs make; [`interrupted`] for an
//! alarm's procedure.
//! Times are `machine::clock::now_ns`, nanoseconds since boot. Alarms live in the heap of the CPU that set
//! them; `docs/thread.md` has the bounds.
//! Source: dissertation, section 6.4 and table 4.3.

use crate::ring::cpu_timer;
use crate::ring::per_cpu::{here, slots};
use crate::running::block::{resume_address, suspend};
use crate::tte::flags::ATTENTION;
use crate::tte::{NoMemory, Tte, current};
use core::sync::atomic::Ordering;
use machine::clock::now_ns;
use machine::cpu::{irq_enabled, irq_restore, irq_save};
use machine::trap::TrapFrame;

use crate::alarm::Room;

pub use crate::alarm::AlarmId;

pub mod deadline;
pub(crate) mod pending;
pub mod quaject;

// The model of clocks puts loom's beside them.
use crate::primitive;

/// Calls `call(argument)` at `at_ns`, in the timer interrupt: it may resume threads and set alarms, not
/// sleep.
///
/// # Errors
/// No memory: with interrupts on, none for seconds.
pub fn alarm(at_ns: u64, call: fn(usize), argument: usize) -> Result<AlarmId, NoMemory> {
    // Bound: O(log n) of the CPU's alarms, and of two that were cancelled from elsewhere; now and then a page
    // for more.
    let irq = irq_save();
    let id = alarm_still(now_ns(), at_ns, call, argument);
    irq_restore(irq);
    match id {
        Err(NoMemory) if irq_enabled() => alarm_with_room(at_ns, call, argument),
        id => id,
    }
}

/// As [`alarm`], where there is no memory with interrupts off.
#[cold]
fn alarm_with_room(at_ns: u64, call: fn(usize), argument: usize) -> Result<AlarmId, NoMemory> {
    let room = Room::new().ok_or(NoMemory)?;
    let irq = irq_save();
    let (_, local, _) = here();
    // SAFETY: on this CPU with interrupts off; the borrow ends here.
    let left = unsafe { local.alarms() }.accept(room);
    let id = alarm_still(now_ns(), at_ns, call, argument);
    irq_restore(irq);
    drop(left);
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
    let key = cpu_timer::set(local, now, at_ns, call, argument).ok_or(NoMemory)?;
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

/// A program that the timer has interrupted.
pub struct Interrupted<'a> {
    /// Where it was. It continues with what an alarm's procedure leaves here, which fits user mode.
    pub frame: &'a mut TrapFrame,
    /// Its thread.
    pub thread: &'a Tte,
    /// When that was, nanoseconds.
    pub at_ns: u64,
}

/// Shows an alarm's procedure the program that the timer has interrupted, if nothing else is asked of its
/// thread. Interrupts are off.
#[inline]
pub fn interrupted<R>(look: impl FnOnce(Interrupted) -> R) -> Option<R> {
    let (_, local, me) = here();
    if me.state.load(Ordering::Relaxed) & ATTENTION != 0 {
        return None;
    }
    // SAFETY: the timer's handler on this CPU, below this call, has stored its own frame, and does not use it
    // until the alarms have been called, one after the other. `look` is a part of one, which calls no other.
    let frame = unsafe { local.program.load(Ordering::Relaxed).as_mut() }?;
    Some(look(Interrupted {
        frame,
        thread: me,
        at_ns: local.interrupted_ns.load(Ordering::Relaxed),
    }))
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
