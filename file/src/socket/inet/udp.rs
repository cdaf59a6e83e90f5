//! UDP: messages that go directly into the receiver's inbox.
//!
//! *Interface*: the part of [`super::Internet`] for datagrams.
//!
//! A message without a receiver, or to a full inbox, is lost. A connected sender learns of a missing receiver
//! in its next call, as by an ICMP message on Linux.
//!
//! Source: udp(7); RFC 768.

use abi::errno::{Errno, Result};
use abi::linux::*;
use alloc::sync::Arc;

use super::address::{InetAddress, Ip, family_of};
use super::control::SendOptions;
use super::{InetSocket, choose, lose, ports};
use crate::io::IoBuf;
use crate::pipe::broken;
use crate::socket::message::{Received, Sending};
use crate::socket::record::{Packet, Record, cost};
use crate::socket::{Address, AddressKey, NO_READ, NO_WRITE, Socket};
use core::sync::atomic::Ordering;
use quaject::pipe::HEADER;
use vm::fallible::try_filled;

/// The longest message: an IP packet without the headers.
const MOST: usize = 65_507;
const MOST_SIX: usize = 65_527;
/// The default hop limit.
pub(super) const HOPS: u8 = 64;

/// How a message goes.
#[derive(Clone, Copy)]
pub(super) struct Path {
    /// The destination.
    pub to: InetAddress,
    /// From where.
    pub from: InetAddress,
    /// Through how many hosts at most.
    pub hops: u8,
    /// Its type of service, or class.
    pub class: u8,
}

/// `connect`: `socket` sends to `address`, and receives from no other; with AF_UNSPEC, from all again.
/// ENETUNREACH, EACCES, …
pub(super) fn connect(socket: &Arc<Socket>, address: &[u8]) -> Result<()> {
    let own = InetSocket::of(socket)?;
    // Bound: finding a port; only calls that bind or connect the same socket.
    let _turn = socket.turn.lock();
    // The sender of queued messages, and of messages from a routine that is being executed, is known.
    let speaks = socket.inbox.queue().is_some() || socket.named.get().is_some();
    if own.names().1.is_some() || speaks {
        socket.leave_lane();
    }
    if family_of(address)? == AF_UNSPEC {
        return disconnect(socket, own);
    }
    let to = own.destination(socket, own.parse_any(address)?, &SendOptions::default())?;
    choose(socket, Errno::EAGAIN)?;
    let mut ends = own.ends();
    let mut local = ends.bound.unwrap_or(ends.local);
    if local.ip.is_any() {
        local.ip = source(to.ip);
    }
    ends.local = local;
    ends.remote = Some(to);
    drop(ends);
    // Without a port, none is checked.
    let heard = match own.transport.is_udp() {
        true => to,
        false => InetAddress { port: 0, ..to },
    };
    ports::move_to(own.transport, local.port, socket.ino, local.ip, Some(heard));
    if own.transport.is_udp() && !to.ip.is_group() && !to.ip.is_broadcast() {
        if own.heard.set((to, local)).is_ok() && socket.inbox.lay() {
            // From now on waiters wait in the queue.
            socket.inbox.wake_readers();
        }
        if let Some(target) = ports::receiver(own.transport, to, local) {
            link(socket, &target, (to, local));
        }
    }
    socket.changes.wake_all();
    Ok(())
}

/// All messages of `socket` go by the queue of its receiver `target`, if `target` receives from no other
/// socket and needs no control messages.
fn link(socket: &Socket, target: &Socket, (to, from): (InetAddress, InetAddress)) {
    let Ok(theirs) = InetSocket::of(target) else {
        return;
    };
    let hears = theirs.heard.get().copied() == Some((from, to));
    let plain = !socket.inbox.is_retired() && !target.inbox.is_retired();
    if hears && plain && target.inbox.queue().is_some() {
        let _known = socket.lane.set(target.inbox.clone());
    }
}

/// So many messages has a sender sent by records before it may get a queue.
const REPEATED: u8 = 3;

