//! NETLINK_ROUTE: interfaces, addresses, routes. There is one interface, `lo`.
//!
//! *Interface*: [`ROUTE`] answers; [`ADDRESSES`] are those of the machine.
//!
//! Routing by rules, neighbours with hardware addresses and disciplines of queues are not there, and are
//! refused as by a kernel built without them.

use abi::errno::{Errno, Result};
use abi::linux::*;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::message::{Message, attributes};
use super::{Asked, Dump, Protocol, Rows, Wanted};
use account::Capability;
use account::caller;

/// Answers.
pub struct Route;

/// The one there is.
pub static ROUTE: Route = Route;

/// The number of `lo`.
pub const LOOPBACK: u32 = 1;
const NAME: &[u8] = b"lo\0";
/// Bytes of the largest packet.
pub const MTU: u32 = 65536;
/// Packets that a queue holds.
pub const QUEUE: u32 = 1000;
/// Its kind, and that it is up.
pub const FLAGS: u32 = IFF_UP | IFF_LOOPBACK | IFF_RUNNING | IFF_LOWER_UP;

/// An address of `lo`, and the bits that are the network's.
pub const ADDRESSES: [(IpAddr, u8); 2] = [
    (IpAddr::V4(Ipv4Addr::LOCALHOST), 8),
    (IpAddr::V6(Ipv6Addr::LOCALHOST), 128),
];

/// A way to somewhere: what goes to `to` and has `bits` bits in common with it.
struct Way {
    to: IpAddr,
    bits: u8,
    table: u8,
    kind: u8,
    scope: u8,
    priority: u32,
}

const fn local(to: IpAddr, bits: u8, kind: u8, scope: u8) -> Way {
    Way {
        to,
        bits,
        table: RT_TABLE_LOCAL,
        kind,
        scope,
        priority: 0,
    }
}

const WAYS: [Way; 5] = [
    local(
        IpAddr::V4(Ipv4Addr::new(127, 0, 0, 0)),
        8,
        RTN_LOCAL,
        RT_SCOPE_HOST,
    ),
    local(
        IpAddr::V4(Ipv4Addr::LOCALHOST),
        32,
        RTN_LOCAL,
        RT_SCOPE_HOST,
    ),
    local(
        IpAddr::V4(Ipv4Addr::new(127, 255, 255, 255)),
        32,
        RTN_BROADCAST,
        RT_SCOPE_LINK,
    ),
    Way {
        to: IpAddr::V6(Ipv6Addr::LOCALHOST),
        bits: 128,
        table: RT_TABLE_MAIN,
        kind: RTN_UNICAST,
        scope: RT_SCOPE_UNIVERSE,
        priority: 256,
    },
    local(
        IpAddr::V6(Ipv6Addr::LOCALHOST),
        128,
        RTN_LOCAL,
        RT_SCOPE_UNIVERSE,
    ),
];

fn family_of(address: &IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => AF_INET as u8,
        IpAddr::V6(_) => AF_INET6 as u8,
    }
}

/// Calls `with` with the bytes of an address.
fn octets<R>(address: &IpAddr, with: impl FnOnce(&[u8]) -> R) -> R {
    match address {
        IpAddr::V4(address) => with(&address.octets()),
        IpAddr::V6(address) => with(&address.octets()),
    }
}

impl Protocol for Route {
    fn groups(&self) -> u32 {
        RTNLGRP_MAX
    }

    fn answer(&self, asked: &Asked, to: &mut Message) -> Result<Option<Dump>> {
        let kind = asked.header.kind;
        if kind > RTM_MAX {
            return Err(Errno::EOPNOTSUPP);
        }
        let Some(family) = asked.body.first().copied() else {
            // Too short for any question; taken for none.
            return Ok(None);
        };
        /// Of four numbers, each group of questions has one that asks and three that change.
        const ASKS: u16 = 2;
        if kind & 3 != ASKS {
            caller::cred().need(Capability::NetAdmin)?;
            return change(asked).map(|()| None);
        }
        if asked.dumps() {
            let rows: Rows = match kind {
                RTM_GETLINK => links,
                RTM_GETADDR => addresses,
                RTM_GETROUTE => ways,
                RTM_GETNEIGH => |_, _, _| None,
                _ => return Err(Errno::EOPNOTSUPP),
            };
            return Ok(Some(Dump {
                wanted: asked.wanted(family),
                rows,
                from: 0,
            }));
        }
        match kind {
            RTM_GETLINK => {
                link_of(asked)?;
                link(&asked.wanted(family), 0, to);
            }
            RTM_GETROUTE => way_to(asked, to)?,
            _ => return Err(Errno::EOPNOTSUPP),
        }
        Ok(None)
    }
}

