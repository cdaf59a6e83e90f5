//! The tree of processes: numbers, parents and children, groups and sessions.
//!
//! *Interface*: [`find`], [`find_task`], [`all`], [`group`] look; [`set_group`] and [`new_session`] change. The one
//! monitor is first in the lock order; [`find`] does not take it. The first process is built in: it runs no code, and every process
//! whose parent has ended becomes its child and vanishes by itself when it ends.

use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::Ordering;

use abi::errno::{Errno, Result};
use abi::linux::SIGCHLD;
use sync::Monitor;

use super::groups::Groups;
use super::numbers::Numbers;
use super::{Process, Session, Task, index};

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
    /// A process and the numbers of its children.
    Process(Arc<Process>, Vec<i32>),
    /// A thread other than the first of its process.
    Thread(Weak<Task>),
}

/// Everything by number, zombies included.
pub(crate) struct Tree {
    holders: Numbers<Holder>,
    groups: Groups,
    last: i32,
    /// What [`most`] says, once it has been asked for.
    most: usize,
}

pub(crate) static TREE: Monitor<Tree> = Monitor::new(Tree {
    holders: Numbers::new(),
    groups: Groups::new(),
    last: 0,
    most: 0,
});

impl Tree {
    /// Reserves a number. EAGAIN when there are too many.
    pub(crate) fn reserve(&mut self) -> Result<i32> {
        if self.most == 0 {
            self.most = most();
        }
        if self.holders.len() >= self.most {
            return Err(Errno::EAGAIN);
        }
        let mut number = self.last;
        loop {
            number = if number + 1 >= NUMBERS_MAX {
                300
            } else {
                number + 1
            };
            if !self.holders.is_taken(number) && !self.groups.is_named(number) {
                break;
            }
        }
        self.last = number;
        self.holders.take(number);
        Ok(number)
    }

    /// Gives a reserved number back.
    pub(crate) fn release(&mut self, number: i32) {
        self.holders.free(number);
    }

    /// Makes `process` visible as a child of its parent.
    pub(crate) fn add(&mut self, process: &Arc<Process>) {
        if let Some(Holder::Process(_, children)) = self.holders.get_mut(process.ppid()) {
            children.push(process.pid);
        }
        self.holders
            .put(process.pid, Holder::Process(process.clone(), Vec::new()));
        self.groups
            .enter(process.pid, process.pgrp(), process.sid());
        index::add(process);
    }

    /// Makes a thread visible.
    pub(crate) fn add_thread(&mut self, task: &Arc<Task>) {
        self.holders
            .put(task.tid, Holder::Thread(Arc::downgrade(task)));
    }

    /// Removes a waited-for process.
    pub(crate) fn remove(&mut self, process: &Process) {
        index::remove(process.pid);
        self.groups
            .leave(process.pid, process.pgrp(), process.sid());
        self.holders.free(process.pid);
        if let Some(Holder::Process(_, children)) = self.holders.get_mut(process.ppid()) {
            children.retain(|&child| child != process.pid);
        }
    }

    pub(crate) fn get(&self, pid: i32) -> Option<&Arc<Process>> {
        match self.holders.get(pid) {
            Some(Holder::Process(process, _)) => Some(process),
            _ => None,
        }
    }

    /// All processes, in order of their numbers.
    pub(crate) fn processes(&self) -> impl Iterator<Item = &Arc<Process>> {
        self.holders.values().filter_map(|holder| match holder {
            Holder::Process(process, _) => Some(process),
            _ => None,
        })
    }

    /// The members of process group `pgrp`, zombies included.
    pub(crate) fn members(&self, pgrp: i32) -> impl Iterator<Item = &Arc<Process>> {
        let members = self.groups.members(pgrp).iter();
        members.filter_map(|&pid| self.get(pid))
    }

    /// The children of `pid`.
    pub(crate) fn children(&self, pid: i32) -> impl Iterator<Item = &Arc<Process>> {
        let children: &[i32] = match self.holders.get(pid) {
            Some(Holder::Process(_, children)) => children,
            _ => &[],
        };
        children.iter().filter_map(|&child| self.get(child))
    }

    /// Makes the children of `from` those of `to`; returns them.
    pub(crate) fn move_children(&mut self, from: i32, to: i32) -> Vec<Arc<Process>> {
        let moved = match self.holders.get_mut(from) {
            Some(Holder::Process(_, children)) => core::mem::take(children),
            _ => return Vec::new(),
        };
        for child in &moved {
            if let Some(process) = self.get(*child) {
                process.ppid.store(to, Ordering::Relaxed);
                // The one who chose another is gone.
                process.exit_signal.store(SIGCHLD, Ordering::Relaxed);
            }
        }
        if let Some(Holder::Process(_, children)) = self.holders.get_mut(to) {
            children.extend_from_slice(&moved);
        }
        moved
            .iter()
            .filter_map(|&child| self.get(child).cloned())
            .collect()
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

/// The process whose end helps most when memory is out, and how many pages it has resident. Allocates nothing.
///
/// A process counts with its own memory and half of its children's, so that one who multiplies outweighs a larger
/// bystander; where the children weigh more than their parent, the largest and then youngest of them is chosen. The built-in first
/// process's children are nobody's family. `first`, with which the machine ends, is chosen only if it has more than all others together.
pub(crate) fn largest(first: i32) -> Option<(Arc<Process>, usize)> {
    let tree = TREE.lock();
    let size = |process: &Arc<Process>| process.space().map_or(0, |space| space.resident());
    let children = |parent: &Arc<Process>| {
        let family = (parent.pid != INIT).then(|| tree.children(parent.pid));
        family.into_iter().flatten()
    };
    let brood = |parent: &Arc<Process>| children(parent).map(size).sum::<usize>() / 2;
    let others = || tree.processes().filter(|process| process.pid != first);
    if let Some(first) = tree.get(first)
        && size(first) > others().map(size).sum()
    {
        return Some((first.clone(), size(first)));
    }
    let heaviest = others().max_by_key(|process| size(process) + brood(process))?;
    let victim = if brood(heaviest) > size(heaviest) {
        children(heaviest).max_by_key(|child| size(child))?
    } else {
        heaviest
    };
    Some((victim.clone(), size(victim)))
}

/// The process with number `pid`. Waits for nobody.
pub fn find(pid: i32) -> Option<Arc<Process>> {
    index::find(pid)
}

/// The thread with number `tid`, of whatever process.
pub fn find_task(tid: i32) -> Option<Arc<Task>> {
    let process = match TREE.lock().holders.get(tid)? {
        Holder::Thread(task) => return task.upgrade(),
        Holder::Process(process, _) => process.clone(),
    };
    process.task(tid)
}

/// All processes at this instant, in order of their numbers.
pub fn all() -> Vec<Arc<Process>> {
    TREE.lock().processes().cloned().collect()
}

/// How many processes and threads there are.
pub fn count() -> usize {
    TREE.lock().holders.len()
}

/// The number given out last, for `/proc/loadavg`.
pub fn last_number() -> i32 {
    TREE.lock().last
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
    caller.session.set(Session::new(caller.pid));
    caller.pgrp.store(caller.pid, Ordering::Relaxed);
    tree.groups.enter(caller.pid, caller.pid, caller.pid);
    Ok(caller.pid)
}
