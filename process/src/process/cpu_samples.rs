//! Samples of a process's CPU time: whose turn it is when a timer on that time rings.
//!
//! *Interface*: [`Process::begin_samples`] when such a timer is set; [`Process::sampled`] names the thread to
//! which a sample belongs.
//!
//! Linux looks at each tick, in the thread that the tick interrupts. Here the time is exact, and a sample
//! goes to the thread that has used the most of it beyond its samples, of those that run or are ready: so
//! each thread gets its share, however many there are and however they take turns.

use alloc::sync::Arc;
use core::sync::atomic::Ordering;

use super::{Process, Task};

impl Task {
    /// CPU time beyond its samples, nanoseconds.
    fn unsampled(&self) -> i64 {
        let sampled = self.sampled_ns.load(Ordering::Relaxed);
        self.cpu_ns().wrapping_sub(sampled) as i64
    }
}

impl Process {
    /// Samples are taken of the time from now on.
    pub(crate) fn begin_samples(&self) {
        // Bound: **linear**: the threads of one process; nothing sleeps inside.
        for task in self.threads.lock().iter() {
            task.sampled_ns.store(task.cpu_ns(), Ordering::Relaxed);
        }
    }

    /// The thread to which all time since the last sample is counted, of those that take a signal of `set`.
    pub(crate) fn sampled(&self, set: u64) -> Option<Arc<Task>> {
        let threads = self.threads.lock();
        let mut all = 0i64;
        let mut best: Option<((bool, i64), &Arc<Task>)> = None;
        for task in threads.iter() {
            let own = task.unsampled();
            all = all.saturating_add(own);
            let rank = (!task.sleeping(), own);
            let better = best.is_none_or(|(most, _)| rank > most);
            if better && task.takes(set) {
                best = Some((rank, task));
            }
        }
        let (_, task) = best?;
        let counted = task.sampled_ns.load(Ordering::Relaxed);
        let counted = counted.wrapping_add_signed(all);
        task.sampled_ns.store(counted, Ordering::Relaxed);
        Some(task.clone())
    }
}