/// Changes nothing: what there is already may be asked for. EOPNOTSUPP, ENODEV, EEXIST, …
fn change(asked: &Asked) -> Result<()> {
    match asked.header.kind {
        RTM_NEWLINK | RTM_SETLINK => {
            let wanted: Ifinfomsg = asked.fixed()?;
            link_of(asked)?;
            let more = attributes(asked.body.get(size_of::<Ifinfomsg>()..).unwrap_or_default())
                .any(|(kind, _)| kind != IFLA_IFNAME);
            // `change` 0 means all that a program may change.
            let changed = match wanted.change {
                0 => (wanted.flags ^ FLAGS) & IFF_UP,
                mask => (wanted.flags ^ FLAGS) & mask,
            };
            match more || changed != 0 {
                true => Err(Errno::EOPNOTSUPP),
                false => Ok(()),
            }
        }
        RTM_NEWADDR => {
            let wanted: Ifaddrmsg = asked.fixed()?;
            let mut given =
                attributes(asked.body.get(size_of::<Ifaddrmsg>()..).unwrap_or_default());
            let there = given.any(|(kind, value)| {
                (kind == IFA_LOCAL || kind == IFA_ADDRESS)
                    && ADDRESSES.iter().any(|(address, bits)| {
                        *bits == wanted.bits && octets(address, |bytes| bytes == value)
                    })
            });
            match there && wanted.index == LOOPBACK {
                true => Err(Errno::EEXIST),
                false => Err(Errno::EOPNOTSUPP),
            }
        }
        _ => Err(Errno::EOPNOTSUPP),
    }
}

/// Whether the question is about `lo`. ENODEV; EINVAL: about none.
fn link_of(asked: &Asked) -> Result<()> {
    let wanted: Ifinfomsg = asked.fixed()?;
    let rest = asked.body.get(size_of::<Ifinfomsg>()..).unwrap_or_default();
    let mut names =
        attributes(rest).filter(|(kind, _)| matches!(*kind, IFLA_IFNAME | IFLA_ALT_IFNAME));
    match (wanted.index, names.next()) {
        (0, None) => Err(Errno::EINVAL),
        (0, Some((_, name))) if name.strip_suffix(&[0]).unwrap_or(name) == b"lo" => Ok(()),
        (index, _) if index == LOOPBACK as i32 => Ok(()),
        _ => Err(Errno::ENODEV),
    }
}

fn links(wanted: &Wanted, from: u64, to: &mut Message) -> Option<u64> {
    (from == 0).then(|| {
        link(wanted, NLM_F_MULTI, to);
        1
    })
}

/// `lo`.
fn link(wanted: &Wanted, flags: u16, to: &mut Message) {
    let fixed = Ifinfomsg {
        family: 0,
        pad: 0,
        kind: ARPHRD_LOOPBACK,
        index: LOOPBACK as i32,
        flags: FLAGS,
        change: 0,
    };
    to.begin(RTM_NEWLINK, flags, wanted.sequence, wanted.port, &fixed);
    to.attribute(IFLA_IFNAME, NAME);
    to.number(IFLA_TXQLEN, QUEUE);
    to.attribute(IFLA_OPERSTATE, &[0]);
    to.attribute(IFLA_LINKMODE, &[0]);
    to.number(IFLA_MTU, MTU);
    to.number(IFLA_GROUP, 0);
    to.number(IFLA_PROMISCUITY, 0);
    to.attribute(IFLA_CARRIER, &[1]);
    to.attribute(IFLA_QDISC, b"noqueue\0");
    to.attribute(IFLA_ADDRESS, &[0; 6]);
    to.attribute(IFLA_BROADCAST, &[0; 6]);
}

