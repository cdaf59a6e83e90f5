//! The tree of processes: numbers, parents and children, groups and sessions.
//!
//! *Interface*: [`find`], [`find_task`], [`each`], [`any`], [`from`] look; [`enter`] and [`forget`] are the beginning and the end; [`set_group`] and [`new_session`] change.
//!
//! No monitor is over all of it. Numbers are taken (`reserve.rs`), looked up (`index.rs`) and used as names (`names.rs`) by single exchanges. The children of one process have a monitor; who
//! changes the group or session of that process holds it too, so what a child inherits stays while it enters. Who looks for all processes of some kind goes through the
//! numbers, again if a process has arrived meanwhile.
//!
//! No list of all processes is made, for it could be longer than a page when there is no memory. A list of children has its room before the child comes; the first process's has room for all that may be, so
//! that whoever ends needs no memory to hand his over.
//!
//! The first process is built in: it runs no code, and every process
//! whose parent has ended becomes its child and vanishes by itself when it ends.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use abi::errno::{Errno, Result};
use abi::linux::SIGCHLD;

use super::names::Names;
pub use super::reserve::{NUMBERS_MAX, TAKEN_MAX};
use super::{Process, Session, Task, index, reserve};
use crate::memory::weight::{points, share, weight};
use vm::fallible::{try_push, try_reserve};

/// The number of the built-in first process.
pub const INIT: i32 = 1;
/// Memory for each thread that may exist, in bytes: a fork bomb then takes a fifth of the machine in kernel stacks, and no more.
const BYTES_PER_THREAD: usize = 80 << 10;
/// So often one goes through all processes for a thing at most. Each time somebody has been missed only if he came behind the one who goes through, brought by one who
/// left before him.
const PASSES: usize = 64;

static NAMES: Names<{ NUMBERS_MAX as usize }> =
    Names::over([const { AtomicU64::new(0) }; NUMBERS_MAX as usize]);

/// The most processes and threads at a time on this machine.
pub fn most() -> usize {
    (vm::frame::total() * abi::layout::PAGE / BYTES_PER_THREAD).clamp(64, TAKEN_MAX)
}

/// Reserves a number, if `exempt` one of those that are kept for the superuser. EAGAIN when there are too many.
pub fn reserve(exempt: bool) -> Result<i32> {
    static MOST: AtomicUsize = AtomicUsize::new(0);
    if MOST.load(Ordering::Relaxed) == 0 {
        MOST.store(most(), Ordering::Relaxed);
    }
    let most = account::quota::numbers(MOST.load(Ordering::Relaxed), exempt);
    let take = || reserve::take(most, |number| NAMES.is_taken(number)).ok();
    account::quota::insist(take).ok_or(Errno::EAGAIN)
}

/// Makes `leader` visible, which has founded a session of its own; `parent` is none for the first process.
pub fn found(leader: &Arc<Process>, parent: Option<&Process>) {
    let Some(parent) = parent else {
        // Everybody may become its child, and who hands them over cannot be refused.
        let _ = try_reserve(&mut leader.children.lock(), most());
        return found_session(leader);
    };
    found_session(leader);
    #[expect(clippy::disallowed_methods, reason = "the first program, at boot")]
    parent.children.lock().push(leader.clone());
}

fn found_session(leader: &Arc<Process>) {
    let founded = NAMES.found_session(leader.pid);
    debug_assert!(founded);
    index::announce(leader);
    index::show(leader);
}

/// Makes `child`, a copy of `maker`, visible with its first thread `task`. ERESTARTNOINTR: not if `missed` says that `maker` has a signal to take, which may have found it and not the child; nor if `maker`
/// has gone to another group since the copy was made. ENOMEM.
pub(crate) fn enter(
    child: &Arc<Process>,
    task: &Arc<Task>,
    maker: &Process,
    missed: impl Fn() -> bool,
) -> Result<()> {
    let mut children = maker.children.lock();
    let enter = |among: &mut _| enter_among(among, child, task, maker, missed);
    if child.ppid() == maker.pid {
        return enter(&mut children);
    }
    // From below upwards, as whoever ends and gives its children away.
    with_parent(maker, |parent, siblings| {
        child.ppid.store(parent.pid, Ordering::Relaxed);
        enter(siblings)
    })
}

/// As [`enter`], with the children of `maker` held, and those of the parent, `among` which it comes to be.
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
    // Who found it before it had a thread left it at that.
    if child.signals.has_news() {
        task.attend();
    }
    index::show(child);
    try_push(among, child.clone())
}

