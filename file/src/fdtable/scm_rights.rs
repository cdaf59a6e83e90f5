//! SCM_RIGHTS: descriptors in flight through sockets, and the garbage collection of unreachable ones.
//!
//! *Interface*: [`ScmRights`] are the descriptors of one message: in flight from [`ScmRights::new`] until
//! [`ScmRights::land`] or the drop. A socket is a [`FdCarrier`]. [`collect`] finds sockets that are in flight
//! and nowhere else, only in channels of such sockets, and drops the contents of these channels.
//! [`RemovedFile`] is what a table no longer has; [`RemovedFile::release`] does the steps of a descriptor's
//! close.
//!
//! A socket's description in flight is in the table, with the number of its counts that are in flight. A
//! description whose counts are all in flight is a candidate. A candidate with more counts than are found in
//! the candidates' channels is reachable, and so are the descriptions in its channels. The others are
//! garbage. A message that a thread is handling is in no channel and keeps its descriptors. Taking a
//! descriptor out of flight takes the table's monitor, so nothing changes during the collection.
//!
//! A chain of sockets, each in flight in the next, is freed link by link, without recursion
//! ([`free_deferred`]).
//!
//! Monitors: with the table held nothing is allocated or dropped, since a dropped object may take it too.
//!
//! Source: unix(7); mark and sweep over references that are counted (as in Linux's `net/unix/garbage.c`, in
//! words).
//!
//! *Unsafe*: a count given up after a grace period; a list inside the inode.
#![expect(clippy::disallowed_methods, reason = "room is made before")]

use abi::errno::{Errno, Result};
use alloc::boxed::Box;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use sync::{Monitor, epoch};

use crate::close_cleanup;
use crate::fs::file::{OpenFile, fasync};
use crate::fs::lock;
use account::quota;
use account::user::Charge;
use vm::fallible::roomy;
use vm::fallible::{try_box, try_reserve};

/// A file with channels of messages, in which descriptors are in flight: a socket.
pub trait FdCarrier: Send + Sync {
    /// Calls `step` with the descriptors of each message.
    fn each(&self, step: &mut dyn FnMut(&ScmRights));
    /// Calls `take` with those of each message, which it may take.
    fn take(&self, take: &mut dyn FnMut(&mut Option<ScmRights>));
}

/// Descriptors of one message.
struct Load {
    files: Vec<Arc<OpenFile>>,
    /// Whether there are carriers among them.
    carriers: bool,
    /// The load that was buried, or found to be garbage, before.
    before: Option<Box<Load>>,
    _charge: Charge,
}

/// The descriptors of one message, in flight.
pub struct ScmRights(Option<Box<Load>>);

/// A socket in flight.
struct Flying {
    /// Address of its description, by which the table is ordered.
    key: usize,
    of: Weak<OpenFile>,
    carrier: Arc<dyn FdCarrier>,
    /// Counts in flight.
    flying: usize,
    /// The counts that are not in a candidate's channel.
    outside: usize,
    candidate: bool,
    reached: bool,
    /// The next reached candidate whose channels must be scanned.
    next: Option<usize>,
}

/// The sockets in flight.
struct Flight(Vec<Flying>);

static FLIGHT: Monitor<Flight> = Monitor::new(Flight(Vec::new()));
/// How many there are.
static SOCKETS: AtomicUsize = AtomicUsize::new(0);

/// Loads of discarded messages.
struct DeferredFrees(Option<Box<Load>>);

static DEFERRED: Monitor<DeferredFrees> = Monitor::new(DeferredFrees(None));
static FREEING: AtomicBool = AtomicBool::new(false);
static COLLECTING: AtomicBool = AtomicBool::new(false);

fn key(of: &Arc<OpenFile>) -> usize {
    Arc::as_ptr(of).addr()
}

impl Flight {
    fn find(&self, key: usize) -> core::result::Result<usize, usize> {
        self.0.binary_search_by_key(&key, |flying| flying.key)
    }

    /// Calls `step` with the places of all candidates in channels of the candidate at `at`.
    fn each_child(&mut self, at: usize, mut step: impl FnMut(&mut Flying, usize)) {
        let Some(carrier) = self.0.get(at).map(|flying| flying.carrier.clone()) else {
            return;
        };
        carrier.each(&mut |rights| {
            for of in rights.files() {
                if let Ok(place) = self.find(key(of))
                    && let Some(child) = self.0.get_mut(place)
                    && child.candidate
                {
                    step(child, place);
                }
            }
        });
    }
}