/// The first of `all` at place `from` or behind it whose address is of the wanted family.
fn next<T>(
    all: &'static [T],
    wanted: &Wanted,
    from: u64,
    of: fn(&T) -> &IpAddr,
) -> Option<(u64, &'static T)> {
    (0..)
        .zip(all)
        .skip(from as usize)
        .find(|(_, one)| match i32::from(wanted.family) {
            AF_INET | AF_INET6 => family_of(of(one)) == wanted.family,
            _ => true,
        })
}

fn addresses(wanted: &Wanted, from: u64, to: &mut Message) -> Option<u64> {
    let (place, (address, bits)) = next(&ADDRESSES, wanted, from, |(address, _)| address)?;
    let fixed = Ifaddrmsg {
        family: family_of(address),
        bits: *bits,
        flags: IFA_F_PERMANENT as u8,
        scope: RT_SCOPE_HOST,
        index: LOOPBACK,
    };
    to.begin(
        RTM_NEWADDR,
        NLM_F_MULTI,
        wanted.sequence,
        wanted.port,
        &fixed,
    );
    octets(address, |bytes| to.attribute(IFA_ADDRESS, bytes));
    if address.is_ipv4() {
        octets(address, |bytes| to.attribute(IFA_LOCAL, bytes));
        to.attribute(IFA_LABEL, NAME);
    }
    to.number(IFA_FLAGS, IFA_F_PERMANENT);
    // For ever.
    let times = [u32::MAX, u32::MAX, 0, 0];
    to.attribute(IFA_CACHEINFO, bytemuck::bytes_of(&times));
    Some(place + 1)
}

fn ways(wanted: &Wanted, from: u64, to: &mut Message) -> Option<u64> {
    let (place, way) = next(&WAYS, wanted, from, |way| &way.to)?;
    write_route(way, &way.to, way.bits, NLM_F_MULTI, wanted, to);
    Some(place + 1)
}

fn write_route(
    way: &Way,
    address: &IpAddr,
    bits: u8,
    flags: u16,
    wanted: &Wanted,
    to: &mut Message,
) {
    let fixed = Rtmsg {
        family: family_of(address),
        to_bits: bits,
        from_bits: 0,
        tos: 0,
        table: way.table,
        protocol: RTPROT_KERNEL,
        scope: way.scope,
        kind: way.kind,
        flags: 0,
    };
    to.begin(RTM_NEWROUTE, flags, wanted.sequence, wanted.port, &fixed);
    to.number(RTA_TABLE, u32::from(way.table));
    octets(address, |bytes| to.attribute(RTA_DST, bytes));
    to.number(RTA_OIF, LOOPBACK);
    if address.is_ipv4() {
        to.attribute(RTA_PREFSRC, &Ipv4Addr::LOCALHOST.octets());
    } else {
        to.number(RTA_PRIORITY, way.priority);
    }
}

/// The way to the address that the question names. ENETUNREACH, EINVAL.
fn way_to(asked: &Asked, to: &mut Message) -> Result<()> {
    let wanted: Rtmsg = asked.fixed()?;
    let rest = asked.body.get(size_of::<Rtmsg>()..).unwrap_or_default();
    let given = attributes(rest).find(|(kind, _)| *kind == RTA_DST);
    let value = given.map(|(_, value)| value).unwrap_or_default();
    let address = match i32::from(wanted.family) {
        AF_INET => IpAddr::V4(
            <[u8; 4]>::try_from(value)
                .map_err(|_| Errno::EINVAL)?
                .into(),
        ),
        AF_INET6 => IpAddr::V6(
            <[u8; 16]>::try_from(value)
                .map_err(|_| Errno::EINVAL)?
                .into(),
        ),
        _ => return Err(Errno::EOPNOTSUPP),
    };
    if !address.is_loopback() {
        return Err(Errno::ENETUNREACH);
    }
    let way = WAYS
        .iter()
        .filter(|way| way.table == RT_TABLE_LOCAL && family_of(&way.to) == wanted.family)
        .find(|way| way.bits < 32 || way.to == address)
        .ok_or(Errno::ENETUNREACH)?;
    let bits = if address.is_ipv4() { 32 } else { 128 };
    write_route(way, &address, bits, 0, &asked.wanted(wanted.family), to);
    Ok(())
}
