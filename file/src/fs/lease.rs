//! Leases: a description's holder gets a signal before another process opens its file in a conflicting way.
//!
//! *Interface*: [`crate::event::lease`] takes, changes and releases the lease of a description, [`get`]
//! returns it; [`closed`] when the description ends. An open or truncation of a file first calls
//! [`break_for`], which notifies the holders and waits until none conflicts; [`settle`] handles an open in
//! between. [`BREAK_TIME`] is how long a holder may then keep it. While there is no lease anywhere this costs
//! a load and a branch, and nothing for the dispatchers' own opens: no path of the path cache leads to a file
//! with a lease.
//!
//! Source: fcntl(2), "Leases".

use abi::errno::{Errno, Result};
use abi::linux::*;
use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};
use machine::clock::now_ns;
use sync::{Monitor, WaitList};

use super::inode::Inode;
use crate::fs::file::OpenFile;
use crate::fs::file::fasync::MESSAGE;
use account::quota;
use account::user::Charge;
use thread::deadline::Deadline;
use vm::fallible::{try_insert, try_push};

/// File system and number.
pub(crate) type Id = (u64, u64);

/// Seconds that a holder may keep a lease that is being broken; 0 for no limit.
pub static BREAK_TIME: AtomicUsize = AtomicUsize::new(45);

const SECOND: u64 = 1_000_000_000;

/// One lease.
pub(crate) struct Lease {
    of: Weak<OpenFile>,
    /// The descriptor by which it was taken.
    fd: i32,
    kind: i32,
    /// The kind that it must become, and the time when it does so by itself (nanoseconds, 0 for never).
    breaking: Option<(i32, u64)>,
    _charge: Charge,
}

static LEASES: Monitor<BTreeMap<Id, Vec<Lease>>> = Monitor::new(BTreeMap::new());
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// The waiters for the release of a lease, of any file.
pub(crate) static WAITING: WaitList = WaitList::new();

/// Whether there is a lease.
#[inline]
pub fn any() -> bool {
    COUNT.load(Ordering::SeqCst) != 0
}

impl Lease {
    pub(crate) fn is_of(&self, of: &OpenFile) -> bool {
        core::ptr::eq(self.of.as_ptr(), of)
    }

    /// Whether it does not go with an open that writes or not.
    fn excludes(&self, writes: bool) -> bool {
        writes || self.kind == F_WRLCK
    }

    /// Its kind, after a pending change.
    fn target(&self) -> i32 {
        self.breaking.map_or(self.kind, |(target, _)| target)
    }
}

/// Whether opening with `flags` writes.
fn writes(flags: u32) -> bool {
    flags & O_ACCMODE != O_RDONLY
}

/// Removes the first lease of `id` for which `gone` holds, and wakes the waiters. Returns that lease.
pub(crate) fn take(id: Id, gone: impl Fn(&Lease) -> bool) -> Option<Lease> {
    // Bound: **global**: **linear** in the leases of one file.
    let mut leases = LEASES.lock();
    let list = leases.get_mut(&id)?;
    let at = list.iter().position(gone)?;
    let taken = list.swap_remove(at);
    COUNT.fetch_sub(1, Ordering::SeqCst);
    if list.is_empty() {
        leases.remove(&id);
    }
    drop(leases);
    WAITING.wake_all();
    Some(taken)
}

/// Breaks the leases of `id` whose time has come.
pub(crate) fn expire(id: Id) {
    let now = now_ns();
    let due = |at: u64| at != 0 && at <= now;
    let over = |lease: &Lease| matches!(lease.breaking, Some((target, at)) if target == F_UNLCK && due(at));
    while let Some(lease) = take(id, over) {
        disown(&lease);
    }
    let mut leases = LEASES.lock();
    for lease in leases.get_mut(&id).into_iter().flatten() {
        if let Some((target, at)) = lease.breaking
            && due(at)
        {
            (lease.kind, lease.breaking) = (target, None);
        }
    }
    drop(leases);
    WAITING.wake_all();
}

/// A description without a lease does not use the signal that was chosen for it.
pub(crate) fn disown(lease: &Lease) {
    if let Some(of) = lease.of.upgrade()
        && let Some(told) = of.fasync()
    {
        told.disown();
    }
}

/// The lease of `of`: `F_UNLCK` for none, or the kind that it must become.
pub fn get(of: &OpenFile) -> i32 {
    let Some(inode) = of.inode().filter(|_| any()) else {
        return F_UNLCK;
    };
    let id = inode.id();
    expire(id);
    let leases = LEASES.lock();
    let list = leases.get(&id);
    let own = list.and_then(|list| list.iter().find(|lease| lease.is_of(of)));
    own.map_or(F_UNLCK, Lease::target)
}

