//! Options of the levels of IP, IPv6, TCP and UDP.
//!
//! *Interface*: [`set`] and [`get`] are the calls for these levels; [`InetOptions`] is where most of them are
//! kept, and [`InetOptions::number`] reads one.
//!
//! Options that only affect packets are stored and returned.

use abi::errno::{Errno, Result};
use abi::linux::*;
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytemuck::Pod;
use core::sync::atomic::{AtomicI32, Ordering};

use super::{InetSocket, Transport, multicast, tcp};
use crate::socket::Socket;
use account::Capability;
use account::caller;
use vm::fallible::try_copy;

/// An option that is a number.
struct Row {
    level: i32,
    name: i32,
    /// The initial value.
    first: i32,
    /// The permitted values; [`SWITCH`]: any number, stored as 0 or 1.
    least: i32,
    most: i32,
}

const SWITCH: (i32, i32) = (1, 0);

const fn row(level: i32, name: i32, first: i32, (least, most): (i32, i32)) -> Row {
    Row {
        level,
        name,
        first,
        least,
        most,
    }
}

const ANY: (i32, i32) = (i32::MIN, i32::MAX);
const NATURAL: (i32, i32) = (0, i32::MAX);
const BYTE: (i32, i32) = (0, 255);
const HOPS: (i32, i32) = (-1, 255);
/// Bytes that a sum is over: none but all of them, or the header at least.
const COVERAGE: (i32, i32) = (0, 65_535);

