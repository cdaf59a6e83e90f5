//! A message in a channel: bytes that stay together, with what goes with them.
//!
//! *Interface*: [`Record::new`]; it counts for the socket that sent it, and for the user, until it is
//! dropped.

use abi::errno::{Errno, Result};
use abi::linux::Ucred;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::inet::address::Ip;
use super::{Address, Outbox};
use crate::fdtable::scm_rights::{ScmRights, collect};
use crate::io::IoBuf;
use account::quota;
use account::user::Charge;
use vm::fallible::try_filled;

/// The contents of a channel besides bytes.
#[derive(Default)]
pub struct Ancillary {
    /// Descriptors.
    pub rights: Option<ScmRights>,
    /// The sender.
    pub credentials: Option<Ucred>,
    /// How it came here.
    pub packet: Option<Packet>,
}

/// How a message came to a socket of IP.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// Where to it was.
    pub to: Ip,
    /// Which port there.
    pub port: u16,
    /// How many hosts it might have gone through.
    pub hops: u8,
    /// The type of service, or class.
    pub class: u8,
    /// When it came, nanoseconds of the real-time clock; 0: nobody wanted to know.
    pub time_ns: u64,
}

/// A message.
pub struct Record {
    bytes: Vec<u8>,
    read: usize,
    /// The rest that goes with it.
    pub along: Ancillary,
    /// The name of who sent it.
    pub from: Option<Address>,
    outbox: Arc<Outbox>,
    cost: usize,
    _charge: Charge,
}

/// Bytes that a message counts for besides its own.
pub const OVERHEAD: usize = 704;

/// The cost of a message of `bytes`.
pub fn cost(bytes: usize) -> usize {
    bytes.saturating_add(OVERHEAD)
}

impl Record {
    /// The next `count` bytes of `buf` as a message that `outbox` counts. EFAULT, ENOBUFS, ENOMEM.
    pub fn new(buf: &mut IoBuf, count: usize, outbox: &Arc<Outbox>) -> Result<Record> {
        let charge = match quota::message(cost(count) as u64) {
            Err(Errno::ENOBUFS) => {
                collect();
                quota::message(cost(count) as u64)?
            }
            other => other?,
        };
        let mut bytes = try_filled(0, count)?;
        let mut taken = 0;
        while taken < count {
            let Some(rest) = bytes.get_mut(taken..) else {
                break;
            };
            taken += buf.take(rest)?;
        }
        outbox.add(cost(count));
        Ok(Record {
            bytes,
            read: 0,
            along: Ancillary::default(),
            from: None,
            outbox: outbox.clone(),
            cost: cost(count),
            _charge: charge,
        })
    }

    /// The bytes that have not been read.
    pub fn unread(&self) -> &[u8] {
        self.bytes.get(self.read..).unwrap_or_default()
    }

    /// How many these are.
    pub fn left(&self) -> usize {
        self.bytes.len() - self.read.min(self.bytes.len())
    }

    /// `count` of them are read.
    pub fn advance(&mut self, count: usize) {
        self.read = self.read.saturating_add(count).min(self.bytes.len());
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        self.outbox.remove(self.cost);
    }
}
