//! AF_NETLINK: questions about interfaces, addresses, routes and sockets, and their answers, as messages.
//!
//! *Interface*: [`NETLINK`] is the family. [`route`] and [`diag`] answer; [`message`] writes the answers.
//!
//! A message is answered while it is sent: the answer is then in the sender's inbox. A long list (a *dump*)
//! is made in pieces: a few messages at the request, and more when these have been read. Only the kernel
//! sends to such a socket, and the events for groups never happen: there is one interface, and it stays up.
//!
//! Source: netlink(7), rtnetlink(7), sock_diag(7); RFC 3549.

mod diag;
mod message;
mod port;
pub mod route;

use abi::errno::{Errno, Result};
use abi::linux::*;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;

use self::message::{Header, Message, error, head};
use self::port::NetlinkPort;
use super::message::{Received, Sending};
use super::record::Record;
use super::{Address, Family, NeedsName, Socket, SocketState, SocketType};
use crate::io::IoBuf;
use vm::fallible::{try_copy, try_filled};

/// The family.
pub struct Netlink;

/// The one there is.
pub static NETLINK: Netlink = Netlink;

/// Bytes of one message of a dump, about.
const PIECE: usize = 16 << 10;
/// Dumps go on when fewer bytes than that wait to be read.
const AHEAD: usize = 32 << 10;

/// The requests to a socket of one protocol.
trait Protocol: Sync {
    /// How many groups there are.
    fn groups(&self) -> u32;
    /// Answers the request in `asked`, or returns the list to dump.
    fn answer(&self, asked: &Asked, to: &mut Message) -> Result<Option<Dump>>;
}

/// A question: the message's head and what follows it.
struct Asked<'a> {
    header: Header,
    body: &'a [u8],
    /// The port that answers go to.
    port: u32,
}

/// A list that is sent in pieces: writes the entries from position `from` on, and returns the position behind
/// them; nothing at the end.
type Rows = fn(asked: &Wanted, from: u64, to: &mut Message) -> Option<u64>;

/// The requested part of a list.
#[derive(Clone, Copy)]
struct Wanted {
    /// As in the question.
    sequence: u32,
    port: u32,
    family: u8,
    /// For sockets: states, a bit each, and the data to show.
    states: u32,
    show: u32,
    protocol: u8,
}

/// A partly sent list.
struct Dump {
    wanted: Wanted,
    rows: Rows,
    from: u64,
}

impl Asked<'_> {
    fn wanted(&self, family: u8) -> Wanted {
        Wanted {
            sequence: self.header.sequence,
            port: self.port,
            family,
            states: 0,
            show: 0,
            protocol: 0,
        }
    }

    fn dumps(&self) -> bool {
        self.header.flags & NLM_F_DUMP == NLM_F_DUMP
    }

    /// The fixed part of the body, of which programs may leave the end away. EINVAL.
    fn fixed<T: bytemuck::Pod>(&self) -> Result<T> {
        let bytes = self.body.get(..size_of::<T>()).ok_or(Errno::EINVAL)?;
        Ok(bytemuck::pod_read_unaligned(bytes))
    }
}

fn protocol(number: i32) -> Option<&'static dyn Protocol> {
    match number {
        NETLINK_ROUTE => Some(&route::ROUTE),
        NETLINK_SOCK_DIAG => Some(&diag::DIAG),
        NETLINK_KOBJECT_UEVENT => Some(&Silent),
        _ => None,
    }
}

/// Devices that come and go: none do.
struct Silent;

impl Protocol for Silent {
    fn groups(&self) -> u32 {
        1
    }

    fn answer(&self, _asked: &Asked, _to: &mut Message) -> Result<Option<Dump>> {
        Err(Errno::EOPNOTSUPP)
    }
}

/// The name of `socket`, of this family: its number, and its groups.
pub fn called(socket: &Socket) -> (u32, u32) {
    NetlinkPort::of(socket).map_or((0, 0), |port| {
        (port.number, port.groups.load(Ordering::Relaxed))
    })
}

/// The port of `socket`, which gets one if it has none. EADDRINUSE, ENOMEM.
fn port_of(socket: &Arc<Socket>) -> Result<&NetlinkPort> {
    if NetlinkPort::of(socket).is_none() {
        port::choose(socket)?;
    }
    NetlinkPort::of(socket).ok_or(Errno::ENOMEM)
}

/// Prepares `socket`, of this family, for receiving. ENOMEM.
pub fn enlist(socket: &Arc<Socket>) -> Result<()> {
    port_of(socket).map(|_| ())
}

/// Tells `socket`, which was enlisted, these bytes.
pub fn pass(socket: &Socket, bytes: &[u8]) {
    if let Some(port) = NetlinkPort::of(socket) {
        port.tell_bytes(socket, Ok(bytes));
    }
}

