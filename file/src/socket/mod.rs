//! Sockets: named ends of channels of bytes and messages.
//!
//! *Interface*: [`open`] and [`pair`] make them; [`Socket::of`] finds the one behind a description, whose
//! methods are the calls. [`Family`] is the interface of an address family: names and their look-up
//! ([`local`]: AF_UNIX; [`inet`]: AF_INET, AF_INET6; [`netlink`]: AF_NETLINK). All else is here, and common
//! to all families. [`socket_list`] lists all sockets.
//!
//! Each socket has an inbox, a [`Channel`]. A connection links two sockets: each sends into the inbox of the
//! other. The channel of a stream is the queue of a pipe ([`quaject::pipe`]), so `read` and `write` of a
//! connected stream are the routines of two crossed pipes. Data at a position of the stream besides bytes
//! (descriptors, credentials), and each datagram, is a [`record`]; while there are any, the pipe's queue
//! appears closed to its routines, and the plain paths check the records.
//!
//! Source: dissertation, section 4.1.2 (opening an I/O pipe creates a queue); socket(7), unix(7).

mod accept;
mod address;
mod ancillary;
mod channel;
mod datagram;
mod family;
mod file;
mod inactive;
pub mod inet;
pub mod local;
pub mod message;
pub mod netlink;
pub mod options;
pub mod record;
pub mod socket_list;
mod stream;

use abi::errno::{Errno, Result};
use abi::linux::*;
use alloc::sync::Arc;
use core::any::Any;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU64, Ordering};
use quaject::pipe::PipeCore;
use sync::{Monitor, Once, WaitList};

use crate::fdtable::scm_rights::{self, FdCarrier, ScmRights};
use crate::fs::Attr;
use crate::fs::attr::SOCKET_DEV;
use crate::fs::file::OpenFile;
use crate::fs::unnamed::UnnamedInode;
use crate::io::IoBuf;
use crate::pipe;
use account::Cred;
use account::caller;
use thread::deadline::Deadline;
use vm::fallible::{try_arc, try_placed};

pub use accept::Backlog;
pub use address::{Address, Host};
use channel::Queues;
pub use channel::{Channel, Outbox};
pub use family::{CloseKind, Family, NeedsName, PutControl, SocketState};
use file::Open;
use message::{Received, Sending};
pub use options::SocketOptions;

/// The kinds of sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketType {
    /// Bytes between two ends (SOCK_STREAM).
    Stream,
    /// Messages to any destination (SOCK_DGRAM).
    Datagram,
    /// Messages between two ends (SOCK_SEQPACKET).
    Packets,
    /// Messages of a protocol, as they are (SOCK_RAW).
    Raw,
}

impl SocketType {
    /// `SOCK_*`.
    pub fn number(self) -> i32 {
        match self {
            SocketType::Stream => SOCK_STREAM,
            SocketType::Datagram => SOCK_DGRAM,
            SocketType::Packets => SOCK_SEQPACKET,
            SocketType::Raw => SOCK_RAW,
        }
    }

    /// Whether two ends are connected for good.
    pub fn connects(self) -> bool {
        matches!(self, SocketType::Stream | SocketType::Packets)
    }
}

/// The process that made a socket, or connected it.
#[derive(Clone)]
pub struct PeerProcess {
    /// The process's number.
    pub pid: i32,
    /// Its rights at that time.
    pub cred: Arc<Cred>,
}

impl PeerProcess {
    /// The caller.
    pub fn current() -> PeerProcess {
        PeerProcess {
            pid: caller::number(),
            cred: caller::cred(),
        }
    }
}

/// The other end of a connection.
pub struct PeerLink {
    /// The target of sent data: the other end's inbox.
    pub outgoing: Arc<Channel>,
    /// The other end, until this one is closed.
    pub peer: Monitor<Option<Arc<Socket>>>,
}

/// An address as a call names it: its first word, which tells it from all others of its family, and its
/// length in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressKey {
    /// The first word.
    pub word: u64,
    /// The length.
    pub length: u32,
}

/// Nothing more is read.
const NO_READ: u8 = 1;
/// Nothing more is written.
const NO_WRITE: u8 = 2;
/// The other end has said that it writes nothing more.
const ENDED: u8 = 4;

/// How a socket came to where it is; held while that changes.
pub struct ConnectTurn;

