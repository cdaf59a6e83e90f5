//! Options of sockets, of the level SOL_SOCKET.
//!
//! *Interface*: [`SocketOptions`] is a part of each socket; [`Socket::set_option`] and [`Socket::option`] are
//! the calls, with bytes as the program has them.
#![expect(
    clippy::disallowed_methods,
    reason = "room is made by `try_reserve` before"
)]

use abi::errno::{Errno, Result};
use abi::linux::*;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytemuck::Pod;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};

use super::{PeerProcess, Socket};
use account::Capability;
use account::caller;
use vm::fallible::{try_copy, try_reserve};

/// The bytes that a new socket may have unread, and the most that may be asked for.
const BUFFER: u32 = 212_992;
const SMALLEST_SEND: u32 = 4608;
const SMALLEST_RECEIVE: u32 = 2304;
/// Bytes of an interface's name.
const DEVICE: usize = 16;

/// Options that are on or off, a bit each by their numbers.
const SWITCHES: &[i32] = &[
    SO_DEBUG,
    SO_REUSEADDR,
    SO_DONTROUTE,
    SO_BROADCAST,
    SO_KEEPALIVE,
    SO_OOBINLINE,
    SO_NO_CHECK,
    SO_REUSEPORT,
    SO_PASSCRED,
    SO_TIMESTAMP,
    SO_TIMESTAMPNS,
    SO_PASSSEC,
    SO_RXQ_OVFL,
    SO_ZEROCOPY,
];

/// The options that `setsockopt` has set.
pub struct SocketOptions {
    switches: AtomicU64,
    send_buffer: AtomicU32,
    receive_buffer: AtomicU32,
    low_water: AtomicU32,
    priority: AtomicI32,
    mark: AtomicI32,
    /// Seconds; less than 0 when it is off.
    linger: AtomicI32,
    /// It is for `lo` alone.
    loopback: AtomicBool,
    /// How long to wait for something to come, nanoseconds; 0 for ever.
    pub receive_timeout: AtomicU64,
    /// How long to wait for room.
    pub send_timeout: AtomicU64,
}

impl SocketOptions {
    /// Those of a new socket.
    pub fn new() -> SocketOptions {
        SocketOptions {
            switches: AtomicU64::new(0),
            send_buffer: AtomicU32::new(BUFFER),
            receive_buffer: AtomicU32::new(BUFFER),
            low_water: AtomicU32::new(1),
            priority: AtomicI32::new(0),
            mark: AtomicI32::new(0),
            linger: AtomicI32::new(-1),
            loopback: AtomicBool::new(false),
            receive_timeout: AtomicU64::new(0),
            send_timeout: AtomicU64::new(0),
        }
    }

    /// A connection has those of its listener that pass on.
    pub fn inherit(&self, listener: &SocketOptions) {
        let switches = listener.switches.load(Ordering::Relaxed);
        self.switches.store(switches, Ordering::Relaxed);
    }

