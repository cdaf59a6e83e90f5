//! Processes and threads in their control groups.
//!
//! *Interface*: [`enter`], [`follow`] and [`leave`] at the beginning and the end of a thread;
//! [`Cgroup::receive`] moves a process, [`Cgroup::kill`] ends those of a group, [`Cgroup::set_freezes`] keeps
//! them from running, for which [`settle`] looks at a new one; [`of`] finds the group of one;
//! [`member_after`] and [`thread_after`] list a group.
//!
//! A thread is counted in the group whose number it has. The number changes with the hierarchy held, and from
//! another thread only while the process's list of threads is held too: a thread that has left the list sees
//! its last number. A new thread of a process that moves meanwhile is moved after it by its maker.

use abi::errno::{Errno, Result};
use abi::linux::{SI_KERNEL, SIGKILL, Siginfo};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use vm::fallible::try_push;

use super::{COUNTED, Cgroup, HIERARCHY, Hierarchy, PIDS, add, cpu_weight, take};
use crate::process::usage::Counts;
use crate::process::{Process, Task, tree};
use crate::signal::send;
use thread::SchedClass;

/// The new thread of `child`, which has not started yet, is counted in the group of `parent`, its maker, or
/// in the one whose number is `into`. EAGAIN: there may be no more there. ENODEV: it was removed; EBUSY,
/// EOPNOTSUPP.
#[inline]
pub fn enter(child: &Task, parent: &Task, into: Option<u32>) -> Result<()> {
    match (child.sched.group(), into) {
        (0, None) => Ok(()),
        _ => enter_below(child, parent, into),
    }
}

#[cold]
fn enter_below(child: &Task, parent: &Task, into: Option<u32>) -> Result<()> {
    // Bound: **global**: threads of processes below the root group only; at a thread's beginning and end the
    // levels above it, at most 32; a move is **linear** in the process's threads, a look at the time used in
    // the groups, at most 4096.
    let hierarchy = HIERARCHY.lock();
    // Until it is counted.
    child.sched.set_group(0);
    // A group that has this thread is there.
    let id = into.unwrap_or(parent.sched.group());
    let group = hierarchy.get(id).ok_or(Errno::ENODEV)?;
    if into.is_some() {
        group.can_receive()?;
    }
    if !group.is_root() {
        group.admit()?;
        child.sched.set_group(id);
    }
    let usual = [parent, child].map(|task| task.sched.place() == SchedClass::Usual);
    if id == parent.sched.group() && usual == [true; 2] {
        child.thread.weigh(parent.thread.own_quantum_ns());
    }
    Ok(())
}

/// The new thread of `child`, which its process has now, goes where the process has gone meanwhile.
#[inline]
pub fn follow(child: &Task, parent: &Task) {
    if child.sched.group() != parent.sched.group() {
        follow_below(child, parent);
    }
}

#[cold]
fn follow_below(child: &Task, parent: &Task) {
    let hierarchy = HIERARCHY.lock();
    if let Some(group) = hierarchy.get(parent.sched.group()).cloned() {
        hierarchy.shift(child, &group);
    }
}

/// The thread of `task` is in its process's list no more, or never was.
#[inline]
pub fn leave(task: &Task) {
    if task.sched.group() != 0 {
        leave_below(task);
    }
}

#[cold]
fn leave_below(task: &Task) {
    let hierarchy = HIERARCHY.lock();
    if let Some(root) = super::ROOT.get() {
        hierarchy.shift(task, root);
    }
}

/// The process of `child`, the only thread, has begun, and has not run: it is frozen if its group is.
#[inline]
pub fn settle(child: &Task) {
    if child.sched.group() != 0 {
        settle_process(&child.process);
    }
}

/// `process` is frozen if its group is, or one above.
#[cold]
fn settle_process(process: &Process) {
    let hierarchy = HIERARCHY.lock();
    // Bound: **linear** in the process's threads, a few words for each; those that freeze are woken.
    let threads = process.threads.lock();
    let freezes = of_threads(&hierarchy, &threads).is_some_and(|group| group.is_freezing());
    if process.signals.set_freezing(freezes) && freezes {
        threads.iter().for_each(|task| task.attend());
    }
}

/// The group of `process`; the root of one that has ended.
pub fn of(process: &Process) -> Option<Arc<Cgroup>> {
    let hierarchy = HIERARCHY.lock();
    let threads = process.threads.lock();
    of_threads(&hierarchy, &threads).cloned()
}

