//! NETLINK_SOCK_DIAG: the list of sockets, for `ss`.
//!
//! *Interface*: [`DIAG`] answers, about AF_UNIX, AF_INET and AF_INET6. `ss` does its own filtering.

use abi::errno::{Errno, Result};
use abi::linux::*;
use alloc::sync::Arc;

use super::message::Message;
use super::{Asked, Dump, Protocol, Wanted};
use crate::socket::{Host, Socket, SocketType, socket_list};

/// Answers.
pub struct Diag;

/// The one there is.
pub static DIAG: Diag = Diag;

impl Protocol for Diag {
    fn groups(&self) -> u32 {
        SKNLGRP_MAX
    }

    fn answer(&self, asked: &Asked, to: &mut Message) -> Result<Option<Dump>> {
        if asked.header.kind != SOCK_DIAG_BY_FAMILY {
            return Err(Errno::EINVAL);
        }
        let [family, protocol]: [u8; 2] = asked.fixed()?;
        if i32::from(family) >= AF_MAX {
            return Err(Errno::EINVAL);
        }
        match i32::from(family) {
            AF_UNIX => {}
            AF_INET | AF_INET6 => return internet(asked, protocol).map(Some),
            _ => return Err(Errno::ENOENT),
        }
        let asks: UnixDiagReq = asked.fixed()?;
        let wanted = Wanted {
            states: asks.states,
            show: asks.show,
            ..asked.wanted(family)
        };
        if asked.dumps() {
            let (rows, from) = (locals, 0);
            return Ok(Some(Dump { wanted, rows, from }));
        }
        if asks.ino == 0 {
            return Err(Errno::EINVAL);
        }
        let mut at = 0;
        while let Some((place, socket)) = socket_list::from(at) {
            if i32::from(family) == socket.family.number() && socket.ino == u64::from(asks.ino) {
                let cookie = [socket.ino as u32, (socket.ino >> 32) as u32];
                if asks.cookie != [u32::MAX; 2] && asks.cookie != cookie {
                    return Err(Errno::ESTALE);
                }
                local(&socket, &wanted, 0, to);
                return Ok(None);
            }
            at = place + 1;
        }
        Err(Errno::ENOENT)
    }
}

/// The sockets of one protocol of IPv4 or IPv6. EINVAL, ENOENT; EOPNOTSUPP: a request for one socket.
fn internet(asked: &Asked, protocol: u8) -> Result<Dump> {
    let asks: InetDiagReq = asked.fixed()?;
    if !matches!(i32::from(protocol), IPPROTO_TCP | IPPROTO_UDP | IPPROTO_RAW) {
        return Err(Errno::ENOENT);
    }
    if !asked.dumps() {
        return Err(Errno::EOPNOTSUPP);
    }
    Ok(Dump {
        wanted: Wanted {
            states: asks.states,
            protocol,
            ..asked.wanted(asks.family)
        },
        rows: hosts,
        from: 0,
    })
}

fn hosts(wanted: &Wanted, from: u64, to: &mut Message) -> Option<u64> {
    let (place, socket) = socket_list::from(from)?;
    let standing = socket.family.standing(&socket);
    let shown = 1_u32.checked_shl(standing.state.into()).unwrap_or(0);
    let asked = socket.family.number() == i32::from(wanted.family)
        && socket.protocol == i32::from(wanted.protocol)
        && wanted.states & shown != 0;
    let (host, port) = socket.own_name().host_and_port();
    // A socket without a port cannot be reached.
    if asked && port != 0 {
        let peer = socket.family.peer_name(&socket);
        let (other, theirs) = peer.unwrap_or_default().host_and_port();
        let fixed = InetDiagMsg {
            family: wanted.family,
            state: standing.state,
            timer: 0,
            retrans: 0,
            id: InetDiagSockid {
                sport: port.to_be_bytes(),
                dport: theirs.to_be_bytes(),
                src: bytes(host),
                dst: bytes(other),
                interface: 0,
                cookie: [socket.ino as u32, (socket.ino >> 32) as u32],
            },
            expires: 0,
            rqueue: standing.receive_queue as u32,
            wqueue: standing.send_queue as u32,
            uid: socket.uid(),
            inode: socket.ino as u32,
        };
        to.begin(
            SOCK_DIAG_BY_FAMILY,
            NLM_F_MULTI,
            wanted.sequence,
            wanted.port,
            &fixed,
        );
        to.attribute(INET_DIAG_SHUTDOWN, &[shut(&socket)]);
    }
    Some(place + 1)
}

/// An address in the room of the longest.
fn bytes(host: Host) -> [u8; 16] {
    match host {
        Host::Six(bytes) => bytes,
        Host::Four([a, b, c, d]) => [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    }
}

/// Which halves of it are shut down: 1 for reading, 2 for writing.
fn shut(socket: &Socket) -> u8 {
    u8::from(socket.reads_no_more()) | u8::from(socket.writes_no_more()) << 1
}

/// `TCP_*`, which stand for the states of all sockets.
fn state(socket: &Socket) -> u8 {
    match (socket.link(), socket.backlog()) {
        (Some(_), _) => TCP_ESTABLISHED,
        (None, Some(_)) => TCP_LISTEN,
        _ if socket.kind == SocketType::Datagram && socket.peer().is_some() => TCP_ESTABLISHED,
        _ => TCP_CLOSE,
    }
}

fn locals(wanted: &Wanted, from: u64, to: &mut Message) -> Option<u64> {
    let (place, socket) = socket_list::from(from)?;
    let shown = 1_u32.checked_shl(state(&socket).into()).unwrap_or(0);
    if socket.family.number() == AF_UNIX && wanted.states & shown != 0 {
        local(&socket, wanted, NLM_F_MULTI, to);
    }
    Some(place + 1)
}

fn local(socket: &Arc<Socket>, wanted: &Wanted, flags: u16, to: &mut Message) {
    let fixed = UnixDiagMsg {
        family: AF_UNIX as u8,
        kind: socket.kind.number() as u8,
        state: state(socket),
        pad: 0,
        ino: socket.ino as u32,
        cookie: [socket.ino as u32, (socket.ino >> 32) as u32],
    };
    to.begin(
        SOCK_DIAG_BY_FAMILY,
        flags,
        wanted.sequence,
        wanted.port,
        &fixed,
    );
    let shows = |what| wanted.show & what != 0;
    if shows(UDIAG_SHOW_NAME)
        && let Some(name) = socket.name.get()
    {
        to.attribute(UNIX_DIAG_NAME, name.bytes().get(2..).unwrap_or_default());
    }
    if shows(UDIAG_SHOW_PEER)
        && let Some(peer) = socket.peer()
    {
        to.number(UNIX_DIAG_PEER, peer.ino as u32);
    }
    if shows(UDIAG_SHOW_RQLEN) {
        let (receive, send) = socket.queues();
        let lengths = [receive as u32, send as u32];
        to.attribute(UNIX_DIAG_RQLEN, bytemuck::bytes_of(&lengths));
    }
    to.attribute(UNIX_DIAG_SHUTDOWN, &[shut(socket)]);
}
