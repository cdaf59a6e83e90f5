//! Control messages beside the bytes of a message.
//!
//! *Interface*: [`tell`] makes them for the receiver; [`SendOptions::read`] reads the sender's,
//! [`about_socket`] those of a stream.

use abi::errno::{Errno, Result};
use abi::linux::*;

use super::InetSocket;
use super::address::Ip;
use super::multicast::LOOPBACK;
use crate::socket::record::Packet;
use crate::socket::{PutControl, Socket, ancillary};
use account::{Capability, caller};
use bytemuck::Pod;

/// The settings of one message that differ from the socket's.
#[derive(Default)]
pub struct SendOptions {
    /// From where; any address: from the nearest.
    pub from: Option<Ip>,
    /// The interface; 0: any.
    pub index: i32,
    /// Through how many hosts.
    pub hops: Option<u8>,
    /// The type of service, or class.
    pub class: Option<u8>,
}

/// All of a control message's `data`, which is no longer. EINVAL.
fn exact<T: Pod>(data: &[u8]) -> Result<T> {
    match data.len() == size_of::<T>() {
        true => Ok(bytemuck::pod_read_unaligned(data)),
        false => Err(Errno::EINVAL),
    }
}

/// The beginning of one's `data`. EINVAL.
fn begin<T: Pod>(data: &[u8]) -> Result<T> {
    exact(data.get(..size_of::<T>()).ok_or(Errno::EINVAL)?)
}

/// A number from `least` to 255. EINVAL.
fn byte(number: i32, least: u8) -> Result<u8> {
    let byte = u8::try_from(number).map_err(|_| Errno::EINVAL)?;
    match byte < least {
        true => Err(Errno::EINVAL),
        false => Ok(byte),
    }
}

/// The same, or -1 for the socket's setting.
fn byte_or_none(number: i32) -> Result<Option<u8>> {
    match number {
        -1 => Ok(None),
        _ => byte(number, 0).map(Some),
    }
}

/// Checks a control message of the level of sockets. EINVAL, EPERM.
fn of_socket(kind: i32, data: &[u8]) -> Result<()> {
    match kind {
        // It changes nothing here.
        SO_MARK => {
            let cred = caller::cred();
            if cred.need(Capability::NetRaw).is_err() {
                cred.need(Capability::NetAdmin)?;
            }
            exact::<u32>(data).map(|_| ())
        }
        // For others.
        SCM_RIGHTS | SCM_CREDENTIALS => Ok(()),
        _ => Err(Errno::EINVAL),
    }
}

/// Checks the control messages in `bytes` of a stream's sender, which have no effect. EINVAL, EPERM.
pub fn about_socket(bytes: &[u8]) -> Result<()> {
    ancillary::each(bytes, |level, kind, data| match level {
        SOL_SOCKET => of_socket(kind, data),
        _ => Ok(()),
    })
}

impl SendOptions {
    /// Reads the control messages in `bytes` for a message to `to`, from a socket of IPv6 if `six`. EINVAL,
    /// EPERM, ENODEV.
    pub fn read(bytes: &[u8], to: Ip, six: bool) -> Result<SendOptions> {
        let mut wish = SendOptions::default();
        let four = to.is_v4();
        ancillary::each(bytes, |level, kind, data| match level {
            SOL_SOCKET => of_socket(kind, data),
            // Messages are not cut.
            IPPROTO_UDP => Err(Errno::EINVAL),
            IPPROTO_IP if four => wish.of_four(kind, data),
            IPPROTO_IPV6 if four && six && kind == IPV6_PKTINFO => {
                let info: In6Pktinfo = begin(data)?;
                let from = Ip(info.address);
                wish.comes(match from.is_v4() {
                    true => from,
                    false => return Err(Errno::EINVAL),
                });
                wish.goes_by(info.index);
                Ok(())
            }
            IPPROTO_IPV6 if !four => wish.of_six(kind, data),
            _ => Ok(()),
        })?;
        Ok(wish)
    }

    fn comes(&mut self, from: Ip) {
        self.from = Some(from);
    }