/// A socket.
pub struct Socket {
    /// Its number, as in `socket:[7]`.
    pub ino: u64,
    /// Its owner, the process that made or accepted it, and what `fchmod` and `fchown` change.
    pub(super) inode: UnnamedInode,
    /// Its family.
    pub family: &'static dyn Family,
    /// The kind of data.
    pub kind: SocketType,
    /// The protocol given to `socket`.
    pub protocol: i32,
    /// The settings of `setsockopt`.
    pub options: SocketOptions,
    /// The family's data.
    pub own: Once<Arc<dyn Any + Send + Sync>>,
    /// Held while it is bound, begins to listen or is connected. Copies from the program, and sleeps, are
    /// done without it.
    pub turn: Monitor<ConnectTurn>,
    /// Its incoming data.
    pub inbox: Arc<Channel>,
    /// Its sent but unread data.
    pub outbox: Arc<Outbox>,
    /// The name that it was bound to.
    pub name: Once<Address>,
    /// The process that made the other end, connected or listened.
    party: Once<PeerProcess>,
    /// It waits to be accepted: each message to it has credentials, since it may ask for them later.
    waits: AtomicBool,
    link: Once<PeerLink>,
    backlog: Once<Backlog>,
    /// The target of a datagram socket.
    target: Monitor<Option<Arc<Socket>>>,
    /// The inbox that all its messages go to, by the queue there, until that is retired.
    lane: Once<Arc<Channel>>,
    /// The same for its messages to one address, which each call names.
    named: Once<(AddressKey, Arc<Channel>)>,
    /// Woken at changes that are neither data nor space.
    pub changes: WaitList,
    shut: AtomicU8,
    error: AtomicI32,
    entry: socket_list::ListEntry,
}

/// Frees the pipes, and the queues of sockets, that wait for the next ones.
pub fn free_inactive() {
    pipe::give_up_waiting();
    inactive::clear();
}

impl Socket {
    /// Calls `each` with its channels: its own, and those of the connections that wait in it.
    fn each_channel(&self, each: &mut dyn FnMut(&Channel)) {
        each(&self.inbox);
        if let Some(backlog) = self.backlog() {
            backlog.look(|waiting| each(&waiting.inbox));
        }
    }
}

impl FdCarrier for Socket {
    fn each(&self, step: &mut dyn FnMut(&ScmRights)) {
        self.each_channel(&mut |channel| {
            channel.look(|records| {
                let rights = records
                    .iter()
                    .filter_map(|record| record.along.rights.as_ref());
                rights.for_each(&mut *step);
            });
        });
    }

    fn take(&self, take: &mut dyn FnMut(&mut Option<ScmRights>)) {
        self.each_channel(&mut |channel| channel.change(|record| take(&mut record.along.rights)));
    }
}

static NEXT_INO: AtomicU64 = AtomicU64::new(1 << 16);

impl Socket {
    /// The answer of `fstat` about one that nobody has changed.
    fn made(&self) -> Attr {
        Attr {
            dev: SOCKET_DEV,
            ino: self.ino,
            mode: S_IFSOCK | 0o777,
            ..Attr::anonymous()
        }
    }

    /// The answer of `fstat`.
    pub(crate) fn attr(&self) -> Attr {
        self.inode.attr(self.made())
    }

    /// The user to whom it belongs.
    pub fn uid(&self) -> u32 {
        self.inode.owner().0
    }

    /// A socket of `family`. ENOMEM.
    pub fn new(
        family: &'static dyn Family,
        kind: SocketType,
        protocol: i32,
    ) -> Result<Arc<Socket>> {
        let inbox = try_placed(Channel::new)?;
        let outbox = try_arc(Outbox::new())?;
        let ino = NEXT_INO.fetch_add(1, Ordering::Relaxed);
        let cred = caller::cred();
        let socket = try_placed(|| Socket {
            ino,
            inode: UnnamedInode::new(cred.fsuid, cred.fsgid),
            family,
            kind,
            protocol,
            options: SocketOptions::new(),
            own: Once::new(),
            turn: Monitor::new(ConnectTurn),
            inbox,
            outbox,
            name: Once::new(),
            party: Once::new(),
            waits: AtomicBool::new(false),
            link: Once::new(),
            backlog: Once::new(),
            target: Monitor::new(None),
            lane: Once::new(),
            named: Once::new(),
            changes: WaitList::new(),
            shut: AtomicU8::new(0),
            error: AtomicI32::new(0),
            entry: socket_list::ListEntry::default(),
        })?;
        family.made(&socket)?;
        socket_list::enter(&socket)?;
        Ok(socket)
    }

    /// The socket behind `of`. ENOTSOCK.
    pub fn of(of: &OpenFile) -> Result<&Arc<Socket>> {
        of.file_as::<Open>()
            .map(|open| &open.0)
            .ok_or(Errno::ENOTSOCK)
    }

