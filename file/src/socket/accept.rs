//! Connections: `listen`, `connect`, `accept`.
//!
//! *Interface*: the methods of [`Socket`] with these names. A connection is made whole by `connect`: the
//! other end is a new socket, which waits in the listener's [`Backlog`] for `accept`.
#![expect(clippy::disallowed_methods, reason = "room is made by `roomy` before")]

use abi::errno::{Errno, Result};
use abi::linux::*;
use account::caller;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use sync::{Monitor, WaitList};

use super::channel::Queues;
use super::{CloseKind, NO_READ, NeedsName, PeerProcess, Socket, SocketType};
use vm::fallible::{Growing, roomy};

/// Connections that are not accepted yet.
struct Waiting {
    list: VecDeque<Arc<Socket>>,
    /// Places for others that are on their way; there is room for them.
    claims: usize,
}

impl Growing for Waiting {
    fn roomy(count: usize) -> Result<Self> {
        let list = Growing::roomy(count)?;
        Ok(Waiting { list, claims: 0 })
    }

    fn count(&self) -> usize {
        self.list.len() + self.claims
    }

    fn room(&self) -> usize {
        self.list.capacity()
    }

    fn move_to(&mut self, other: &mut Self) {
        self.list.move_to(&mut other.list);
        other.claims = self.claims;
    }
}

/// The additional state of a listener.
pub struct Backlog {
    waiting: Monitor<Waiting>,
    /// So many may wait, and one more.
    most: AtomicUsize,
    /// Those that wait, and claims.
    count: AtomicUsize,
    /// A thread waits.
    some: AtomicBool,
    closed: AtomicBool,
    /// Woken when there is room for another.
    room: WaitList,
    /// The listening process.
    party: Monitor<PeerProcess>,
}

impl Backlog {
    fn new(most: usize) -> Backlog {
        Backlog {
            waiting: Monitor::new(Waiting {
                list: VecDeque::new(),
                claims: 0,
            }),
            most: AtomicUsize::new(most),
            count: AtomicUsize::new(0),
            some: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            room: WaitList::new(),
            party: Monitor::new(PeerProcess::current()),
        }
    }

    /// The listening process.
    pub fn party(&self) -> PeerProcess {
        // Bound: copying one counted handle.
        self.party.lock().clone()
    }

    /// How many may wait, and how many do.
    pub fn counts(&self) -> (usize, usize) {
        let most = self.most.load(Ordering::SeqCst);
        (most, self.count.load(Ordering::SeqCst))
    }

    fn is_full(&self) -> bool {
        let (most, count) = self.counts();
        count > most
    }

    /// Connections are welcome again.
    fn open_again(&self) {
        self.closed.store(false, Ordering::SeqCst);
    }

    /// No more connections are made here.
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.room.wake_all();
    }

    /// Whether it is closed to connections.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Whether a thread waits.
    pub fn has_some(&self) -> bool {
        self.some.load(Ordering::SeqCst)
    }

    /// Claims a place for a connection, `beyond` those that may wait too. ECONNREFUSED, EAGAIN, ENOMEM.
    pub(super) fn claim(&self, beyond: bool) -> Result<()> {
        let mut waiting = roomy(&self.waiting, |waiting| waiting, 1)?;
        let count = waiting.count();
        let refusal = match () {
            () if self.is_closed() => Some(Errno::ECONNREFUSED),
            () if !beyond && count > self.most.load(Ordering::SeqCst) => Some(Errno::EAGAIN),
            () => None,
        };
        if let Some(error) = refusal {
            drop(waiting);
            return Err(error);
        }
        waiting.claims += 1;
        self.count.store(count + 1, Ordering::SeqCst);
        drop(waiting);
        Ok(())
    }

    /// Puts `socket` where a place was claimed. Whether it is among those that may wait. The listener may
    /// have gone.
    pub(super) fn put(&self, socket: &Arc<Socket>) -> bool {
        // Bound: one connection; when the list grows, moving it: at most 4097; a look for garbage, the
        // messages in all of them.
        let mut waiting = self.waiting.lock();
        waiting.claims = waiting.claims.saturating_sub(1);
        if !self.is_closed() {
            let before = waiting.list.len();
            waiting.list.push_back(socket.clone());
            self.some.store(true, Ordering::SeqCst);
            drop(waiting);
            return before <= self.most.load(Ordering::SeqCst);
        }
        drop(waiting);
        socket.refuse();
        true
    }

    /// Gives a place back that was claimed.
    pub(super) fn renounce(&self) {
        let mut waiting = self.waiting.lock();
        waiting.claims = waiting.claims.saturating_sub(1);
        self.count_again(&waiting);
        drop(waiting);
        self.room.wake_all();
    }

    fn count_again(&self, waiting: &Waiting) {
        self.count.store(waiting.count(), Ordering::SeqCst);
        self.some.store(!waiting.list.is_empty(), Ordering::SeqCst);
    }

    /// Takes the first one. The next one beyond those that might wait may wait now.
    pub fn take(&self) -> Option<Arc<Socket>> {
        let mut waiting = self.waiting.lock();
        let first = waiting.list.pop_front();
        let next = waiting.list.get(self.most.load(Ordering::SeqCst)).cloned();
        self.count_again(&waiting);
        drop(waiting);
        self.room.wake_all();
        if let Some(next) = next {
            next.family.admitted(&next);
        }
        first
    }

    /// Takes `socket` out, for which no thread waits any more.
    pub(super) fn withdraw(&self, socket: &Arc<Socket>) -> bool {
        let mut waiting = self.waiting.lock();
        let at = waiting
            .list
            .iter()
            .position(|other| Arc::ptr_eq(other, socket));
        let gone = at.and_then(|at| waiting.list.remove(at));
        self.count_again(&waiting);
        drop(waiting);
        gone.is_some()
    }

    /// So many may wait from now on.
    fn set_most(&self, most: usize) {
        let before = self.most.swap(most, Ordering::SeqCst);
        for place in before..most {
            let waiting = self.waiting.lock();
            let next = waiting.list.get(place + 1).cloned();
            drop(waiting);
            match next {
                Some(next) => next.family.admitted(&next),
                None => break,
            }
        }
        self.room.wake_all();
    }

    /// Looks at all.
    pub fn look(&self, look: impl FnMut(&Arc<Socket>)) {
        self.waiting.lock().list.iter().for_each(look);
    }
}