const ROWS: &[Row] = &[
    row(IPPROTO_IP, IP_TOS, 0, ANY),
    row(IPPROTO_IP, IP_TTL, 64, (1, 255)),
    row(IPPROTO_IP, IP_RECVOPTS, 0, SWITCH),
    row(IPPROTO_IP, IP_RETOPTS, 0, SWITCH),
    row(IPPROTO_IP, IP_PKTINFO, 0, SWITCH),
    row(IPPROTO_IP, IP_MTU_DISCOVER, 1, (0, 5)),
    row(IPPROTO_IP, IP_RECVERR, 0, SWITCH),
    row(IPPROTO_IP, IP_RECVTTL, 0, SWITCH),
    row(IPPROTO_IP, IP_RECVTOS, 0, SWITCH),
    row(IPPROTO_IP, IP_FREEBIND, 0, SWITCH),
    row(IPPROTO_IP, IP_PASSSEC, 0, SWITCH),
    row(IPPROTO_IP, IP_RECVORIGDSTADDR, 0, SWITCH),
    row(IPPROTO_IP, IP_MINTTL, 0, BYTE),
    row(IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 0, SWITCH),
    row(IPPROTO_IP, IP_RECVERR_RFC4884, 0, (0, 1)),
    row(IPPROTO_IP, IP_MULTICAST_TTL, 1, HOPS),
    row(IPPROTO_IP, IP_MULTICAST_LOOP, 1, SWITCH),
    row(IPPROTO_IP, IP_MULTICAST_ALL, 1, (0, 1)),
    row(IPPROTO_IPV6, IPV6_UNICAST_HOPS, 64, HOPS),
    row(IPPROTO_IPV6, IPV6_MULTICAST_HOPS, 1, HOPS),
    row(IPPROTO_IPV6, IPV6_MULTICAST_LOOP, 1, (0, 1)),
    row(IPPROTO_IPV6, IPV6_MTU_DISCOVER, 1, (0, 5)),
    row(IPPROTO_IPV6, IPV6_RECVERR, 0, SWITCH),
    row(IPPROTO_IPV6, IPV6_MULTICAST_ALL, 1, SWITCH),
    row(IPPROTO_IPV6, IPV6_RECVPKTINFO, 0, SWITCH),
    row(IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 0, SWITCH),
    row(IPPROTO_IPV6, IPV6_RECVHOPOPTS, 0, SWITCH),
    row(IPPROTO_IPV6, IPV6_RECVRTHDR, 0, SWITCH),
    row(IPPROTO_IPV6, IPV6_RECVDSTOPTS, 0, SWITCH),
    row(IPPROTO_IPV6, IPV6_RECVPATHMTU, 0, SWITCH),
    row(IPPROTO_IPV6, IPV6_DONTFRAG, 0, SWITCH),
    row(IPPROTO_IPV6, IPV6_RECVTCLASS, 0, SWITCH),
    row(IPPROTO_IPV6, IPV6_TCLASS, 0, HOPS),
    row(IPPROTO_IPV6, IPV6_AUTOFLOWLABEL, 1, SWITCH),
    row(IPPROTO_IPV6, IPV6_MINHOPCOUNT, 0, BYTE),
    row(IPPROTO_IPV6, IPV6_RECVORIGDSTADDR, 0, SWITCH),
    row(IPPROTO_IPV6, IPV6_FREEBIND, 0, SWITCH),
    row(IPPROTO_TCP, TCP_NODELAY, 0, SWITCH),
    row(IPPROTO_TCP, TCP_CORK, 0, SWITCH),
    row(IPPROTO_TCP, TCP_KEEPIDLE, 7200, (1, 32767)),
    row(IPPROTO_TCP, TCP_KEEPINTVL, 75, (1, 32767)),
    row(IPPROTO_TCP, TCP_KEEPCNT, 9, (1, 127)),
    row(IPPROTO_TCP, TCP_SYNCNT, 6, (1, 127)),
    row(IPPROTO_TCP, TCP_LINGER2, 60, ANY),
    row(IPPROTO_TCP, TCP_DEFER_ACCEPT, 0, ANY),
    row(IPPROTO_TCP, TCP_QUICKACK, 1, SWITCH),
    row(IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, 0, (0, 1)),
    row(IPPROTO_TCP, TCP_USER_TIMEOUT, 0, NATURAL),
    row(IPPROTO_TCP, TCP_FASTOPEN, 0, NATURAL),
    row(IPPROTO_TCP, TCP_NOTSENT_LOWAT, 0, ANY),
    row(IPPROTO_TCP, TCP_FASTOPEN_CONNECT, 0, (0, 1)),
    row(IPPROTO_TCP, TCP_INQ, 0, (0, 1)),
    row(IPPROTO_TCP, TCP_MAXSEG, 0, (0, 32767)),
    row(IPPROTO_TCP, TCP_WINDOW_CLAMP, 0, ANY),
    row(IPPROTO_UDPLITE, UDPLITE_SEND_CSCOV, 0, COVERAGE),
    row(IPPROTO_UDPLITE, UDPLITE_RECV_CSCOV, 0, COVERAGE),
    row(IPPROTO_UDP, UDP_CORK, 0, SWITCH),
    row(IPPROTO_UDP, UDP_NO_CHECK6_TX, 0, SWITCH),
    row(IPPROTO_UDP, UDP_NO_CHECK6_RX, 0, SWITCH),
    row(IPPROTO_UDP, UDP_SEGMENT, 0, (0, 0)),
    row(IPPROTO_UDP, UDP_GRO, 0, SWITCH),
];

/// The values of these options.
pub struct InetOptions([AtomicI32; ROWS.len()]);

impl InetOptions {
    /// Those of a new socket.
    pub fn new() -> InetOptions {
        let values = [const { AtomicI32::new(0) }; ROWS.len()];
        for (value, row) in values.iter().zip(ROWS) {
            value.store(row.first, Ordering::Relaxed);
        }
        InetOptions(values)
    }