/// Records the lease; returns the former lease of `of`. EAGAIN beside leases of others, ENOMEM.
pub(crate) fn enter(of: &Arc<OpenFile>, fd: i32, id: Id, kind: i32) -> Result<Option<i32>> {
    let charge = quota::watch().map_err(|_| Errno::ENOMEM)?;
    let mut leases = LEASES.lock();
    let list = leases.get_mut(&id);
    let others = list.iter().flat_map(|list| list.iter());
    let mut others = others.filter(|lease| !lease.is_of(of));
    if others.any(|lease| kind == F_WRLCK || lease.target() == F_UNLCK) {
        return Err(Errno::EAGAIN);
    }
    if let Some(list) = list
        && let Some(own) = list.iter_mut().find(|lease| lease.is_of(of))
    {
        let before = core::mem::replace(&mut own.kind, kind);
        // A lease that must be released still exists.
        own.breaking = own.breaking.filter(|&(target, _)| target != kind);
        return Ok(Some(before));
    }
    let lease = Lease {
        of: Arc::downgrade(of),
        fd,
        kind,
        breaking: None,
        _charge: charge,
    };
    match leases.get_mut(&id) {
        Some(list) => try_push(list, lease)?,
        None => {
            let mut list = Vec::new();
            try_push(&mut list, lease)?;
            try_insert(&mut leases, id, list)?;
        }
    }
    COUNT.fetch_add(1, Ordering::SeqCst);
    Ok(None)
}

/// The lease of `of` becomes one of `kind`.
pub(crate) fn change(id: Id, of: &OpenFile, kind: i32) {
    let mut leases = LEASES.lock();
    let own = leases.get_mut(&id).into_iter().flatten();
    for lease in own.filter(|lease| lease.is_of(of)) {
        lease.kind = kind;
    }
}

/// Notifies the holders of leases of `id` that conflict with an open that is `writing` or not; returns
/// whether there are any left.
fn tell(id: Id, writing: bool) -> bool {
    expire(id);
    let ends = match BREAK_TIME.load(Ordering::Relaxed) as u64 {
        0 => 0,
        seconds => now_ns().saturating_add(seconds.saturating_mul(SECOND)),
    };
    let target = if writing { F_UNLCK } else { F_RDLCK };
    loop {
        let mut leases = LEASES.lock();
        let Some(list) = leases.get_mut(&id) else {
            return false;
        };
        let mut there = false;
        let mut next = None;
        for lease in list.iter_mut().filter(|lease| lease.excludes(writing)) {
            there = true;
            let asked = lease
                .breaking
                .is_some_and(|(to, _)| to == F_UNLCK || to == target);
            if !asked {
                lease.breaking = Some((target, ends));
                next = Some((lease.of.clone(), lease.fd));
                break;
            }
        }
        drop(leases);
        let Some((of, fd)) = next else {
            return there;
        };
        if let Some(of) = of.upgrade()
            && let Some(told) = of.fasync()
        {
            told.send(fd, MESSAGE);
        }
    }
}

/// When the next lease of `id` that is in the way is broken without its holder.
fn next_end(id: Id, writing: bool) -> Deadline {
    let leases = LEASES.lock();
    let list = leases.get(&id).into_iter().flatten();
    let ends = list.filter(|lease| lease.excludes(writing));
    let ends = ends.filter_map(|lease| lease.breaking.map(|(_, at)| at).filter(|&at| at != 0));
    ends.min().map_or(Deadline::never(), Deadline::at_ns)
}

/// Waits until no lease is in the way of opening `inode` with `flags`. EAGAIN with `O_NONBLOCK`; ERESTARTSYS.
#[inline]
pub fn break_for(inode: &Arc<dyn Inode>, flags: u32) -> Result<()> {
    if any() { wait(inode, flags) } else { Ok(()) }
}

#[cold]
fn wait(inode: &Arc<dyn Inode>, flags: u32) -> Result<()> {
    let (id, writing) = (inode.id(), writes(flags));
    while tell(id, writing) {
        if flags & O_NONBLOCK != 0 {
            return Err(Errno::EAGAIN);
        }
        let deadline = next_end(id, writing);
        let _alarm = deadline.alarm()?;
        let free = || {
            let leases = LEASES.lock();
            let mut list = leases.get(&id).into_iter().flatten();
            !list.any(|lease| lease.excludes(writing))
        };
        let done = || (free() || deadline.has_passed()).then_some(());
        let waited = WAITING.wait_interruptible(done);
        waited.map_err(|_| Errno::ERESTARTSYS)?;
    }
    Ok(())
}

/// `of` has its descriptor: notifies the holder of a lease that was taken meanwhile.
#[inline]
pub fn settle(of: &OpenFile) {
    if any()
        && of.flags() & O_PATH == 0
        && let Some(inode) = of.inode()
        && has_of_others(inode.id(), of)
    {
        tell(inode.id(), writes(of.flags()));
    }
}

fn has_of_others(id: Id, of: &OpenFile) -> bool {
    let leases = LEASES.lock();
    let mut list = leases.get(&id).into_iter().flatten();
    list.any(|lease| !lease.is_of(of))
}

/// Whether no path of the path cache may lead to `inode`.
#[inline]
pub fn covers(inode: &dyn Inode) -> bool {
    any() && LEASES.lock().contains_key(&inode.id())
}

/// The last descriptor of `of` is gone.
#[inline]
pub fn closed(of: &OpenFile) {
    if any() {
        end_of(of);
    }
}

/// Drops the lease that was taken by `of`, if there is one.
#[cold]
fn end_of(of: &OpenFile) {
    if let Some(inode) = of.inode() {
        drop(take(inode.id(), |lease| lease.is_of(of)));
    }
}