    /// The socket of a description as a carrier of descriptors; none of another file.
    fn carrier(of: &OpenFile) -> Option<Arc<dyn FdCarrier>> {
        Some(Self::of(of).ok()?.clone())
    }

    /// A description of it, with status flags `flags` (O_NONBLOCK). ENOMEM.
    pub fn description(self: &Arc<Self>, flags: u32) -> Result<Arc<OpenFile>> {
        let open = try_arc(Open(self.clone()))?;
        if flags & O_NONBLOCK != 0 {
            self.inbox.set_patient(false);
        }
        Ok(OpenFile::new(open, O_RDWR | flags & O_NONBLOCK))
    }

    /// Whether it is connected and not accepted yet.
    pub fn is_waiting(&self) -> bool {
        self.waits.load(Ordering::SeqCst)
    }

    /// Its other end.
    pub fn link(&self) -> Option<&PeerLink> {
        self.link.get()
    }

    /// Connections that wait to be accepted, if it listens.
    pub fn backlog(&self) -> Option<&Backlog> {
        self.backlog.get()
    }

    /// The result of `getsockname`.
    pub fn own_name(&self) -> Address {
        self.family.own_name(self)
    }

    /// Sends the bytes of `buf`; returns their number. Errors of send(2).
    pub fn send(self: &Arc<Self>, buf: &mut IoBuf, sending: Sending) -> Result<usize> {
        self.family.send(self, buf, sending)
    }

    /// Receives into `buf`. Errors of recv(2).
    pub fn receive(&self, buf: &mut IoBuf, flags: u32, nonblocking: bool) -> Result<Received> {
        self.family.receive(self, buf, flags, nonblocking)
    }

    /// As [`Socket::send`], if the family has nothing to say.
    pub(super) fn send_plainly(
        self: &Arc<Self>,
        buf: &mut IoBuf,
        sending: Sending,
    ) -> Result<usize> {
        if sending.flags & MSG_OOB != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        match self.kind {
            SocketType::Stream => self.send_stream(buf, sending),
            SocketType::Datagram | SocketType::Packets | SocketType::Raw => {
                self.send_record(buf, sending)
            }
        }
    }

    /// As [`Socket::receive`], if the family has nothing to say.
    pub(super) fn receive_plainly(
        &self,
        buf: &mut IoBuf,
        flags: u32,
        nonblocking: bool,
    ) -> Result<Received> {
        if flags & MSG_OOB != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        match self.kind {
            SocketType::Stream => self.receive_stream(buf, flags, nonblocking),
            SocketType::Datagram | SocketType::Packets | SocketType::Raw => {
                self.receive_record(buf, flags, nonblocking)
            }
        }
    }

    /// The other end; for a datagram socket, its target.
    pub fn peer(&self) -> Option<Arc<Socket>> {
        match self.link() {
            // Bound: exchanging or copying one counted handle.
            Some(link) => link.peer.lock().clone(),
            // Bound: exchanging or copying one counted handle.
            None => self.target.lock().clone(),
        }
    }

    /// Whether no more data will come.
    pub fn reads_no_more(&self) -> bool {
        self.shut.load(Ordering::SeqCst) & NO_READ != 0 || self.inbox.is_shut()
    }

    /// Whether nothing more can be sent.
    pub fn writes_no_more(&self) -> bool {
        self.shut.load(Ordering::SeqCst) & NO_WRITE != 0
            || self.family.refuses_after_shutdown() && self.is_heard_no_more()
    }

    /// Whether the other end takes nothing more.
    fn is_heard_no_more(&self) -> bool {
        self.link().is_some_and(|link| link.outgoing.is_shut())
    }

    /// Whether the other end has said that it writes nothing more.
    fn is_ended(&self) -> bool {
        self.shut.load(Ordering::SeqCst) & ENDED != 0
    }

    /// The error that waits to be reported, which is reported once.
    pub fn take_error(&self) -> Result<()> {
        let own = self.error.swap(0, Ordering::SeqCst);
        let reset = self.inbox.take_reset();
        match own {
            0 if reset => Err(Errno::ECONNRESET),
            0 => Ok(()),
            number => Err(Errno(number)),
        }
    }

    /// Whether an error waits.
    pub fn has_error(&self) -> bool {
        self.error.load(Ordering::SeqCst) != 0 || self.inbox.is_reset()
    }

    /// From now on the routines of a datagram socket, and of its senders, leave everything to the plain
    /// paths.
    pub(super) fn leave_lane(&self) {
        if self.kind != SocketType::Datagram {
            return;
        }
        self.inbox.retire();
        if let Some(lane) = self.lane.get() {
            lane.retire();
        }
        if let Some((_, lane)) = self.named.get() {
            lane.retire();
        }
    }

