//! The interface of an address family for the socket layer.
//!
//! *Interface*: [`Family`]; [`family_by_number`] finds one.

use abi::errno::{Errno, Result};
use abi::linux::*;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::message::{Received, Sending};
use super::record::Packet;
use super::{Address, Socket, SocketType, inet, local, netlink};
use crate::io::IoBuf;

/// Writes a control message: its level, its kind, its data.
pub type PutControl<'a> = &'a mut dyn FnMut(i32, i32, &[u8]) -> Result<()>;

/// How one end of a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseKind {
    /// Nothing more is sent.
    Finished,
    /// The connection is broken.
    Broken,
}

/// The state of a socket (for AF_UNIX `SS_*`, else `TCP_*`), and its pending data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketState {
    /// The state, as a number.
    pub state: u8,
    /// Bytes to be read; for a listener, connections to be accepted.
    pub receive_queue: usize,
    /// Bytes that the other end has not read; for a listener, the limit of waiting connections.
    pub send_queue: usize,
}

/// The reason why an unnamed socket needs a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeedsName {
    /// To listen.
    Listen,
    /// To connect, or to send.
    Reach,
}

/// An address family: the names of sockets, and their look-up. Addresses are bytes in the program's format,
/// the family first.
pub trait Family: Send + Sync {
    /// `AF_*`.
    fn number(&self) -> i32;
    /// The kind of socket for `SOCK_*` and a protocol, and the protocol that it has then. ESOCKTNOSUPPORT,
    /// EPROTONOSUPPORT.
    fn kind(&self, kind: i32, protocol: i32) -> Result<(SocketType, i32)>;
    /// `socket` is new. ENOMEM.
    fn made(&self, _socket: &Arc<Socket>) -> Result<()> {
        Ok(())
    }
    /// Whether messages can carry their sender's credentials.
    fn tells_sender(&self) -> bool {
        true
    }
    /// Whether the family itself reads the control messages of sent data; then they do not carry descriptors.
    fn reads_control(&self) -> bool {
        false
    }
    /// Whether `socketpair` makes them.
    fn makes_pairs(&self) -> bool {
        false
    }
    /// Gives `socket` the name `address`. EINVAL, EADDRINUSE, …
    fn bind(&self, socket: &Arc<Socket>, address: &[u8]) -> Result<()>;
    /// `socket` has no name and wants something that may need one.
    fn name(&self, _socket: &Arc<Socket>, _want: NeedsName) -> Result<()> {
        Ok(())
    }
    /// The socket that has the name `address`, for one that wants to connect or send to it. EINVAL,
    /// ECONNREFUSED, …
    fn find(&self, from: &Arc<Socket>, address: &[u8]) -> Result<Arc<Socket>>;
    /// Connects `socket` to the socket with the name `address`. Errors of connect(2).
    fn connect(&self, socket: &Arc<Socket>, address: &[u8], nonblocking: bool) -> Result<()> {
        socket.connect_plainly(address, nonblocking)
    }
    /// `socket` is about to listen. EADDRINUSE, EINVAL, …
    fn listens(&self, _socket: &Arc<Socket>) -> Result<()> {
        Ok(())
    }
    /// `socket`, which waits to be accepted, is among those that the listener has room for.
    fn admitted(&self, _socket: &Arc<Socket>) {}
    /// `socket` was accepted.
    fn accepted(&self, _socket: &Arc<Socket>) {}
    /// Sends. Errors of send(2).
    fn send(&self, socket: &Arc<Socket>, buf: &mut IoBuf, sending: Sending) -> Result<usize> {
        socket.send_plainly(buf, sending)
    }
    /// Receives. Errors of recv(2).
    fn receive(
        &self,
        socket: &Socket,
        buf: &mut IoBuf,
        flags: u32,
        nonblocking: bool,
    ) -> Result<Received> {
        socket.receive_plainly(buf, flags, nonblocking)
    }
    /// The other end of the stream `socket` takes nothing more, or `socket` sends nothing more: handles
    /// `buf`. EPIPE, ECONNRESET.
    fn refuses(&self, _socket: &Socket, _buf: &mut IoBuf) -> Result<()> {
        Err(Errno::EPIPE)
    }
    /// First notifies the other end of `socket` that `socket` sends nothing more.
    fn ends(&self, socket: &Socket, ending: CloseKind) {
        if let (CloseKind::Broken, Some(link)) = (ending, socket.link()) {
            link.outgoing.reset();
        }
    }
    /// Whether `socket`, which is being closed, breaks its connection; `unread`: there is unread data.
    fn breaks(&self, _socket: &Socket, unread: bool) -> bool {
        unread
    }
    /// The listener `socket`, which gets no more connections, is not closed.
    fn deafened(&self, _listener: &Socket) {}
    /// Whether `socket` is being connected.
    fn is_connecting(&self, _socket: &Socket) -> bool {
        false
    }
    /// The result of `getsockname`.
    fn own_name(&self, socket: &Socket) -> Address {
        let name = socket.name.get();
        name.cloned().unwrap_or_else(|| self.nameless())
    }
    /// The result of `getpeername`. ENOTCONN.
    fn peer_name(&self, socket: &Socket) -> Result<Address> {
        let peer = socket.peer().ok_or(Errno::ENOTCONN)?;
        Ok(peer.own_name())
    }
    /// The events of poll beside POLLOUT.
    fn band(&self) -> u32 {
        POLLWRBAND
    }
    /// Option `name` of SOL_SOCKET has got another value.
    fn option_changed(&self, _socket: &Socket, _name: i32) {}
    /// A control operation that sockets of all families do not have. ENOTTY, …
    fn control(&self, _socket: &Socket, command: u32, arg: usize) -> Result<usize> {
        inet::interface::control(false, command, arg)
    }
    /// Writes, by `write(level, kind, data)`, what `socket` wants to know of how a message came.
    fn tell(&self, _socket: &Socket, _packet: &Packet, _write: PutControl<'_>) -> Result<()> {
        Ok(())
    }
    /// For a message that came by the queue: its sender's name, and how it came.
    fn heard(&self, _socket: &Socket) -> (Option<Address>, Option<Packet>) {
        (None, None)
    }
    /// The state of `socket`, for `/proc/net` and netlink.
    fn standing(&self, socket: &Socket) -> SocketState;
    /// `socket` is closed: its name leads nowhere.
    fn unbind(&self, socket: &Socket);
    /// The name of an unnamed socket, for `getsockname` and for receivers.
    fn nameless(&self) -> Address;
    /// Whether a `shutdown` is in order. ENOTCONN.
    fn shuts_down(&self, _socket: &Socket) -> Result<()> {
        Ok(())
    }
    /// Whether sending to a socket that no longer reads is refused.
    fn refuses_after_shutdown(&self) -> bool {
        true
    }
    /// Sets an option of a level that is the family's. ENOPROTOOPT.
    fn set_option(
        &self,
        _socket: &Arc<Socket>,
        _level: i32,
        _name: i32,
        _value: &[u8],
    ) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }
    /// An option of a level that is the family's. ENOPROTOOPT.
    fn option(&self, _socket: &Arc<Socket>, _level: i32, _name: i32) -> Result<Vec<u8>> {
        Err(Errno::EOPNOTSUPP)
    }
}

/// The family with number `domain`.
pub fn family_by_number(domain: i32) -> Option<&'static dyn Family> {
    match domain {
        AF_UNIX => Some(&local::LOCAL),
        AF_INET => Some(&inet::V4),
        AF_INET6 => Some(&inet::V6),
        AF_NETLINK => Some(&netlink::NETLINK),
        _ => None,
    }
}
