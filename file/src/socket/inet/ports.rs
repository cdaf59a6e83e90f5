//! The owners of ports.
//!
//! *Interface*: [`bind`] gives a socket a port, [`unbind`] releases it; [`listen`] and [`listener`] are for
//! connections, [`receiver`] and [`receivers`] for messages. [`enter_raw`] is for receivers of all messages
//! of a protocol. [`join`] and [`part`] count connections that have the port of their listener; [`rest`]
//! keeps a port for a while after this side has ended a connection (TIME_WAIT).
//!
//! Ports lie in chains by transport and number, so a look-up does not search all sockets. Accepted
//! connections, and those in TIME_WAIT, count by address.
//!
//! Monitors: with a chain held nothing is allocated or dropped.
#![expect(clippy::disallowed_methods, reason = "room is made by `roomy` before")]

use abi::errno::{Errno, Result};
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU16, AtomicU64, AtomicUsize, Ordering};
use smallvec::SmallVec;
use sync::{Guard, Monitor};

use super::address::{InetAddress, Ip};
use super::{InetSocket, Transport};
use crate::socket::Socket;
use vm::fallible::roomy;

/// The rules for sharing a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortSharing {
    /// SO_REUSEADDR.
    pub address: bool,
    /// SO_REUSEPORT.
    pub port: bool,
    /// Its owner.
    pub uid: u32,
}

/// The owner of a port.
enum What {
    /// A socket.
    Socket {
        ino: u64,
        socket: Weak<Socket>,
        own: Arc<InetSocket>,
    },
    /// So many connections that were accepted.
    Joined { sharing: PortSharing, count: usize },
    /// Connections that were ended, until a time in nanoseconds.
    Resting { sharing: PortSharing, until: u64 },
}

struct Entry {
    transport: Transport,
    name: InetAddress,
    /// Its peer, the only sender that it receives from.
    remote: Option<InetAddress>,
    /// Of IPv6 alone.
    only_six: bool,
    what: What,
}

/// Some of the ports.
struct Chain(Vec<Entry>);

const CHAINS: usize = 1024;
static PORTS: [Monitor<Chain>; CHAINS] = [const { Monitor::new(Chain(Vec::new())) }; CHAINS];

/// The ports for automatic choice (`ip_local_port_range`): the first and the last.
pub static RANGE: [AtomicU16; 2] = [AtomicU16::new(32768), AtomicU16::new(60999)];

/// How long a port rests, as on Linux.
const REST_NS: u64 = 60_000_000_000;
/// So many entries of ports at rest; more are not remembered.
const RESTS: usize = 4096;
static RESTING: AtomicUsize = AtomicUsize::new(0);
/// No port's rest is over before this time in nanoseconds.
static EARLIEST: AtomicU64 = AtomicU64::new(u64::MAX);

/// So many sockets get one message.
const MOST: usize = 16;

/// Of no chain.
static SPARE: Monitor<Chain> = Monitor::new(Chain(Vec::new()));

fn chain(transport: Transport, port: u16) -> &'static Monitor<Chain> {
    let at = usize::from(port).wrapping_add(transport as usize * 7) % CHAINS;
    PORTS.get(at).unwrap_or(&SPARE)
}