    /// Leaves an error to be reported.
    pub fn set_error(&self, error: Errno) {
        self.error.store(error.0, Ordering::SeqCst);
        self.leave_lane();
        self.tell();
    }

    /// Wakes all its waiters.
    pub fn tell(&self) {
        self.inbox.wake_readers();
        self.outbox.wake();
        self.changes.wake_all();
    }

    /// The queue that its messages go to.
    fn lane(&self) -> Option<&Arc<PipeCore>> {
        self.lane.get().and_then(|inbox| inbox.queue())
    }

    /// The queue that its messages to one address go to, and that address.
    fn named_lane(&self) -> Option<(AddressKey, &Arc<PipeCore>)> {
        let (key, inbox) = self.named.get()?;
        Some((*key, inbox.queue()?))
    }

    /// `shutdown`. EINVAL; the family's error for an unconnected socket.
    pub fn shutdown(&self, how: i32) -> Result<()> {
        let bits = match how {
            SHUT_RD => NO_READ,
            SHUT_WR => NO_WRITE,
            SHUT_RDWR => NO_READ | NO_WRITE,
            _ => return Err(Errno::EINVAL),
        };
        self.family.shuts_down(self)?;
        let before = self.shut.fetch_or(bits, Ordering::SeqCst);
        self.leave_lane();
        if let Some(link) = self.link() {
            if bits & NO_READ != 0 {
                match self.family.refuses_after_shutdown() {
                    true => self.inbox.shut(),
                    false => self.inbox.set_deaf(),
                }
            }
            if bits & !before & NO_WRITE != 0 {
                self.family.ends(self, CloseKind::Finished);
                link.outgoing.shut();
            }
            if let Some(peer) = self.peer() {
                peer.tell();
            }
        }
        if let Some(backlog) = self.backlog()
            && bits & NO_READ != 0
        {
            backlog.close();
            self.family.deafened(self);
        }
        self.tell();
        Ok(())
    }

    /// Its description is gone.
    pub fn close(&self) {
        self.family.unbind(self);
        if let Some(backlog) = self.backlog() {
            backlog.close();
            while let Some(waiting) = backlog.take() {
                waiting.refuse();
            }
        }
        let unread = self.inbox.has_data();
        if let Some(link) = self.link() {
            let ending = match self.family.breaks(self, unread) {
                true => CloseKind::Broken,
                false => CloseKind::Finished,
            };
            self.family.ends(self, ending);
            self.inbox.shut();
            link.outgoing.shut();
            let peer = link.peer.lock().take();
            if let Some(peer) = peer {
                peer.tell();
            }
        } else {
            self.inbox.shut();
        }
        let target = self.target.lock().take();
        drop(target);
        self.inbox.clear();
        self.tell();
        scm_rights::collect();
    }

    /// Bytes for the next reads: with messages, those of the first one.
    fn unread(&self) -> usize {
        match self.kind {
            SocketType::Stream => self.inbox.available(),
            SocketType::Datagram | SocketType::Packets | SocketType::Raw => {
                self.inbox.first_length()
            }
        }
    }

    /// Its sent but unread bytes.
    fn unsent(&self) -> usize {
        let queue = self.link().and_then(|link| link.outgoing.queue());
        self.outbox.used() + queue.map_or(0, |queue| queue.available())
    }

    /// Bytes to be read and bytes that were sent and not read; for a listener, the waiting connections and
    /// their limit.
    pub fn queues(&self) -> (usize, usize) {
        match self.backlog() {
            Some(backlog) if !backlog.is_closed() => {
                let (most, count) = backlog.counts();
                (count, most)
            }
            _ => (self.unread(), self.unsent()),
        }
    }

    /// How long its calls wait: not at all if `now`, or else as long as the option `timeout` says.
    fn patience(&self, now: bool, timeout: &AtomicU64) -> WaitLimit {
        match timeout.load(Ordering::Relaxed) {
            _ if now => WaitLimit {
                deadline: Deadline::now(),
                timed: true,
            },
            0 => WaitLimit {
                deadline: Deadline::never(),
                timed: false,
            },
            ns => WaitLimit {
                deadline: Deadline::after_ns(ns),
                timed: true,
            },
        }
    }
}

/// How long a call waits.
pub struct WaitLimit {
    deadline: Deadline,
    timed: bool,
}

impl WaitLimit {
    /// Whether it does not wait at all.
    pub fn is_none(&self) -> bool {
        self.deadline.is_now()
    }

