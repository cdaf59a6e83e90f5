//! What an address family gives to the layer of sockets.
//!
//! *Interface*: [`Family`]; [`numbered`] finds one.

use abi::errno::{Errno, Result};
use abi::linux::*;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{Address, Kind, Socket, local};

/// What a socket wants a name for that has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// To listen.
    Listen,
    /// To connect, or to send.
    Reach,
}

/// An address family: who is called what, and what a name leads to. Addresses are bytes as the program has them, the family first.
pub trait Family: Send + Sync {
    /// `AF_*`.
    fn number(&self) -> i32;
    /// The kind of socket for `SOCK_*` and a protocol. ESOCKTNOSUPPORT, EPROTONOSUPPORT.
    fn kind(&self, kind: i32, protocol: i32) -> Result<Kind>;
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
    /// The socket that has the name `address`, for one that wants to connect or send to it. EINVAL, ECONNREFUSED, …
    fn find(&self, from: &Arc<Socket>, address: &[u8]) -> Result<Arc<Socket>>;
    /// A connection to `listener` was made, whose end there is `socket`.
    fn accepted(&self, _listener: &Arc<Socket>, _socket: &Arc<Socket>) {}
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
        _ => None,
    }
}
