//! Sending and receiving on a connected stream, where no routine does it.
//!
//! *Interface*: [`Socket::send`] and [`Socket::receive`] come here for streams.
//!
//! Bytes go into the queue of the channel, from which the routines read them, unless something must stand at
//! its position among them: then they go as records, until the last record is read. A read takes what is in
//! the queue, then records; it ends behind one with descriptors, and before one of another sender if it is to
//! say who that is.

use abi::errno::{Errno, Result};
use abi::linux::*;
use quaject::pipe::{ATOMIC, PipeCore};

use super::message::{Received, Sending};
use super::record::{Ancillary, Record};
use super::{PeerLink, Socket};
use crate::io::IoBuf;
use crate::pipe::{broken, bytes};

/// Bytes of one record of a stream.
const PIECE: usize = 32 << 10;

impl Socket {
    pub(super) fn send_stream(&self, buf: &mut IoBuf, mut sending: Sending) -> Result<usize> {
        let (Some(link), false) = (self.link(), sending.to.is_some()) else {
            return Err(match (self.link(), sending.to) {
                (Some(_), Some(_)) => Errno::EISCONN,
                (None, Some(_)) => Errno::EOPNOTSUPP,
                _ => Errno::ENOTCONN,
            });
        };
        let total = buf.remaining();
        let patience = self.patience(sending.nonblocking, &self.options.send_timeout);
        let whole = total <= ATOMIC;
        while buf.remaining() > 0 {
            let step = match self.writes_no_more() || self.is_heard_no_more() {
                true => self.family.refuses(self, buf).map(|()| true),
                false => self.give(link, buf, whole, &mut sending.along),
            };
            let stop = match step {
                Ok(true) => continue,
                Ok(false) => {
                    let wanted = if whole { buf.remaining() } else { 1 };
                    let ready = || {
                        self.has_room(link, wanted)
                            || self.writes_no_more()
                            || self.is_heard_no_more()
                    };
                    match link.outgoing.wait_for_room(&patience, ready) {
                        Ok(()) => continue,
                        Err(error) => error,
                    }
                }
                Err(error) => error,
            };
            if buf.done() > 0 {
                break;
            }
            if stop == Errno::EPIPE && sending.flags & MSG_NOSIGNAL == 0 {
                broken();
            }
            return Err(stop);
        }
        Ok(buf.done())
    }

    /// Whether `wanted` bytes could be sent in the way in which they would have to be.
    fn has_room(&self, link: &PeerLink, wanted: usize) -> bool {
        match link.outgoing.queue() {
            Some(queue) if !link.outgoing.is_barred() => queue.free() >= wanted,
            _ => self.outbox.used() < self.options.send_buffer(),
        }
    }

    /// Whether poll says that something can be sent: a quarter of what there may be is left to be read at
    /// most.
    pub(super) fn is_writable(&self) -> bool {
        let queue = self.link().and_then(|link| link.outgoing.queue());
        queue.is_none_or(|queue| queue.free() >= queue.size() / 4 * 3)
            && self.outbox.used().saturating_mul(4) <= self.options.send_buffer()
    }

    /// Sends `buf` as far as there is room. False: there is no room for it.
    fn give(
        &self,
        link: &PeerLink,
        buf: &mut IoBuf,
        whole: bool,
        along: &mut Ancillary,
    ) -> Result<bool> {
        let channel = &link.outgoing;
        let alone = along.rights.is_none() && along.credentials.is_none();
        if let (true, Some(queue)) = (alone, channel.queue()) {
            let mut end = queue.write_end();
            if !channel.is_barred() {
                return Ok(bytes::give(&mut end, buf, whole)?.is_some());
            }
        }
        if self.outbox.used() >= self.options.send_buffer() {
            return Ok(false);
        }
        let mut record = Record::new(buf, buf.remaining().min(PIECE), &self.outbox)?;
        record.along = core::mem::take(along);
        if record.along.credentials.is_none() && channel.is_marked() {
            record.along.credentials = Some(super::message::credentials());
        }
        channel.push(record)?;
        Ok(true)
    }