/// Calls `step` with the parent of `process`, which is not the first one, and the parent's children, which are held: it is the parent until they are let go.
pub(super) fn with_parent<R>(
    process: &Process,
    step: impl FnOnce(&Arc<Process>, &mut Vec<Arc<Process>>) -> R,
) -> R {
    loop {
        // Who ends gives its children to the first process before it can be forgotten.
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
pub(crate) fn enter_thread(task: &Arc<Task>) {
    index::add_thread(task);
}

/// Forgets a process that is no longer among its parent's children, and gives its number back.
pub(crate) fn forget(process: &Process) {
    index::remove(process.pid);
    // Who has found it before, and would move it to another group, finds it in none.
    let group = process.pgrp.swap(0, Ordering::AcqRel);
    reserve::free(process.pid);
    NAMES.leave(group);
}

/// Forgets a thread that is not its process's first, or a number that nobody came to use, and gives the number back.
pub(crate) fn release(tid: i32) {
    index::remove(tid);
    reserve::free(tid);
}

/// Children that have lost their parent, each having left its group ([`Process::left_group`]).
pub(crate) struct Orphans {
    /// All of them.
    pub(crate) all: Vec<Arc<Process>>,
    /// Whose they are now, if that waits for those that have ended.
    pub(crate) reaper: Option<Arc<Process>>,
}

/// Gives the children of `from`, which ends, to the nearest above that asked for orphans ([`Process::is_reaper`]), or else to the first process. Zombies for which nobody `waits` vanish. Needs no memory:
/// a reaper without any gets no orphans.
pub(crate) fn move_children(from: &Process, waits: fn(&Process, &Process) -> bool) -> Orphans {
    let mut children = from.children.lock();
    let mut all = core::mem::take(&mut *children);
    let mut reaper = None;
    let mut above = if all.is_empty() { INIT } else { from.ppid() };
    let mut living = None;
    while above > INIT
        && let Some(process) = find(above)
    {
        if process.is_reaper.load(Ordering::SeqCst) {
            let mut adopted = process.children.lock();
            // Who ends says so before it gives its children away, for which it needs the monitor.
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
        let mut adopted = init.children.lock();
        living = Some(adopt(&init, &mut adopted, &mut all, |_, _| false));
    }
    drop(children);
    for zombie in all.iter().skip(living.unwrap_or(all.len())) {
        forget(zombie);
    }
    Orphans { all, reaper }
}

/// Makes `all` children of `heir`, which has room for them in `children`, but for zombies for which it does not wait: these come to stand behind the others, whose number is returned.
fn adopt(
    heir: &Arc<Process>,
    children: &mut Vec<Arc<Process>>,
    all: &mut [Arc<Process>],
    waits: fn(&Process, &Process) -> bool,
) -> usize {
    // A child becomes a zombie under the monitor of its parent's children, whom these have been until now.
    let mut kept = 0;
    for at in 0..all.len() {
        let child = &all[at];
        child.left_group.store(child.pgrp(), Ordering::Relaxed);
        child.ppid.store(heir.pid, Ordering::Relaxed);
        // The one who chose another is gone.
        child.exit_signal.store(SIGCHLD, Ordering::Relaxed);
        // A zombie of which a tracer has still to hear waits for that.
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

/// Who holds most when memory is out.
pub(crate) struct Most {
    /// Who should end.
    pub(crate) victim: Arc<Process>,
    /// Frames that end with it.
    pub(crate) pages: usize,
    /// The head of the family that is the heaviest, which may be the victim.
    pub(crate) head: i32,
    /// All that could end are to be spared.
    pub(crate) spared: bool,
}

/// The process whose end helps most when memory is out. Allocates nothing.
///
/// A process counts with its [`points`] and half of its children's [`share`]s, so that one who multiplies outweighs a larger
/// bystander; where the children have more than their parent, the one with most points and then the youngest of them is chosen. The built-in first
/// process's children are nobody's family. `first`, with which the machine ends, is chosen only if it has more than all others together.
/// One that is spared is chosen only if all are, and nobody if all hold nothing.
pub(crate) fn largest(first: i32) -> Option<Most> {
    let brood = |parent: &Arc<Process>| match parent.pid {
        INIT => 0,
        _ => parent.children.lock().iter().map(share).sum::<isize>() / 2,
    };
    let most = |victim: Arc<Process>, head| Most {
        pages: weight(&victim),
        head,
        spared: points(&victim).is_none(),
        victim,
    };
    let others = || processes().filter(|process| process.pid != first);
    if let Some(first) = find(first)
        && points(&first).is_some()
        && weight(&first) > others().map(|process| weight(&process)).sum()
    {
        let head = first.pid;
        return Some(most(first, head));
    }
    let rank = |process: &Arc<Process>| {
        let own = points(process).map(|own| own + brood(process));
        (own, own.map_or_else(|| weight(process), |_| 0))
    };
    let heaviest = others().max_by_key(rank)?;
    if weight(&heaviest) == 0 {
        return None;
    }
    let head = heaviest.pid;
    let victim = match points(&heaviest) {
        Some(own) if brood(&heaviest) > own.max(0) => {
            let children = heaviest.children.lock();
            children.iter().max_by_key(|child| points(child))?.clone()
        }
        _ => heaviest,
    };
    Some(most(victim, head))
}

/// The process with number `pid`. Waits for nobody.
pub fn find(pid: i32) -> Option<Arc<Process>> {
    index::find(pid)
}

/// The thread with number `tid`, of whatever process.
pub fn find_task(tid: i32) -> Option<Arc<Task>> {
    index::find_task(tid)
}

/// The processes, zombies included, in order of their numbers, as one finds them who goes through once.
fn processes() -> impl Iterator<Item = Arc<Process>> {
    reserve::taken().filter_map(index::any)
}

/// What `look` says of the first process of which it says anything. It sees each that is there throughout.
fn search<R>(mut look: impl FnMut(&Arc<Process>) -> Option<R>) -> Option<R> {
    for _ in 0..PASSES {
        let arrivals = index::arrivals();
        if let Some(found) = processes().find_map(|process| look(&process)) {
            return Some(found);
        }
        if index::arrivals() == arrivals {
            break;
        }
    }
    None
}

/// Words of a [`Census`] in a page.
const CENSUS_WORDS: usize = abi::layout::PAGE / size_of::<u64>();
const CENSUS_PAGES: usize = (NUMBERS_MAX as usize).div_ceil(64 * CENSUS_WORDS);

/// Which numbers one has seen. No part is longer than a page: a page comes from what the kernel keeps, and is waited for, and more may be refused.
struct Census([Vec<u64>; CENSUS_PAGES]);

impl Census {
    /// Nobody yet.
    fn new() -> Census {
        let words = NUMBERS_MAX as usize / 64;
        Census(core::array::from_fn(|page| {
            let rest = words - page * CENSUS_WORDS;
            #[expect(
                clippy::disallowed_macros,
                reason = "a page, which the kernel keeps for such"
            )]
            let part = alloc::vec![0; rest.min(CENSUS_WORDS)];
            part
        }))
    }

    /// Notes `number`; whether it is new.
    fn note(&mut self, number: i32) -> bool {
        let (word, bit) = (number as usize / 64, 1 << (number % 64));
        let part = self.0.get_mut(word / CENSUS_WORDS);
        let Some(word) = part.and_then(|part| part.get_mut(word % CENSUS_WORDS)) else {
            return false;
        };
        let new = *word & bit == 0;
        *word |= bit;
        new
    }
}

/// Calls `f` once with each process that `is_meant` names, those included that come meanwhile; returns how many there were. One to whom `f` has sent a signal that it has to take brings no other
/// before it does. Of two that have one number, the one after the other, the second is left out: all numbers have been given out in between.
pub fn each(is_meant: impl Fn(&Process) -> bool, mut f: impl FnMut(&Arc<Process>)) -> usize {
    let mut census = Census::new();
    let mut count = 0;
    for _ in 0..PASSES {
        let (arrivals, known) = (index::arrivals(), count);
        for process in processes() {
            if is_meant(&process) && census.note(process.pid) {
                count += 1;
                f(&process);
            }
        }
        if count == known && index::arrivals() == arrivals {
            break;
        }
    }
    count
}

/// Whether there is a process that `is_meant` names.
pub fn any(is_meant: impl Fn(&Process) -> bool) -> bool {
    search(|process| is_meant(process).then_some(())).is_some()
}

/// The processes whose numbers are `first` or more, in order, as one finds them who goes through once.
pub fn from(first: u64) -> impl Iterator<Item = Arc<Process>> {
    let numbers = reserve::taken().filter(move |&number| number as u64 >= first);
    numbers.filter_map(index::any)
}

/// How many processes and threads there are.
pub fn count() -> usize {
    reserve::count()
}

/// The number given out last, for `/proc/loadavg`.
pub fn last_number() -> i32 {
    reserve::last()
}

/// How many members process group `pgrp` has.
pub fn members(pgrp: i32) -> usize {
    NAMES.members(pgrp)
}

/// The number of the session that process group `pgrp` belongs to.
pub fn session_of_group(pgrp: i32) -> Option<i32> {
    NAMES.session(pgrp)
}

/// Whether nobody is left who could continue process group `pgrp` (POSIX: orphaned): no member has a parent outside it in the same session.
pub fn is_orphaned(pgrp: i32) -> bool {
    let held = |process: &Process| {
        process.pgrp() == pgrp
            && !process.is_zombie()
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
    // It brings no children meanwhile, and goes nowhere else.
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

/// `process`, whose children are held, leaves its group for `pgrp`, in which it counts already; not if it has been forgotten.
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
