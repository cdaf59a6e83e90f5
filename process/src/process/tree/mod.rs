//! The process table: numbers, parents and children, groups and sessions.
//!
//! *Interface*: [`find`], [`find_task`], [`each`], [`any`] and [`from`] look processes up; [`enter`]
//! and [`forget`] are the beginning and the end of a process; [`set_group`] and [`new_session`] change its
//! group and session.
//!
//! No monitor covers the whole table. Numbers are taken (`pid_alloc.rs`), looked up (`index.rs` over
//! `pid_map.rs`) and used as names (`group_ids.rs`) by single exchanges, and all processes are visited
//! without a lock (`for_each.rs`). The children of each process have a monitor. A change of the group or
//! session of a process holds that monitor too, so both stay the same while a child inherits them.
//!
//! A list of children gets its room before the child comes. The list of the first process has room for all
//! processes that may exist, so that a process can end and hand its children over without any memory.
//!
//! The first process is built in: it runs no code. A process whose parent has ended becomes its child, and
//! vanishes by itself when it ends.

mod for_each;
mod group_ids;
pub(crate) mod index;
mod pid_alloc;
mod pid_map;
pub(crate) mod sort;
mod words;

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering};

use abi::errno::{Errno, Result};
use abi::linux::SIGCHLD;

use vm::fallible::{try_push, try_reserve};
use vm::sparse::{SparseTable, Word};

use super::{Process, Session, Task};
pub use for_each::{any, each, each_or_again, from};
use group_ids::GroupIds;
pub use pid_alloc::{NUMBERS_MAX, TAKEN_MAX};
use words::NumberTable;

/// The number of the built-in first process.
pub const INIT: i32 = 1;
/// Memory for each thread that may exist, in bytes: a fork bomb takes at most a fifth of the machine in
/// kernel stacks.
const BYTES_PER_THREAD: usize = 80 << 10;

static NAMES: GroupIds<SparseTable<AtomicU64, { NUMBERS_MAX as usize }>> =
    GroupIds::over(SparseTable::new());

impl<T: Word, const COUNT: usize> NumberTable<T> for SparseTable<T, COUNT> {
    #[inline]
    fn word(&self, number: i32) -> Option<&T> {
        SparseTable::word(self, number as usize)
    }
}

/// Makes the tables by number. Once, at boot, before there is a process. ENOMEM.
pub fn install() -> Result<()> {
    index::install()?;
    NAMES.words().install()
}

/// The numbers below can be used: their words have memory.
static BACKED: AtomicI32 = AtomicI32::new(0);

/// From now on `number`, which was just reserved, can be used, as a number and as a name. Otherwise it is
/// free again: ENOMEM.
#[cold]
fn back(number: i32) -> Result<i32> {
    let mut end = BACKED.load(Ordering::Acquire);
    while end <= number {
        let at = end as usize;
        match index::back(at).and_then(|()| NAMES.words().back(at)) {
            Ok(next) => end = next as i32,
            Err(error) => {
                pid_alloc::free(number);
                return Err(error);
            }
        }
    }
    // Others may have come as far, or further.
    BACKED.fetch_max(end, Ordering::AcqRel);
    Ok(number)
}

/// The most processes and threads at a time on this machine.
pub fn most() -> usize {
    (vm::frame::total() * abi::layout::PAGE / BYTES_PER_THREAD).clamp(64, TAKEN_MAX)
}

/// Reserves a number; with `exempt`, also one of the numbers kept for the superuser. EAGAIN: all are in use.
/// ENOMEM.
pub fn reserve(exempt: bool) -> Result<i32> {
    static MOST: AtomicUsize = AtomicUsize::new(0);
    if MOST.load(Ordering::Relaxed) == 0 {
        MOST.store(most(), Ordering::Relaxed);
    }
    let most = account::quota::numbers(MOST.load(Ordering::Relaxed), exempt);
    let take = || pid_alloc::take(most, |number| NAMES.is_taken(number)).ok();
    let number = account::quota::retry_after_reclaim(take).ok_or(Errno::EAGAIN)?;
    if number < BACKED.load(Ordering::Acquire) {
        Ok(number)
    } else {
        back(number)
    }
}

/// Makes `leader`, which leads a session of its own, visible. The first process has no `parent`.
pub fn found(leader: &Arc<Process>, parent: Option<&Process>) {
    let Some(parent) = parent else {
        // Every process may become its child, and a process that hands children over cannot be refused.
        // Bound: once, at boot: room for all.
        let _ = try_reserve(&mut leader.children.lock(), most());
        return found_session(leader);
    };
    found_session(leader);
    #[expect(clippy::disallowed_methods, reason = "the first program, at boot")]
    // Bound: one word, or one signal to the parent; **linear** in the children of one process when the parent
    // does not want to know of an end.
    parent.children.lock().push(leader.clone());
}

fn found_session(leader: &Arc<Process>) {
    let founded = NAMES.found_session(leader.pid);
    debug_assert!(founded);
    index::announce(leader);
    index::show(leader);
}

