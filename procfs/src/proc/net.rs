//! `/proc/net`: sockets, and what they reach. All processes see the same.
//!
//! *Interface.* [`ALL`] is the folder.

use core::fmt::Write;
use core::net::IpAddr;

use abi::errno::Result;
use abi::linux::{
    AF_INET, AF_INET6, AF_NETLINK, AF_UNIX, IFA_F_PERMANENT, IPPROTO_TCP, IPPROTO_UDP,
    IPPROTO_UDPLITE,
};
use alloc::sync::Arc;

use file::fs::pseudofs::{FixedEntry, PseudoEntry, TextOut, TextPiece, long_text, text};
use file::socket::netlink::{self as kernel, route};
use file::socket::{Host, Socket, socket_list};

/// The texts.
pub const ALL: &[FixedEntry] = &[
    ("arp", || {
        head("IP address       HW type     Flags       HW address            Mask     Device\n")
    }),
    ("dev", || text(interfaces)),
    ("if_inet6", || text(addresses)),
    ("netlink", || {
        of_family(
            "sk               Eth Pid        Groups   Rmem     Wmem     Dump  Locks    Drops    Inode\n",
            AF_NETLINK,
            netlink,
        )
    }),
    ("route", || {
        head(
            "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT                                                       \n",
        )
    }),
    ("tcp", || internet(TCP, AF_INET, IPPROTO_TCP)),
    ("tcp6", || internet(SIX, AF_INET6, IPPROTO_TCP)),
    ("udp", || internet(UDP, AF_INET, IPPROTO_UDP)),
    ("udp6", || internet(SIX, AF_INET6, IPPROTO_UDP)),
    ("udplite", || internet(UDP, AF_INET, IPPROTO_UDPLITE)),
    ("udplite6", || internet(SIX, AF_INET6, IPPROTO_UDPLITE)),
    ("unix", || {
        of_family(
            "Num       RefCount Protocol Flags    Type St Inode Path\n",
            AF_UNIX,
            local,
        )
    }),
];

/// A table without rows: what `lo` alone leads to has none of them.
fn head(head: &'static str) -> PseudoEntry {
    text(move |out| {
        out.push_str(head);
        Ok(())
    })
}

/// Interfaces. No packets are made for what stays in the machine, so none are counted.
fn interfaces(out: &mut TextOut) -> Result<()> {
    out.push_str(
        "Inter-|   Receive                                                |  Transmit\n \
         face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n    \
         lo:       0       0    0    0    0     0          0         0        0       0    0    0    0     0       0          0\n",
    );
    Ok(())
}

fn addresses(out: &mut TextOut) -> Result<()> {
    for (address, bits) in &route::ADDRESSES {
        if let IpAddr::V6(address) = address {
            for byte in address.octets() {
                let _ = write!(out, "{byte:02x}");
            }
            let _ = writeln!(
                out,
                " {:02x} {bits:02x} {HOST:02x} {IFA_F_PERMANENT:02x} {:>8}",
                route::LOOPBACK,
                "lo"
            );
        }
    }
    Ok(())
}

/// `IPV6_ADDR_LOOPBACK`: the scope of an address that is the machine's own.
const HOST: u32 = 0x10;

/// A table of the sockets of one family.
fn of_family(head: &'static str, family: i32, row: fn(&mut TextOut, &Arc<Socket>)) -> PseudoEntry {
    long_text(move |from, piece| {
        rows(
            from,
            piece,
            head,
            |socket| socket.family.number() == family,
            row,
        );
        Ok(())
    })
}

/// The head, which is at place 0, and behind it a row for each socket that is `wanted`.
fn rows(
    from: u64,
    piece: &mut TextPiece,
    head: &str,
    wanted: impl Fn(&Socket) -> bool,
    row: impl Fn(&mut TextOut, &Arc<Socket>),
) {
    if from == 0 && !piece.record(1, |out| out.push_str(head)) {
        return;
    }
    let mut at = from.max(1) - 1;
    while let Some((place, socket)) = socket_list::from(at) {
        at = place + 1;
        if wanted(&socket) && !piece.record(at + 1, |out| row(out, &socket)) {
            return;
        }
    }
}

fn local(out: &mut TextOut, socket: &Arc<Socket>) {
    /// It listens.
    const ACCEPTS: u32 = 1 << 16;
    let flags = if socket.backlog().is_some() {
        ACCEPTS
    } else {
        0
    };
    let _ = write!(
        out,
        "{:016x}: {:08X} {:08X} {flags:08X} {:04X} {:02X} {:5}",
        0,
        // Without the one of this look.
        Arc::strong_count(socket).saturating_sub(1),
        0,
        socket.kind.number(),
        socket.family.standing(socket).state,
        socket.ino,
    );
    if let Some(name) = socket.name.get() {
        let bytes = name.bytes().get(2..).unwrap_or_default();
        out.push(' ');
        match bytes.split_first() {
            // Bytes that would end a line or a text are shown as others; Linux lets a newline end the line.
            Some((0, rest)) => {
                for part in rest.split(|byte| *byte == 0) {
                    out.push('@');
                    out.octal(part, b"\n");
                }
            }
            _ => out.octal(bytes.strip_suffix(&[0]).unwrap_or(bytes), b"\n"),
        }
    }
    out.push('\n');
}

const TCP: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode                                                     \n";
const UDP: &str = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops             \n";
const SIX: &str = "  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";

/// A table of the sockets of one protocol that have a port.
fn internet(head: &'static str, family: i32, protocol: i32) -> PseudoEntry {
    long_text(move |from, piece| {
        let wanted = |socket: &Socket| {
            socket.family.number() == family
                && socket.protocol == protocol
                && socket.own_name().host_and_port().1 != 0
        };
        rows(from, piece, head, wanted, host);
        Ok(())
    })
}

fn host(out: &mut TextOut, socket: &Arc<Socket>) {
    let standing = socket.family.standing(socket);
    let peer = socket.family.peer_name(socket).ok();
    let any = match socket.family.number() {
        AF_INET6 => Host::Six([0; 16]),
        _ => Host::Four([0; 4]),
    };
    let peer = peer.map_or((any, 0), |peer| peer.host_and_port());
    let _ = write!(out, "{:4}: ", socket.ino % 10_000);
    for (host, port) in [socket.own_name().host_and_port(), peer] {
        // Each word of an address as the processor reads it.
        let words: &[u8] = match &host {
            Host::Four(bytes) => bytes,
            Host::Six(bytes) => bytes,
        };
        for word in words.as_chunks().0 {
            let _ = write!(out, "{:08X}", u32::from_ne_bytes(*word));
        }
        let _ = write!(out, ":{port:04X} ");
    }
    let listens = socket.backlog().is_some();
    let _ = writeln!(
        out,
        "{:02X} {:08X}:{:08X} 00:00000000 00000000 {:5} {:8} {} {} {:016x} 0",
        standing.state,
        if listens { 0 } else { standing.send_queue },
        standing.receive_queue,
        socket.uid(),
        0,
        socket.ino,
        Arc::strong_count(socket).saturating_sub(1),
        0,
    );
}

fn netlink(out: &mut TextOut, socket: &Arc<Socket>) {
    let (port, groups) = kernel::called(socket);
    let _ = writeln!(
        out,
        "{:016x} {:<3} {port:<10} {groups:08x} {:<8} {:<8} {:<5} {:<8} {:<8} {:<8}",
        0,
        socket.protocol,
        socket.inbox.available(),
        0,
        0,
        Arc::strong_count(socket).saturating_sub(1),
        0,
        socket.ino,
    );
}
