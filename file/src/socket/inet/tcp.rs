//! TCP: connections between two ends, as two crossed pipes.
//!
//! *Interface*: the part of [`super::Internet`] for streams.
//!
//! `connect` links both ends at once, and the other one waits in the listener's backlog. If the backlog is
//! full, it waits behind it, and the connecting side is notified when a connection is accepted.
//!
//! Events that Linux reports later by a packet are reported here at once: a connection without a listener is
//! refused, and the peer knows of a closed end.
//!
//! Source: tcp(7); RFC 9293, section 3.6.

use abi::errno::{Errno, Result};
use abi::linux::*;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;

use super::address::family_of;
use super::{InetSocket, choose, control, lose, ports};
use crate::io::IoBuf;
use crate::pipe::broken;
use crate::socket::channel::Queues;
use crate::socket::message::{Received, Sending};
use crate::socket::{CloseKind, ENDED, NO_READ, NO_WRITE, PeerProcess, Socket};

/// Not connected.
pub(super) const IDLE: u8 = 0;
/// Waits for room at the listener.
pub(super) const WAITING: u8 = 1;
/// Connected, and `connect` has yet to say so.
const UNTOLD: u8 = 2;
/// Connected.
const CONNECTED: u8 = 3;
/// Was refused, and `connect` has yet to say so.
const REFUSED: u8 = 4;
/// Broken, or ended by both.
const BROKEN: u8 = 5;

/// States as Linux numbers them: connected, and not.
pub(super) const ESTABLISHED: u8 = 1;
pub(super) const CLOSE: u8 = 7;

/// Bytes of buffers that options tell of at first.
pub(super) const SEND_BUFFER: u32 = 16_384;
pub(super) const RECEIVE_BUFFER: u32 = 131_072;
/// Bytes that a segment would have.
pub(super) const SEGMENT: i32 = 32_768;

impl InetSocket {
    pub(super) fn stage(&self) -> u8 {
        self.stage.load(Ordering::SeqCst)
    }

    fn set_stage(&self, stage: u8) {
        self.stage.store(stage, Ordering::SeqCst);
    }

    /// Changes from one stage to another, if it is at that.
    fn step(&self, from: u8, to: u8) -> bool {
        let order = Ordering::SeqCst;
        self.stage.compare_exchange(from, to, order, order).is_ok()
    }
}

/// Whether `socket` has a peer.
pub(super) fn is_connected(socket: &Socket, own: &InetSocket) -> bool {
    let both = ENDED | NO_WRITE;
    matches!(own.stage(), UNTOLD | CONNECTED) && socket.shut.load(Ordering::SeqCst) & both != both
}

/// `connect`. Errors of connect(2).
pub(super) fn connect(socket: &Arc<Socket>, address: &[u8], nonblocking: bool) -> Result<()> {
    let own = InetSocket::of(socket)?;
    if family_of(address)? == AF_UNSPEC {
        return disconnect(socket, own);
    }
    // Bound: making two queues and linking two sockets; only calls that bind or connect the same socket.
    let turn = socket.turn.lock();
    if own.is_listening() {
        return Err(Errno::EISCONN);
    }
    let fresh = match own.stage() {
        CONNECTED | BROKEN => return Err(Errno::EISCONN),
        UNTOLD => {
            own.set_stage(CONNECTED);
            return Ok(());
        }
        REFUSED => return Err(refusal(socket, own)),
        IDLE => {
            begin(socket, own, address)?;
            true
        }
        _ => false,
    };
    drop(turn);
    if nonblocking {
        return Err(match fresh {
            true => Errno::EINPROGRESS,
            false => Errno::EALREADY,
        });
    }
    let patience = socket.patience(false, &socket.options.send_timeout);
    loop {
        if own.step(UNTOLD, CONNECTED) {
            return Ok(());
        }
        match own.stage() {
            REFUSED => return Err(refusal(socket, own)),
            WAITING => {}
            CONNECTED => return Ok(()),
            _ => return Err(Errno::ECONNABORTED),
        }
        let waited = patience.wait(&socket.changes, || own.stage() != WAITING);
        waited.map_err(|error| match error {
            Errno::EAGAIN => Errno::EINPROGRESS,
            other => other,
        })?;
    }
}

/// The error of a refused connection; `connect` may then be called again.
fn refusal(socket: &Socket, own: &InetSocket) -> Errno {
    let error = socket.take_error().err();
    socket.shut.store(0, Ordering::SeqCst);
    own.set_stage(IDLE);
    error.unwrap_or(Errno::ECONNABORTED)
}

/// The connection that `socket` wants does not come about.
fn refuse(socket: &Socket, own: &InetSocket) {
    own.set_stage(REFUSED);
    socket
        .shut
        .store(NO_READ | NO_WRITE | ENDED, Ordering::SeqCst);
    if !own.ends().fixed {
        lose(socket, own);
    }
    socket.set_error(Errno::ECONNREFUSED);
}

