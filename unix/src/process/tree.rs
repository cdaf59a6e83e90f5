//! The tree of processes: numbers, parents and children, groups and sessions.
//!
//! *Interface*: [`find`], [`find_task`], [`all`], [`group`] look; [`set_group`] and [`new_session`] change. The one
//! monitor is taken before those of any process and is held for a few words; [`find`] does not take it, nor do numbers (`reserve.rs`), nor who looks after the children of one process. The first process is built in: it runs no code, and every process
//! whose parent has ended becomes its child and vanishes by itself when it ends.

use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};

use abi::errno::{Errno, Result};
use abi::linux::SIGCHLD;
use sync::Monitor;

use super::groups::Groups;
use super::numbers::Numbers;
use super::{Process, Session, Task, index, reserve};

/// The number of the built-in first process.
pub const INIT: i32 = 1;
pub use super::numbers::NUMBERS_MAX;
/// Memory for each thread that may exist, in bytes: a fork bomb then takes an eighth of the machine in kernel stacks, and no more.
const BYTES_PER_THREAD: usize = 128 << 10;

/// The most processes and threads at a time on this machine.
pub fn most() -> usize {
    (vm::frame::stats().total * abi::layout::PAGE / BYTES_PER_THREAD)
        .clamp(64, NUMBERS_MAX as usize / 4)
}

/// Who has a number that is not only reserved.
pub(crate) enum Holder {
    /// A process.
    Process(Arc<Process>),
    /// A thread other than the first of its process.
    Thread(Weak<Task>),
}

/// Everything by number, zombies included.
pub(crate) struct Tree {
    holders: Numbers<Holder>,
    groups: Groups,
}

pub(crate) static TREE: Monitor<Tree> = Monitor::new(Tree {
    holders: Numbers::new(),
    groups: Groups::new(),
});

/// Reserves a number. EAGAIN when there are too many.
pub(crate) fn reserve() -> Result<i32> {
    static MOST: AtomicUsize = AtomicUsize::new(0);
    if MOST.load(Ordering::Relaxed) == 0 {
        MOST.store(most(), Ordering::Relaxed);
    }
    reserve::take(MOST.load(Ordering::Relaxed))
}

impl Tree {
    /// Makes `process` visible as a child of its parent, or of the first process when that has ended.
    pub(crate) fn add(&mut self, process: &Arc<Process>) {
        if let Some(parent) = self.get(process.ppid()) {
            let mut children = parent.children.lock();
            if !parent.signals.is_ending() {
                children.push(process.clone());
            } else if let Some(init) = self.get(INIT) {
                process.ppid.store(INIT, Ordering::Relaxed);
                init.children.lock().push(process.clone());
            }
        }
        self.holders
            .put(process.pid, Holder::Process(process.clone()));
        self.groups
            .enter(process.pid, process.pgrp(), process.sid());
        index::add(process);
    }

    /// Makes a thread visible.
    pub(crate) fn add_thread(&mut self, task: &Arc<Task>) {
        self.holders
            .put(task.tid, Holder::Thread(Arc::downgrade(task)));
    }

    /// Makes a thread that is not its process's first invisible.
    fn remove_thread(&mut self, tid: i32) {
        self.holders.free(tid);
    }

    /// Removes a process that is no longer among its parent's children.
    fn remove(&mut self, process: &Process) -> Option<index::Unlinked> {
        self.groups
            .leave(process.pid, process.pgrp(), process.sid());
        self.holders.free(process.pid);
        index::remove(process.pid)
    }

    pub(crate) fn get(&self, pid: i32) -> Option<&Arc<Process>> {
        match self.holders.get(pid) {
            Some(Holder::Process(process)) => Some(process),
            _ => None,
        }
    }

    /// All processes, in order of their numbers.
    pub(crate) fn processes(&self) -> impl Iterator<Item = &Arc<Process>> {
        self.holders.values().filter_map(|holder| match holder {
            Holder::Process(process) => Some(process),
            _ => None,
        })
    }

    /// The members of process group `pgrp`, zombies included.
    pub(crate) fn members(&self, pgrp: i32) -> impl Iterator<Item = &Arc<Process>> {
        let members = self.groups.members(pgrp).iter();
        members.filter_map(|&pid| self.get(pid))
    }

    /// Whether no member of `pgrp` has a parent outside it in the same session: nobody is left who could
    /// continue it.
    pub(crate) fn is_orphaned(&self, pgrp: i32) -> bool {
        !self.members(pgrp).any(|process| {
            !process.is_zombie()
                && self.get(process.ppid()).is_some_and(|parent| {
                    parent.pid != INIT && parent.pgrp() != pgrp && parent.sid() == process.sid()
                })
        })
    }
}

/// Forgets a process that is no longer among its parent's children, and gives its number back.
pub(crate) fn forget(process: &Process) {
    let entry = TREE.lock().remove(process);
    if let Some(entry) = entry {
        entry.retire();
    }
    reserve::free(process.pid);
}

/// Forgets a thread that is not its process's first, or a number that nobody came to use, and gives the number back.
pub(crate) fn release(tid: i32) {
    TREE.lock().remove_thread(tid);
    reserve::free(tid);
}