/// The unconnected `target` gets a queue for the messages of `own`, which is connected to it and has sent
/// some before, if no sender has got one there: those of others go by records, behind which the queue waits.
fn prefer(own: &InetSocket, target: &Socket, (to, from): (InetAddress, InetAddress)) {
    let sent = own.sent.load(Ordering::Relaxed);
    if sent < REPEATED {
        return own.sent.store(sent + 1, Ordering::Relaxed);
    }
    let Ok(theirs) = InetSocket::of(target) else {
        return;
    };
    if theirs.heard.get().is_some() || !own.transport.is_udp() {
        return;
    }
    // As `connect` does; one that is being connected hears whom it wants.
    let Some(_turn) = target.turn.try_lock() else {
        return;
    };
    let unconnected = theirs.names().1.is_none();
    if unconnected && theirs.heard.set((from, to)).is_ok() && target.inbox.lay() {
        // From now on waiters wait in the queue.
        target.inbox.wake_readers();
    }
}

/// The unconnected `socket` sends to `target` by its queue, where a call names the address `key`, if
/// `target` hears it alone and needs no control messages. One address of IPv4 has such a way.
fn link_named(socket: &Socket, target: &Socket, key: AddressKey, path: &Path) {
    let (Ok(own), Ok(theirs)) = (InetSocket::of(socket), InetSocket::of(target)) else {
        return;
    };
    // As `connect` does.
    let Some(_turn) = socket.turn.try_lock() else {
        return;
    };
    let hears = theirs.heard.get() == Some(&(path.from, path.to));
    let plain = !socket.inbox.is_retired() && !target.inbox.is_retired();
    let usual = (path.hops, path.class) == (HOPS, 0) && own.transport.is_udp() && !own.six;
    let unconnected = own.names().1.is_none();
    if hears && plain && usual && unconnected && target.inbox.queue().is_some() {
        let _known = socket.named.set((key, target.inbox.clone()));
        if socket.inbox.is_retired() {
            // Something has changed that found no way yet.
            socket.leave_lane();
        }
    }
}

/// For messages that come by the queue of `socket`: their sender, and how they came.
pub(super) fn heard(socket: &Socket) -> Option<(Address, Packet)> {
    let own = InetSocket::of(socket).ok()?;
    let (from, to) = own.heard.get().copied()?;
    // With any other setting, messages do not go by a queue.
    let packet = Packet {
        to: to.ip,
        port: to.port,
        hops: HOPS,
        class: 0,
        time_ns: 0,
    };
    Some((from.write(own.six), packet))
}

fn disconnect(socket: &Arc<Socket>, own: &InetSocket) -> Result<()> {
    let mut ends = own.ends();
    ends.remote = None;
    let (bound, fixed) = (ends.bound, ends.fixed);
    let local = bound.unwrap_or(InetAddress::any(own.six));
    ends.local = local;
    drop(ends);
    if fixed {
        ports::move_to(own.transport, local.port, socket.ino, local.ip, None);
    } else if bound.is_some() {
        lose(socket, own);
        own.ends().local = InetAddress::any(own.six);
    }
    Ok(())
}

/// The own address that reaches `to`.
fn source(to: Ip) -> Ip {
    to.from()
}

impl InetSocket {
    /// The name in `bytes`; an IPv4 name is also accepted for an IPv6 datagram. EINVAL, EAFNOSUPPORT.
    pub(super) fn parse_any(&self, bytes: &[u8]) -> Result<InetAddress> {
        match family_of(bytes)? {
            AF_INET if self.six => InetAddress::parse(bytes, false),
            AF_UNSPEC if !self.six => InetAddress::parse_unspecified(bytes),
            _ => self.parse(bytes),
        }
    }

    /// The destination of a message to `to`. ENETUNREACH, EACCES, EINVAL.
    pub(super) fn destination(
        &self,
        socket: &Socket,
        to: InetAddress,
        wish: &SendOptions,
    ) -> Result<InetAddress> {
        if to.ip.is_group() {
            let named = wish.index != 0 || self.groups().index() != 0;
            let bound = self.ends().bound.map(|bound| bound.ip);
            let here = wish.from.or(bound).is_some_and(Ip::is_own);
            // As on Linux, to groups of IPv6 no way leads by `lo`.
            return match to.ip.is_v4() && (named || here) {
                true => Ok(to),
                false => Err(Errno::ENETUNREACH),
            };
        }
        if to.ip.is_broadcast() && to.ip != Ip::v4([255; 4]) {
            return match socket.options.is_on(SO_BROADCAST) {
                true => Ok(to),
                false => Err(Errno::EACCES),
            };
        }
        self.reach(to)
    }
}

