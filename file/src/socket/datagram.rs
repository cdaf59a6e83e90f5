//! Messages that stay whole: datagrams, and packets of a connection.
//!
//! *Interface*: [`Socket::aim`] is `connect` of a datagram socket; [`Socket::send`] and [`Socket::receive`]
//! come here for both kinds.

use abi::errno::{Errno, Result};
use abi::linux::*;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use quaject::pipe::ReadEnd;
use sync::WaitList;

use super::message::{Received, Sending};
use super::record::Record;
use super::{NO_READ, NeedsName, Socket, SocketType, WaitLimit};
use crate::io::IoBuf;

/// The limit of waiting datagrams at a socket (and one more) for senders other than its peer.
pub const MOST: usize = 10;

/// The overhead of a message in the send buffer.
const HEADER: usize = 32;

impl Socket {
    /// Sends datagrams to `address` from now on, and takes those of no other; with AF_UNSPEC, to none. EPERM,
    /// ECONNREFUSED, …
    pub(super) fn aim(self: &Arc<Self>, address: &[u8]) -> Result<()> {
        let family = address.first_chunk().map(|two| u16::from_ne_bytes(*two));
        let target = match family {
            None => return Err(Errno::EINVAL),
            Some(family) if i32::from(family) == AF_UNSPEC => None,
            Some(_) => {
                if self.name.get().is_none() {
                    self.family.name(self, NeedsName::Reach)?;
                }
                let target = self.family.find(self, address)?;
                self.may_send(&target)?;
                Some(target)
            }
        };
        // Bound: exchanging or copying one counted handle.
        let mut slot = self.target.lock();
        let again = match (&*slot, &target) {
            (Some(old), Some(new)) => Arc::ptr_eq(old, new),
            (old, _) => old.is_none(),
        };
        let old = core::mem::replace(&mut *slot, target);
        drop(slot);
        if !again && self.inbox.has_data() {
            // Messages from the former peer are dropped, and that peer is notified of the loss.
            self.inbox.clear();
            let mutual = old.as_ref().filter(|old| old.sends_to(self));
            if let Some(former) = mutual {
                former.set_error(Errno::ECONNRESET);
            }
        }
        drop(old);
        self.changes.wake_all();
        Ok(())
    }

    /// Whether `other` is the target of datagrams without an address.
    fn sends_to(&self, other: &Arc<Socket>) -> bool {
        let target = self.target.lock().clone();
        target.is_some_and(|target| Arc::ptr_eq(&target, other))
    }

    /// Whether `target` takes datagrams from this one. EPERM.
    fn may_send(self: &Arc<Self>, target: &Arc<Socket>) -> Result<()> {
        // Bound: copying one counted handle.
        let theirs = target.target.lock().clone();
        match theirs {
            Some(theirs) if !Arc::ptr_eq(&theirs, self) => Err(Errno::EPERM),
            _ => Ok(()),
        }
    }

    /// Whether `target` has as many datagrams as it takes from this one.
    fn is_full_for(self: &Arc<Self>, target: &Arc<Socket>) -> bool {
        if target.inbox.pending() <= MOST || self.kind != SocketType::Datagram {
            return false;
        }
        !target.sends_to(self)
    }

    /// Whether its own target has as many.
    pub(super) fn is_target_full(self: &Arc<Self>) -> bool {
        let target = self.target.lock().clone();
        target.is_some_and(|target| self.is_full_for(&target))
    }