    /// Sleeps by `sleep`, which gets a condition that ends the sleep, until `ready`. Another thread may be
    /// faster and take the data, so the caller checks again. EAGAIN, EINTR, ERESTARTSYS, ENOMEM.
    pub fn wait_by(
        &self,
        ready: impl Fn() -> bool,
        sleep: impl FnOnce(&dyn Fn() -> bool) -> core::result::Result<(), sync::Interrupted>,
    ) -> Result<()> {
        if self.deadline.is_now() {
            return Err(Errno::EAGAIN);
        }
        let _alarm = self.deadline.alarm()?;
        let slept = sleep(&|| ready() || self.deadline.has_passed());
        match slept {
            _ if ready() => Ok(()),
            Ok(()) if self.deadline.has_passed() => Err(Errno::EAGAIN),
            Ok(()) => Ok(()),
            // With an end in time it is not begun anew.
            Err(sync::Interrupted) if self.timed => Err(Errno::EINTR),
            Err(sync::Interrupted) => Err(Errno::ERESTARTSYS),
        }
    }

    /// Sleeps on `list` until `ready`; as [`WaitLimit::wait_by`].
    pub fn wait(&self, list: &WaitList, ready: impl Fn() -> bool) -> Result<()> {
        self.wait_by(ready, |done| {
            list.wait_interruptible(|| done().then_some(()))
        })
    }
}

/// The family and the socket kind that `socket` and `socketpair` name. EAFNOSUPPORT, EINVAL, ESOCKTNOSUPPORT,
/// EPROTONOSUPPORT.
fn choose(domain: i32, kind: i32, protocol: i32) -> Result<(&'static dyn Family, SocketType, i32)> {
    if !(0..AF_MAX).contains(&domain) {
        return Err(Errno::EAFNOSUPPORT);
    }
    if !(0..SOCK_MAX).contains(&kind) {
        return Err(Errno::EINVAL);
    }
    let family = family::family_by_number(domain).ok_or(Errno::EAFNOSUPPORT)?;
    let (kind, protocol) = family.kind(kind, protocol)?;
    Ok((family, kind, protocol))
}

/// A new socket.
pub fn open(domain: i32, kind: i32, protocol: i32) -> Result<Arc<Socket>> {
    let (family, kind, protocol) = choose(domain, kind, protocol)?;
    Socket::new(family, kind, protocol)
}

/// Two new connected sockets. The errors of [`open`], EOPNOTSUPP.
pub fn pair(domain: i32, kind: i32, protocol: i32) -> Result<[Arc<Socket>; 2]> {
    let (family, kind, protocol) = choose(domain, kind, protocol)?;
    if !family.makes_pairs() {
        return Err(Errno::EOPNOTSUPP);
    }
    let ends = [
        Socket::new(family, kind, protocol)?,
        Socket::new(family, kind, protocol)?,
    ];
    let party = PeerProcess::current();
    let [one, other] = &ends;
    if kind.connects() {
        one.connect_to(other, Queues::new(kind)?, party.clone(), party);
    } else {
        for (from, to) in [(one, other), (other, one)] {
            // It is new.
            let _none = from.party.set(party.clone());
            // Bound: copying one counted handle.
            *from.target.lock() = Some(to.clone());
        }
    }
    Ok(ends)
}

impl Socket {
    /// Links two sockets that no other thread changes; `theirs` is the owner of `other` as `self` reports it,
    /// and the reverse.
    fn connect_to(
        self: &Arc<Self>,
        other: &Arc<Socket>,
        queues: Queues,
        theirs: PeerProcess,
        ours: PeerProcess,
    ) {
        queues.lay(self, other);
        for (one, two, party) in [(other, self, ours), (self, other, theirs)] {
            let link = PeerLink {
                outgoing: two.inbox.clone(),
                peer: Monitor::new(Some(two.clone())),
            };
            // No other thread links them.
            let _none = one.party.set(party);
            let _none = one.link.set(link);
        }
        self.follow_credentials();
    }

    /// After an end has requested, or no longer requests, senders' credentials.
    pub fn follow_credentials(&self) {
        let Some(link) = self.link().filter(|_| self.family.tells_sender()) else {
            return;
        };
        let peer = self.peer();
        let wants = |socket: &Socket| {
            socket.options.pass_credentials() || socket.waits.load(Ordering::SeqCst)
        };
        let marked = wants(self) || peer.as_ref().is_some_and(|peer| wants(peer));
        self.inbox.set_marked(marked);
        link.outgoing.set_marked(marked);
    }
}
