//! Futexes whose owner the kernel knows: priority-inheritance locks.
//!
//! *Interface*: [`lock`], [`unlock`]; [`wait_requeue`] and [`requeue`] for condition variables; [`ending`]
//! and [`ended`] are for its end.
//!
//! The word holds the owner's number. A thread that finds it taken sets the waiters' bit and enters the
//! bucket with a [`PiState`] to the owner. Unlocking passes the lock to the longest waiter of the highest
//! priority, whose number the kernel writes. An ending owner leaves its locks to an heir, which writes the
//! word itself, since the owner may not have had the word in its memory; until then no other thread takes the
//! lock.
//!
//! Inheritance: a thread's priority is its turns. A new waiter lends its turns to the owner a few times
//! before it sleeps.
//!
//! A thread waits for an ending owner ([`pi_state`](crate::process::pi_state)).
//!
//! Source: the calls' contract as documented for user programs (`futex(2)`).

use alloc::sync::Arc;
use core::sync::atomic::Ordering;

use abi::errno::{Errno, Result};
use abi::linux::*;
use sync::callout;
use vm::user;

use super::{
    BUCKETS, Buckets, FutexKey, Role, Standing, TABLE, begin, enter, exchange_user, sleep, withdraw,
};
use crate::process::pi_state::{ALIVE, ENDING, PiPart, PiParty, PiState};
use crate::process::waiter::Waiter;
use crate::process::{Task, tree};
use crate::time::WaitEnded;
use vm::fallible::try_reserve_kept;

/// As many owners may wait for one another in a row (Linux: `max_lock_depth`).
const DEPTH: usize = 1024;

/// So often a waiter lends its turns to the owner before it sleeps.
const TURNS: usize = 4;

impl PiParty for Task {
    fn part(&self) -> &PiPart {
        &self.pi
    }

    fn number(&self) -> i32 {
        self.tid
    }
}

/// The outcome of a claim to a lock.
enum Claim {
    /// It is the claimant's, and the word says so.
    Taken,
    /// It is another's.
    Behind(Arc<Task>),
    /// Something is changing: look again.
    Again,
}

/// Claims the lock `key`, whose word is at `address`, for `task`; `list` is its bucket. With `mark` the word
/// records that there are waiters. An owner that was found but is not used goes to `aside`; the caller drops
/// it after it has released the bucket. EDEADLK, ESRCH, EINVAL, EFAULT.
fn claim(
    list: &[Standing],
    key: FutexKey,
    address: usize,
    task: &Task,
    mark: bool,
    aside: &mut Option<Arc<Task>>,
) -> Result<Claim> {
    let word = user::get::<u32>(address)?;
    let holder = word & FUTEX_TID_MASK;
    if holder == task.tid as u32 {
        return Err(Errno::EDEADLK);
    }
    if let Some(first) = list.iter().find(|entry| entry.key == key) {
        let bond = match &first.role {
            Role::Lock(bond) => bond,
            Role::Heir => return Ok(Claim::Again),
            Role::Plain | Role::Moves(_) => return Err(Errno::EINVAL),
        };
        let owner = &bond.owner;
        if owner.pi.stage() != ALIVE {
            return Ok(Claim::Again);
        }
        let died = holder == 0 && word & FUTEX_OWNER_DIED != 0;
        return if holder == owner.tid as u32 || died {
            Ok(Claim::Behind(owner.clone()))
        } else {
            Err(Errno::EINVAL)
        };
    }
    if holder == 0 {
        let waiters = if mark { FUTEX_WAITERS } else { 0 };
        let new = word & FUTEX_OWNER_DIED | task.tid as u32 | waiters;
        return Ok(match exchange_user(address, word, new)? == word {
            true => Claim::Taken,
            false => Claim::Again,
        });
    }
    let marked = word | FUTEX_WAITERS;
    if exchange_user(address, word, marked)? != word {
        return Ok(Claim::Again);
    }
    let owner = tree::find_task(holder as i32);
    match owner.as_ref().map(|owner| owner.pi.stage()) {
        Some(ALIVE) => return owner.map(Claim::Behind).ok_or(Errno::ESRCH),
        Some(ENDING) => {
            *aside = owner;
            return Ok(Claim::Again);
        }
        _ => *aside = owner,
    }
    if user::get::<u32>(address)? == marked {
        Err(Errno::ESRCH)
    } else {
        Ok(Claim::Again)
    }
}