/// Links `socket`, whose turn the caller has, to a new end that waits at a listener, or refuses it.
/// ENETUNREACH, EADDRNOTAVAIL, ENOBUFS, ENOMEM, …
fn begin(socket: &Arc<Socket>, own: &InetSocket, address: &[u8]) -> Result<()> {
    let to = own.reach(own.parse(address)?)?;
    choose(socket, Errno::EADDRNOTAVAIL)?;
    let mut from = own.names().0;
    if from.ip.is_any() {
        from.ip = to.ip.from();
    }
    let listener = ports::listener(to, from);
    let Some(listener) = listener.filter(|listener| listener.backlog().is_some()) else {
        refuse(socket, own);
        return Ok(());
    };
    let Some(backlog) = listener.backlog() else {
        return Err(Errno::ECONNREFUSED);
    };
    let theirs = InetSocket::of(&listener)?;
    // All that may fail comes first.
    let other = Socket::new(listener.family, listener.kind, listener.protocol)?;
    let others = InetSocket::of(&other)?;
    let queues = Queues::new(socket.kind)?;
    match backlog.claim(true) {
        Err(Errno::ECONNREFUSED) => {
            refuse(socket, own);
            return Ok(());
        }
        other => other?,
    }
    if let Err(error) = ports::join(to, theirs.sharing()) {
        backlog.renounce();
        return Err(error);
    }
    other.options.inherit_all(&listener.options);
    others.inherit(theirs);
    let mut ends = others.ends();
    ends.local = to;
    ends.remote = Some(from);
    ends.joined = Some(theirs.sharing());
    drop(ends);
    others.set_stage(CONNECTED);
    let mut ends = own.ends();
    ends.local = from;
    ends.remote = Some(to);
    ends.waits = Some((Arc::downgrade(&listener), Arc::downgrade(&other)));
    drop(ends);
    ports::move_to(own.transport, from.port, socket.ino, from.ip, None);
    own.set_stage(WAITING);
    socket.connect_to(&other, queues, backlog.party(), PeerProcess::current());
    if backlog.put(&other) {
        admitted(&other);
    }
    listener.inbox.wake_readers();
    Ok(())
}

/// The listener has room for `socket`: its peer is connected.
pub(super) fn admitted(socket: &Arc<Socket>) {
    if let Some(peer) = socket.peer()
        && let Ok(own) = InetSocket::of(&peer)
        && own.step(WAITING, UNTOLD)
    {
        peer.tell();
    }
}

/// `connect` to AF_UNSPEC: breaks the connection. The socket cannot be connected again.
fn disconnect(socket: &Arc<Socket>, own: &InetSocket) -> Result<()> {
    let _turn = socket.turn.lock();
    match own.stage() {
        IDLE => {}
        REFUSED => {
            let _error = refusal(socket, own);
        }
        _ => {
            withdraw(own);
            ends(socket, CloseKind::Broken);
            socket
                .shut
                .store(NO_READ | NO_WRITE | ENDED, Ordering::SeqCst);
            if let Some(link) = socket.link() {
                socket.inbox.shut();
                link.outgoing.shut();
            }
            socket.tell();
        }
    }
    Ok(())
}

/// Ends the wait for room at a listener.
fn withdraw(own: &InetSocket) {
    let waits = own.ends().waits.take();
    if own.stage() != WAITING {
        return;
    }
    if let Some((listener, other)) = waits
        && let (Some(listener), Some(other)) = (listener.upgrade(), other.upgrade())
        && let Some(backlog) = listener.backlog()
        && backlog.withdraw(&other)
    {
        other.close();
    }
}

/// Notifies the other end of `socket` that nothing more comes, before it sees that itself.
pub(super) fn ends(socket: &Socket, ending: CloseKind) {
    let (Ok(own), Some(peer)) = (InetSocket::of(socket), socket.peer()) else {
        return;
    };
    let Ok(theirs) = InetSocket::of(&peer) else {
        return;
    };
    if own.stage() == BROKEN {
        return;
    }
    if ending == CloseKind::Finished {
        if !socket.is_ended() {
            own.first.store(true, Ordering::SeqCst);
        }
        peer.shut.fetch_or(ENDED, Ordering::SeqCst);
        return;
    }
    own.first.store(false, Ordering::SeqCst);
    own.set_stage(BROKEN);
    if theirs.stage() == WAITING {
        refuse(&peer, theirs);
        return;
    }
    let before = peer.shut.load(Ordering::SeqCst);
    let quietly = theirs.stage() == BROKEN || before & (ENDED | NO_WRITE) == ENDED | NO_WRITE;
    if !quietly {
        // Before the end can be seen: a reader would take that for all.
        theirs.set_stage(BROKEN);
        peer.set_error(match before & ENDED {
            0 => Errno::ECONNRESET,
            _ => Errno::EPIPE,
        });
    }
    peer.shut.fetch_or(NO_READ | NO_WRITE, Ordering::SeqCst);
    theirs.first.store(false, Ordering::SeqCst);
    if !quietly {
        peer.inbox.shut();
    }
}