    fn goes_by(&mut self, index: i32) {
        if index != 0 {
            self.index = index;
        }
    }

    fn of_four(&mut self, kind: i32, data: &[u8]) -> Result<()> {
        match kind {
            IP_PKTINFO => {
                let info: InPktinfo = exact(data)?;
                self.comes(Ip::v4(info.local));
                self.goes_by(info.index);
            }
            IP_TTL => self.hops = Some(byte(exact(data)?, 1)?),
            IP_TOS => {
                self.class = Some(match data {
                    [class] => *class,
                    _ => byte(exact(data)?, 0)?,
                });
            }
            // There are no options in packets.
            IP_RETOPTS if data.is_empty() => {}
            _ => return Err(Errno::EINVAL),
        }
        Ok(())
    }

    fn of_six(&mut self, kind: i32, data: &[u8]) -> Result<()> {
        match kind {
            IPV6_PKTINFO => {
                let info: In6Pktinfo = begin(data)?;
                let from = Ip(info.address);
                self.goes_by(info.index);
                self.exists()?;
                if from != Ip::ANY6 {
                    if !from.is_own() {
                        return Err(Errno::EINVAL);
                    }
                    self.comes(from);
                }
            }
            IPV6_HOPLIMIT => self.hops = byte_or_none(exact(data)?)?,
            IPV6_TCLASS => self.class = byte_or_none(exact(data)?)?,
            IPV6_DONTFRAG if matches!(exact(data)?, 0 | 1) => {}
            // A flow's number is ignored.
            IPV6_FLOWINFO => drop(begin::<u32>(data)?),
            _ => return Err(Errno::EINVAL),
        }
        Ok(())
    }

    /// The interface is there. ENODEV.
    fn exists(&self) -> Result<()> {
        match self.index {
            0 | LOOPBACK => Ok(()),
            _ => Err(Errno::ENODEV),
        }
    }

    /// Whether a message can go like that. EINVAL, ENETUNREACH, ENODEV.
    pub fn is_possible(&self) -> Result<()> {
        match self.from {
            None | Some(Ip::ANY4) => {}
            Some(from) if from.is_group() || from == Ip::v4([255; 4]) => return Err(Errno::EINVAL),
            Some(from) if from.as_v4().is_some_and(|four| four.starts_with(&[0])) => {
                return Err(Errno::EINVAL);
            }
            Some(from) if !from.is_own() => return Err(Errno::ENETUNREACH),
            Some(_) => {}
        }
        self.exists()
    }
}

/// Writes, by `write(level, kind, data)`, what `socket` wants to know of how `packet` came.
pub fn tell(
    socket: &Socket,
    own: &InetSocket,
    packet: &Packet,
    write: PutControl<'_>,
) -> Result<()> {
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
            let info = InPktinfo {
                index: LOOPBACK,
                local,
                address: four,
            };
            write(IPPROTO_IP, IP_PKTINFO, bytemuck::bytes_of(&info))?;
        }
        if on(IPPROTO_IP, IP_RECVTTL) {
            write(IPPROTO_IP, IP_TTL, &number(packet.hops))?;
        }
        if on(IPPROTO_IP, IP_RECVTOS) {
            write(IPPROTO_IP, IP_TOS, &[packet.class])?;
        }
        if on(IPPROTO_IP, IP_RECVORIGDSTADDR) {
            let name = super::address::InetAddress {
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
        let info = In6Pktinfo {
            address: packet.to.0,
            index: LOOPBACK,
        };
        write(IPPROTO_IPV6, IPV6_PKTINFO, bytemuck::bytes_of(&info))?;
    }
    if packet.to.is_v4() {
        return Ok(());
    }
    if on(IPPROTO_IPV6, IPV6_RECVHOPLIMIT) {
        write(IPPROTO_IPV6, IPV6_HOPLIMIT, &number(packet.hops))?;
    }
    if on(IPPROTO_IPV6, IPV6_RECVTCLASS) {
        write(IPPROTO_IPV6, IPV6_TCLASS, &number(packet.class))?;
    }
    Ok(())
}