impl ScmRights {
    /// Puts `files` into flight, of which some are carriers, as `carrier` says. ETOOMANYREFS: too many of the
    /// user's are; ENOMEM.
    pub fn new(
        files: Vec<Arc<OpenFile>>,
        carrier: impl Fn(&OpenFile) -> Option<Arc<dyn FdCarrier>>,
    ) -> Result<ScmRights> {
        let charge = match quota::in_flight(files.len() as u64) {
            Err(Errno::ETOOMANYREFS) => {
                collect();
                quota::in_flight(files.len() as u64)?
            }
            other => other?,
        };
        let mut load = try_box(Load {
            files,
            carriers: false,
            before: None,
            _charge: charge,
        })?;
        let mut flight = roomy(&FLIGHT, |flight| &mut flight.0, load.files.len())?;
        let mut carriers = false;
        for of in &load.files {
            of.slots.fetch_add(1, Ordering::AcqRel);
            let Some(carrier) = carrier(of) else {
                continue;
            };
            carriers = true;
            match flight.find(key(of)) {
                Ok(at) => {
                    if let Some(flying) = flight.0.get_mut(at) {
                        flying.flying += 1;
                    }
                }
                Err(at) => flight.0.insert(
                    at,
                    Flying {
                        key: key(of),
                        of: Arc::downgrade(of),
                        carrier,
                        flying: 1,
                        outside: 0,
                        candidate: false,
                        reached: false,
                        next: None,
                    },
                ),
            }
        }
        load.carriers = carriers;
        SOCKETS.store(flight.0.len(), Ordering::SeqCst);
        drop(flight);
        Ok(ScmRights(Some(load)))
    }

    fn files(&self) -> &[Arc<OpenFile>] {
        self.0.as_ref().map_or(&[], |load| &load.files)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.files().len()
    }

    /// Further counts of them, for a peek. ENOMEM.
    pub fn copy(&self) -> Result<Vec<Arc<OpenFile>>> {
        let mut files = Vec::new();
        if let Some(load) = &self.0 {
            try_reserve(&mut files, load.files.len())?;
            files.extend(load.files.iter().cloned());
        }
        Ok(files)
    }

    /// Takes them out of flight. Each has been given a further descriptor, or is let go by [`let_go`].
    pub fn land(mut self) -> Vec<Arc<OpenFile>> {
        let Some(mut load) = self.0.take() else {
            return Vec::new();
        };
        leave(&load);
        core::mem::take(&mut load.files)
    }
}

/// The files of `load` are no longer in flight.
fn leave(load: &Load) {
    for of in load.files.iter().filter(|_| load.carriers) {
        let mut gone = None;
        // Bound: **global**: one message with sockets among its descriptors; at the close of a socket while
        // any are in flight, **linear** in these and in the messages to them.
        let mut flight = FLIGHT.lock();
        if let Ok(at) = flight.find(key(of))
            && let Some(flying) = flight.0.get_mut(at)
        {
            flying.flying -= 1;
            if flying.flying == 0 {
                gone = Some(flight.0.remove(at));
            }
        }
        SOCKETS.store(flight.0.len(), Ordering::SeqCst);
        drop(flight);
        drop(gone);
    }
}

/// Lets a description go that was in flight, as the close of a descriptor does.
pub fn let_go(of: Arc<OpenFile>) {
    RemovedFile::unowned(of).release();
}

impl Drop for ScmRights {
    fn drop(&mut self) {
        if let Some(load) = self.0.take() {
            leave(&load);
            free_deferred(load);
        }
    }
}

/// Drops the contents of `load`: now, or, if a thread is already dropping loads (perhaps the one that held
/// this), when that thread is done.
fn free_deferred(mut load: Box<Load>) {
    // Bound: a few words.
    let mut graves = DEFERRED.lock();
    load.before = graves.0.take();
    graves.0 = Some(load);
    drop(graves);
    loop {
        if FREEING.swap(true, Ordering::SeqCst) {
            return;
        }
        while let Some(mut load) = next_deferred() {
            core::mem::take(&mut load.files)
                .into_iter()
                .for_each(let_go);
        }
        FREEING.store(false, Ordering::SeqCst);
        let graves = DEFERRED.lock();
        let empty = graves.0.is_none();
        drop(graves);
        if empty {
            return;
        }
    }
}

fn next_deferred() -> Option<Box<Load>> {
    let mut graves = DEFERRED.lock();
    let mut load = graves.0.take()?;
    graves.0 = load.before.take();
    Some(load)
}