/// The address in `bytes`. EINVAL.
fn address(bytes: &[u8]) -> Result<SockaddrNl> {
    let bytes = bytes.get(..size_of::<SockaddrNl>()).ok_or(Errno::EINVAL)?;
    let address: SockaddrNl = bytemuck::pod_read_unaligned(bytes);
    match i32::from(address.family) {
        AF_NETLINK => Ok(address),
        _ => Err(Errno::EINVAL),
    }
}

fn named(port: u32, groups: u32) -> Address {
    Address::new(bytemuck::bytes_of(&SockaddrNl {
        family: AF_NETLINK as u16,
        pad: 0,
        port,
        groups,
    }))
}

/// Sending to others needs CAP_NET_ADMIN, and there are no receivers.
fn to_kernel(address: &SockaddrNl) -> Result<()> {
    match (address.port, address.groups) {
        (0, 0) => Ok(()),
        _ => {
            account::caller::cred().need(account::Capability::NetAdmin)?;
            Err(Errno::ECONNREFUSED)
        }
    }
}

impl Family for Netlink {
    fn number(&self) -> i32 {
        AF_NETLINK
    }

    fn kind(&self, kind: i32, number: i32) -> Result<(SocketType, i32)> {
        if kind != SOCK_RAW && kind != SOCK_DGRAM {
            return Err(Errno::ESOCKTNOSUPPORT);
        }
        protocol(number).ok_or(Errno::EPROTONOSUPPORT)?;
        let kind = match kind {
            SOCK_RAW => SocketType::Raw,
            _ => SocketType::Datagram,
        };
        Ok((kind, number))
    }

    fn bind(&self, socket: &Arc<Socket>, bytes: &[u8]) -> Result<()> {
        let address = address(bytes)?;
        let known = protocol(socket.protocol).map_or(0, |protocol| protocol.groups());
        match NetlinkPort::of(socket) {
            Some(port) if address.port != 0 && address.port != port.number => {
                return Err(Errno::EINVAL);
            }
            Some(_) => {}
            None if address.port == 0 => port::choose(socket)?,
            None => port::enter(socket, address.port)?,
        }
        let port = port_of(socket)?;
        // Groups that there are not are left out.
        let groups = address.groups & u32::MAX.checked_shr(32 - known.min(32)).unwrap_or(0);
        port.groups.store(groups, Ordering::Relaxed);
        Ok(())
    }

    fn name(&self, socket: &Arc<Socket>, _want: NeedsName) -> Result<()> {
        port_of(socket).map(|_| ())
    }

    fn find(&self, _from: &Arc<Socket>, bytes: &[u8]) -> Result<Arc<Socket>> {
        to_kernel(&address(bytes)?)?;
        Err(Errno::ECONNREFUSED)
    }

    fn connect(&self, socket: &Arc<Socket>, bytes: &[u8], _nonblocking: bool) -> Result<()> {
        let family = bytes.first_chunk().map(|two| u16::from_ne_bytes(*two));
        if family.is_some_and(|family| i32::from(family) == AF_UNSPEC) {
            return Ok(());
        }
        to_kernel(&address(bytes)?)?;
        port_of(socket).map(|_| ())
    }

    fn standing(&self, socket: &Socket) -> SocketState {
        SocketState {
            state: 0,
            receive_queue: socket.inbox.available(),
            send_queue: 0,
        }
    }

    fn shuts_down(&self, _socket: &Socket) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    fn unbind(&self, socket: &Socket) {
        port::leave(socket);
    }

    fn nameless(&self) -> Address {
        named(0, 0)
    }

    fn own_name(&self, socket: &Socket) -> Address {
        let (port, groups) = called(socket);
        named(port, groups)
    }

    fn peer_name(&self, _socket: &Socket) -> Result<Address> {
        Ok(named(0, 0))
    }

    fn send(&self, socket: &Arc<Socket>, buf: &mut IoBuf, sending: Sending) -> Result<usize> {
        serve(socket, buf, sending)
    }

    fn receive(
        &self,
        socket: &Socket,
        buf: &mut IoBuf,
        flags: u32,
        nonblocking: bool,
    ) -> Result<Received> {
        let received = socket.receive_plainly(buf, flags, nonblocking);
        if let Some(port) = NetlinkPort::of(socket) {
            port.go_on(socket);
        }
        received
    }