/// `socket` is being closed, and still has its port.
pub(super) fn closes(socket: &Socket, own: &InetSocket) {
    own.set_listening(false);
    withdraw(own);
    let breaks = own.stage() == BROKEN
        || socket.options.breaks()
        || socket.inbox.has_data()
        || socket.link().is_none();
    if !breaks && (own.first.load(Ordering::SeqCst) || !socket.is_ended()) {
        ports::rest(own.names().0, own.sharing());
    }
}

/// `listener` gets no more connections; it may listen again.
pub(super) fn deafened(listener: &Socket) {
    if let Ok(own) = InetSocket::of(listener) {
        own.set_listening(false);
    }
    if let Some(backlog) = listener.backlog() {
        while let Some(waiting) = backlog.take() {
            waiting.refuse();
        }
    }
}

/// The number of bytes that are sent before the reset arrives.
const UNHEARD: usize = 512 << 10;

/// Sending to an end that no longer reads, or from an end that no longer sends. The first send to a closed
/// end succeeds, with at most [`UNHEARD`] bytes, and breaks the connection. EPIPE, ECONNRESET, EFAULT.
pub(super) fn refuses(socket: &Socket, buf: &mut IoBuf) -> Result<()> {
    let own = InetSocket::of(socket)?;
    let shut = || socket.shut.load(Ordering::SeqCst) & NO_WRITE != 0;
    if shut() || own.stage() == BROKEN {
        // After a partial send, the next call reports the error.
        let told = if buf.done() > 0 {
            Errno::EPIPE
        } else {
            socket.take_error().err().unwrap_or(Errno::EPIPE)
        };
        return Err(told);
    }
    let most = buf.done().saturating_add(UNHEARD);
    let mut piece = [0; 64];
    while buf.remaining() > 0 && buf.done() < most {
        buf.take(&mut piece)?;
    }
    own.set_stage(BROKEN);
    own.first.store(false, Ordering::SeqCst);
    socket.shut.fetch_or(NO_READ | NO_WRITE, Ordering::SeqCst);
    socket.set_error(Errno::EPIPE);
    Ok(())
}

/// Waits until `socket` is connected. EAGAIN, EINTR; EPIPE and ENOTCONN are the caller's.
fn wait_for_peer(
    socket: &Socket,
    own: &InetSocket,
    nonblocking: bool,
    reading: bool,
) -> Result<()> {
    let timeout = match reading {
        true => &socket.options.receive_timeout,
        false => &socket.options.send_timeout,
    };
    let patience = socket.patience(nonblocking, timeout);
    while own.stage() == WAITING {
        patience.wait(&socket.changes, || own.stage() != WAITING)?;
    }
    Ok(())
}

pub(super) fn send(socket: &Arc<Socket>, buf: &mut IoBuf, mut sending: Sending) -> Result<usize> {
    let own = InetSocket::of(socket)?;
    // TCP asks for neither.
    sending.to = None;
    control::about_socket(&sending.control)?;
    wait_for_peer(socket, own, sending.nonblocking, false)?;
    if socket.link().is_none() || own.stage() == BROKEN || socket.has_error() {
        let error = socket.take_error().err().unwrap_or(Errno::EPIPE);
        if error == Errno::EPIPE && sending.flags & MSG_NOSIGNAL == 0 {
            broken();
        }
        return Err(error);
    }
    sending.flags &= !MSG_OOB;
    socket.send_plainly(buf, sending)
}

pub(super) fn receive(
    socket: &Socket,
    buf: &mut IoBuf,
    flags: u32,
    nonblocking: bool,
) -> Result<Received> {
    let own = InetSocket::of(socket)?;
    if flags & MSG_ERRQUEUE != 0 {
        return Err(Errno::EAGAIN);
    }
    if flags & MSG_OOB != 0 {
        return Err(Errno::EINVAL);
    }
    wait_for_peer(socket, own, nonblocking, true)?;
    if socket.link().is_none() {
        socket.take_error()?;
        return match socket.reads_no_more() && !own.is_listening() && own.stage() == REFUSED {
            true => Ok(Received::default()),
            false => Err(Errno::ENOTCONN),
        };
    }
    socket.receive_plainly(buf, flags, nonblocking)
}

/// The state of a connection as Linux numbers them.
pub(super) fn state(socket: &Socket) -> u8 {
    const SYN_SENT: u8 = 2;
    const FIN_WAIT2: u8 = 5;
    const CLOSE_WAIT: u8 = 8;
    const LISTEN: u8 = 10;
    let Ok(own) = InetSocket::of(socket) else {
        return CLOSE;
    };
    if own.is_listening() {
        return LISTEN;
    }
    let shut = socket.shut.load(Ordering::SeqCst);
    match (own.stage(), shut & NO_WRITE != 0, shut & ENDED != 0) {
        (WAITING, ..) => SYN_SENT,
        (UNTOLD | CONNECTED, false, false) => ESTABLISHED,
        (UNTOLD | CONNECTED, true, false) => FIN_WAIT2,
        (UNTOLD | CONNECTED, false, true) => CLOSE_WAIT,
        _ => CLOSE,
    }
}
