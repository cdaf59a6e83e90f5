//! ICMP echo, and raw messages of other protocols.
//!
//! *Interface*: the part of [`super::Internet`] for sockets that send echo requests (SOCK_DGRAM with
//! IPPROTO_ICMP or IPPROTO_ICMPV6) and of raw ones.
//!
//! This host answers an echo request while it is sent. A raw socket receives each message of its protocol,
//! requests and replies; for IPv4 with a header before it.
//!
//! Source: icmp(7), raw(7); RFC 792, RFC 4443.
#![expect(clippy::disallowed_methods, reason = "within room that is asked for")]

use abi::errno::{Errno, Result};
use abi::linux::*;
use account::caller;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicI32, Ordering};

use super::address::{InetAddress, Ip};
use super::udp::{HOPS, Path, admit, deliver, route};
use super::{InetSocket, Transport, ports};
use crate::io::IoBuf;
use crate::socket::Socket;
use crate::socket::message::Sending;
use vm::fallible::{try_filled, try_reserve};

/// Groups whose processes may send echo requests without rights (`ping_group_range`): the first and the last;
/// at first none.
pub static GROUPS: [AtomicI32; 2] = [AtomicI32::new(1), AtomicI32::new(0)];

/// The longest message.
const MOST: usize = 65_507;
/// Bytes of a question or an answer before its data.
const HEAD: usize = 8;
/// Bytes of a header of IPv4.
const HEADER: usize = 20;

const ECHO: u8 = 8;
const ECHO_REPLY: u8 = 0;
const ECHO_SIX: u8 = 128;
const ECHO_REPLY_SIX: u8 = 129;

/// Whether the caller may ask. EACCES.
pub(super) fn may_ask() -> Result<()> {
    let [low, high] = GROUPS
        .each_ref()
        .map(|end| i64::from(end.load(Ordering::Relaxed)));
    let cred = caller::cred();
    let is = |group: u32| (low..=high).contains(&i64::from(group));
    match is(cred.egid) || cred.groups.iter().any(|group| is(*group)) {
        true => Ok(()),
        false => Err(Errno::EACCES),
    }
}