    pub(super) fn receive_stream(
        &self,
        buf: &mut IoBuf,
        flags: u32,
        nonblocking: bool,
    ) -> Result<Received> {
        let (Some(_), Some(queue)) = (self.link(), self.inbox.queue()) else {
            return Err(Errno::EINVAL);
        };
        let said_first = || self.is_ended() && !self.inbox.has_data();
        let wanted = match flags & MSG_WAITALL {
            0 => self.options.low_water().min(buf.remaining()),
            _ => buf.remaining(),
        };
        let patience = self.patience(nonblocking, &self.options.receive_timeout);
        let mut received = Received::default();
        let empty = buf.remaining() == 0;
        loop {
            let whole = match self.gather(queue, buf, flags, &mut received) {
                Err(error) if buf.done() == 0 => return Err(error),
                other => other.unwrap_or(true),
            };
            if whole || buf.done() >= wanted.max(1) || (empty && received.found) {
                break;
            }
            let stop = match self.take_error() {
                _ if buf.done() == 0 && said_first() => break,
                Err(error) => error,
                Ok(()) if self.reads_no_more() => {
                    // Something may have come since the look above.
                    if self.inbox.has_data() || self.has_error() {
                        continue;
                    }
                    break;
                }
                Ok(()) => {
                    let ready =
                        || self.inbox.has_data() || self.reads_no_more() || self.has_error();
                    match flags & MSG_PEEK != 0 && buf.done() > 0 {
                        // A look that has seen some bytes does not wait for more.
                        true => break,
                        false => match self.inbox.wait(&patience, ready) {
                            Ok(()) => continue,
                            Err(error) => error,
                        },
                    }
                }
            };
            if buf.done() > 0 {
                break;
            }
            return Err(stop);
        }
        received.count = buf.done();
        if received.count > 0 && self.family.tells_sender() {
            received.from = self.peer().and_then(|peer| peer.name.get().cloned());
        }
        Ok(received)
    }

    /// Moves what is there into `buf`. Whether the call ends with that.
    fn gather(
        &self,
        queue: &PipeCore,
        buf: &mut IoBuf,
        flags: u32,
        received: &mut Received,
    ) -> Result<bool> {
        let peek = flags & MSG_PEEK != 0;
        let channel = &*self.inbox;
        let mut end = queue.read_end();
        loop {
            // Looked at first: with a record there, nobody begins to write to the queue.
            let records = channel.pending() != 0;
            // A read of no bytes still waits for data, and leaves it there.
            received.found |= match buf.remaining() {
                0 => end.available() != 0,
                _ => bytes::take(&mut end, buf, peek)?.is_some(),
            };
            if !records || (!peek && end.available() != 0) {
                return Ok(buf.remaining() == 0 && received.found);
            }
            if buf.remaining() == 0 && received.found {
                return Ok(true);
            }
            let Some(mut record) = channel.take() else {
                return Ok(false);
            };
            let other = received.found && received.along.credentials != record.along.credentials;
            if other && self.options.pass_credentials() {
                channel.put_back(record);
                return Ok(true);
            }
            let count = match buf.put(record.unread()) {
                Ok(count) => count,
                Err(error) => {
                    channel.put_back(record);
                    return Err(error);
                }
            };
            received.found = true;
            received.along.credentials = record.along.credentials;
            if peek {
                let files = record.along.rights.as_ref().map(|rights| rights.copy());
                channel.put_back(record);
                received.seen = files.transpose()?;
                return Ok(true);
            }
            received.along.rights = record.along.rights.take();
            record.advance(count);
            channel.count_read(count);
            let left = record.left();
            if left > 0 {
                channel.put_back(record);
            } else {
                channel.done(0);
                drop(record);
            }
            if received.along.rights.is_some() || left > 0 {
                return Ok(true);
            }
        }
    }
}
