//! Jobs: the running thread's work in strips until a deadline, and the estimate whether it will be done.
//!
//! *Interface*: [`declare`] a job, [`strip`] after each strip of it, [`give_up`]; [`forget`] when the thread
//! has another program.
//!
//! The thread itself looks at the estimate: after each strip, and when an alarm has given it a supervisor
//! procedure, which also runs while it sleeps. So nothing is shared, and the user's procedure could not run
//! earlier anyway. It is called once for a job, as by `interrupt`.
//! Source: dissertation, section 6.4.2; the arithmetic is in `feedback::estimate`.

use crate::clock;
use crate::tte::job::Job;
use crate::tte::signal::{Mode, Procedure};
use crate::tte::{NoMemory, Tte, current};
use feedback::estimate::{ENOUGH, Estimate};
use machine::clock::now_ns;

/// The shortest and the longest time between looks, nanoseconds.
const SHORTEST_NS: u64 = 1_000_000;
const LONGEST_NS: u64 = 50_000_000;
/// Looks until the deadline, within these bounds.
const LOOKS: u64 = 32;

/// Shows `me`, the running thread, its job. `f` does not sleep.
fn with_job<R>(me: &Tte, f: impl FnOnce(&mut Option<Job>) -> R) -> R {
    // SAFETY: the thread itself, and nothing else of it runs before `f` has returned.
    f(unsafe { &mut me.parts().job })
}

/// The running thread has `strips` of work to do until `deadline_ns`, in place of what it had before.
/// `procedure` is called when it will be late.
///
/// # Errors
/// No memory for an alarm.
pub fn declare(strips: u64, deadline_ns: u64, procedure: Procedure) -> Result<(), NoMemory> {
    let me = current();
    let now = now_ns();
    forget(me);
    let interval_ns = (deadline_ns.saturating_sub(now) / LOOKS).clamp(SHORTEST_NS, LONGEST_NS);
    let next_ns = now.saturating_add(interval_ns);
    let alarm = clock::alarm(next_ns, remind, me.address())?;
    let job = Job {
        estimate: Estimate::new(strips, deadline_ns, now, me.cpu_ns()),
        procedure: Some(procedure),
        interval_ns,
        next_ns,
        alarm: Some(alarm),
    };
    with_job(me, |place| *place = Some(job));
    Ok(())
}

/// The running thread has done a strip. The part of the CPU that it needs until the deadline, in thousandths
/// of the part that it has; 0 when all is done. None: it has no job.
pub fn strip() -> Option<u64> {
    let me = current();
    let (now, cpu_ns) = (now_ns(), me.cpu_ns());
    let (estimate, done) = with_job(me, |job| {
        let job = job.as_mut()?;
        job.estimate.strip_done(cpu_ns);
        let estimate = job.estimate.thousandths(now, cpu_ns);
        Some((estimate, job.estimate.left() == 0))
    })?;
    if done {
        forget(me);
    } else if now_ns() >= with_job(me, |job| job.as_ref().map_or(u64::MAX, |job| job.next_ns)) {
        look();
    }
    Some(estimate)
}

/// The running thread has no job any more.
pub fn give_up() {
    forget(current());
}

/// The same, of `me`, the running thread.
pub(crate) fn forget(me: &Tte) {
    if let Some(alarm) = with_job(me, Option::take).and_then(|job| job.alarm) {
        clock::cancel(alarm);
    }
}

/// The thread with this address is to look. Called by the alarm.
fn remind(address: usize) {
    // SAFETY: the address of an entry, which is never unmapped.
    let tte = unsafe { &*(address as *const Tte) };
    // With too many procedures pending it looks after its next strip.
    let _ = tte.interrupt(Procedure {
        address: look as *const () as usize,
        mode: Mode::Supervisor,
    });
}

/// The running thread measures its part of the CPU, calls the user's procedure if it will be late, and sets
/// the next alarm.
fn look() {
    let me = current();
    let (now, cpu_ns) = (now_ns(), me.cpu_ns());
    let told = with_job(me, |place| {
        let job = place.as_mut().filter(|job| now >= job.next_ns)?;
        job.next_ns = now.saturating_add(job.interval_ns);
        job.estimate.look(now, cpu_ns);
        let late = job.estimate.thousandths(now, cpu_ns) > ENOUGH;
        let procedure = job.procedure.filter(|_| late);
        Some((job.next_ns, job.procedure.is_some(), procedure))
    });
    let Some((next_ns, waits, procedure)) = told else {
        return;
    };
    if let Some(procedure) = procedure
        && me.interrupt(procedure).is_ok()
    {
        with_job(me, |job| {
            if let Some(job) = job {
                (job.procedure, job.alarm) = (None, None);
            }
        });
    } else if waits {
        // Without memory it looks after its next strip.
        let alarm = clock::alarm(next_ns, remind, me.address()).ok();
        with_job(me, |job| {
            if let Some(job) = job {
                job.alarm = alarm;
            }
        });
    }
}