/// Frees unreachable sockets in flight. Nothing is allocated, so it works when memory is short.
#[inline]
pub fn collect() {
    // Each close asks, and mostly there are none.
    if SOCKETS.load(Ordering::SeqCst) != 0 {
        collect_some();
    }
}

#[cold]
#[inline(never)]
fn collect_some() {
    if COLLECTING.swap(true, Ordering::SeqCst) {
        return;
    }
    let mut garbage = sweep();
    COLLECTING.store(false, Ordering::SeqCst);
    while let Some(mut load) = garbage {
        garbage = load.before.take();
        drop(ScmRights(Some(load)));
    }
}

/// The contents of the channels of garbage.
fn sweep() -> Option<Box<Load>> {
    let mut garbage = None;
    let mut flight = FLIGHT.lock();
    mark(&mut flight);
    for flying in &flight.0 {
        if flying.candidate && !flying.reached {
            flying.carrier.take(&mut |rights| {
                if let Some(mut rights) = rights.take()
                    && let Some(mut load) = rights.0.take()
                {
                    load.before = garbage.take();
                    garbage = Some(load);
                }
            });
        }
    }
    drop(flight);
    garbage
}

/// Says of each socket in flight whether it can be reached.
fn mark(flight: &mut Flight) {
    for flying in &mut flight.0 {
        flying.candidate = flying.of.strong_count() == flying.flying;
        flying.outside = flying.flying;
        flying.reached = false;
    }
    for at in 0..flight.0.len() {
        if flight.0.get(at).is_some_and(|flying| flying.candidate) {
            flight.each_child(at, |child, _| {
                child.outside = child.outside.saturating_sub(1)
            });
        }
    }
    let mut todo = None;
    for (at, flying) in flight.0.iter_mut().enumerate() {
        if flying.candidate && flying.outside > 0 {
            flying.reached = true;
            flying.next = todo.replace(at);
        }
    }
    while let Some(at) = todo {
        todo = flight.0.get_mut(at).and_then(|flying| flying.next.take());
        flight.each_child(at, |child, place| {
            if !child.reached {
                child.reached = true;
                child.next = todo.replace(place);
            }
        });
    }
}

/// A description that was taken out of a table, with the count that it had there.
pub struct RemovedFile {
    pub(super) of: Arc<OpenFile>,
    /// The table's thread was alone: no other thread can be about to use the description through the table.
    pub(super) alone: bool,
    /// The owner of the table's locks.
    pub(super) owner: usize,
}

impl RemovedFile {
    /// It was not in a table, but counted as a descriptor: no thread can be about to use this count.
    pub fn unowned(of: Arc<OpenFile>) -> RemovedFile {
        RemovedFile {
            of,
            alone: true,
            owner: 0,
        }
    }

    /// Does the work of a descriptor's close: notes, locks, and after the last descriptor the end of the
    /// description, or its move to the inactive list.
    #[inline]
    pub fn release(self) {
        let of = self.of;
        of.slots.fetch_sub(1, Ordering::AcqRel);
        if of.writable() {
            of.file().settle(&of);
        }
        if close_cleanup::any() {
            cut(self.owner, &of);
        }
        if !self.alone {
            if Arc::strong_count(&of) == 1 {
                of.finish();
            }
            epoch::retire(
                // SAFETY: the argument is the count given up below, and the callback runs once.
                |raw| give_up(unsafe { Arc::from_raw(raw as *const OpenFile) }),
                Arc::into_raw(of) as usize,
            );
        } else if Arc::strong_count(&of) != 1 {
            give_up(of);
        } else if let Some(list) = of.list_for(of.flags()).filter(|list| list.admitted()) {
            let list = core::ptr::from_ref(list);
            // The count of the inode, which owns the list, outlasts the count that `put` may pass on.
            let _inode = of.inode().cloned();
            let mode = of.flags() & abi::linux::O_ACCMODE;
            // SAFETY: `_inode` keeps the list.
            drop(unsafe { &*list }.put(mode, of));
        } else {
            drop(of.park());
        }
    }
}

/// The table whose locks are `owner`'s has closed a descriptor of `of`.
#[cold]
fn cut(owner: usize, of: &OpenFile) {
    lock::descriptor_closed(owner, of);
    fasync::end_notice(of, owner);
    of.file().descriptor_closed();
}

/// Gives up a count, which may have been the last by which a socket could be reached that is on its way in a
/// message.
fn give_up(of: Arc<OpenFile>) {
    drop(of);
    collect();
}