/// Makes `child`, a copy of the process of `by`, the running thread, visible with its first thread `task`.
///
/// # Errors
/// `ERESTARTNOINTR`: `missed` says that the maker has a signal to take, whose sender may have found the maker
/// and not the child; or the maker has gone to another group since the copy was made. `ENOMEM`.
pub(crate) fn enter(
    child: &Arc<Process>,
    task: &Arc<Task>,
    by: &Task,
    missed: impl Fn() -> bool,
) -> Result<()> {
    let maker = &*by.process;
    // Bound: a few words: a child enters.
    let mut children = maker.children.lock();
    let enter = |among: &mut _| enter_among(among, child, task, maker, missed);
    if child.ppid() == maker.pid {
        child.parent_tid.store(by.tid, Ordering::Relaxed);
        by.has_children.store(true, Ordering::Relaxed);
        return enter(&mut children);
    }
    // The order of the monitors is from child to parent, as for a process that ends and hands children over.
    with_parent(maker, |parent, siblings| {
        child.ppid.store(parent.pid, Ordering::Relaxed);
        let same = maker.parent_tid.load(Ordering::Relaxed);
        child.parent_tid.store(same, Ordering::Relaxed);
        enter(siblings)
    })
}

/// As [`enter`], with two monitors held: over the children of `maker`, and over `among`, the children of the
/// parent.
fn enter_among(
    among: &mut Vec<Arc<Process>>,
    child: &Arc<Process>,
    task: &Arc<Task>,
    maker: &Process,
    missed: impl Fn() -> bool,
) -> Result<()> {
    let group = child.pgrp();
    if maker.pgrp() != group || !maker.session.is_same(&child.session) {
        return Err(Errno::ERESTARTNOINTR);
    }
    try_reserve(among, 1)?;
    NAMES.join(group);
    index::announce(child);
    if missed() {
        index::remove(child.pid);
        NAMES.leave(group);
        return Err(Errno::ERESTARTNOINTR);
    }
    child.admit(task);
    // A sender that found the process before it had a thread could wake nothing.
    if child.signals.has_news() {
        task.attend();
    }
    index::show(child);
    try_push(among, child.clone())
}

/// Calls `step` with the parent of `process` and the parent's children. `process` is not the first process.
/// The monitor over the children is held, so that the parent stays the parent during the call.
pub(crate) fn with_parent<R>(
    process: &Process,
    step: impl FnOnce(&Arc<Process>, &mut Vec<Arc<Process>>) -> R,
) -> R {
    loop {
        // A process that ends hands its children over before it can be forgotten.
        let Some(parent) = find(process.ppid()) else {
            continue;
        };
        let mut children = parent.children.lock();
        if process.ppid() == parent.pid {
            return step(&parent, &mut children);
        }
    }
}

/// Makes a thread visible.
#[inline]
pub(crate) fn enter_thread(task: &Arc<Task>) {
    index::add_thread(task);
}

/// Forgets a process that is no longer among its parent's children, and gives back its number.
pub(crate) fn forget(process: &Process) {
    index::remove(process.pid);
    // A caller that has found the process before, and would move it to another group, sees group 0.
    let group = process.pgrp.swap(0, Ordering::AcqRel);
    pid_alloc::free(process.pid);
    NAMES.leave(group);
}

/// Forgets a thread other than the first of its process, or a number that was never used, and gives back the
/// number.
pub(crate) fn release(tid: i32) {
    index::remove(tid);
    pid_alloc::free(tid);
}

/// Children that have lost their parent. Each notes the group of its parent ([`Process::left_group`]).
pub(crate) struct Orphans {
    /// All of them.
    pub(crate) all: Vec<Arc<Process>>,
    /// Their new parent, if it is one that waits for zombies.
    pub(crate) reaper: Option<Arc<Process>>,
}

/// Gives the children of `from`, which ends, to the nearest ancestor that asked for orphans
/// ([`Process::is_reaper`]), or else to the first process. Zombies vanish unless `waits` says of the new
/// parent and the zombie that the parent waits for it. Needs no memory: an ancestor without memory gets no
/// orphans.
pub(crate) fn move_children(from: &Process, waits: fn(&Process, &Process) -> bool) -> Orphans {
    // Bound: **linear** in the children of the process that ends.
    let mut children = from.children.lock();
    let mut all = core::mem::take(&mut *children);
    let mut reaper = None;
    let mut above = if all.is_empty() { INIT } else { from.ppid() };
    let mut living = None;
    while above > INIT
        && let Some(process) = find(above)
    {
        if process.is_reaper.load(Ordering::SeqCst) {
            // Bound: **linear** in the children of the process that ends, when this one takes them; the group
            // of one process changes.
            let mut adopted = process.children.lock();
            // A process that ends says so before it takes this monitor to hand its children over.
            if !process.signals.is_ending() && try_reserve(&mut adopted, all.len()).is_ok() {
                living = Some(adopt(&process, &mut adopted, &mut all, waits));
                drop(adopted);
                reaper = Some(process);
                break;
            }
        }
        above = process.ppid();
    }
    if living.is_none()
        && !all.is_empty()
        && let Some(init) = find(INIT)
    {
        // Bound: **linear** in the children of the process that ends.
        let mut adopted = init.children.lock();
        living = Some(adopt(&init, &mut adopted, &mut all, |_, _| false));
    }
    drop(children);
    for zombie in all.iter().skip(living.unwrap_or(all.len())) {
        forget(zombie);
    }
    Orphans { all, reaper }
}

