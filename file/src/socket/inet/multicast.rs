//! Multicast groups that a socket has joined, on the loopback interface.
//!
//! *Interface*: [`MulticastGroups`] is kept with each socket; [`set`] are the options that change it.

#![expect(
    clippy::disallowed_methods,
    reason = "room is made by `try_reserve` before"
)]

use abi::errno::{Errno, Result};
use abi::linux::*;
use alloc::vec::Vec;

use super::InetSocket;
use super::address::{InetAddress, Ip};
use vm::fallible::try_reserve;

/// So many may be joined by one socket, as on Linux at first.
const MOST: usize = 20;

/// The number of the loopback interface.
pub const LOOPBACK: i32 = 1;

/// The groups that a socket has joined, and its interface for sending to groups.
pub struct MulticastGroups {
    joined: Vec<Ip>,
    address: [u8; 4],
    index: i32,
}

impl MulticastGroups {
    /// None.
    pub const fn new() -> MulticastGroups {
        MulticastGroups {
            joined: Vec::new(),
            address: [0; 4],
            index: 0,
        }
    }

    /// Whether `group` is among them.
    pub fn has(&self, group: Ip) -> bool {
        self.joined.contains(&group)
    }

    /// The address of the interface that it sends by; none if it did not say.
    pub fn address(&self) -> [u8; 4] {
        self.address
    }

    /// The number of that interface; 0 if it did not say.
    pub fn index(&self) -> i32 {
        self.index
    }
}

/// The interface that an option names by number or address. ENODEV.
fn interface(index: i32, address: [u8; 4], none: Errno) -> Result<i32> {
    match (index, Ip::v4(address)) {
        (LOOPBACK, _) => Ok(LOOPBACK),
        (0, Ip::ANY4) => Ok(0),
        (0, address) if address.is_own() => Ok(LOOPBACK),
        _ => Err(none),
    }
}

fn read<T: bytemuck::Pod>(bytes: &[u8]) -> Result<T> {
    let bytes = bytes.get(..size_of::<T>()).ok_or(Errno::EINVAL)?;
    Ok(bytemuck::pod_read_unaligned(bytes))
}

/// Sets the option `name` of `level`, which is one about groups. EINVAL, ENODEV, EADDRINUSE, EADDRNOTAVAIL,
/// ENOBUFS, ENOMEM.
pub fn set(own: &InetSocket, level: i32, name: i32, bytes: &[u8]) -> Result<()> {
    match (level, name) {
        (IPPROTO_IP, IP_MULTICAST_IF) => {
            let (index, address) = match bytes.len() {
                12.. => {
                    let wanted: IpMreqn = read(bytes)?;
                    (wanted.index, wanted.address)
                }
                8.. => (0, read::<[[u8; 4]; 2]>(bytes)?[1]),
                _ => (0, read(bytes)?),
            };
            let index = interface(index, address, Errno::EADDRNOTAVAIL)?;
            let mut groups = own.groups();
            groups.index = index;
            groups.address = address;
            Ok(())
        }
        (IPPROTO_IPV6, IPV6_MULTICAST_IF) => {
            let index: i32 = read(bytes)?;
            if !matches!(index, 0 | LOOPBACK) {
                return Err(Errno::ENODEV);
            }
            own.groups().index = index;
            Ok(())
        }
        (_, MCAST_JOIN_GROUP | MCAST_LEAVE_GROUP) => {
            /// The number of the interface, before the group's address.
            const HEAD: usize = 8;
            let index: i32 = read(bytes)?;
            let rest = bytes.get(HEAD..).ok_or(Errno::EINVAL)?;
            let group = InetAddress::parse(rest, level == IPPROTO_IPV6)?.ip;
            change(own, group, index, name == MCAST_JOIN_GROUP)
        }
        (IPPROTO_IP, _) => {
            let wanted = match bytes.len() {
                12.. => read(bytes)?,
                _ => {
                    let [group, address] = read::<[[u8; 4]; 2]>(bytes)?;
                    IpMreqn {
                        group,
                        address,
                        index: 0,
                    }
                }
            };
            let index = interface(wanted.index, wanted.address, Errno::ENODEV)?;
            change(own, Ip::v4(wanted.group), index, name == IP_ADD_MEMBERSHIP)
        }
        _ => {
            let wanted: Ipv6Mreq = read(bytes)?;
            change(
                own,
                Ip(wanted.group),
                wanted.index,
                name == IPV6_ADD_MEMBERSHIP,
            )
        }
    }
}

/// Joins or leaves `group`. EINVAL, ENODEV, EADDRINUSE, EADDRNOTAVAIL, ENOBUFS, ENOMEM.
fn change(own: &InetSocket, group: Ip, index: i32, join: bool) -> Result<()> {
    if !group.is_group() {
        return Err(Errno::EINVAL);
    }
    if join && index != LOOPBACK {
        // No way leads to groups.
        return Err(Errno::ENODEV);
    }
    let mut room = Vec::new();
    if join {
        try_reserve(&mut room, MOST)?;
    }
    let mut groups = own.groups();
    let at = groups.joined.iter().position(|other| *other == group);
    let result = match (join, at) {
        (true, Some(_)) => Err(Errno::EADDRINUSE),
        (true, None) if groups.joined.len() >= MOST => Err(Errno::ENOBUFS),
        (true, None) => {
            if groups.joined.capacity() < MOST {
                room.append(&mut groups.joined);
                core::mem::swap(&mut room, &mut groups.joined);
            }
            groups.joined.extend(Some(group));
            Ok(())
        }
        (false, Some(at)) => {
            groups.joined.swap_remove(at);
            Ok(())
        }
        (false, None) => Err(Errno::EADDRNOTAVAIL),
    };
    drop(groups);
    drop(room);
    result
}
