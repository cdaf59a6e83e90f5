//! A port: the number of a netlink socket, its groups, and the list that is being sent to it.
//!
//! *Interface*: [`enter`], [`choose`] and [`leave`] give and take numbers, one for each socket of a protocol.
//! [`NetlinkPort::tell`] puts an answer into the inbox; [`NetlinkPort::begin`] begins a dump, and
//! [`NetlinkPort::go_on`] tells more of it when something has been read.
//!
//! Monitors: with the list of ports, or a port's dump, held nothing is allocated or dropped.

use abi::errno::{Errno, Result};
use abi::linux::*;
use account::caller;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use sync::Monitor;

use super::message::Message;
use super::{AHEAD, Dump, PIECE, record};
use crate::socket::{Outbox, Socket};
use vm::fallible::roomy;
use vm::fallible::try_arc;

/// The state of a netlink socket with a name.
pub struct NetlinkPort {
    /// Its number, not 0.
    pub number: u32,
    /// Groups that it has joined, a bit each.
    pub groups: AtomicU32,
    /// Options that are on, a bit each by their numbers.
    pub switches: AtomicU32,
    /// Counts what it was told and has not read.
    pub unread: Arc<Outbox>,
    dump: Monitor<Option<Dump>>,
    dumping: AtomicBool,
}

/// The ports of all protocols, in order.
struct Ports(Vec<(i32, u32)>);

static PORTS: Monitor<Ports> = Monitor::new(Ports(Vec::new()));

/// Where numbers begin that are chosen when the process's is taken; they go down.
const CHOSEN: u32 = -4097_i32 as u32;

static NEXT: AtomicU32 = AtomicU32::new(CHOSEN);

/// Gives `socket` the number `number`. EADDRINUSE; EINVAL: it has one; ENOMEM.
pub fn enter(socket: &Arc<Socket>, number: u32) -> Result<()> {
    let port = try_arc(NetlinkPort {
        number,
        groups: AtomicU32::new(0),
        switches: AtomicU32::new(0),
        unread: try_arc(Outbox::new())?,
        dump: Monitor::new(None),
        dumping: AtomicBool::new(false),
    })?;
    // Bound: giving one socket its number.
    let _turn = socket.turn.lock();
    if NetlinkPort::of(socket).is_some() {
        return Err(Errno::EINVAL);
    }
    let mut ports = roomy(&PORTS, |ports| &mut ports.0, 1)?;
    let key = (socket.protocol, number);
    let taken = match ports.0.binary_search(&key) {
        Ok(_) => true,
        Err(at) => {
            #[expect(clippy::disallowed_methods, reason = "there is room")]
            ports.0.insert(at, key);
            false
        }
    };
    drop(ports);
    if taken {
        return Err(Errno::EADDRINUSE);
    }
    // The turn is ours.
    let _none = socket.own.set(port);
    Ok(())
}

/// Gives `socket` a number that is free: the process's, or one that no process has. ENOMEM.
pub fn choose(socket: &Arc<Socket>) -> Result<()> {
    let mut number = caller::number() as u32;
    loop {
        match enter(socket, number) {
            Err(Errno::EADDRINUSE) => {
                number = NEXT.fetch_sub(1, Ordering::Relaxed);
                if number <= i32::MAX as u32 {
                    NEXT.store(CHOSEN, Ordering::Relaxed);
                    number = CHOSEN;
                }
            }
            // Another thread was faster.
            Err(Errno::EINVAL) => return Ok(()),
            other => return other,
        }
    }
}

/// `socket` is closed.
pub fn leave(socket: &Socket) {
    let Some(port) = NetlinkPort::of(socket) else {
        return;
    };
    // Bound: **global**: a number's place among those of all netlink sockets, found by halves; moving those
    // behind it.
    let mut ports = PORTS.lock();
    if let Ok(at) = ports.0.binary_search(&(socket.protocol, port.number)) {
        ports.0.remove(at);
    }
}

impl NetlinkPort {
    /// That of `socket`, if it has one.
    pub fn of(socket: &Socket) -> Option<&NetlinkPort> {
        socket.own.get()?.downcast_ref()
    }

    /// Whether option `name` is on.
    pub fn is_on(&self, name: i32) -> bool {
        self.switches.load(Ordering::Relaxed) >> name & 1 != 0
    }

    /// Tells `socket`, whose port it is. One that does not read finds ENOBUFS instead.
    pub fn tell(&self, socket: &Socket, message: &Message) {
        self.tell_bytes(socket, message.bytes());
    }

    /// Tells it `bytes`, if there was memory for them.
    pub fn tell_bytes(&self, socket: &Socket, bytes: Result<&[u8]>) {
        let full = self.unread.used() > socket.options.receive_buffer();
        let put = || socket.inbox.push(record(bytes?, self)?);
        if (full || put().is_err()) && !self.is_on(NETLINK_NO_ENOBUFS) {
            socket.set_error(Errno::ENOBUFS);
        }
    }

    /// Begins to tell a list. EBUSY: another is being told.
    pub fn begin(&self, socket: &Socket, dump: Dump) -> Result<()> {
        if self.dumping.swap(true, Ordering::SeqCst) {
            return Err(Errno::EBUSY);
        }
        // Bound: exchanging a few words.
        *self.dump.lock() = Some(dump);
        self.go_on(socket);
        Ok(())
    }

    /// Tells more of the list, if there is one, while there is room for it.
    pub fn go_on(&self, socket: &Socket) {
        while self.dumping.load(Ordering::SeqCst) && self.unread.used() < AHEAD {
            // Nobody else has it then.
            let Some(mut dump) = self.dump.lock().take() else {
                return;
            };
            let mut message = Message::default();
            let mut more = true;
            while more && message.len() < PIECE {
                match (dump.rows)(&dump.wanted, dump.from, &mut message) {
                    Some(next) => dump.from = next,
                    None => more = false,
                }
            }
            let wanted = dump.wanted;
            if more {
                *self.dump.lock() = Some(dump);
            } else {
                message.begin(
                    NLMSG_DONE,
                    NLM_F_MULTI,
                    wanted.sequence,
                    wanted.port,
                    &0_i32,
                );
                self.dumping.store(false, Ordering::SeqCst);
            }
            if !message.is_empty() {
                self.tell(socket, &message);
            }
        }
    }
}