    fn set_option(&self, socket: &Arc<Socket>, level: i32, name: i32, bytes: &[u8]) -> Result<()> {
        if level != SOL_NETLINK {
            return Err(Errno::ENOPROTOOPT);
        }
        let number = bytes
            .first_chunk()
            .map_or(0, |bytes| i32::from_ne_bytes(*bytes));
        let port = port_of(socket)?;
        match name {
            NETLINK_ADD_MEMBERSHIP | NETLINK_DROP_MEMBERSHIP => {
                let known = protocol(socket.protocol).map_or(0, |protocol| protocol.groups());
                if number <= 0 || number as u32 > known {
                    return Err(Errno::EINVAL);
                }
                // Groups beyond the word of an address are not shown by it.
                let bit = 1_u32.checked_shl(number as u32 - 1).unwrap_or(0);
                if name == NETLINK_ADD_MEMBERSHIP {
                    port.groups.fetch_or(bit, Ordering::Relaxed);
                } else {
                    port.groups.fetch_and(!bit, Ordering::Relaxed);
                }
            }
            NETLINK_PKTINFO
            | NETLINK_BROADCAST_ERROR
            | NETLINK_NO_ENOBUFS
            | NETLINK_CAP_ACK
            | NETLINK_EXT_ACK
            | NETLINK_GET_STRICT_CHK => {
                let bit = 1 << name;
                if number != 0 {
                    port.switches.fetch_or(bit, Ordering::Relaxed);
                } else {
                    port.switches.fetch_and(!bit, Ordering::Relaxed);
                }
            }
            _ => return Err(Errno::ENOPROTOOPT),
        }
        Ok(())
    }

    fn option(&self, socket: &Arc<Socket>, level: i32, name: i32) -> Result<Vec<u8>> {
        if level != SOL_NETLINK {
            return Err(Errno::ENOPROTOOPT);
        }
        let port = port_of(socket)?;
        let number = match name {
            NETLINK_LIST_MEMBERSHIPS => port.groups.load(Ordering::Relaxed),
            NETLINK_PKTINFO
            | NETLINK_BROADCAST_ERROR
            | NETLINK_NO_ENOBUFS
            | NETLINK_CAP_ACK
            | NETLINK_EXT_ACK
            | NETLINK_GET_STRICT_CHK => port.switches.load(Ordering::Relaxed) >> name & 1,
            _ => return Err(Errno::ENOPROTOOPT),
        };
        try_copy(&number.to_ne_bytes())
    }
}

/// Reads the messages to the kernel in `buf`.
fn serve(socket: &Arc<Socket>, buf: &mut IoBuf, mut sending: Sending) -> Result<usize> {
    if sending.flags & MSG_OOB != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    if let Some(to) = sending.to.take() {
        to_kernel(&address(to.bytes())?)?;
    }
    let length = buf.remaining();
    if length == 0 {
        return Err(Errno::ENODATA);
    }
    if length > socket.options.send_buffer().saturating_sub(32) {
        return Err(Errno::EMSGSIZE);
    }
    let port = port_of(socket)?;
    let mut bytes = try_filled(0, length)?;
    let mut taken = 0;
    while let Some(rest) = bytes.get_mut(taken..).filter(|rest| !rest.is_empty()) {
        taken += buf.take(rest)?;
    }
    let protocol = protocol(socket.protocol).ok_or(Errno::EPROTONOSUPPORT)?;
    let mut rest = bytes.as_slice();
    while let Some(header) = head(rest) {
        let whole = rest.get(..header.length as usize).unwrap_or(rest);
        let mut answer = Message::default();
        let done = if header.flags & NLM_F_REQUEST == 0 || header.kind < NLMSG_MIN_TYPE {
            Ok(None)
        } else {
            let asked = Asked {
                header,
                body: whole.get(size_of::<Header>()..).unwrap_or_default(),
                port: port.number,
            };
            protocol.answer(&asked, &mut answer)
        };
        let told = match done {
            Ok(Some(dump)) => port.begin(socket, dump).err(),
            Ok(None) => {
                if !answer.is_empty() {
                    port.tell(socket, &answer);
                }
                (header.flags & NLM_F_ACK != 0).then_some(Errno(0))
            }
            Err(error) => Some(error),
        };
        if let Some(number) = told {
            let short = port.is_on(NETLINK_CAP_ACK);
            port.tell(socket, &error(number, &header, whole, port.number, short));
        }
        let next = (header.length as usize).next_multiple_of(4);
        rest = rest.get(next..).unwrap_or_default();
    }
    Ok(length)
}

/// A message of the kernel to a socket.
fn record(bytes: &[u8], port: &NetlinkPort) -> Result<Record> {
    let mut record = Record::new(&mut IoBuf::drain(bytes), bytes.len(), &port.unread)?;
    record.from = Some(named(0, 0));
    record.along.credentials = Some(Ucred {
        pid: 0,
        uid: 0,
        gid: 0,
    });
    Ok(record)
}
