//! IP addresses, and the addresses of sockets: a host and a port.
//!
//! *Interface*: [`Ip`] is an address of either family; [`InetAddress`] has a port too. [`InetAddress::parse`]
//! and [`InetAddress::write`] know `sockaddr_in` and `sockaddr_in6`.

use abi::errno::{Errno, Result};
use abi::linux::*;

use crate::socket::Address;

/// An address of IPv6, or of IPv4 as IPv6 maps it (`::ffff:a.b.c.d`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ip(pub [u8; 16]);

/// The prefix of an IPv4 address mapped to IPv6.
const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

impl Ip {
    /// `0.0.0.0`.
    pub const ANY4: Ip = Ip::v4([0; 4]);
    /// `::`.
    pub const ANY6: Ip = Ip([0; 16]);
    /// `127.0.0.1`.
    pub const HOST4: Ip = Ip::v4([127, 0, 0, 1]);
    /// `::1`.
    pub const HOST6: Ip = Ip([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);

    /// An address of IPv4.
    pub const fn v4(bytes: [u8; 4]) -> Ip {
        let [a, b, c, d] = bytes;
        Ip([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d])
    }

    /// The address of IPv4 that it is.
    pub fn as_v4(self) -> Option<[u8; 4]> {
        let four = self.0.strip_prefix(&MAPPED)?;
        four.try_into().ok()
    }

    /// Whether it is one of IPv4.
    pub fn is_v4(self) -> bool {
        self.0.starts_with(&MAPPED)
    }

    /// Whether it stands for all addresses of this host.
    pub fn is_any(self) -> bool {
        self == Ip::ANY4 || self == Ip::ANY6
    }

    /// Whether it is this host's: 127.0.0.0/8 or `::1`.
    pub fn is_own(self) -> bool {
        match self.as_v4() {
            Some([net, ..]) => net == 127 && !self.is_broadcast(),
            None => self == Ip::HOST6,
        }
    }

    /// Whether it is all hosts of a net of ours.
    pub fn is_broadcast(self) -> bool {
        matches!(
            self.as_v4(),
            Some([255, 255, 255, 255] | [127, 255, 255, 255])
        )
    }

    /// Whether it is a group.
    pub fn is_group(self) -> bool {
        match self.as_v4() {
            Some([first, ..]) => first & 0xf0 == 0xe0,
            None => self.0.first() == Some(&0xff),
        }
    }

    /// Whether it means the host itself, or the caller.
    pub fn meant(self) -> Ip {
        match self {
            Ip::ANY4 => Ip::HOST4,
            Ip::ANY6 => Ip::HOST6,
            other => other,
        }
    }

    /// The host's own address that reaches this one.
    pub fn from(self) -> Ip {
        match self.is_v4() {
            true => Ip::HOST4,
            false => Ip::HOST6,
        }
    }
}

/// An address and a port there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InetAddress {
    /// The address.
    pub ip: Ip,
    /// The port; 0: none.
    pub port: u16,
}

impl InetAddress {
    /// Any address, without a port.
    pub const fn any(six: bool) -> InetAddress {
        InetAddress {
            ip: if six { Ip::ANY6 } else { Ip::ANY4 },
            port: 0,
        }
    }

    /// Reads the address in `bytes`, of IPv6 if `six`. EINVAL: too short; EAFNOSUPPORT: of another family.
    pub fn parse(bytes: &[u8], six: bool) -> Result<InetAddress> {
        /// Of an address of IPv6 the scope may be missing.
        const SHORT: usize = size_of::<SockaddrIn6>() - 4;
        let family = family_of(bytes)?;
        if six {
            if bytes.len() < SHORT {
                return Err(Errno::EINVAL);
            }
            if family != AF_INET6 {
                return Err(Errno::EAFNOSUPPORT);
            }
            let mut whole = [0; size_of::<SockaddrIn6>()];
            for (to, from) in whole.iter_mut().zip(bytes) {
                *to = *from;
            }
            let raw: SockaddrIn6 = bytemuck::pod_read_unaligned(&whole);
            return Ok(InetAddress {
                ip: Ip(raw.address),
                port: u16::from_be_bytes(raw.port),
            });
        }
        let name = InetAddress::parse_unspecified(bytes)?;
        match family {
            AF_INET => Ok(name),
            _ => Err(Errno::EAFNOSUPPORT),
        }
    }

    /// The name in an address of IPv4 that has no family. EAFNOSUPPORT: it is not any.
    pub fn unspecified(bytes: &[u8]) -> Result<InetAddress> {
        let name = InetAddress::parse_unspecified(bytes)?;
        match name.ip {
            Ip::ANY4 => Ok(name),
            _ => Err(Errno::EAFNOSUPPORT),
        }
    }

    /// The name in an address of IPv4, whatever its family is said to be. EINVAL.
    pub fn parse_unspecified(bytes: &[u8]) -> Result<InetAddress> {
        let bytes = bytes.get(..size_of::<SockaddrIn>()).ok_or(Errno::EINVAL)?;
        let raw: SockaddrIn = bytemuck::pod_read_unaligned(bytes);
        Ok(InetAddress {
            ip: Ip::v4(raw.address),
            port: u16::from_be_bytes(raw.port),
        })
    }

    /// As a program has it, of IPv6 if `six`.
    pub fn write(self, six: bool) -> Address {
        if six {
            return Address::new(bytemuck::bytes_of(&SockaddrIn6 {
                family: AF_INET6 as u16,
                port: self.port.to_be_bytes(),
                flow: 0,
                address: self.ip.0,
                scope: 0,
            }));
        }
        Address::new(bytemuck::bytes_of(&SockaddrIn {
            family: AF_INET as u16,
            port: self.port.to_be_bytes(),
            address: self.ip.as_v4().unwrap_or_default(),
            zero: [0; 8],
        }))
    }
}

/// The family that an address begins with. EINVAL.
pub fn family_of(bytes: &[u8]) -> Result<i32> {
    let two = bytes.first_chunk().ok_or(Errno::EINVAL)?;
    Ok(i32::from(u16::from_ne_bytes(*two)))
}