/// Makes the children of `from`, which ends, those of the first process; returns them. Zombies among them vanish.
pub(crate) fn move_children(from: &Process) -> Vec<Arc<Process>> {
    let mut children = from.children.lock();
    if children.is_empty() {
        return Vec::new();
    }
    let moved = core::mem::take(&mut *children);
    let Some(init) = find(INIT) else {
        return moved;
    };
    let mut adopted = init.children.lock();
    for child in &moved {
        child.ppid.store(INIT, Ordering::Relaxed);
        // The one who chose another is gone.
        child.exit_signal.store(SIGCHLD, Ordering::Relaxed);
        if !child.is_zombie() {
            adopted.push(child.clone());
        }
    }
    // A child becomes a zombie under the monitor of its parent's children, whom these have been until now.
    let zombies: Vec<_> = moved
        .iter()
        .filter(|child| child.is_zombie())
        .cloned()
        .collect();
    drop(adopted);
    drop(children);
    for zombie in zombies {
        forget(&zombie);
    }
    moved
}

/// The process whose end helps most when memory is out, and how many pages it has resident. Allocates nothing.
///
/// A process counts with its own memory and half of its children's, so that one who multiplies outweighs a larger
/// bystander; where the children weigh more than their parent, the largest and then youngest of them is chosen. The built-in first
/// process's children are nobody's family. `first`, with which the machine ends, is chosen only if it has more than all others together.
pub(crate) fn largest(first: i32) -> Option<(Arc<Process>, usize)> {
    let tree = TREE.lock();
    let size = |process: &Arc<Process>| process.space().map_or(0, |space| space.resident());
    let brood = |parent: &Arc<Process>| match parent.pid {
        INIT => 0,
        _ => parent.children.lock().iter().map(size).sum::<usize>() / 2,
    };
    let others = || tree.processes().filter(|process| process.pid != first);
    if let Some(first) = tree.get(first)
        && size(first) > others().map(size).sum()
    {
        return Some((first.clone(), size(first)));
    }
    let heaviest = others().max_by_key(|process| size(process) + brood(process))?;
    let victim = if brood(heaviest) > size(heaviest) {
        let children = heaviest.children.lock();
        children.iter().max_by_key(|child| size(child))?.clone()
    } else {
        heaviest.clone()
    };
    let pages = size(&victim);
    Some((victim, pages))
}

/// The process with number `pid`. Waits for nobody.
pub fn find(pid: i32) -> Option<Arc<Process>> {
    index::find(pid)
}

/// The thread with number `tid`, of whatever process.
pub fn find_task(tid: i32) -> Option<Arc<Task>> {
    let process = match TREE.lock().holders.get(tid)? {
        Holder::Thread(task) => return task.upgrade(),
        Holder::Process(process) => process.clone(),
    };
    process.task(tid)
}

/// All processes at this instant, in order of their numbers.
pub fn all() -> Vec<Arc<Process>> {
    TREE.lock().processes().cloned().collect()
}

/// How many processes and threads there are.
pub fn count() -> usize {
    reserve::count()
}

/// The number given out last, for `/proc/loadavg`.
pub fn last_number() -> i32 {
    reserve::last()
}

/// The members of process group `pgrp`.
pub fn group(pgrp: i32) -> Vec<Arc<Process>> {
    TREE.lock().members(pgrp).cloned().collect()
}

/// The session that process group `pgrp` belongs to.
pub fn session_of_group(pgrp: i32) -> Option<Arc<Session>> {
    let tree = TREE.lock();
    let first = tree.members(pgrp).next();
    first.map(|process| process.session.get())
}

/// Whether nobody is left who could continue process group `pgrp` (POSIX: orphaned).
pub fn is_orphaned(pgrp: i32) -> bool {
    TREE.lock().is_orphaned(pgrp)
}

/// `setpgid`. EPERM, EACCES, ESRCH.
pub fn set_group(caller: &Process, pid: i32, pgrp: i32) -> Result<()> {
    let mut tree = TREE.lock();
    let pid = if pid == 0 { caller.pid } else { pid };
    let pgrp = if pgrp == 0 { pid } else { pgrp };
    let process = tree.get(pid).ok_or(Errno::ESRCH)?.clone();
    let sid = process.sid();
    if process.pid != caller.pid {
        if process.ppid() != caller.pid {
            return Err(Errno::ESRCH);
        }
        if sid != caller.sid() {
            return Err(Errno::EPERM);
        }
        if process.images.load(Ordering::Relaxed) != 0 {
            return Err(Errno::EACCES);
        }
    }
    if sid == process.pid {
        return Err(Errno::EPERM);
    }
    if pgrp != pid && !tree.members(pgrp).any(|member| member.sid() == sid) {
        return Err(Errno::EPERM);
    }
    tree.groups.leave(pid, process.pgrp(), sid);
    process.pgrp.store(pgrp, Ordering::Relaxed);
    tree.groups.enter(pid, pgrp, sid);
    Ok(())
}

/// `setsid`: the caller becomes the leader of a new session without a terminal. EPERM for a group leader.
pub fn new_session(caller: &Process) -> Result<i32> {
    let mut tree = TREE.lock();
    if tree.members(caller.pid).next().is_some() {
        return Err(Errno::EPERM);
    }
    tree.groups.leave(caller.pid, caller.pgrp(), caller.sid());
    let left = caller.session.exchange(Session::new(caller.pid));
    caller.pgrp.store(caller.pid, Ordering::Relaxed);
    tree.groups.enter(caller.pid, caller.pid, caller.pid);
    drop(tree);
    drop(left.get());
    Ok(caller.pid)
}
