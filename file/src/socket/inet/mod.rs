//! AF_INET and AF_INET6: sockets named by addresses and ports. The only host is this machine, by its loopback
//! interface.
//!
//! *Interface*: [`V4`] and [`V6`] are the families. [`InetSocket`] is what each of their sockets keeps.
//! [`address`] has the addresses, [`ports`] the owners of ports; [`tcp`] and the others are the transports:
//! data goes directly to the receiver, without packets.
//!
//! A family's part (addresses, ports, look-up) does not depend on the transports, and the transports use only
//! [`ports`] of it.

pub mod address;
mod control;
pub mod icmp;
pub mod interface;
mod multicast;
mod options;
pub mod ports;
pub mod tcp;
mod udp;

use abi::errno::{Errno, Result};
use abi::linux::*;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use sync::{Guard, Monitor, Once};

use super::message::{Received, Sending};
use super::record::Packet;
use super::{
    Address, Channel, CloseKind, Family, NeedsName, Outbox, PutControl, Socket, SocketState,
    SocketType,
};
use crate::io::IoBuf;
use account::Capability;
use account::caller;
use address::{InetAddress, Ip, family_of};
use multicast::MulticastGroups;
use options::InetOptions;
use ports::PortSharing;
use vm::fallible::{try_arc, try_placed};

/// The transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Transport {
    /// Bytes between two ends.
    Tcp,
    /// Messages.
    Udp,
    /// The same with sums over a part of each; ports of their own.
    Lite,
    /// Questions to hosts, and their answers.
    Ping,
    /// Messages of a protocol as they are.
    Raw,
}

impl Transport {
    /// Whether it is UDP, of either kind.
    pub fn is_udp(self) -> bool {
        matches!(self, Transport::Udp | Transport::Lite)
    }
}

/// The ends of a socket.
pub struct InetEnds {
    /// The name it was given, its address perhaps any.
    pub bound: Option<InetAddress>,
    /// The port was asked for by number.
    fixed: bool,
    /// Its name for others.
    pub local: InetAddress,
    /// Its peer.
    pub remote: Option<InetAddress>,
    /// It shares the port of a listener.
    joined: Option<PortSharing>,
    /// The listener where it waits to be accepted, and its entry.
    waits: Option<(Weak<Socket>, Weak<Socket>)>,
}

/// The data of a socket of these families.
pub struct InetSocket {
    six: bool,
    /// The transport.
    pub transport: Transport,
    ends: Monitor<InetEnds>,
    stage: AtomicU8,
    /// It has said before its peer that it sends nothing more.
    first: AtomicBool,
    listening: AtomicBool,
    share_address: AtomicBool,
    share_port: AtomicBool,
    only_six: AtomicBool,
    uid: u32,
    values: InetOptions,
    groups: Monitor<MulticastGroups>,
    /// Counts the messages that wait for it.
    intake: Option<Arc<Outbox>>,
    inbox: Arc<Channel>,
    /// The sender of the queue's messages, and the name it sends to.
    heard: Once<(InetAddress, InetAddress)>,
    /// How many messages it has sent by records, up to a few.
    sent: AtomicU8,
    /// Kinds of messages that a raw one does not hear, a bit each.
    filter: [AtomicU32; 8],
}

impl InetSocket {
    /// The data of `socket`.
    pub fn of(socket: &Socket) -> Result<&InetSocket> {
        let own = socket.own.get().and_then(|own| own.downcast_ref());
        own.ok_or(Errno::EINVAL)
    }

    fn shared(socket: &Socket) -> Result<Arc<InetSocket>> {
        let own = socket.own.get().cloned().ok_or(Errno::EINVAL)?;
        own.downcast().map_err(|_| Errno::EINVAL)
    }

