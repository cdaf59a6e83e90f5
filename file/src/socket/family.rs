//! What an address family gives to the layer of sockets.
//!
//! *Interface*: [`Family`]; [`numbered`] finds one.

use abi::errno::{Errno, Result};
use abi::linux::*;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::message::{Received, Sending};
use super::record::Packet;
use super::{Address, Kind, Socket, inet, local, netlink};
use crate::io::IoBuf;

/// Writes a control message: its level, its kind, its data.
pub type Telling<'a> = &'a mut dyn FnMut(i32, i32, &[u8]) -> Result<()>;

/// How one end of a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Nothing more is sent.
    Finished,
    /// The connection is broken.
    Broken,
}

/// How a socket stands: its state (of AF_UNIX `SS_*`, else `TCP_*`), and what waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// The state, as a number.
    pub state: u8,
    /// Bytes to be read; of a listener, connections to be accepted.
    pub receive_queue: usize,
    /// Bytes that the other end has not read; of a listener, how many connections may wait.
    pub send_queue: usize,
}

/// What a socket wants a name for that has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// To listen.
    Listen,
    /// To connect, or to send.
    Reach,
}

/// An address family: who is called what, and what a name leads to. Addresses are bytes as the program has
/// them, the family first.
pub trait Family: Send + Sync {
    /// `AF_*`.
    fn number(&self) -> i32;
    /// The kind of socket for `SOCK_*` and a protocol, and the protocol that it has then. ESOCKTNOSUPPORT,
    /// EPROTONOSUPPORT.
    fn kind(&self, kind: i32, protocol: i32) -> Result<(Kind, i32)>;
    /// `socket` is new. ENOMEM.
    fn made(&self, _socket: &Arc<Socket>) -> Result<()> {
        Ok(())
    }
    /// Whether messages can tell who sent them.
    fn tells_sender(&self) -> bool {
        true
    }
    /// Whether it reads the control messages of what is sent itself; they are not about descriptors then.
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
    fn name(&self, _socket: &Arc<Socket>, _want: Want) -> Result<()> {
        Ok(())
    }
    /// The socket that has the name `address`, for one that wants to connect or send to it. EINVAL,
    /// ECONNREFUSED, …
    fn find(&self, from: &Arc<Socket>, address: &[u8]) -> Result<Arc<Socket>>;
    /// Connects `socket` to who has the name `address`. Errors of connect(2).
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
    /// The other end of the stream `socket` takes nothing more, or `socket` sends nothing more: what becomes
    /// of `buf`. EPIPE, ECONNRESET.
    fn refuses(&self, _socket: &Socket, _buf: &mut IoBuf) -> Result<()> {
        Err(Errno::EPIPE)
    }
    /// The other end of `socket` is told, before anything else, that `socket` sends nothing more.
    fn ends(&self, socket: &Socket, ending: Ending) {
        if let (Ending::Broken, Some(link)) = (ending, socket.link()) {
            link.outgoing.reset();
        }
    }
    /// Whether `socket`, which is being closed, breaks its connection; `unread`: there is something that
    /// nobody will read.
    fn breaks(&self, _socket: &Socket, unread: bool) -> bool {
        unread
    }
    /// The listener `socket`, to which nobody comes any more, is not closed.
    fn deafened(&self, _listener: &Socket) {}
    /// Whether `socket` is being connected.
    fn is_connecting(&self, _socket: &Socket) -> bool {
        false
    }
    /// What `getsockname` says.
    fn own_name(&self, socket: &Socket) -> Address {
        let name = socket.name.get();
        name.cloned().unwrap_or_else(|| self.nameless())
    }
    /// What `getpeername` says. ENOTCONN.
    fn peer_name(&self, socket: &Socket) -> Result<Address> {
        let peer = socket.peer().ok_or(Errno::ENOTCONN)?;
        Ok(peer.own_name())
    }
    /// What poll says beside POLLOUT.
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
    fn tell(&self, _socket: &Socket, _packet: &Packet, _write: Telling<'_>) -> Result<()> {
        Ok(())
    }
    /// Of a message that came by the queue: the name of who sent it, and how it came.
    fn heard(&self, _socket: &Socket) -> (Option<Address>, Option<Packet>) {
        (None, None)
    }
    /// How `socket` stands, as `/proc/net` and those who ask the kernel for sockets say.
    fn standing(&self, socket: &Socket) -> Standing;
    /// `socket` is closed: its name leads nowhere.
    fn unbind(&self, socket: &Socket);
    /// What `getsockname` says of one that has no name, and others are told of who sent something.
    fn nameless(&self) -> Address;
    /// Whether a `shutdown` is in order. ENOTCONN.
    fn shuts_down(&self, _socket: &Socket) -> Result<()> {
        Ok(())
    }
    /// Whether the other end is refused what it sends to one that reads no more.
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
pub fn numbered(domain: i32) -> Option<&'static dyn Family> {
    match domain {
        AF_UNIX => Some(&local::LOCAL),
        AF_INET => Some(&inet::V4),
        AF_INET6 => Some(&inet::V6),
        AF_NETLINK => Some(&netlink::NETLINK),
        _ => None,
    }
}