/// The group of the process with these threads.
fn of_threads<'a>(hierarchy: &'a Hierarchy, threads: &[Arc<Task>]) -> Option<&'a Arc<Cgroup>> {
    let id = threads.first().map_or(0, |first| first.sched.group());
    hierarchy.get(id)
}

/// The number of the first process in `group` from number `from` on.
pub fn member_after(group: &Cgroup, from: u64) -> Option<i32> {
    let is_in = |process: &Arc<Process>| {
        let threads = process.threads.lock();
        threads
            .first()
            .is_some_and(|first| first.sched.group() == group.id)
    };
    tree::from(from).find(is_in).map(|process| process.pid)
}

/// The next thread of processes in `group` after thread `last` of process `process`: both numbers.
pub fn thread_after(group: &Cgroup, process: i32, last: i32) -> Option<(i32, i32)> {
    let mut next = process as u64;
    while let Some(pid) = member_after(group, next) {
        let (mut found, last) = (None, if pid == process { last } else { 0 });
        if let Some(process) = tree::find(pid) {
            process.each_thread_after(last, |task| {
                found = Some((pid, task.tid));
                false
            });
        }
        if found.is_some() {
            return found;
        }
        next = pid as u64 + 1;
    }
    None
}

impl Hierarchy {
    /// Counts the thread of `task` in `to` instead of where it was. It may be the root.
    fn shift(&self, task: &Task, to: &Cgroup) {
        let id = task.sched.group();
        if id == to.id {
            return;
        }
        let used = Counts::of(task).sum();
        if let Some(from) = self.get(id).filter(|group| !group.is_root()) {
            take(&from.own, 1);
            from.up().for_each(|above| take(&above.held, 1));
            for (past, used) in from.past.iter().zip(used) {
                past.fetch_add(used, Relaxed);
            }
            COUNTED.fetch_sub(1, Relaxed);
        }
        task.sched.set_group(to.id);
        if !to.is_root() {
            to.count();
            for (past, used) in to.past.iter().zip(used) {
                past.fetch_sub(used, Relaxed);
            }
        }
    }
}

impl Cgroup {
    fn count(&self) {
        add(&self.own, 1);
        self.up().for_each(|above| add(&above.held, 1));
        COUNTED.fetch_add(1, Relaxed);
    }

    /// Counts a new thread. EAGAIN: the group, or one above it, has as many as it may.
    fn admit(&self) -> Result<()> {
        let full = |group: &&Cgroup| {
            group.has(PIDS) && group.held.load(Relaxed) >= group.most_threads.load(Relaxed)
        };
        if let Some(full) = self.up().find(full) {
            full.refused.fetch_add(1, Relaxed);
            return Err(Errno::EAGAIN);
        }
        self.count();
        Ok(())
    }

    /// The nearest group that both are in.
    fn common<'a>(&'a self, other: &'a Cgroup) -> &'a Cgroup {
        let (mut one, mut other) = (self, other);
        // The number of a group is above those of the groups that it is in.
        while one.id != other.id {
            let lower = if one.id > other.id {
                &mut one
            } else {
                &mut other
            };
            match &lower.parent {
                Some(above) => *lower = above,
                None => break,
            }
        }
        one
    }

    /// Whether it can have processes. EBUSY: it gives controllers to groups that have some; EOPNOTSUPP.
    fn can_receive(&self) -> Result<()> {
        if self.is_root() {
            return Ok(());
        }
        if self.is_invalid() {
            return Err(Errno::EOPNOTSUPP);
        }
        match self.passed_on() != 0 && self.is_populated_below() {
            true => Err(Errno::EBUSY),
            false => Ok(()),
        }
    }

    /// Whether `permit` lets the caller make a process in it: of the nearest group that it shares with the
    /// caller. ENOENT: it was removed.
    pub fn may_begin(&self, permit: impl FnOnce(&Cgroup) -> Result<()>) -> Result<()> {
        if self.is_gone() {
            return Err(Errno::ENOENT);
        }
        match of(&Process::current()) {
            Some(from) => permit(self.common(&from)),
            None => Ok(()),
        }
    }