    /// Those of another one.
    pub fn inherit(&self, from: &InetOptions) {
        for (to, from) in self.0.iter().zip(&from.0) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    fn place(&self, level: i32, name: i32) -> Option<(&AtomicI32, &'static Row)> {
        let is = |row: &Row| row.level == level && row.name == name;
        self.0.iter().zip(ROWS).find(|(_, row)| is(row))
    }

    /// The value of option `name` of `level`, which is stored as a number.
    pub fn number(&self, level: i32, name: i32) -> i32 {
        let place = self.place(level, name);
        place.map_or(0, |(value, _)| value.load(Ordering::Relaxed))
    }
}

fn whole<T: Pod>(bytes: &[u8]) -> Result<T> {
    let bytes = bytes.get(..size_of::<T>()).ok_or(Errno::EINVAL)?;
    Ok(bytemuck::pod_read_unaligned(bytes))
}

/// The number in an option's value: of IPv4 a byte will do. EINVAL.
fn number(level: i32, bytes: &[u8]) -> Result<i32> {
    match (level, bytes) {
        (IPPROTO_IP, []) => Ok(0),
        (IPPROTO_IP, [byte] | [byte, _] | [byte, _, _]) => Ok(i32::from(*byte)),
        _ => whole(bytes),
    }
}

/// Whether `own` has options of this level.
fn has(own: &InetSocket, level: i32) -> bool {
    match level {
        IPPROTO_IP => true,
        IPPROTO_IPV6 => own.six,
        IPPROTO_TCP => own.transport == Transport::Tcp,
        IPPROTO_UDPLITE => own.transport == Transport::Lite,
        IPPROTO_UDP => own.transport.is_udp(),
        SOL_RAW => own.transport == Transport::Raw && !own.six,
        IPPROTO_ICMPV6 => own.transport == Transport::Raw && own.six,
        _ => false,
    }
}

/// The only way to avoid congestion.
const CONGESTION: &[u8] = b"cubic";

/// The level of option `name` of UDP, whose two levels are one.
fn level_of(level: i32, name: i32) -> i32 {
    match (level, name) {
        (IPPROTO_UDP | IPPROTO_UDPLITE, UDPLITE_SEND_CSCOV | UDPLITE_RECV_CSCOV) => IPPROTO_UDPLITE,
        (IPPROTO_UDPLITE, _) => IPPROTO_UDP,
        _ => level,
    }
}

/// `setsockopt`. ENOPROTOOPT, EINVAL, EPERM, …
pub fn set(
    socket: &Arc<Socket>,
    own: &InetSocket,
    level: i32,
    name: i32,
    bytes: &[u8],
) -> Result<()> {
    let level = level_of(level, name);
    if !has(own, level) {
        return Err(Errno::ENOPROTOOPT);
    }
    match (level, name) {
        (IPPROTO_IPV6, IPV6_V6ONLY) => {
            let number: i32 = whole(bytes)?;
            if own.ends().bound.is_some() {
                return Err(Errno::EINVAL);
            }
            own.only_six.store(number != 0, Ordering::Relaxed);
            return Ok(());
        }
        (IPPROTO_IP, IP_TRANSPARENT) | (IPPROTO_IPV6, IPV6_TRANSPARENT) => {
            let wanted = number(level, bytes)? != 0;
            let cred = caller::cred();
            if wanted && cred.need(Capability::NetAdmin).is_err() {
                cred.need(Capability::NetRaw)?;
            }
            return Ok(());
        }
        (IPPROTO_IP, IP_OPTIONS) => {
            return if bytes.is_empty() {
                Ok(())
            } else {
                Err(Errno::EINVAL)
            };
        }
        (IPPROTO_IP, IP_IPSEC_POLICY | IP_XFRM_POLICY) => {
            return caller::cred()
                .need(Capability::NetAdmin)
                .and(Err(Errno::EOPNOTSUPP));
        }
        (IPPROTO_TCP, TCP_CONGESTION) => {
            let name = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
            return match name {
                CONGESTION => Ok(()),
                [] => Err(Errno::EINVAL),
                _ => Err(Errno::ENOENT),
            };
        }
        (SOL_RAW, ICMP_FILTER) | (IPPROTO_ICMPV6, ICMPV6_FILTER) => {
            let room = if own.six { own.filter.len() } else { 1 };
            for (word, bytes) in own.filter.iter().take(room).zip(bytes.chunks_exact(4)) {
                word.store(whole(bytes)?, Ordering::Relaxed);
            }
            return Ok(());
        }
        (IPPROTO_IPV6, IPV6_CHECKSUM) if own.transport == Transport::Raw => return Ok(()),
        (IPPROTO_TCP, TCP_ULP) => return Err(Errno::ENOENT),
        (IPPROTO_TCP, TCP_REPAIR) => return Err(Errno::EPERM),
        (IPPROTO_TCP, TCP_THIN_DUPACK) => return whole::<i32>(bytes).map(|_| ()),
        (IPPROTO_IP, IP_MULTICAST_IF | IP_ADD_MEMBERSHIP | IP_DROP_MEMBERSHIP)
        | (IPPROTO_IPV6, IPV6_MULTICAST_IF | IPV6_ADD_MEMBERSHIP | IPV6_DROP_MEMBERSHIP)
        | (IPPROTO_IP | IPPROTO_IPV6, MCAST_JOIN_GROUP | MCAST_LEAVE_GROUP)
            if own.transport != Transport::Tcp =>
        {
            return multicast::set(own, level, name, bytes);
        }
        (IPPROTO_IP, IP_MULTICAST_IF | IP_MULTICAST_LOOP | IP_MULTICAST_TTL)
            if own.transport == Transport::Tcp && name != IP_MULTICAST_LOOP =>
        {
            return Err(Errno::EINVAL);
        }
        (IPPROTO_IPV6, IPV6_MULTICAST_HOPS) if own.transport == Transport::Tcp => {
            return Err(Errno::ENOPROTOOPT);
        }
        (IPPROTO_IP, IP_ADD_MEMBERSHIP | IP_DROP_MEMBERSHIP)
        | (IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP | IPV6_DROP_MEMBERSHIP) => {
            return Err(Errno::EPROTO);
        }
        _ => {}
    }
    let (value, row) = own.values.place(level, name).ok_or(Errno::ENOPROTOOPT)?;
    let mut number = number(level, bytes)?;
    match (level, name) {
        (IPPROTO_IP, IP_TTL) if number == -1 => number = row.first,
        (IPPROTO_IP, IP_TOS) => number &= 0xff,
        (IPPROTO_IP, IP_MULTICAST_TTL) | (IPPROTO_IPV6, IPV6_MULTICAST_HOPS) if number == -1 => {
            number = 1
        }
        (IPPROTO_IPV6, IPV6_UNICAST_HOPS) if number == -1 => number = row.first,
        (IPPROTO_IPV6, IPV6_TCLASS) if number == -1 => number = 0,
        (IPPROTO_TCP, TCP_MAXSEG) if number != 0 && number < 88 => return Err(Errno::EINVAL),
        (IPPROTO_UDPLITE, _) if number != 0 => {
            number = if number < 8 {
                8
            } else {
                number.min(COVERAGE.1)
            };
        }
        (IPPROTO_TCP, TCP_LINGER2) if number < 0 => number = -1,
        (IPPROTO_TCP, TCP_LINGER2) if number > 120 => number = 120,
        (IPPROTO_TCP, TCP_DEFER_ACCEPT) => number = rounds(number),
        (IPPROTO_TCP, TCP_FASTOPEN) if !matches!(tcp::state(socket), 7 | 10) => {
            return Err(Errno::EINVAL);
        }
        _ => {}
    }
    if (row.least, row.most) == SWITCH {
        number = i32::from(number != 0);
    } else if !(row.least..=row.most).contains(&number) {
        return Err(Errno::EINVAL);
    }
    value.store(number, Ordering::Relaxed);
    Ok(())
}

/// Seconds as the tries to answer that they come to, and those as seconds again: 1, 3, 7, …
fn rounds(seconds: i32) -> i32 {
    let (mut total, mut step) = (0i32, 1i32);
    while total < seconds && total < 255 {
        total = total.saturating_add(step);
        step = (step * 2).min(120);
    }
    total
}

/// `getsockopt`. ENOPROTOOPT, ENOTCONN, …
pub fn get(socket: &Arc<Socket>, own: &InetSocket, level: i32, name: i32) -> Result<Vec<u8>> {
    /// The bytes that go through the interface at once.
    const MTU: i32 = 65_536;
    let level = level_of(level, name);
    if level == IPPROTO_UDPLITE && own.transport == Transport::Udp {
        return try_copy(bytemuck::bytes_of(&0i32));
    }
    if !has(own, level) {
        return Err(match own.six && level != IPPROTO_TCP {
            true => Errno::ENOPROTOOPT,
            false => Errno::EOPNOTSUPP,
        });
    }
    let connected = own.names().1.is_some();
    let number = match (level, name) {
        (IPPROTO_IPV6, IPV6_V6ONLY) => i32::from(own.is_only_six()),
        (IPPROTO_IP, IP_MTU) if connected => MTU,
        (IPPROTO_IPV6, IPV6_MTU) if connected => MTU,
        (IPPROTO_IP, IP_MTU) | (IPPROTO_IPV6, IPV6_MTU | IPV6_ADDRFORM) => {
            return Err(Errno::ENOTCONN);
        }
        (IPPROTO_IP, IP_OPTIONS) => return Ok(Vec::new()),
        (
            IPPROTO_IP,
            IP_HDRINCL | IP_ROUTER_ALERT | IP_TRANSPARENT | IP_NODEFRAG | IP_CHECKSUM
            | IP_RECVFRAGSIZE | IP_UNICAST_IF,
        )
        | (IPPROTO_IPV6, IPV6_TRANSPARENT | IPV6_UNICAST_IF | IPV6_RECVFRAGSIZE)
        | (
            IPPROTO_TCP,
            TCP_THIN_DUPACK | TCP_REPAIR | TCP_SAVE_SYN | TCP_FASTOPEN_NO_COOKIE | TCP_TX_DELAY,
        )
        | (IPPROTO_UDP, UDP_ENCAP) => 0,
        (IPPROTO_IPV6, IPV6_ADDR_PREFERENCES) => 0x500,
        (IPPROTO_IP, IP_MULTICAST_IF) => return try_copy(&own.groups().address()),
        (IPPROTO_IPV6, IPV6_MULTICAST_IF) => own.groups().index(),
        (IPPROTO_TCP, TCP_MAXSEG) => match own.values.number(level, name) {
            0 if socket.link().is_none() => 536,
            0 => tcp::SEGMENT,
            set if socket.link().is_none() => set,
            set => set.min(tcp::SEGMENT),
        },
        (IPPROTO_TCP, TCP_TIMESTAMP) => (machine::clock::now_ns() / 1_000_000) as i32,
        (SOL_RAW, ICMP_FILTER) => {
            let word = own.filter.first();
            word.map_or(0, |word| word.load(Ordering::Relaxed)) as i32
        }
        (IPPROTO_TCP, TCP_ULP) => return Ok(Vec::new()),
        (IPPROTO_TCP, TCP_CONGESTION) => {
            let mut name = [0; 16];
            for (to, from) in name.iter_mut().zip(CONGESTION) {
                *to = *from;
            }
            return try_copy(&name);
        }
        (IPPROTO_TCP, TCP_INFO) => return try_copy(bytemuck::bytes_of(&info(socket, own))),
        _ => {
            let (value, _) = own.values.place(level, name).ok_or(Errno::ENOPROTOOPT)?;
            value.load(Ordering::Relaxed)
        }
    };
    try_copy(bytemuck::bytes_of(&number))
}

/// The values for a connection without packets; the others are the initial values over the interface.
fn info(socket: &Socket, own: &InetSocket) -> TcpInfo {
    let (receive_queue, send_queue) = socket.queues();
    let connected = socket.link().is_some();
    let segment = tcp::SEGMENT as u32;
    let mut info = TcpInfo {
        state: tcp::state(socket),
        rto: 1_000_000,
        snd_mss: 536,
        rcv_mss: 88,
        snd_ssthresh: i32::MAX as u32,
        snd_cwnd: 10,
        reordering: 3,
        pacing_rate: u64::MAX,
        max_pacing_rate: u64::MAX,
        ..TcpInfo::default()
    };
    if own.is_listening() {
        // For a listener: the waiting connections, and their limit.
        info.unacked = receive_queue as u32;
        info.sacked = send_queue as u32;
    } else if connected {
        // Time stamps, selective acknowledgements, windows that scale.
        info.options = 7;
        info.scales = 0x77;
        info.rto = 201_000;
        info.ato = 40_000;
        info.snd_mss = segment;
        info.rcv_mss = segment;
        info.advmss = 65_483;
        info.pmtu = 65_536;
        info.rtt = 20;
        info.rttvar = 10;
        info.min_rtt = 5;
        info.rcv_ssthresh = 65_483;
        info.rcv_space = 65_495;
        info.snd_wnd = 65_536;
        info.notsent_bytes = send_queue as u32;
    }
    info
}