/// The sum over `pieces`, the first of even length, that makes the sum with itself nothing.
fn checksum(pieces: [&[u8]; 2]) -> [u8; 2] {
    let mut sum = 0u32;
    for pair in pieces.iter().flat_map(|piece| piece.chunks(2)) {
        let word = match pair {
            [one, two] => [*one, *two],
            [one] => [*one, 0],
            _ => [0, 0],
        };
        sum = sum.wrapping_add(u32::from(u16::from_be_bytes(word)));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}

/// A header of IPv6 as its checksums have it.
fn pseudo(from: Ip, to: Ip, length: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    try_reserve(&mut bytes, 40)?;
    bytes.extend_from_slice(&from.0);
    bytes.extend_from_slice(&to.0);
    bytes.extend_from_slice(&(length as u32).to_be_bytes());
    bytes.extend_from_slice(&[0, 0, 0, IPPROTO_ICMPV6 as u8]);
    Ok(bytes)
}

/// Writes the sum into the head of `message`.
fn seal(message: &mut [u8], six: bool, from: Ip, to: Ip) -> Result<()> {
    if let Some(field) = message.get_mut(2..4) {
        field.fill(0);
    }
    let before = if six {
        pseudo(from, to, message.len())?
    } else {
        Vec::new()
    };
    let sum = checksum([&before, message]);
    if let Some(field) = message.get_mut(2..4) {
        field.copy_from_slice(&sum);
    }
    Ok(())
}

pub(super) fn send(socket: &Arc<Socket>, buf: &mut IoBuf, mut sending: Sending) -> Result<usize> {
    let own = InetSocket::of(socket)?;
    let length = buf.remaining();
    if length > MOST {
        return Err(Errno::EMSGSIZE);
    }
    let asks = own.transport == Transport::Ping;
    if asks && length < HEAD {
        return Err(Errno::EINVAL);
    }
    admit(socket, &sending)?;
    let path = route(socket, own, &mut sending)?;
    let Path { to, from, .. } = path;
    let mut message = try_filled(0, length)?;
    let mut taken = 0;
    while let Some(rest) = message.get_mut(taken..).filter(|rest| !rest.is_empty()) {
        taken += buf.take(rest)?;
    }
    let six = own.six;
    let (question, protocol) = match six {
        true => (ECHO_SIX, IPPROTO_ICMPV6),
        false => (ECHO, IPPROTO_ICMP),
    };
    if asks {
        if !message.starts_with(&[question, 0]) {
            return Err(Errno::EINVAL);
        }
        if let Some(field) = message.get_mut(4..6) {
            field.copy_from_slice(&from.port.to_be_bytes());
        }
        seal(&mut message, six, from.ip, to.ip)?;
    } else if six && socket.protocol == IPPROTO_ICMPV6 && length >= HEAD {
        seal(&mut message, six, from.ip, to.ip)?;
    }
    let protocol = if asks { protocol } else { socket.protocol };
    tell_raw(own, protocol, &message, &path)?;
    let echo = matches!(protocol, IPPROTO_ICMP | IPPROTO_ICMPV6);
    if echo
        && length >= HEAD
        && message.starts_with(&[question, 0])
        && sums_up(&message, six, from.ip, to.ip)?
    {
        answer(own, protocol, &mut message, &path)?;
    }
    Ok(length)
}

/// Whether the sum of `message` is right.
fn sums_up(message: &[u8], six: bool, from: Ip, to: Ip) -> Result<bool> {
    let before = if six {
        pseudo(from, to, message.len())?
    } else {
        Vec::new()
    };
    Ok(checksum([&before, message]) == [0, 0])
}

/// Answers the question `message`, as the host does.
fn answer(own: &InetSocket, protocol: i32, message: &mut [u8], path: &Path) -> Result<()> {
    let Path { to, from, .. } = *path;
    if let Some(kind) = message.first_mut() {
        *kind = if own.six { ECHO_REPLY_SIX } else { ECHO_REPLY };
    }
    seal(message, own.six, to.ip, from.ip)?;
    let back = Path {
        to: InetAddress { port: 0, ..from },
        from: InetAddress { port: 0, ..to },
        hops: HOPS,
        class: path.class,
    };
    tell_raw(own, protocol, message, &back)?;
    let number = message.get(4..6).and_then(|two| two.try_into().ok());
    let asked = InetAddress {
        ip: from.ip,
        port: number.map_or(0, u16::from_be_bytes),
    };
    if let Some(asker) = ports::receiver(Transport::Ping, asked, back.from) {
        let length = message.len();
        let back = Path { to: asked, ..back };
        deliver(&asker, &mut IoBuf::drain(message), length, &back)?;
    }
    Ok(())
}

/// Lets all raw sockets of `protocol` hear `message`.
fn tell_raw(own: &InetSocket, protocol: i32, message: &[u8], path: &Path) -> Result<()> {
    let to = InetAddress {
        port: protocol as u16,
        ..path.to
    };
    let from = InetAddress {
        port: 0,
        ..path.from
    };
    let kind = message.first().copied().unwrap_or(0);
    let wants = |theirs: &InetSocket| theirs.six == own.six && !theirs.filters(kind);
    let all = ports::receivers(Transport::Raw, to, from, wants);
    if all.is_empty() {
        return Ok(());
    }
    let Path { hops, class, .. } = *path;
    let path = Path { to, from, ..*path };
    let mut packet = Vec::new();
    try_reserve(&mut packet, HEADER + message.len())?;
    if let (Some(source), Some(target)) = (from.ip.as_v4(), to.ip.as_v4()) {
        let length = (HEADER + message.len()) as u16;
        let [high, low] = length.to_be_bytes();
        packet.extend_from_slice(&[
            0x45,
            class,
            high,
            low,
            0,
            0,
            0x40,
            0,
            hops,
            protocol as u8,
            0,
            0,
        ]);
        packet.extend_from_slice(&source);
        packet.extend_from_slice(&target);
        let sum = checksum([&packet, &[]]);
        if let Some(field) = packet.get_mut(10..12) {
            field.copy_from_slice(&sum);
        }
    }
    packet.extend_from_slice(message);
    for target in &all {
        let length = packet.len();
        deliver(target, &mut IoBuf::drain(&packet), length, &path)?;
    }
    Ok(())
}