/// A chain with room for one more. ENOMEM.
fn with_room(chain: &'static Monitor<Chain>) -> Result<Guard<'static, Chain>> {
    fn awake(chain: &mut Chain) -> &mut Vec<Entry> {
        wake_up(&mut chain.0);
        &mut chain.0
    }
    roomy(chain, awake, 1)
}

/// Removes entries whose TIME_WAIT is over.
fn wake_up(entries: &mut Vec<Entry>) {
    if RESTING.load(Ordering::Relaxed) == 0 {
        return;
    }
    let now = machine::clock::now_ns();
    if now >= EARLIEST.load(Ordering::Relaxed) {
        wake_up_at(entries, now);
    }
}

/// Removes entries whose TIME_WAIT is over at `now`; the others may be the earliest.
#[cold]
fn wake_up_at(entries: &mut Vec<Entry>, now: u64) {
    entries.retain(|entry| {
        let What::Resting { until, .. } = entry.what else {
            return true;
        };
        let over = until <= now;
        if over {
            RESTING.fetch_sub(1, Ordering::Relaxed);
        } else {
            EARLIEST.fetch_min(until, Ordering::Relaxed);
        }
        !over
    });
}

/// The same in all chains, if any rest may be over.
fn wake_up_all() {
    let now = machine::clock::now_ns();
    if now < EARLIEST.load(Ordering::Relaxed) {
        return;
    }
    // Ports that come to rest meanwhile note themselves, before or after this.
    EARLIEST.store(u64::MAX, Ordering::Relaxed);
    for chain in &PORTS {
        // Bound: never waits; when the list grows, moving it; when memory is short, letting go of those at
        // rest.
        wake_up_at(&mut chain.lock().0, now);
    }
}

/// Forgets all ports at rest, and gives the room of chains without entries back: for when memory is short.
pub fn give_up_resting() {
    for chain in &PORTS {
        let mut entries = chain.lock();
        entries.0.retain(|entry| {
            let rests = matches!(entry.what, What::Resting { .. });
            if rests {
                RESTING.fetch_sub(1, Ordering::Relaxed);
            }
            !rests
        });
        let unused = if entries.0.is_empty() {
            core::mem::take(&mut entries.0)
        } else {
            Vec::new()
        };
        drop(entries);
        drop(unused);
    }
}

/// Whether messages to one address may reach the other.
fn overlap(one: (Ip, bool), other: (Ip, bool)) -> bool {
    let covers = |(ip, only_six): (Ip, bool), other: Ip| match ip {
        Ip::ANY6 => !only_six || !other.is_v4(),
        Ip::ANY4 => other.is_v4(),
        _ => false,
    };
    one.0 == other.0 || covers(one, other.0) || covers(other, one.0)
}

impl Entry {
    /// Whether a socket with `name` conflicts with it.
    fn conflicts(&self, own: &InetSocket, name: InetAddress, sharing: PortSharing) -> bool {
        let theirs = (self.name.ip, self.only_six);
        if !overlap(theirs, (name.ip, own.is_only_six())) {
            return false;
        }
        let (old, listening, resting) = match &self.what {
            What::Socket { own: old, .. } => (old.sharing(), old.is_listening(), false),
            What::Joined { sharing, .. } => (*sharing, false, false),
            What::Resting { sharing, .. } => (*sharing, false, true),
        };
        let by_address = match own.transport {
            Transport::Tcp => sharing.address && old.address && !listening,
            _ => sharing.address && old.address,
        };
        let by_port = sharing.port && old.port && (resting || sharing.uid == old.uid);
        !(by_address || by_port)
    }

    fn is(&self, transport: Transport, port: u16) -> bool {
        self.transport == transport && self.name.port == port
    }

    /// How well it matches messages to `ip`.
    fn suits(&self, ip: Ip) -> Option<u32> {
        match self.name.ip {
            own if own == ip => Some(3),
            Ip::ANY4 if ip.is_v4() => Some(2),
            Ip::ANY6 if !ip.is_v4() => Some(2),
            Ip::ANY6 if !self.only_six => Some(1),
            _ => None,
        }
    }
}

/// Gives `socket` the port of `name`, or a free port if that is 0. EADDRINUSE, ENOMEM.
pub fn bind(socket: &Arc<Socket>, own: &Arc<InetSocket>, name: InetAddress) -> Result<InetAddress> {
    if name.port != 0 {
        return enter(socket, own, name, own.sharing()).map(|()| name);
    }
    let [low, high] = RANGE.each_ref().map(|end| end.load(Ordering::Relaxed));
    let count = u32::from(high.saturating_sub(low)) + 1;
    let mut random = [0; 4];
    machine::random::fill(&mut random);
    let start = u32::from_ne_bytes(random) % count;
    let alone = PortSharing {
        address: false,
        port: false,
        ..own.sharing()
    };
    for step in 0..count {
        let port = low + ((start + step) % count) as u16;
        let name = InetAddress { port, ..name };
        match enter(socket, own, name, alone) {
            Err(Errno::EADDRINUSE) => {}
            other => return other.map(|()| name),
        }
    }
    Err(Errno::EADDRINUSE)
}

fn enter(
    socket: &Arc<Socket>,
    own: &Arc<InetSocket>,
    name: InetAddress,
    sharing: PortSharing,
) -> Result<()> {
    let entry = Entry {
        transport: own.transport,
        name,
        remote: None,
        only_six: own.is_only_six(),
        what: What::Socket {
            ino: socket.ino,
            socket: Arc::downgrade(socket),
            own: own.clone(),
        },
    };
    let mut chain = with_room(chain(own.transport, name.port))?;
    let taken = chain
        .0
        .iter()
        .any(|other| other.is(own.transport, name.port) && other.conflicts(own, name, sharing));
    if taken {
        drop(chain);
        return Err(Errno::EADDRINUSE);
    }
    unsettle(&chain, own.transport, name.port, socket.ino);
    chain.0.push(entry);
    Ok(())
}

/// Messages to others with this port than the socket with number `ino` may go elsewhere from now on.
fn unsettle(chain: &Chain, transport: Transport, port: u16, ino: u64) {
    if !transport.is_udp() {
        return;
    }
    for entry in chain.0.iter().filter(|entry| entry.is(transport, port)) {
        match &entry.what {
            What::Socket {
                ino: other, own, ..
            } if *other != ino => own.unsettle(),
            _ => {}
        }
    }
}

/// Calls `change` for the entry of the socket with number `ino`.
fn with(transport: Transport, port: u16, ino: u64, change: impl FnOnce(&mut Entry)) {
    // Bound: one in 1024 of the ports: **linear** in the sockets that share them.
    let mut chain = chain(transport, port).lock();
    unsettle(&chain, transport, port, ino);
    let mut entries = chain.0.iter_mut();
    if let Some(entry) =
        entries.find(|entry| matches!(entry.what, What::Socket { ino: i, .. } if i == ino))
    {
        change(entry);
    }
}

/// The address of a socket is `ip` from now on, and it hears `remote` alone, if there is one.
pub fn move_to(transport: Transport, port: u16, ino: u64, ip: Ip, remote: Option<InetAddress>) {
    with(transport, port, ino, |entry| {
        entry.name.ip = ip;
        entry.remote = remote;
    });
}

/// The socket with number `ino` has its port no more.
pub fn unbind(transport: Transport, port: u16, ino: u64) {
    let mut chain = chain(transport, port).lock();
    unsettle(&chain, transport, port, ino);
    let is = |entry: &Entry| matches!(entry.what, What::Socket { ino: i, .. } if i == ino);
    let at = chain.0.iter().position(is);
    let gone = at.map(|at| chain.0.swap_remove(at));
    drop(chain);
    drop(gone);
}

/// The socket with this name may listen. EADDRINUSE.
pub fn listen(own: &InetSocket, name: InetAddress, ino: u64) -> Result<()> {
    // Bound: one in 1024 of the ports: **linear** in the sockets that share them.
    let chain = chain(own.transport, name.port).lock();
    let taken = chain.0.iter().any(|other| {
        let same = matches!(other.what, What::Socket { ino: i, .. } if i == ino);
        !same && other.is(own.transport, name.port) && other.conflicts(own, name, own.sharing())
    });
    // Recorded with the chain held: when two begin at once, one is refused.
    if !taken {
        own.set_listening(true);
    }
    drop(chain);
    if taken {
        Err(Errno::EADDRINUSE)
    } else {
        Ok(())
    }
}

/// A number for the choice among sockets that share a port, the same for the same sender.
fn lot(from: InetAddress) -> u32 {
    let word = from
        .ip
        .0
        .last_chunk()
        .map_or(0, |last| u32::from_be_bytes(*last));
    (word ^ u32::from(from.port)).wrapping_mul(0x9e37_79b1) >> 8
}

/// The listener at `to`, for a connection from `from`.
pub fn listener(to: InetAddress, from: InetAddress) -> Option<Arc<Socket>> {
    // Bound: one in 1024 of the ports: **linear** in the sockets that share them.
    let chain = chain(Transport::Tcp, to.port).lock();
    let suiting = |entry: &Entry| match &entry.what {
        What::Socket { own, .. } if entry.is(Transport::Tcp, to.port) && own.is_listening() => {
            entry.suits(to.ip)
        }
        _ => None,
    };
    let best = chain.0.iter().filter_map(suiting).max()?;
    let mut count = 0;
    for entry in &chain.0 {
        count += u32::from(suiting(entry) == Some(best));
    }
    let wanted = lot(from) % count.max(1);
    let mut all = chain.0.iter().filter(|entry| suiting(entry) == Some(best));
    match &all.nth(wanted as usize)?.what {
        What::Socket { socket, .. } => socket.upgrade(),
        _ => None,
    }
}

/// `socket` gets all messages of the protocol that `name` has for a port. ENOMEM.
pub fn enter_raw(socket: &Arc<Socket>, own: &Arc<InetSocket>, name: InetAddress) -> Result<()> {
    let entry = Entry {
        transport: own.transport,
        name,
        remote: None,
        only_six: true,
        what: What::Socket {
            ino: socket.ino,
            socket: Arc::downgrade(socket),
            own: own.clone(),
        },
    };
    let mut chain = with_room(chain(own.transport, name.port))?;
    chain.0.push(entry);
    Ok(())
}

impl Entry {
    /// How well it suits a message from `from` to `to`.
    fn hears(&self, transport: Transport, to: InetAddress, from: InetAddress) -> Option<u32> {
        if !self.is(transport, to.port) {
            return None;
        }
        let suits = self.suits(to.ip)?;
        match self.remote {
            None => Some(suits),
            Some(remote) if remote == from => Some(suits + 4),
            Some(_) => None,
        }
    }
}

/// The receiver of a message from `from` to `to`: among unconnected sockets that share the port by
/// SO_REUSEPORT always the same for the same sender, otherwise the last.
pub fn receiver(transport: Transport, to: InetAddress, from: InetAddress) -> Option<Arc<Socket>> {
    // Bound: one in 1024 of the ports: **linear** in the sockets that share them.
    let chain = chain(transport, to.port).lock();
    let (mut best, mut count, mut found) = (0, 0, None);
    for entry in &chain.0 {
        match entry.hears(transport, to, from) {
            Some(score) if score > best => (best, count, found) = (score, 1, Some(entry)),
            Some(score) if score == best => (count, found) = (count + 1, Some(entry)),
            _ => {}
        }
    }
    let found = found?;
    let What::Socket { socket, own, .. } = &found.what else {
        return None;
    };
    if count == 1 || !own.sharing().port || found.remote.is_some() {
        return socket.upgrade();
    }
    let is = |entry: &&Entry| entry.hears(transport, to, from) == Some(best);
    let wanted = lot(from) % count;
    match &chain.0.iter().filter(is).nth(wanted as usize)?.what {
        What::Socket { socket, .. } => socket.upgrade(),
        _ => None,
    }
}

/// All receivers of a message from `from` to `to`, a group or all hosts, for which `wants` holds; at most the
/// limit for one message.
pub fn receivers(
    transport: Transport,
    to: InetAddress,
    from: InetAddress,
    wants: impl Fn(&InetSocket) -> bool,
) -> SmallVec<[Arc<Socket>; MOST]> {
    let chain = chain(transport, to.port).lock();
    let suiting = |entry: &Entry| match &entry.what {
        What::Socket { socket, own, .. }
            if entry.hears(transport, to, from).is_some() && wants(own) =>
        {
            socket.upgrade()
        }
        _ => None,
    };
    chain.0.iter().filter_map(suiting).take(MOST).collect()
}

/// A connection has the port of its listener. ENOMEM.
pub fn join(name: InetAddress, sharing: PortSharing) -> Result<()> {
    let mut chain = with_room(chain(Transport::Tcp, name.port))?;
    for entry in &mut chain.0 {
        if let What::Joined {
            sharing: theirs,
            count,
        } = &mut entry.what
            && entry.name == name
            && *theirs == sharing
        {
            *count += 1;
            return Ok(());
        }
    }
    chain.0.push(Entry {
        transport: Transport::Tcp,
        name,
        remote: None,
        only_six: false,
        what: What::Joined { sharing, count: 1 },
    });
    Ok(())
}

/// Removes such a connection.
pub fn part(name: InetAddress, sharing: PortSharing) {
    // Bound: one in 1024 of the ports: **linear** in the sockets that share them.
    let mut chain = chain(Transport::Tcp, name.port).lock();
    let at = chain.0.iter_mut().position(|entry| match &mut entry.what {
        What::Joined {
            sharing: theirs,
            count,
        } if entry.name == name && *theirs == sharing => {
            *count -= 1;
            *count == 0
        }
        _ => false,
    });
    if let Some(at) = at {
        chain.0.swap_remove(at);
    }
}

/// A connection from `name` was ended from here: the port rests, if there is room to remember it.
pub fn rest(name: InetAddress, sharing: PortSharing) {
    let until = machine::clock::now_ns().saturating_add(REST_NS);
    if RESTING.load(Ordering::Relaxed) >= RESTS {
        wake_up_all();
    }
    let Ok(mut chain) = with_room(chain(Transport::Tcp, name.port)) else {
        return;
    };
    for entry in &mut chain.0 {
        if let What::Resting {
            sharing: theirs,
            until: end,
        } = &mut entry.what
            && entry.name == name
            && *theirs == sharing
        {
            *end = until;
            return;
        }
    }
    if RESTING.load(Ordering::Relaxed) >= RESTS {
        return;
    }
    RESTING.fetch_add(1, Ordering::Relaxed);
    EARLIEST.fetch_min(until, Ordering::Relaxed);
    chain.0.push(Entry {
        transport: Transport::Tcp,
        name,
        remote: None,
        only_six: false,
        what: What::Resting { sharing, until },
    });
}