    /// Its ends, which are held.
    fn ends(&self) -> Guard<'_, InetEnds> {
        // Bound: a few words.
        self.ends.lock()
    }

    /// The groups it has joined, which are held.
    fn groups(&self) -> Guard<'_, MulticastGroups> {
        // Bound: at most 20 addresses.
        self.groups.lock()
    }

    /// Its rules for sharing the port.
    pub fn sharing(&self) -> PortSharing {
        PortSharing {
            address: self.share_address.load(Ordering::Relaxed),
            port: self.share_port.load(Ordering::Relaxed),
            uid: self.uid,
        }
    }

    /// The owners of its port, or their receivers, have changed: no queue leads to it any more.
    fn unsettle(&self) {
        self.inbox.retire();
    }

    /// Whether it has nothing to do with IPv4.
    pub fn is_only_six(&self) -> bool {
        self.six && self.only_six.load(Ordering::Relaxed)
    }

    /// A connection is as its listener.
    fn inherit(&self, listener: &InetSocket) {
        for (to, from) in [
            (&self.share_address, &listener.share_address),
            (&self.share_port, &listener.share_port),
            (&self.only_six, &listener.only_six),
        ] {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.values.inherit(&listener.values);
    }

    /// Whether it gets errors of destinations that it is not connected to.
    fn wants_errors(&self) -> bool {
        self.values.number(IPPROTO_IP, IP_RECVERR) != 0
            || self.six && self.values.number(IPPROTO_IPV6, IPV6_RECVERR) != 0
    }

    fn of_groups(&self, four: i32, six: i32) -> bool {
        match self.six {
            true => self.values.number(IPPROTO_IPV6, six) != 0,
            false => self.values.number(IPPROTO_IP, four) != 0,
        }
    }

    /// Whether it hears groups that another socket has joined.
    fn hears_groups(&self) -> bool {
        self.of_groups(IP_MULTICAST_ALL, IPV6_MULTICAST_ALL)
    }

    /// Whether its messages to groups come back to this host.
    fn loops_groups(&self) -> bool {
        self.of_groups(IP_MULTICAST_LOOP, IPV6_MULTICAST_LOOP)
    }

    /// The hop limit and class of its messages to `to`.
    fn marks(&self, to: Ip) -> (u8, u8) {
        let (hops, class) = match (to.is_v4(), to.is_group()) {
            (true, false) => ((IPPROTO_IP, IP_TTL), (IPPROTO_IP, IP_TOS)),
            (true, true) => ((IPPROTO_IP, IP_MULTICAST_TTL), (IPPROTO_IP, IP_TOS)),
            (false, false) => (
                (IPPROTO_IPV6, IPV6_UNICAST_HOPS),
                (IPPROTO_IPV6, IPV6_TCLASS),
            ),
            (false, true) => (
                (IPPROTO_IPV6, IPV6_MULTICAST_HOPS),
                (IPPROTO_IPV6, IPV6_TCLASS),
            ),
        };
        let number = |(level, name)| self.values.number(level, name) as u8;
        (number(hops), number(class))
    }

    /// Whether it does not hear messages of a kind.
    fn filters(&self, kind: u8) -> bool {
        let word = self.filter.get(usize::from(kind) / 32);
        word.is_some_and(|word| word.load(Ordering::Relaxed) & 1 << (kind % 32) != 0)
    }

    /// Whether connections come to it.
    pub fn is_listening(&self) -> bool {
        self.listening.load(Ordering::SeqCst)
    }

    pub(super) fn set_listening(&self, listening: bool) {
        self.listening.store(listening, Ordering::SeqCst);
    }

    /// Its names: its own, and that of its peer.
    pub fn names(&self) -> (InetAddress, Option<InetAddress>) {
        let ends = self.ends();
        (ends.local, ends.remote)
    }

    /// The name in `bytes`, of its family. EINVAL, EAFNOSUPPORT.
    fn parse(&self, bytes: &[u8]) -> Result<InetAddress> {
        InetAddress::parse(bytes, self.six)
    }

    /// The address that it reaches at `to`. ENETUNREACH.
    fn reach(&self, to: InetAddress) -> Result<InetAddress> {
        let four = to.ip.is_v4();
        if self.six && four && self.is_only_six() {
            return Err(Errno::ENETUNREACH);
        }
        let bound = self.ends().bound;
        let mut ip = to.ip;
        if let Some(bound) = bound.filter(|bound| bound.ip != Ip::ANY6) {
            // Any host is one of the family that it is bound to.
            if ip == Ip::ANY6 && bound.ip.is_v4() {
                ip = Ip::ANY4;
            } else if bound.ip.is_v4() != four {
                return Err(match four {
                    true => Errno::EINVAL,
                    false => Errno::ENETUNREACH,
                });
            }
        }
        let ip = ip.meant();
        if !ip.is_own() {
            return Err(Errno::ENETUNREACH);
        }
        Ok(InetAddress { ip, ..to })
    }
}