/// Whether `task` would wait for itself behind `owner`.
fn is_circle(task: &Task, owner: i32) -> bool {
    let mut at = owner;
    for _ in 0..DEPTH {
        if at == task.tid {
            return true;
        }
        let next = tree::find_task(at).map_or(0, |task| task.pi.waits_for());
        if next == 0 {
            return false;
        }
        at = next;
    }
    true
}

/// Lets others go on, between two looks. ERESTARTNOINTR: a signal is to be seen to first.
fn look_again() -> Result<()> {
    let callouts = callout::get();
    (callouts.yield_now)();
    if (callouts.interrupted)() {
        return Err(Errno::ERESTARTNOINTR);
    }
    Ok(())
}

/// Takes the lock at `address`, or waits for it until the monotonic clock's `deadline`; `only_try`: does not
/// wait. EAGAIN, EDEADLK, ESRCH, EINVAL, ETIMEDOUT, EFAULT, ENOMEM.
pub fn lock(address: usize, private: bool, deadline: Option<u64>, only_try: bool) -> Result<usize> {
    let task = Task::current();
    let key = FutexKey::of(address, private)?;
    let waiter = Waiter::new(key, FUTEX_BITSET_MATCH_ANY, Some(task.clone()))?;
    let owner = loop {
        let mut aside = None;
        // Bound: the waiters of one chain, of which there are 256; a move of waiters takes two, in order.
        let mut list = TABLE[key.bucket()].lock();
        match claim(&list, key, address, &task, false, &mut aside)? {
            Claim::Taken => return Ok(0),
            Claim::Behind(owner) => {
                // The last count is never given up under a bucket.
                aside = Some(owner.clone());
                if only_try {
                    return Err(Errno::EAGAIN);
                }
                let bond = PiState::new(owner.clone(), task.clone());
                if owner.pi.may_own() {
                    if !enter(&mut list, key, Role::Lock(bond), &waiter) {
                        return Err(Errno::ENOMEM);
                    }
                    break owner;
                }
            }
            Claim::Again => {}
        }
        drop(list);
        drop(aside);
        look_again()?;
    };
    if is_circle(&task, owner.tid) {
        return match withdraw(&waiter) {
            Some(_) => Err(Errno::EDEADLK),
            None => inherit(&waiter, key, address),
        };
    }
    lend(&waiter, &owner);
    drop(owner);
    acquire(&waiter, key, address, deadline, Errno::ERESTARTNOINTR)
}

/// The owner runs in this thread's place, a few times.
fn lend(waiter: &Waiter, owner: &Task) {
    for _ in 0..TURNS {
        if waiter.is_woken() || !(callout::get().donate)(owner.thread.address()) {
            return;
        }
    }
}

/// Sleeps until the running thread, which is in the bucket, owns the lock. The error for a signal, ETIMEDOUT,
/// EFAULT.
fn acquire(
    waiter: &Arc<Waiter>,
    key: FutexKey,
    address: usize,
    deadline: Option<u64>,
    interrupted: Errno,
) -> Result<usize> {
    let ended = sleep(|| waiter.is_woken(), deadline);
    match ended {
        Err(ended) if withdraw(waiter).is_some() => Err(match ended {
            WaitEnded::TimedOut => Errno::ETIMEDOUT,
            WaitEnded::Interrupted => interrupted,
        }),
        _ => inherit(waiter, key, address),
    }
}

/// The lock is the running thread's: after an owner that ended the word has to say so. EFAULT.
fn inherit(waiter: &Arc<Waiter>, key: FutexKey, address: usize) -> Result<usize> {
    if !waiter.inherits.load(Ordering::SeqCst) {
        return Ok(0);
    }
    let tid = Task::here(|task| task.tid as u32).unwrap_or_default();
    let mut list = TABLE[key.bucket()].lock();
    list.retain(|entry| !Arc::ptr_eq(&entry.waiter, waiter));
    let mut word = user::get::<u32>(address)?;
    loop {
        let new = FUTEX_OWNER_DIED | FUTEX_WAITERS | tid;
        let seen = exchange_user(address, word, new)?;
        if seen == word {
            return Ok(0);
        }
        word = seen;
    }
}