/// How `sending` goes. EDESTADDRREQ, EINVAL, ENODEV, …
pub(super) fn route(socket: &Arc<Socket>, own: &InetSocket, sending: &mut Sending) -> Result<Path> {
    let named = match sending.to.take() {
        Some(address) => Some(own.parse_any(address.bytes())?),
        None => None,
    };
    let numberless = named.is_some_and(|to| to.port == 0);
    if numberless && own.transport.is_udp() {
        return Err(Errno::EINVAL);
    }
    let peer = own.names().1;
    let to = named.or(peer).ok_or(Errno::EDESTADDRREQ)?;
    let wish = match sending.control.is_empty() {
        true => SendOptions::default(),
        false => SendOptions::read(&sending.control, to.ip, own.six)?,
    };
    wish.is_possible()?;
    let to = match named {
        Some(to) => own.destination(socket, to, &wish)?,
        None => to,
    };
    choose(socket, Errno::EAGAIN)?;
    let mut from = own.names().0;
    from.ip = wish.from.unwrap_or(from.ip);
    if from.ip.is_any() || from.ip.is_group() || from.ip.is_broadcast() {
        from.ip = source(to.ip);
    }
    let (hops, class) = own.marks(to.ip);
    Ok(Path {
        to,
        from,
        hops: wish.hops.unwrap_or(hops),
        class: wish.class.unwrap_or(class),
    })
}

/// The error that refuses every message: EOPNOTSUPP, EPIPE, and a pending error.
pub(super) fn admit(socket: &Socket, sending: &Sending) -> Result<()> {
    if sending.flags & MSG_OOB != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    socket.take_error()?;
    if socket.shut.load(Ordering::SeqCst) & NO_WRITE != 0 {
        if sending.flags & MSG_NOSIGNAL == 0 {
            broken();
        }
        return Err(Errno::EPIPE);
    }
    Ok(())
}

pub(super) fn send(socket: &Arc<Socket>, buf: &mut IoBuf, mut sending: Sending) -> Result<usize> {
    let own = InetSocket::of(socket)?;
    let length = buf.remaining();
    if length > if own.six { MOST_SIX } else { MOST } {
        return Err(Errno::EMSGSIZE);
    }
    let named = sending.to.is_some();
    let key = sending.to.as_ref().and_then(destination_key);
    let marked = !sending.control.is_empty();
    admit(socket, &sending)?;
    let path = route(socket, own, &mut sending)?;
    let Path { to, from, .. } = path;
    if length > MOST && to.ip.is_v4() {
        return Err(Errno::EMSGSIZE);
    }
    if to.ip.is_group() || to.ip.is_broadcast() {
        return send_to_many(own, buf, &path);
    }
    match ports::receiver(own.transport, to, from) {
        Some(target) => {
            deliver(&target, buf, length, &path)?;
            if !named && socket.lane.get().is_none() {
                prefer(own, &target, (to, from));
                link(socket, &target, (to, from));
            } else if let Some(key) = key.filter(|_| !marked)
                && socket.named.get().is_none()
            {
                link_named(socket, &target, key, &path);
            }
        }
        None => {
            lose_bytes(buf)?;
            // Reports an error that Linux learns later from a message.
            if !named || own.wants_errors() {
                socket.set_error(Errno::ECONNREFUSED);
            }
        }
    }
    Ok(length)
}

/// The first word of `address`, one of IPv4, tells it from all others: it has family, port and host.
fn destination_key(address: &Address) -> Option<AddressKey> {
    let bytes = address.bytes();
    let word = bytes.first_chunk().map(|word| u64::from_le_bytes(*word))?;
    let length = bytes.len() as u32;
    (bytes.len() == size_of::<SockaddrIn>()).then_some(AddressKey { word, length })
}

/// Reads and discards all of `buf`. EFAULT.
fn lose_bytes(buf: &mut IoBuf) -> Result<()> {
    let mut piece = [0; 256];
    while buf.remaining() > 0 {
        buf.take(&mut piece)?;
    }
    Ok(())
}

