//! Descriptors in flight through channels, and the collection of unreachable ones.
//!
//! *Interface*: [`Rights`] are the descriptors of one message: in flight from [`Rights::new`] until
//! [`Rights::land`] or the drop. [`collect`] finds sockets that are in flight and nowhere else, only in
//! channels of such sockets, and drops the contents of these channels.
//!
//! A socket's description in flight is in the table, with the number of its counts that are in flight. A
//! description whose counts are all in flight is a candidate. A candidate with more counts than are found in
//! the candidates' channels is reachable, and so are the descriptions in its channels. The others are
//! garbage. A message that a thread is handling is in no channel and keeps its descriptors. Taking a
//! descriptor out of flight takes the table's monitor, so nothing changes during the collection.
//!
//! A chain of sockets, each in flight in the next, is freed link by link, without recursion ([`bury`]).
//!
//! Monitors: with the table held nothing is allocated or dropped, since a dropped object may take it too.
//!
//! Source: unix(7); mark and sweep over references that are counted (as in Linux's `net/unix/garbage.c`, in
//! words).
#![expect(clippy::disallowed_methods, reason = "room is made before")]

use abi::errno::{Errno, Result};
use alloc::boxed::Box;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use sync::Monitor;

use super::{Channel, Socket};
use crate::file::OpenFile;
use crate::files::Taken;
use account::quota;
use account::user::Charge;
use vm::fallible::roomy;
use vm::fallible::{try_box, try_reserve};

/// Descriptors of one message.
struct Load {
    files: Vec<Arc<OpenFile>>,
    /// The load that was buried, or found to be garbage, before.
    before: Option<Box<Load>>,
    _charge: Charge,
}

/// The descriptors of one message, in flight.
pub struct Rights(Option<Box<Load>>);

/// A socket in flight.
struct Flying {
    /// Address of its description, by which the table is ordered.
    key: usize,
    of: Weak<OpenFile>,
    socket: Arc<Socket>,
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
struct Graves(Option<Box<Load>>);

static GRAVES: Monitor<Graves> = Monitor::new(Graves(None));
static DIGGING: AtomicBool = AtomicBool::new(false);
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
        let Some(socket) = self.0.get(at).map(|flying| flying.socket.clone()) else {
            return;
        };
        each_load(&socket, &mut |load| {
            for of in &load.files {
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

/// Calls `step` with each load in the channels of `socket`.
fn each_load(socket: &Socket, step: &mut dyn FnMut(&Load)) {
    let mut look = |channel: &Channel| {
        channel.look(|records| {
            let rights = records
                .iter()
                .filter_map(|record| record.along.rights.as_ref());
            rights
                .filter_map(|rights| rights.0.as_deref())
                .for_each(&mut *step);
        });
    };
    look(&socket.inbox);
    if let Some(backlog) = socket.backlog() {
        backlog.look(|waiting| look(&waiting.inbox));
    }
}

impl Rights {
    /// Puts `files` into flight. ETOOMANYREFS: too many of the user's are; ENOMEM.
    pub fn new(files: Vec<Arc<OpenFile>>) -> Result<Rights> {
        let charge = match quota::flight(files.len() as u64) {
            Err(Errno::ETOOMANYREFS) => {
                collect();
                quota::flight(files.len() as u64)?
            }
            other => other?,
        };
        let load = try_box(Load {
            files,
            before: None,
            _charge: charge,
        })?;
        let mut flight = roomy(&FLIGHT, |flight| &mut flight.0, load.files.len())?;
        for of in &load.files {
            of.slots.fetch_add(1, Ordering::AcqRel);
            let Ok(socket) = Socket::of(of) else {
                continue;
            };
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
                        socket: socket.clone(),
                        flying: 1,
                        outside: 0,
                        candidate: false,
                        reached: false,
                        next: None,
                    },
                ),
            }
        }
        SOCKETS.store(flight.0.len(), Ordering::SeqCst);
        drop(flight);
        Ok(Rights(Some(load)))
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.as_ref().map_or(0, |load| load.files.len())
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
        leave(&load.files);
        core::mem::take(&mut load.files)
    }
}

/// `files` are no longer in flight.
fn leave(files: &[Arc<OpenFile>]) {
    for of in files.iter().filter(|of| Socket::of(of).is_ok()) {
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
    Taken::unowned(of).release();
}

impl Drop for Rights {
    fn drop(&mut self) {
        if let Some(load) = self.0.take() {
            leave(&load.files);
            bury(load);
        }
    }
}

/// Drops the contents of `load`: now, or, if a thread is already dropping loads (perhaps the one that held
/// this), when that thread is done.
fn bury(mut load: Box<Load>) {
    // Bound: a few words.
    let mut graves = GRAVES.lock();
    load.before = graves.0.take();
    graves.0 = Some(load);
    drop(graves);
    loop {
        if DIGGING.swap(true, Ordering::SeqCst) {
            return;
        }
        while let Some(mut load) = unearth() {
            core::mem::take(&mut load.files)
                .into_iter()
                .for_each(let_go);
        }
        DIGGING.store(false, Ordering::SeqCst);
        let graves = GRAVES.lock();
        let empty = graves.0.is_none();
        drop(graves);
        if empty {
            return;
        }
    }
}

fn unearth() -> Option<Box<Load>> {
    let mut graves = GRAVES.lock();
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
        drop(Rights(Some(load)));
    }
}

/// The contents of the channels of garbage.
fn sweep() -> Option<Box<Load>> {
    let mut garbage = None;
    let mut flight = FLIGHT.lock();
    mark(&mut flight);
    for flying in &flight.0 {
        if flying.candidate && !flying.reached {
            take_loads(&flying.socket, &mut garbage);
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

/// Takes the loads out of the channels of `socket`.
fn take_loads(socket: &Socket, into: &mut Option<Box<Load>>) {
    let mut take = |channel: &Channel| {
        channel.change(|record| {
            if let Some(mut rights) = record.along.rights.take()
                && let Some(mut load) = rights.0.take()
            {
                load.before = into.take();
                *into = Some(load);
            }
        });
    };
    take(&socket.inbox);
    if let Some(backlog) = socket.backlog() {
        backlog.look(|waiting| take(&waiting.inbox));
    }
}