impl Socket {
    /// `bind`. EINVAL, EADDRINUSE, …
    pub fn bind(self: &Arc<Self>, address: &[u8]) -> Result<()> {
        self.family.bind(self, address)
    }

    /// `listen`. EOPNOTSUPP, EINVAL.
    pub fn listen(self: &Arc<Self>, backlog: i32) -> Result<()> {
        if !self.kind.connects() {
            return Err(Errno::EOPNOTSUPP);
        }
        if self.name.get().is_none() {
            self.family.name(self, NeedsName::Listen)?;
        }
        let most = (backlog as u32).min(SOMAXCONN as u32) as usize;
        // Bound: making two queues and linking two sockets; only calls that bind or connect the same socket.
        let turn = self.turn.lock();
        if self.link().is_some() || self.family.is_connecting(self) {
            return Err(Errno::EINVAL);
        }
        self.family.listens(self)?;
        let new = self.backlog.set(Backlog::new(most)).is_ok();
        drop(turn);
        if let (false, Some(known)) = (new, self.backlog()) {
            let party = PeerProcess::current();
            // Bound: exchanging one counted handle.
            let old = core::mem::replace(&mut *known.party.lock(), party);
            drop(old);
            known.set_most(most);
            if known.is_closed() && !self.family.refuses_after_shutdown() {
                self.shut.store(0, Ordering::SeqCst);
                known.open_again();
            }
        }
        self.changes.wake_all();
        Ok(())
    }

    /// `connect`. Errors of connect(2).
    pub fn connect(self: &Arc<Self>, address: &[u8], nonblocking: bool) -> Result<()> {
        self.family.connect(self, address, nonblocking)
    }

    /// As [`Socket::connect`], if the family has nothing to say.
    pub(super) fn connect_plainly(
        self: &Arc<Self>,
        address: &[u8],
        nonblocking: bool,
    ) -> Result<()> {
        if self.kind == SocketType::Datagram {
            return self.aim(address);
        }
        if self.name.get().is_none() {
            self.family.name(self, NeedsName::Reach)?;
        }
        let patience = self.patience(nonblocking, &self.options.send_timeout);
        loop {
            // Made first, so that nothing can fail half-way.
            let other = Socket::new(self.family, self.kind, self.protocol)?;
            let listener = self.family.find(self, address)?;
            let backlog = listener.backlog().ok_or(Errno::ECONNREFUSED)?;
            if backlog.is_closed() {
                return Err(Errno::ECONNREFUSED);
            }
            if backlog.is_full() {
                patience.wait(&backlog.room, || !backlog.is_full() || backlog.is_closed())?;
                continue;
            }
            let turn = self.turn.lock();
            if self.link().is_some() {
                return Err(Errno::EISCONN);
            }
            if self.backlog().is_some() {
                return Err(Errno::EINVAL);
            }
            match backlog.claim(false) {
                // Another thread was faster.
                Err(Errno::EAGAIN) => continue,
                other => other?,
            }
            let queues = match Queues::new(self.kind) {
                Ok(queues) => queues,
                Err(error) => {
                    backlog.renounce();
                    return Err(error);
                }
            };
            if let Some(name) = listener.name.get() {
                // It is new.
                let _none = other.name.set(name.clone());
            }
            other.options.inherit(&listener.options);
            other.waits.store(true, Ordering::SeqCst);
            self.connect_to(&other, queues, backlog.party(), PeerProcess::current());
            backlog.put(&other);
            drop(turn);
            listener.inbox.wake_readers();
            self.tell();
            return Ok(());
        }
    }

    /// It waited to be accepted, and will not be.
    pub(super) fn refuse(&self) {
        self.family.ends(self, CloseKind::Broken);
        self.close();
    }

    /// `accept`: the next connection. EOPNOTSUPP, EINVAL, EAGAIN, EINTR.
    pub fn accept(&self, nonblocking: bool) -> Result<Arc<Socket>> {
        if !self.kind.connects() {
            return Err(Errno::EOPNOTSUPP);
        }
        let backlog = self.backlog().ok_or(Errno::EINVAL)?;
        let patience = self.patience(nonblocking, &self.options.receive_timeout);
        loop {
            if let Some(socket) = backlog.take() {
                socket.waits.store(false, Ordering::SeqCst);
                socket.follow_credentials();
                socket.family.accepted(&socket);
                let cred = caller::cred();
                socket.inode.belong_to(cred.fsuid, cred.fsgid);
                return Ok(socket);
            }
            if self.shut.load(Ordering::SeqCst) & NO_READ != 0 {
                return Err(Errno::EINVAL);
            }
            let shut = || self.shut.load(Ordering::SeqCst) & NO_READ != 0;
            self.inbox
                .wait(&patience, || backlog.has_some() || shut())?;
        }
    }
}
