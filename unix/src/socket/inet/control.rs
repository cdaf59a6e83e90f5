//! What is told of a message beside its bytes, by control messages.
//!
//! *Interface*: [`tell`].

use abi::errno::Result;
use abi::linux::*;

use super::Own;
use super::group::LOOPBACK;
use super::name::Ip;
use crate::socket::record::Packet;
use crate::socket::{Socket, Telling};

/// Writes, by `write(level, kind, data)`, what `socket` wants to know of how `packet` came.
pub fn tell(socket: &Socket, own: &Own, packet: &Packet, write: Telling<'_>) -> Result<()> {
    if packet.time_ns != 0 {
        let (seconds, ns) = (
            packet.time_ns / 1_000_000_000,
            packet.time_ns % 1_000_000_000,
        );
        match socket.options.is_on(SO_TIMESTAMPNS) {
            true => write(
                SOL_SOCKET,
                SO_TIMESTAMPNS,
                bytemuck::bytes_of(&[seconds, ns]),
            )?,
            false => write(
                SOL_SOCKET,
                SO_TIMESTAMP,
                bytemuck::bytes_of(&[seconds, ns / 1000]),
            )?,
        }
    }
    let on = |level, name| own.values.number(level, name) != 0;
    let number = |value: u8| i32::from(value).to_ne_bytes();
    if let Some(four) = packet.to.as_v4() {
        if on(IPPROTO_IP, IP_PKTINFO) {
            let local = match packet.to.is_own() {
                true => four,
                false => Ip::HOST4.as_v4().unwrap_or_default(),
            };
            let info = [LOOPBACK.to_ne_bytes(), local, four];
            write(IPPROTO_IP, IP_PKTINFO, bytemuck::bytes_of(&info))?;
        }
        if on(IPPROTO_IP, IP_RECVTTL) {
            write(IPPROTO_IP, IP_TTL, &number(packet.hops))?;
        }
        if on(IPPROTO_IP, IP_RECVTOS) {
            write(IPPROTO_IP, IP_TOS, &[packet.class])?;
        }
        if on(IPPROTO_IP, IP_RECVORIGDSTADDR) {
            let name = super::name::Name {
                ip: packet.to,
                port: packet.port,
            };
            write(IPPROTO_IP, IP_RECVORIGDSTADDR, name.write(false).bytes())?;
        }
    }
    if !own.six {
        return Ok(());
    }
    if on(IPPROTO_IPV6, IPV6_RECVPKTINFO) {
        let mut info = [0; 20];
        let (address, index) = info.split_at_mut(16);
        address.copy_from_slice(&packet.to.0);
        index.copy_from_slice(&LOOPBACK.to_ne_bytes());
        write(IPPROTO_IPV6, IPV6_PKTINFO, &info)?;
    }
    if on(IPPROTO_IPV6, IPV6_RECVHOPLIMIT) {
        write(IPPROTO_IPV6, IPV6_HOPLIMIT, &number(packet.hops))?;
    }
    if on(IPPROTO_IPV6, IPV6_RECVTCLASS) {
        write(IPPROTO_IPV6, IPV6_TCLASS, &number(packet.class))?;
    }
    Ok(())
}