/// Makes `all` children of `heir`, which has room for them in `children`; except for zombies for which `heir`
/// does not wait: they are moved behind the others. Returns the number of the others.
fn adopt(
    heir: &Arc<Process>,
    children: &mut Vec<Arc<Process>>,
    all: &mut [Arc<Process>],
    waits: fn(&Process, &Process) -> bool,
) -> usize {
    // A child becomes a zombie under the monitor of its parent's children. The caller holds it for `all`.
    let mut kept = 0;
    let heir_thread = heir.heir();
    for at in 0..all.len() {
        let child = &all[at];
        child.left_group.store(child.pgrp(), Ordering::Relaxed);
        child.ppid.store(heir.pid, Ordering::Relaxed);
        child.parent_tid.store(heir_thread, Ordering::Relaxed);
        // The parent that chose another signal is gone.
        child.exit_signal.store(SIGCHLD, Ordering::Relaxed);
        // A zombie stays until its end has been reported to its tracer.
        let held = child.traced_by.load(Ordering::Acquire) != 0;
        if !child.is_zombie() || held || waits(heir, child) {
            #[expect(
                clippy::disallowed_methods,
                reason = "`found` made room in the first process for as many as there can be"
            )]
            children.push(child.clone());
            all.swap(kept, at);
            kept += 1;
        }
    }
    kept
}

/// The process with number `pid`. Wait-free except for the handle's count.
pub fn find(pid: i32) -> Option<Arc<Process>> {
    index::find(pid)
}

/// The thread with number `tid`, of any process.
pub fn find_task(tid: i32) -> Option<Arc<Task>> {
    index::find_task(tid)
}

/// How many processes and threads there are.
pub fn count() -> usize {
    pid_alloc::count()
}

/// The number taken last, for `/proc/loadavg`.
pub fn last_number() -> i32 {
    pid_alloc::last()
}

/// How many members process group `pgrp` has.
pub fn members(pgrp: i32) -> usize {
    NAMES.members(pgrp)
}

/// The number of the session that process group `pgrp` belongs to.
pub fn session_of_group(pgrp: i32) -> Option<i32> {
    NAMES.session(pgrp)
}

/// Whether process group `pgrp` is orphaned (POSIX): no member has a parent in another group of the same
/// session, which could continue the group. A member that ends counts no more: once its children see that
/// they have another parent, their group is orphaned.
pub fn is_orphaned(pgrp: i32) -> bool {
    let held = |process: &Arc<Process>| {
        process.pgrp() == pgrp
            && !process.signals.is_ending()
            && find(process.ppid()).is_some_and(|parent| {
                parent.pid != INIT && parent.pgrp() != pgrp && parent.sid() == process.sid()
            })
    };
    !any(held)
}

/// `setpgid`. EPERM, EACCES, ESRCH.
pub fn set_group(caller: &Process, pid: i32, pgrp: i32) -> Result<()> {
    let pid = if pid == 0 { caller.pid } else { pid };
    let pgrp = if pgrp == 0 { pid } else { pgrp };
    let process = find(pid).ok_or(Errno::ESRCH)?;
    // Meanwhile the process makes no child and changes its group in no other thread.
    let _children = process.children.lock();
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
    let entered = if pgrp == pid {
        NAMES.found(pgrp, sid)
    } else {
        NAMES.enter(pgrp, sid)
    };
    if !entered {
        return Err(Errno::EPERM);
    }
    move_to(&process, pgrp).ok_or(Errno::ESRCH)
}

/// Moves `process` to group `pgrp`, which counts it already. The monitor over its children is held. `None`:
/// the process has been forgotten.
fn move_to(process: &Process, pgrp: i32) -> Option<()> {
    let alive = |group| (group != 0).then_some(pgrp);
    let moved = process
        .pgrp
        .fetch_update(Ordering::AcqRel, Ordering::Relaxed, alive);
    NAMES.leave(moved.unwrap_or(pgrp));
    index::arrive();
    moved.ok().map(drop)
}

/// `setsid`: the caller becomes the leader of a new session without a terminal. EPERM for a group leader.
pub fn new_session(caller: &Process) -> Result<i32> {
    let session = Session::new(caller.pid);
    // Bound: a few words: the group and session of one process change.
    let children = caller.children.lock();
    if !NAMES.found_session(caller.pid) {
        return Err(Errno::EPERM);
    }
    let left = caller.session.exchange(session);
    let moved = move_to(caller, caller.pid);
    drop(children);
    drop(left.get());
    moved.map(|()| caller.pid).ok_or(Errno::ESRCH)
}

#[cfg(test)]
mod group_ids_tests;