    /// A connection has all those of its listener.
    pub fn inherit_all(&self, listener: &SocketOptions) {
        self.inherit(listener);
        let numbers = [
            (&self.send_buffer, &listener.send_buffer),
            (&self.receive_buffer, &listener.receive_buffer),
            (&self.low_water, &listener.low_water),
        ];
        for (to, from) in numbers {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        let signed = [
            (&self.priority, &listener.priority),
            (&self.mark, &listener.mark),
            (&self.linger, &listener.linger),
        ];
        for (to, from) in signed {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        let times = [
            (&self.receive_timeout, &listener.receive_timeout),
            (&self.send_timeout, &listener.send_timeout),
        ];
        for (to, from) in times {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// Bytes that may be unread at first, sent and received.
    pub fn set_buffers(&self, send: u32, receive: u32) {
        self.send_buffer.store(send, Ordering::Relaxed);
        self.receive_buffer.store(receive, Ordering::Relaxed);
    }

    /// Whether it is told when messages came.
    pub fn wants_time(&self) -> bool {
        const TIMES: u64 = 1 << SO_TIMESTAMP | 1 << SO_TIMESTAMPNS;
        self.switches.load(Ordering::Relaxed) & TIMES != 0
    }

    /// Whether a close breaks the connection.
    pub fn breaks(&self) -> bool {
        self.linger.load(Ordering::Relaxed) == 0
    }

    /// Whether option `name`, one of those that are on or off, is on.
    pub fn is_on(&self, name: i32) -> bool {
        self.switches.load(Ordering::Relaxed) & 1 << name != 0
    }

    /// Whether it says who sends.
    pub fn pass_credentials(&self) -> bool {
        self.is_on(SO_PASSCRED)
    }

    /// Bytes that may be unread of what it has sent.
    pub fn send_buffer(&self) -> usize {
        self.send_buffer.load(Ordering::Relaxed) as usize
    }

    /// Bytes that may wait for it.
    pub fn receive_buffer(&self) -> usize {
        self.receive_buffer.load(Ordering::Relaxed) as usize
    }

    /// Bytes that a read waits for.
    pub fn low_water(&self) -> usize {
        self.low_water.load(Ordering::Relaxed) as usize
    }

    /// Whether readers may sleep in their routine: they wait for the first byte, for ever.
    pub fn sleeps_plainly(&self) -> bool {
        self.receive_timeout.load(Ordering::Relaxed) == 0 && self.low_water() <= 1
    }
}

impl Default for SocketOptions {
    fn default() -> Self {
        Self::new()
    }
}

/// A value as the program has given it. EINVAL.
fn value<T: Pod>(bytes: &[u8]) -> Result<T> {
    let bytes = bytes.get(..size_of::<T>()).ok_or(Errno::EINVAL)?;
    Ok(bytemuck::pod_read_unaligned(bytes))
}

/// Nanoseconds of a time to wait; 0 for ever. EDOM.
fn time(bytes: &[u8]) -> Result<u64> {
    let time: Timeval = value(bytes)?;
    if !(0..1_000_000).contains(&time.usec) {
        return Err(Errno::EDOM);
    }
    // One that is past ends each wait at once.
    Ok(match u64::try_from(time.sec) {
        Err(_) => 1,
        Ok(sec) => sec
            .saturating_mul(1_000_000_000)
            .saturating_add(time.usec as u64 * 1000),
    })
}

fn timeval(ns: u64) -> Timeval {
    Timeval {
        sec: (ns / 1_000_000_000) as i64,
        usec: (ns % 1_000_000_000 / 1000) as i64,
    }
}

/// Options that say nothing about a message.
const QUIET: [i32; 5] = [
    SO_REUSEADDR,
    SO_REUSEPORT,
    SO_BROADCAST,
    SO_RCVTIMEO,
    SO_SNDTIMEO,
];

impl Socket {
    /// `setsockopt`. ENOPROTOOPT, EINVAL, EPERM, …
    pub fn set_option(self: &Arc<Self>, level: i32, name: i32, bytes: &[u8]) -> Result<()> {
        if level != SOL_SOCKET || !QUIET.contains(&name) {
            self.leave_lane();
        }
        if level != SOL_SOCKET {
            return self.family.set_option(self, level, name, bytes);
        }
        let options = &self.options;
        let need = |right| caller::cred().need(right);
        if name == SO_BINDTODEVICE {
            let device = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
            if !matches!(device, b"" | b"lo") {
                return Err(Errno::ENODEV);
            }
            if options.loopback.load(Ordering::Relaxed) {
                need(Capability::NetRaw)?;
            }
            options
                .loopback
                .store(!device.is_empty(), Ordering::Relaxed);
            return Ok(());
        }
        let number: i32 = value(bytes)?;
        match name {
            _ if SWITCHES.contains(&name) => {
                if name == SO_DEBUG && number != 0 {
                    need(Capability::NetAdmin).map_err(|_| Errno::EACCES)?;
                }
                let bit = 1 << name;
                if number != 0 {
                    options.switches.fetch_or(bit, Ordering::Relaxed);
                } else {
                    options.switches.fetch_and(!bit, Ordering::Relaxed);
                }
                if name == SO_PASSCRED {
                    self.follow_credentials();
                }
            }
            SO_SNDBUF | SO_SNDBUFFORCE | SO_RCVBUF | SO_RCVBUFFORCE => {
                let wanted = match name {
                    SO_SNDBUFFORCE | SO_RCVBUFFORCE => {
                        need(Capability::NetAdmin)?;
                        number.clamp(0, i32::MAX / 2) as u32
                    }
                    _ => (number as u32).min(BUFFER),
                };
                let (field, least) = match name {
                    SO_SNDBUF | SO_SNDBUFFORCE => (&options.send_buffer, SMALLEST_SEND),
                    _ => (&options.receive_buffer, SMALLEST_RECEIVE),
                };
                field.store(wanted.saturating_mul(2).max(least), Ordering::Relaxed);
                self.outbox.wake();
            }
            SO_PRIORITY => {
                if !(0..=6).contains(&number) {
                    need(Capability::NetAdmin)?;
                }
                options.priority.store(number, Ordering::Relaxed);
            }
            SO_MARK => {
                need(Capability::NetAdmin)?;
                options.mark.store(number, Ordering::Relaxed);
            }
            SO_LINGER => {
                let linger: Linger = value(bytes)?;
                let seconds = match linger.onoff {
                    0 => -1,
                    _ => linger.linger.max(0),
                };
                options.linger.store(seconds, Ordering::Relaxed);
            }
            SO_RCVLOWAT => {
                let bytes = match number {
                    ..0 => i32::MAX,
                    0 => 1,
                    bytes => bytes,
                };
                options.low_water.store(bytes as u32, Ordering::Relaxed);
            }
            SO_RCVTIMEO => options
                .receive_timeout
                .store(time(bytes)?, Ordering::Relaxed),
            SO_SNDTIMEO => options.send_timeout.store(time(bytes)?, Ordering::Relaxed),
            _ => return Err(Errno::ENOPROTOOPT),
        }
        self.family.option_changed(self, name);
        Ok(())
    }

    /// `getsockopt`: what the program is given, cut to the `room` that it has. ENOPROTOOPT, ERANGE, …
    pub fn option(self: &Arc<Self>, level: i32, name: i32, room: usize) -> Result<Vec<u8>> {
        if level != SOL_SOCKET {
            return self.family.option(self, level, name);
        }
        let options = &self.options;
        let number = match name {
            _ if SWITCHES.contains(&name) => i32::from(options.is_on(name)),
            SO_TYPE => self.kind.number(),
            SO_DOMAIN => self.family.number(),
            SO_PROTOCOL => self.protocol,
            SO_ACCEPTCONN => i32::from(self.backlog().is_some_and(|backlog| !backlog.is_closed())),
            SO_ERROR => self.take_error().map_or_else(|error| error.0, |()| 0),
            SO_SNDBUF => options.send_buffer() as i32,
            SO_RCVBUF => options.receive_buffer() as i32,
            SO_RCVLOWAT => options.low_water() as i32,
            SO_SNDLOWAT => 1,
            SO_PRIORITY => options.priority.load(Ordering::Relaxed),
            SO_MARK => options.mark.load(Ordering::Relaxed),
            SO_PEEK_OFF => -1,
            SO_INCOMING_CPU => -1,
            SO_BUSY_POLL => 0,
            SO_LINGER => {
                let seconds = options.linger.load(Ordering::Relaxed);
                return try_copy(bytemuck::bytes_of(&Linger {
                    onoff: i32::from(seconds >= 0),
                    linger: seconds.max(0),
                }));
            }
            SO_BINDTODEVICE if options.loopback.load(Ordering::Relaxed) => {
                return match room >= DEVICE {
                    true => try_copy(b"lo\0"),
                    false => Err(Errno::EINVAL),
                };
            }
            SO_BINDTODEVICE => return Ok(Vec::new()),
            SO_BINDTOIFINDEX => i32::from(options.loopback.load(Ordering::Relaxed)),
            SO_RCVTIMEO => return time_of(&options.receive_timeout),
            SO_SNDTIMEO => return time_of(&options.send_timeout),
            SO_COOKIE => return try_copy(bytemuck::bytes_of(&self.ino)),
            SO_PEERCRED => return try_copy(bytemuck::bytes_of(&self.peer_credentials())),
            SO_PEERGROUPS => return self.peer_groups(room),
            SO_PEERNAME => {
                let name = self.family.peer_name(self)?;
                // All of it or nothing.
                if name.bytes().len() < room {
                    return Err(Errno::EINVAL);
                }
                return try_copy(name.bytes());
            }
            _ => return Err(Errno::ENOPROTOOPT),
        };
        try_copy(bytemuck::bytes_of(&number))
    }

    fn known_party(&self) -> Option<PeerProcess> {
        match self.party.get() {
            Some(party) => Some(party.clone()),
            None => self.backlog().map(|backlog| backlog.party()),
        }
    }

    /// The identity of the other end, or of the listener.
    fn peer_credentials(&self) -> Ucred {
        let party = self.known_party();
        match party {
            Some(party) => Ucred {
                pid: party.pid,
                uid: party.cred.euid,
                gid: party.cred.egid,
            },
            None => Ucred {
                pid: 0,
                uid: u32::MAX,
                gid: u32::MAX,
            },
        }
    }

    fn peer_groups(&self, room: usize) -> Result<Vec<u8>> {
        let party = self.known_party().ok_or(Errno::ENODATA)?;
        let groups = &party.cred.groups;
        let mut bytes = Vec::new();
        try_reserve(&mut bytes, size_of_val(groups.as_slice()))?;
        for group in groups.iter() {
            bytes.extend_from_slice(&group.to_ne_bytes());
        }
        if bytes.len() > room {
            // The caller is told how much room it takes.
            return Err(Errno::ERANGE);
        }
        Ok(bytes)
    }
}

fn time_of(ns: &AtomicU64) -> Result<Vec<u8>> {
    try_copy(bytemuck::bytes_of(&timeval(ns.load(Ordering::Relaxed))))
}