    /// The list that is woken when its target has read a record.
    pub(super) fn target_has_read(&self) -> Option<&'static WaitList> {
        let target = self.target.lock();
        target.as_ref().map(|target| target.inbox.senders())
    }

    pub(super) fn send_record(
        self: &Arc<Self>,
        buf: &mut IoBuf,
        mut sending: Sending,
    ) -> Result<usize> {
        if self.kind == SocketType::Packets {
            self.take_error()?;
            if self.link().is_none() {
                return Err(Errno::ENOTCONN);
            }
        }
        let named = sending
            .to
            .take()
            .filter(|_| self.kind == SocketType::Datagram);
        let target = match (&named, self.peer()) {
            (Some(address), _) => self.family.find(self, address.bytes())?,
            (None, Some(peer)) => peer,
            (None, None) => return Err(Errno::ENOTCONN),
        };
        if self.name.get().is_none() {
            self.family.name(self, NeedsName::Reach)?;
        }
        let length = buf.remaining();
        if length > self.options.send_buffer().saturating_sub(HEADER) {
            return Err(Errno::EMSGSIZE);
        }
        let patience = self.patience(sending.nonblocking, &self.options.send_timeout);
        loop {
            self.take_error()?;
            if self.writes_no_more() {
                return Err(Errno::EPIPE);
            }
            let room = || self.outbox.used() < self.options.send_buffer();
            if room() {
                break;
            }
            let ready = || room() || self.has_error() || self.writes_no_more();
            patience.wait(&self.outbox.space, ready)?;
        }
        let mut record = Record::new(buf, length, &self.outbox)?;
        let wants = |socket: &Socket| socket.options.pass_credentials();
        record.along = core::mem::take(&mut sending.along);
        if record.along.credentials.is_none() && (wants(self) || wants(&target)) {
            record.along.credentials = Some(super::message::credentials());
        }
        record.from = self.name.get().cloned();
        self.deliver(record, &target, &patience)
            .inspect_err(|error| {
                if *error == Errno::ECONNREFUSED && named.is_none() {
                    self.forget(&target);
                }
            })?;
        Ok(length)
    }

    fn deliver(
        self: &Arc<Self>,
        record: Record,
        target: &Arc<Socket>,
        patience: &WaitLimit,
    ) -> Result<()> {
        let gone = || target.inbox.is_shut();
        loop {
            if self.kind == SocketType::Datagram {
                self.may_send(target)?;
            }
            if gone() {
                return Err(match self.kind {
                    SocketType::Datagram => Errno::ECONNREFUSED,
                    _ => Errno::EPIPE,
                });
            }
            if target.shut.load(Ordering::SeqCst) & NO_READ != 0 {
                return Err(Errno::EPIPE);
            }
            if !self.is_full_for(target) {
                break;
            }
            let ready = || !self.is_full_for(target) || gone();
            patience.wait(&target.inbox.room, ready)?;
        }
        target.inbox.push(record).map_err(|error| match error {
            Errno::EPIPE if self.kind == SocketType::Datagram => Errno::ECONNREFUSED,
            error => error,
        })
    }

    /// Sends to `target` no more, which has gone.
    fn forget(&self, target: &Arc<Socket>) {
        let mut slot = self.target.lock();
        let old = match &*slot {
            Some(now) if Arc::ptr_eq(now, target) => slot.take(),
            _ => None,
        };
        drop(slot);
        drop(old);
    }

    pub(super) fn receive_record(
        &self,
        buf: &mut IoBuf,
        flags: u32,
        nonblocking: bool,
    ) -> Result<Received> {
        let packets = self.kind == SocketType::Packets;
        if packets && self.link().is_none() {
            return Err(Errno::ENOTCONN);
        }
        let patience = self.patience(nonblocking, &self.options.receive_timeout);
        loop {
            self.take_error()?;
            let mut end = self.inbox.queue().map(|queue| queue.read_end());
            let turn = self.inbox.reading();
            // Checked first: while there is a record, no write to the queue begins.
            let records = self.inbox.pending() != 0;
            if let Some(end) = &mut end
                && let Some(received) = self.open_message(end, buf, flags)
            {
                return received;
            }
            if records && let Some(record) = self.inbox.take() {
                return self.open_record(record, buf, flags);
            }
            drop(turn);
            drop(end);
            if self.reads_no_more() && (packets || !patience.is_none()) {
                return Ok(Received::default());
            }
            let ready = || self.inbox.has_data() || self.reads_no_more() || self.has_error();
            self.inbox.wait(&patience, ready)?;
        }
    }

    /// Moves the first message of a queue to the reader.
    fn open_message(
        &self,
        end: &mut ReadEnd<'_>,
        buf: &mut IoBuf,
        flags: u32,
    ) -> Option<Result<Received>> {
        let (length, [first, second]) = end.message()?;
        let copied = match put_whole(buf, first) {
            Ok(count) => put_whole(buf, second).map(|more| count + more),
            error => error,
        };
        if flags & MSG_PEEK == 0 {
            end.consume_message(length);
        }
        let (from, packet) = self.family.heard(self);
        let mut received = Received {
            found: true,
            from,
            ..Received::default()
        };
        received.along.packet = packet;
        Some(copied.map(|copied| counted(received, copied, length, flags)))
    }

    /// Moves the contents of a record to the reader, which has the turn.
    fn open_record(&self, mut record: Record, buf: &mut IoBuf, flags: u32) -> Result<Received> {
        let length = record.left();
        let copied = put_whole(buf, record.unread());
        let mut received = Received {
            found: true,
            from: record.from.clone(),
            ..Received::default()
        };
        received.along.credentials = record.along.credentials;
        received.along.packet = record.along.packet;
        if flags & MSG_PEEK != 0 {
            let files = record.along.rights.as_ref().map(|rights| rights.copy());
            self.inbox.put_back(record);
            received.seen = files.transpose()?;
        } else {
            received.along.rights = record.along.rights.take();
            // Before the record is dropped, which wakes its sender: then there is room.
            self.inbox.done(length);
            drop(record);
        }
        Ok(counted(received, copied?, length, flags))
    }
}

/// Moves `bytes` into `buf`, or as many as it has room for. EFAULT.
fn put_whole(buf: &mut IoBuf, bytes: &[u8]) -> Result<usize> {
    let count = buf.put(bytes)?;
    match count == bytes.len() || buf.remaining() == 0 {
        true => Ok(count),
        false => Err(Errno::EFAULT),
    }
}

/// Says of a message of `length` bytes that `copied` were.
fn counted(mut received: Received, copied: usize, length: usize, flags: u32) -> Received {
    if copied < length {
        received.flags |= MSG_TRUNC;
    }
    received.count = match flags & MSG_TRUNC {
        0 => copied,
        _ => length,
    };
    received
}