/// Gives the lock at `address` up, to the one that has waited longest. EPERM, EINVAL, EAGAIN, EFAULT.
pub fn unlock(address: usize, private: bool) -> Result<usize> {
    let task = Task::current();
    loop {
        let word = user::get::<u32>(address)?;
        if word & FUTEX_TID_MASK != task.tid as u32 {
            return Err(Errno::EPERM);
        }
        let key = FutexKey::of(address, private)?;
        let mut list = TABLE[key.bucket()].lock();
        let Some(first) = best(&list, |entry| entry.key == key) else {
            let seen = exchange_user(address, word, 0)?;
            return if seen == word {
                Ok(0)
            } else {
                Err(Errno::EAGAIN)
            };
        };
        let heir = match &list[first].role {
            Role::Lock(bond) if Arc::ptr_eq(&bond.owner, &task) => bond.waiter.clone(),
            _ => return Err(Errno::EINVAL),
        };
        let seen = exchange_user(address, word, FUTEX_WAITERS | heir.tid as u32)?;
        if seen == word {
            let entry = list.remove(first);
            pass(&mut list, key, &task, &heir);
            entry.waiter.release();
            drop(list);
            drop(entry);
            return Ok(0);
        }
        if seen & FUTEX_TID_MASK != word {
            return Err(Errno::EINVAL);
        }
        drop(list);
    }
}

/// Among the `meant` waiters, the index of the longest waiter of the highest priority.
fn best(list: &[Standing], meant: impl Fn(&Standing) -> bool) -> Option<usize> {
    let priority = |entry: &Standing| {
        let task = entry.waiter.task.as_ref();
        task.map_or(0, |task| task.sched.policy().rank())
    };
    let meant = list.iter().enumerate().filter(|(_, entry)| meant(entry));
    // Of equals the last: from behind.
    let best = meant.rev().max_by_key(|(_, entry)| priority(entry));
    best.map(|(at, _)| at)
}

/// The lock `key` passes from `from`, which stays alive meanwhile, to `to`: its waiters' bonds change.
fn pass(list: &mut [Standing], key: FutexKey, from: &Arc<Task>, to: &Arc<Task>) {
    for entry in list.iter_mut().filter(|entry| entry.key == key) {
        if let Role::Lock(bond) = &mut entry.role
            && Arc::ptr_eq(&bond.owner, from)
        {
            // Not the last count: the caller has one.
            drop(bond.pass(to));
        }
    }
}

/// The running task takes no more locks: from here on threads that want one of its locks wait until it has
/// released or passed it.
pub(crate) fn ending(task: &Task) {
    task.pi.begin_end();
}

/// The running task has recorded its end in the words of its robust list: the waiters for its locks get them.
/// If it executes another program it may own locks again.
#[inline]
pub(crate) fn ended(task: &Arc<Task>, goes_on: bool) {
    task.pi.end(goes_on, || {
        for bucket in &TABLE[..BUCKETS] {
            // Bound: the waiters of one chain, of which there are 256; a move of waiters takes two, in order;
            // all of them in turn, where one ends for whose lock another waits.
            while leave_one(&mut bucket.lock(), task) {}
        }
    });
}

/// Leaves one lock of `task` to its heir. Whether there was one.
fn leave_one(list: &mut [Standing], task: &Arc<Task>) -> bool {
    let of_task = |entry: &Standing| match &entry.role {
        Role::Lock(bond) => Arc::ptr_eq(&bond.owner, task),
        _ => false,
    };
    let Some(some) = list.iter().position(of_task) else {
        return false;
    };
    let lock = list[some].key;
    let Some(first) = best(list, |entry| entry.key == lock) else {
        return false;
    };
    let Role::Lock(bond) = core::mem::replace(&mut list[first].role, Role::Heir) else {
        return false;
    };
    let (key, waiter) = (list[first].key, list[first].waiter.clone());
    pass(list, key, task, &bond.waiter);
    drop(bond);
    waiter.inherits.store(true, Ordering::SeqCst);
    waiter.release();
    true
}