    /// Moves process `pid`, 0 for the caller's, with its threads into it, if `permit` says so of the nearest
    /// group that it stays in. ESRCH, ENODEV: it was removed. EBUSY, EOPNOTSUPP.
    pub fn receive(&self, pid: i32, permit: impl FnOnce(&Cgroup) -> Result<()>) -> Result<()> {
        let process = match pid {
            0 => Process::current(),
            pid => tree::find(pid).ok_or(Errno::ESRCH)?,
        };
        let hierarchy = HIERARCHY.lock();
        if self.is_gone() {
            return Err(Errno::ENODEV);
        }
        let threads = process.threads.lock();
        let id = threads.first().map_or(0, |first| first.sched.group());
        drop(threads);
        if let Some(from) = hierarchy.get(id) {
            permit(self.common(from))?;
        }
        self.can_receive()?;
        for task in process.threads.lock().iter() {
            hierarchy.shift(task, self);
        }
        drop(hierarchy);
        settle_process(&process);
        cpu_weight::begin();
        Ok(())
    }

    /// Whether `process` is in it or below.
    fn has_in(&self, process: &Process) -> bool {
        of(process).is_some_and(|group| group.up().any(|above| above.id == self.id))
    }

    /// Ends all processes in it and below, with those that begin meanwhile. ENODEV: it was removed.
    pub fn kill(&self) -> Result<()> {
        if self.is_gone() {
            return Err(Errno::ENODEV);
        }
        tree::each(
            |process| self.has_in(process),
            |process| {
                // There is always room for this signal.
                let _ended = send(process, None, Siginfo::sent(SIGKILL, SI_KERNEL, 0, 0));
            },
        );
        Ok(())
    }

    /// Freezes it and those below, or lets it go on. The threads come to rest before they are next in user
    /// mode; they can be killed. A stop, or a group above, may hold them all the same. ENODEV: it was
    /// removed.
    pub fn set_freezes(&self, freezes: bool) -> Result<()> {
        let hierarchy = HIERARCHY.lock();
        if self.is_gone() {
            return Err(Errno::ENODEV);
        }
        self.freezes.store(freezes, Relaxed);
        drop(hierarchy);
        tree::each(
            |process| self.has_in(process),
            |process| settle_process(process),
        );
        Ok(())
    }

    /// Whether it is to be frozen, by its own setting or that of a group above.
    fn is_freezing(&self) -> bool {
        self.up().any(Cgroup::freezes)
    }

    /// Whether all threads in it and below are at rest, because it is to be frozen.
    pub fn is_frozen(&self) -> bool {
        let runs = |process: &Arc<Process>| {
            let threads = process.threads.lock().len();
            self.has_in(process) && process.signals.at_rest() < threads
        };
        self.is_freezing() && !tree::any(runs)
    }

    /// Thread `tid`, 0 for the caller's, is to be in it: threads of a process are not separated. ESRCH,
    /// ENODEV, EOPNOTSUPP.
    pub fn receive_thread(&self, tid: i32) -> Result<()> {
        let task = match tid {
            0 => Some(Task::current()),
            tid => tree::find_task(tid),
        };
        let task = task.ok_or(Errno::ESRCH)?;
        if self.is_gone() {
            return Err(Errno::ENODEV);
        }
        match task.sched.group() == self.id {
            true => Ok(()),
            false => Err(Errno::EOPNOTSUPP),
        }
    }
}

/// The CPU time of threads in `group` and below, and its samples. ENOMEM.
pub(super) fn consumed(group: &Cgroup) -> Result<[u64; 3]> {
    let mut inside: Vec<u32> = Vec::new();
    let mut sum = [0u64; 3];
    let hierarchy = HIERARCHY.lock();
    let below = |one: &&Arc<Cgroup>| one.up().any(|above| above.id == group.id);
    for one in hierarchy.groups.iter().filter(below) {
        try_push(&mut inside, one.id)?;
        for (sum, past) in sum.iter_mut().zip(&one.past) {
            *sum = sum.wrapping_add(past.load(Relaxed));
        }
    }
    drop(hierarchy);
    for process in tree::from(0) {
        for task in process.threads.lock().iter() {
            if inside.binary_search(&task.sched.group()).is_ok() {
                for (sum, used) in sum.iter_mut().zip(Counts::of(task).sum()) {
                    *sum = sum.wrapping_add(used);
                }
            }
        }
    }
    // A thread that went meanwhile may be missing, or its time before it came.
    Ok(match sum[0] as i64 {
        ..0 => [0; 3],
        _ => sum,
    })
}