/// Gives `socket` a free port, if it has none. EAGAIN, ENOMEM.
fn choose(socket: &Arc<Socket>, busy: Errno) -> Result<()> {
    let own = InetSocket::shared(socket)?;
    if own.ends().bound.is_some() {
        return Ok(());
    }
    let name =
        ports::bind(socket, &own, InetAddress::any(own.six)).map_err(|error| match error {
            Errno::EADDRINUSE => busy,
            other => other,
        })?;
    let mut ends = own.ends();
    ends.bound = Some(name);
    ends.local = name;
    Ok(())
}

/// Takes the port of `socket` from it.
fn lose(socket: &Socket, own: &InetSocket) {
    let mut ends = own.ends();
    let (bound, joined) = (ends.bound.take(), ends.joined.take());
    let local = ends.local;
    ends.fixed = false;
    drop(ends);
    if let Some(bound) = bound {
        ports::unbind(own.transport, bound.port, socket.ino);
    }
    if let Some(sharing) = joined {
        ports::part(local, sharing);
    }
}

/// One of the two families.
pub struct Internet {
    six: bool,
}

/// AF_INET.
pub static V4: Internet = Internet { six: false };
/// AF_INET6.
pub static V6: Internet = Internet { six: true };

/// Ports below this need a capability (`ip_unprivileged_port_start`).
pub const UNPRIVILEGED: u16 = 1024;

impl Family for Internet {
    fn number(&self) -> i32 {
        if self.six { AF_INET6 } else { AF_INET }
    }

    fn kind(&self, kind: i32, protocol: i32) -> Result<(SocketType, i32)> {
        if !(0..IPPROTO_MAX).contains(&protocol) {
            return Err(Errno::EINVAL);
        }
        let ping = if self.six {
            IPPROTO_ICMPV6
        } else {
            IPPROTO_ICMP
        };
        match (kind, protocol) {
            (SOCK_STREAM, 0 | IPPROTO_TCP) => Ok((SocketType::Stream, IPPROTO_TCP)),
            (SOCK_DGRAM, 0 | IPPROTO_UDP) => Ok((SocketType::Datagram, IPPROTO_UDP)),
            (SOCK_DGRAM, IPPROTO_UDPLITE) => Ok((SocketType::Datagram, IPPROTO_UDPLITE)),
            (SOCK_DGRAM, _) if protocol == ping => {
                icmp::may_ask()?;
                Ok((SocketType::Datagram, ping))
            }
            (SOCK_RAW, 1..=255) => {
                caller::cred().need(Capability::NetRaw)?;
                Ok((SocketType::Raw, protocol))
            }
            (SOCK_STREAM | SOCK_DGRAM | SOCK_RAW, _) => Err(Errno::EPROTONOSUPPORT),
            _ => Err(Errno::ESOCKTNOSUPPORT),
        }
    }

    fn made(&self, socket: &Arc<Socket>) -> Result<()> {
        let transport = match (socket.kind, socket.protocol) {
            (SocketType::Stream, _) => Transport::Tcp,
            (SocketType::Raw, _) => Transport::Raw,
            (_, IPPROTO_UDP) => Transport::Udp,
            (_, IPPROTO_UDPLITE) => Transport::Lite,
            _ => Transport::Ping,
        };
        let intake = match transport {
            Transport::Tcp => None,
            _ => Some(try_arc(Outbox::new())?),
        };
        if transport == Transport::Tcp {
            socket
                .options
                .set_buffers(tcp::SEND_BUFFER, tcp::RECEIVE_BUFFER);
        }
        let own = try_placed(|| InetSocket {
            six: self.six,
            transport,
            ends: Monitor::new(InetEnds {
                bound: None,
                fixed: false,
                local: InetAddress::any(self.six),
                remote: None,
                joined: None,
                waits: None,
            }),
            stage: AtomicU8::new(tcp::IDLE),
            first: AtomicBool::new(false),
            listening: AtomicBool::new(false),
            share_address: AtomicBool::new(false),
            share_port: AtomicBool::new(false),
            only_six: AtomicBool::new(false),
            uid: socket.uid(),
            values: InetOptions::new(),
            groups: Monitor::new(MulticastGroups::new()),
            intake,
            inbox: socket.inbox.clone(),
            heard: Once::new(),
            sent: AtomicU8::new(0),
            filter: [const { AtomicU32::new(0) }; 8],
        })?;
        // It is new.
        let _none = socket.own.set(own.clone());
        if transport == Transport::Raw {
            // Its port is the protocol.
            let name = InetAddress {
                port: socket.protocol as u16,
                ..InetAddress::any(self.six)
            };
            ports::enter_raw(socket, &own, name)?;
            let mut ends = own.ends();
            ends.bound = Some(name);
            ends.local = name;
            ends.fixed = true;
        }
        Ok(())
    }

