//! Samples: whether a CPU computes for a program or for the kernel.
//!
//! *Interface*: [`CpuTimes`] and [`Tte::split`] for a thread, [`of_cpu`] for a CPU, [`load`] for the load
//! averages; the timer interrupt calls [`take`], and a CPU that ceases to be idle calls [`begin`].
//! [`watch_with`] links what looks at the devices' interrupts as often.
//!
//! No time is measured on entry to the kernel and exit from it. While a CPU is not idle, its timer checks a
//! hundred times a second which mode it has interrupted, and adds all of the thread's time since its last
//! sample to that mode. (Linux does the same, unless it was built to account at each kernel entry.) An idle
//! CPU gets no such interrupts.
//!
//! Calls that generated code answers run with interrupts off, so an interrupt waits until they are back in
//! user mode. There rip is the value that `syscall` left in rcx, and the time is counted as the kernel's.

use crate::balance::load_average;
use crate::ring::granularity;
use crate::ring::per_cpu::PerCpu;
use crate::time::demand;
use crate::tte::Tte;
pub use crate::tte::samples::CpuTimes;
use core::sync::atomic::{AtomicU64, Ordering};
use machine::clock::{now_ns, tsc};
use machine::cpu::this_cpu;
use machine::trap::TrapFrame;
use sync::Once;

/// From one sample to the next, nanoseconds.
const PERIOD_NS: u64 = 10_000_000;

/// Called at each sample of the first CPU.
static WATCHER: Once<fn(u64)> = Once::new();

/// Has `watcher(now)` called at each sample of the first CPU, nanoseconds of the machine's clock, in the
/// timer's interrupt. Once.
pub fn watch_with(watcher: fn(u64)) {
    let _again = WATCHER.set(watcher);
}

/// Adds to a word that only this CPU writes.
fn add(to: &AtomicU64, counts: u64) {
    to.store(
        to.load(Ordering::Relaxed).wrapping_add(counts),
        Ordering::Relaxed,
    );
}

impl Tte {
    /// The division of the thread's time by samples.
    pub fn split(&self) -> CpuTimes {
        self.samples.split()
    }

    /// Whether its user time counts as a nice thread's.
    pub fn set_nice(&self, nice: bool) {
        self.nice.store(nice, Ordering::Relaxed);
    }
}

/// The division of the time of CPU number `cpu` by samples.
pub fn of_cpu(cpu: usize) -> CpuTimes {
    crate::ring::per_cpu::local(cpu).samples.split()
}

/// Whether the interrupted instruction is a program's, and not the one that a call has just come back to.
fn computes(frame: &TrapFrame) -> bool {
    frame.from_user() && frame.rip != frame.rcx
}

/// In the timer interrupt at `now`, which has found `me` running: takes a sample if it is time, and returns
/// whether it is.
#[inline(always)]
pub(crate) fn take(local: &PerCpu, me: &Tte, frame: &TrapFrame, now: u64) -> bool {
    let due = now >= local.sample_ns.load(Ordering::Relaxed);
    if due {
        sample(local, me, frame, now);
    }
    due
}

#[cold]
#[inline(never)]
fn sample(local: &PerCpu, me: &Tte, frame: &TrapFrame, now: u64) {
    load_average::look(now, crate::ring::per_cpu::all_ready);
    let idle = !me.on_ring.is_some();
    let since = tsc().wrapping_sub(local.sampled_at.load(Ordering::Relaxed));
    local.sampled_at.store(tsc(), Ordering::Relaxed);
    if idle {
        granularity::sampled(local, None);
        local.sample_ns.store(u64::MAX, Ordering::Relaxed);
        return;
    }
    local.sample_ns.store(now + PERIOD_NS, Ordering::Relaxed);
    if let Some(watcher) = WATCHER.get()
        && this_cpu().number() == 0
    {
        watcher(now);
    }
    demand::sampled(me, now);
    granularity::sampled(local, Some(me));
    let samples = &me.samples;
    let before = [&samples.user, &samples.system].map(|part| part.load(Ordering::Relaxed));
    // While the thread runs, the time stamp at its switch-in is subtracted.
    let ran = me.time.load(Ordering::Relaxed).wrapping_add(tsc());
    let fresh = ran.saturating_sub(before[0].wrapping_add(before[1]));
    if computes(frame) {
        add(&samples.user, fresh);
        let nice = me.nice.load(Ordering::Relaxed);
        let part = if nice {
            &local.samples.nice
        } else {
            &local.samples.user
        };
        add(part, since);
    } else {
        add(&samples.system, fresh);
        add(&local.samples.system, since);
    }
}

/// An idle CPU gives way to a thread: samples are taken again. With interrupts off.
#[inline]
pub(crate) fn begin(local: &PerCpu) {
    if local.sample_ns.load(Ordering::Relaxed) == u64::MAX {
        start(local);
    }
}

#[cold]
#[inline(never)]
fn start(local: &PerCpu) {
    let now = now_ns();
    let at = now + PERIOD_NS;
    local.sampled_at.store(tsc(), Ordering::Relaxed);
    local.sample_ns.store(at, Ordering::Relaxed);
    crate::ring::cpu_timer::arm_for(local, at, now);
}

/// The load averages over one, five and fifteen minutes, in units of 1/2048.
pub fn load() -> [u64; 3] {
    load_average::now(now_ns())
}