/// Sleeps while the word at `address` is `expected`, until a waker moves the thread to the lock at `target`,
/// and then until it has that. EINVAL, EAGAIN, ETIMEDOUT, EFAULT, ENOMEM.
pub fn wait_requeue(
    address: usize,
    target: usize,
    private: bool,
    expected: u32,
    deadline: Option<u64>,
) -> Result<usize> {
    if address == target {
        return Err(Errno::EINVAL);
    }
    let to = FutexKey::of(target, private)?;
    let from = FutexKey::of(address, private)?;
    let waiter = Waiter::new(from, FUTEX_BITSET_MATCH_ANY, Some(Task::current()))?;
    if user::get::<u32>(address)? != expected {
        return Err(Errno::EAGAIN);
    }
    if from == to {
        return Err(Errno::EINVAL);
    }
    begin(&waiter, from, Role::Moves(to), address, expected, deadline)?;
    let Err(ended) = sleep(|| waiter.is_woken(), deadline) else {
        return inherit(&waiter, to, target);
    };
    match (withdraw(&waiter), ended) {
        (None, _) => inherit(&waiter, to, target),
        (_, WaitEnded::TimedOut) => Err(Errno::ETIMEDOUT),
        (Some(Role::Moves(_)), _) => Err(Errno::ERESTARTNOINTR),
        // Made again, the call would find another word.
        _ => Err(Errno::EAGAIN),
    }
}

/// Gives the lock at `target` to the first waiter on the word at `address`, which is `expected`; up to
/// `moves` more wait for the lock from now on. Returns the number of waiters. EAGAIN, EINVAL, EDEADLK, ESRCH,
/// EFAULT.
pub fn requeue(
    address: usize,
    target: usize,
    private: bool,
    wakes: i32,
    moves: i32,
    expected: u32,
) -> Result<usize> {
    if wakes != 1 || moves < 0 || address == target {
        return Err(Errno::EINVAL);
    }
    let [from, to] = [
        FutexKey::of(address, private)?,
        FutexKey::of(target, private)?,
    ];
    if from == to {
        return Err(Errno::EINVAL);
    }
    let (source, index) = (from.bucket(), to.bucket());
    loop {
        let mut aside = None;
        let mut first = None;
        let mut buckets = Buckets::of([from, to]);
        if user::get::<u32>(address)? != expected {
            return Err(Errno::EAGAIN);
        }
        let Some(top) = next(buckets.at(source), from, to)? else {
            return Ok(0);
        };
        let task = buckets.at(source)[top].waiter.task.clone();
        let task = task.ok_or(Errno::EINVAL)?;
        let list = buckets.at(index);
        let (owner, taken) = match claim(list, to, target, &task, moves > 0, &mut aside)? {
            Claim::Taken => {
                let entry = buckets.at(source).remove(top);
                entry.waiter.release();
                first = Some(entry);
                (task, 1)
            }
            Claim::Behind(owner) => (owner, 0),
            Claim::Again => {
                drop((buckets, aside));
                look_again()?;
                continue;
            }
        };
        aside = Some(owner.clone());
        let mut count = taken;
        while count <= moves as usize
            && let Some(at) = next(buckets.at(source), from, to)?
            && try_reserve_kept(buckets.at(index), 1).is_ok()
        {
            let Some(task) = buckets.at(source)[at].waiter.task.clone() else {
                return Err(Errno::EINVAL);
            };
            let bond = PiState::new(owner.clone(), task);
            if !owner.pi.may_own() {
                break;
            }
            let entry = buckets.at(source).remove(at);
            entry.waiter.bucket.store(index, Ordering::Release);
            #[expect(clippy::disallowed_methods, reason = "room was made above")]
            buckets.at(index).push(Standing {
                key: to,
                role: Role::Lock(bond),
                waiter: entry.waiter,
            });
            count += 1;
        }
        drop((buckets, first, aside));
        return Ok(count);
    }
}

/// The index of the first waiter of `from`. EINVAL: it does not wait to be moved to `to`.
fn next(list: &[Standing], from: FutexKey, to: FutexKey) -> Result<Option<usize>> {
    let Some(at) = best(list, |entry| entry.key == from) else {
        return Ok(None);
    };
    match list[at].role {
        Role::Moves(key) if key == to => Ok(Some(at)),
        _ => Err(Errno::EINVAL),
    }
}