/// Sends to all sockets that have the port and receive the group, or all hosts.
fn send_to_many(own: &InetSocket, buf: &mut IoBuf, path: &Path) -> Result<usize> {
    let Path { to, from, .. } = *path;
    let length = buf.remaining();
    let mut bytes = try_filled(0, length)?;
    let mut taken = 0;
    while let Some(rest) = bytes.get_mut(taken..).filter(|rest| !rest.is_empty()) {
        taken += buf.take(rest)?;
    }
    let group = to.ip.is_group();
    let joined = |own: &InetSocket| own.groups().has(to.ip);
    let all = ports::receivers(own.transport, to, from, |own| {
        !group || own.hears_groups() || joined(own)
    });
    // A message to a group without members is dropped.
    let loops = own.loops_groups();
    let heard = |socket: &Arc<Socket>| InetSocket::of(socket).is_ok_and(joined);
    if group && (!loops || !all.iter().any(heard)) {
        return Ok(length);
    }
    for target in &all {
        deliver(target, &mut IoBuf::drain(&bytes), length, path)?;
    }
    Ok(length)
}

/// Bytes of a message that goes into a queue of the receiver without a routine: a multiple of [`HEADER`].
const SHORT: usize = 256;

/// Puts the next `length` bytes of `buf` into the inbox of `target`, if they have room there. EFAULT,
/// ENOBUFS, ENOMEM.
pub(super) fn deliver(
    target: &Arc<Socket>,
    buf: &mut IoBuf,
    length: usize,
    path: &Path,
) -> Result<()> {
    let theirs = InetSocket::of(target)?;
    let is_heard = || theirs.heard.get() == Some(&(path.from, path.to));
    if (1..=SHORT).contains(&length) && is_heard() && (path.hops, path.class) == (HOPS, 0) {
        let mut framed = [0; HEADER + SHORT];
        let bytes = &mut framed[HEADER..HEADER + length];
        let mut taken = 0;
        while let Some(rest) = bytes.get_mut(taken..).filter(|rest| !rest.is_empty()) {
            taken += buf.take(rest)?;
        }
        let queue = target.inbox.queue();
        if queue.is_some_and(|queue| queue.send_framed(&mut framed, length)) {
            return Ok(());
        }
        let bytes = &framed[HEADER..HEADER + length];
        return record(target, &mut IoBuf::drain(bytes), length, path);
    }
    record(target, buf, length, path)
}

/// As [`deliver`], as a record.
fn record(target: &Arc<Socket>, buf: &mut IoBuf, length: usize, path: &Path) -> Result<()> {
    let theirs = InetSocket::of(target)?;
    let intake = theirs.intake.as_ref().ok_or(Errno::EINVAL)?;
    let room = target.options.receive_buffer();
    // As on Linux, the last one may go beyond.
    if intake.used() >= room || cost(length) > room && intake.used() > 0 {
        return lose_bytes(buf);
    }
    let mut record = Record::new(buf, length, intake)?;
    record.from = Some(path.from.write(theirs.six));
    record.along.packet = Some(Packet {
        to: path.to.ip,
        port: path.to.port,
        hops: path.hops,
        class: path.class,
        time_ns: match target.options.wants_time() {
            true => machine::clock::real_ns(),
            false => 0,
        },
    });
    match target.inbox.push(record) {
        // It was closed meanwhile.
        Err(Errno::EPIPE) => Ok(()),
        other => other,
    }
}

pub(super) fn receive(
    socket: &Socket,
    buf: &mut IoBuf,
    flags: u32,
    nonblocking: bool,
) -> Result<Received> {
    if flags & MSG_ERRQUEUE != 0 {
        return Err(Errno::EAGAIN);
    }
    socket.receive_plainly(buf, flags, nonblocking)
}

/// `shutdown` of an unconnected socket fails, but wakes the waiters. ENOTCONN.
pub(super) fn shuts_down(socket: &Socket, own: &InetSocket) -> Result<()> {
    if own.names().1.is_some() {
        return Ok(());
    }
    socket.shut.fetch_or(NO_READ | NO_WRITE, Ordering::SeqCst);
    socket.leave_lane();
    socket.tell();
    Err(Errno::ENOTCONN)
}
