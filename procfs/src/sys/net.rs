//! `/sys/class/net/lo`: the one interface, as netlink tells of it.
//!
//! *Interface.* [`LO`] is the folder. No packets are made for what stays in the machine, so none are counted.

use alloc::sync::Arc;
use core::fmt::Write;

use super::line;
use abi::linux::{ARPHRD_LOOPBACK, IFF_LOOPBACK, IFF_UP};
use file::fs::pseudofs::{FixedDir, FixedEntry, PseudoEntry, text};
use file::socket::netlink::route;

/// The texts.
pub const LO: &[FixedEntry] = &[
    ("addr_len", || line(6)),
    ("address", || line("00:00:00:00:00:00")),
    ("broadcast", || line("00:00:00:00:00:00")),
    ("carrier", || line(1)),
    ("dev_id", || line("0x0")),
    ("dev_port", || line(0)),
    ("dormant", || line(0)),
    ("flags", || {
        text(|out| {
            // The flags that are set, without those that follow from the state.
            let _ = writeln!(out, "{:#x}", route::FLAGS & (IFF_UP | IFF_LOOPBACK));
            Ok(())
        })
    }),
    ("ifindex", || line(route::LOOPBACK)),
    ("iflink", || line(route::LOOPBACK)),
    ("link_mode", || line(0)),
    ("mtu", || line(route::MTU)),
    ("netdev_group", || line(0)),
    ("operstate", || line("unknown")),
    ("statistics", || {
        PseudoEntry::Dir(Arc::new(FixedDir(STATISTICS)))
    }),
    ("tx_queue_len", || line(route::QUEUE)),
    ("type", || line(ARPHRD_LOOPBACK)),
    ("uevent", || {
        text(|out| {
            let _ = writeln!(out, "INTERFACE=lo\nIFINDEX={}", route::LOOPBACK);
            Ok(())
        })
    }),
];

const STATISTICS: &[FixedEntry] = &[
    ("collisions", || line(0)),
    ("multicast", || line(0)),
    ("rx_bytes", || line(0)),
    ("rx_dropped", || line(0)),
    ("rx_errors", || line(0)),
    ("rx_packets", || line(0)),
    ("tx_bytes", || line(0)),
    ("tx_dropped", || line(0)),
    ("tx_errors", || line(0)),
    ("tx_packets", || line(0)),
];