    fn tells_sender(&self) -> bool {
        false
    }

    fn reads_control(&self) -> bool {
        true
    }

    fn bind(&self, socket: &Arc<Socket>, bytes: &[u8]) -> Result<()> {
        let own = InetSocket::shared(socket)?;
        let name = match InetAddress::parse(bytes, self.six) {
            // As programs of old have it: any address, and no family.
            Err(Errno::EAFNOSUPPORT) if !self.six && family_of(bytes)? == AF_UNSPEC => {
                InetAddress::unspecified(bytes)?
            }
            other => other?,
        };
        if name.ip.is_v4() && own.is_only_six() {
            return Err(Errno::EINVAL);
        }
        let group = name.ip.is_group() || name.ip.is_broadcast();
        if group && self.six && own.transport == Transport::Tcp {
            return Err(Errno::EINVAL);
        }
        if !name.ip.is_any() && !name.ip.is_own() && !group {
            return Err(Errno::EADDRNOTAVAIL);
        }
        let numbered = own.transport == Transport::Tcp || own.transport.is_udp();
        if numbered && name.port != 0 && name.port < UNPRIVILEGED {
            let cred = caller::cred();
            cred.need(Capability::NetBindService)
                .map_err(|_| Errno::EACCES)?;
        }
        // Bound: finding a port; only calls that bind or connect the same socket.
        let _turn = socket.turn.lock();
        if own.transport == Transport::Raw {
            let mut ends = own.ends();
            let name = InetAddress {
                port: ends.local.port,
                ..name
            };
            ends.bound = Some(name);
            ends.local = name;
            drop(ends);
            ports::move_to(own.transport, name.port, socket.ino, name.ip, None);
            return Ok(());
        }
        let known = own.ends().bound.is_some();
        if known || own.stage() != tcp::IDLE {
            return Err(Errno::EINVAL);
        }
        let given = ports::bind(socket, &own, name)?;
        let mut ends = own.ends();
        ends.bound = Some(given);
        ends.local = given;
        ends.fixed = name.port != 0;
        Ok(())
    }

    fn name(&self, socket: &Arc<Socket>, want: NeedsName) -> Result<()> {
        let _turn = socket.turn.lock();
        choose(
            socket,
            match want {
                NeedsName::Listen => Errno::EADDRINUSE,
                NeedsName::Reach => Errno::EADDRNOTAVAIL,
            },
        )
    }

    fn find(&self, _from: &Arc<Socket>, _address: &[u8]) -> Result<Arc<Socket>> {
        Err(Errno::ECONNREFUSED)
    }

    fn connect(&self, socket: &Arc<Socket>, address: &[u8], nonblocking: bool) -> Result<()> {
        match socket.kind {
            SocketType::Stream => tcp::connect(socket, address, nonblocking),
            _ => udp::connect(socket, address),
        }
    }

    fn listens(&self, socket: &Arc<Socket>) -> Result<()> {
        let own = InetSocket::of(socket)?;
        if own.is_listening() {
            return Ok(());
        }
        let bound = own.ends().bound.ok_or(Errno::EINVAL)?;
        ports::listen(own, bound, socket.ino)
    }

    fn deafened(&self, listener: &Socket) {
        tcp::deafened(listener);
    }

    fn admitted(&self, socket: &Arc<Socket>) {
        tcp::admitted(socket);
    }

    fn send(&self, socket: &Arc<Socket>, buf: &mut IoBuf, sending: Sending) -> Result<usize> {
        match InetSocket::of(socket)?.transport {
            Transport::Tcp => tcp::send(socket, buf, sending),
            Transport::Udp | Transport::Lite => udp::send(socket, buf, sending),
            Transport::Ping | Transport::Raw => icmp::send(socket, buf, sending),
        }
    }

    fn receive(
        &self,
        socket: &Socket,
        buf: &mut IoBuf,
        flags: u32,
        nonblocking: bool,
    ) -> Result<Received> {
        match socket.kind {
            SocketType::Stream => tcp::receive(socket, buf, flags, nonblocking),
            _ => udp::receive(socket, buf, flags, nonblocking),
        }
    }

    fn refuses(&self, socket: &Socket, buf: &mut IoBuf) -> Result<()> {
        tcp::refuses(socket, buf)
    }

    fn ends(&self, socket: &Socket, ending: CloseKind) {
        tcp::ends(socket, ending);
    }

    fn breaks(&self, socket: &Socket, unread: bool) -> bool {
        unread || socket.options.breaks()
    }

    fn is_connecting(&self, socket: &Socket) -> bool {
        InetSocket::of(socket).is_ok_and(|own| own.stage() == tcp::WAITING)
    }

    fn unbind(&self, socket: &Socket) {
        if let Ok(own) = InetSocket::of(socket) {
            if own.transport == Transport::Tcp {
                tcp::closes(socket, own);
            }
            lose(socket, own);
        }
    }

    fn nameless(&self) -> Address {
        InetAddress::any(self.six).write(self.six)
    }

    fn own_name(&self, socket: &Socket) -> Address {
        let local = InetSocket::of(socket).map(|own| own.names().0);
        local.unwrap_or(InetAddress::any(self.six)).write(self.six)
    }

    fn peer_name(&self, socket: &Socket) -> Result<Address> {
        let own = InetSocket::of(socket)?;
        if own.transport == Transport::Tcp && !tcp::is_connected(socket, own) {
            return Err(Errno::ENOTCONN);
        }
        let remote = own.names().1.ok_or(Errno::ENOTCONN)?;
        Ok(remote.write(self.six))
    }

    fn shuts_down(&self, socket: &Socket) -> Result<()> {
        let own = InetSocket::of(socket)?;
        if own.transport != Transport::Tcp {
            return udp::shuts_down(socket, own);
        }
        match own.is_listening() || own.stage() == tcp::WAITING || tcp::is_connected(socket, own) {
            true => Ok(()),
            false => Err(Errno::ENOTCONN),
        }
    }

    fn refuses_after_shutdown(&self) -> bool {
        false
    }

    fn band(&self) -> u32 {
        0
    }

    fn option_changed(&self, socket: &Socket, name: i32) {
        let Ok(own) = InetSocket::of(socket) else {
            return;
        };
        match name {
            SO_REUSEADDR => own
                .share_address
                .store(socket.options.is_on(name), Ordering::Relaxed),
            SO_REUSEPORT => own
                .share_port
                .store(socket.options.is_on(name), Ordering::Relaxed),
            _ => {}
        }
    }

    fn control(&self, socket: &Socket, command: u32, arg: usize) -> Result<usize> {
        match command {
            // Nothing is urgent: no mark was passed.
            SIOCATMARK if socket.kind == SocketType::Stream => {
                vm::user::put(arg, &0i32).map(|()| 0)
            }
            _ => interface::control(!self.six, command, arg),
        }
    }

    fn tell(&self, socket: &Socket, packet: &Packet, write: PutControl<'_>) -> Result<()> {
        control::tell(socket, InetSocket::of(socket)?, packet, write)
    }

    fn set_option(&self, socket: &Arc<Socket>, level: i32, name: i32, value: &[u8]) -> Result<()> {
        options::set(socket, InetSocket::of(socket)?, level, name, value)
    }

    fn option(&self, socket: &Arc<Socket>, level: i32, name: i32) -> Result<Vec<u8>> {
        options::get(socket, InetSocket::of(socket)?, level, name)
    }

    fn heard(&self, socket: &Socket) -> (Option<Address>, Option<Packet>) {
        udp::heard(socket).unzip()
    }

    fn standing(&self, socket: &Socket) -> SocketState {
        let (receive_queue, send_queue) = socket.queues();
        let state = match InetSocket::of(socket) {
            Ok(own) if own.transport == Transport::Tcp => tcp::state(socket),
            Ok(own) if own.names().1.is_some() => tcp::ESTABLISHED,
            _ => tcp::CLOSE,
        };
        SocketState {
            state,
            receive_queue,
            send_queue,
        }
    }
}
