//! Addresses in the programs' format.
//!
//! *Interface*: [`Address`], bytes of at most `sockaddr_storage`; to and from the program's memory.
#![expect(clippy::disallowed_methods, reason = "an address, short")]

use abi::errno::{Errno, Result};
use abi::linux::{SOCKADDR_MAX, SockaddrIn};
use smallvec::SmallVec;

/// The address of a host, as in packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    /// Of IPv4.
    Four([u8; 4]),
    /// Of IPv6.
    Six([u8; 16]),
}

/// An address, its family in the first two bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Address(SmallVec<[u8; 24]>);

impl Address {
    /// These bytes, at most [`SOCKADDR_MAX`].
    pub fn new(bytes: &[u8]) -> Address {
        let length = bytes.len().min(SOCKADDR_MAX);
        Address(SmallVec::from_slice(&bytes[..length]))
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Of an address of IPv4 or IPv6: its bytes and its port. Zeros of any other.
    pub fn host_and_port(&self) -> (Host, u16) {
        let bytes = self.bytes();
        let port = bytes.get(2..4).and_then(|two| two.try_into().ok());
        let four = bytes.get(4..8).and_then(|four| four.try_into().ok());
        let six = bytes.get(8..24).and_then(|six| six.try_into().ok());
        let host = match six {
            Some(six) if bytes.len() > size_of::<SockaddrIn>() => Host::Six(six),
            _ => Host::Four(four.unwrap_or_default()),
        };
        (host, port.map_or(0, u16::from_be_bytes))
    }

    /// From the program: `length` bytes at `at`. EINVAL, EFAULT.
    pub fn get(at: usize, length: i32) -> Result<Address> {
        let length = usize::try_from(length).map_err(|_| Errno::EINVAL)?;
        if length > SOCKADDR_MAX {
            return Err(Errno::EINVAL);
        }
        let mut bytes = [0; SOCKADDR_MAX];
        vm::user::copy_in(&mut bytes[..length], at)?;
        Ok(Address::new(&bytes[..length]))
    }

    /// To the program: as much of it as there is room for at `at`, which the number at `length` says; that
    /// becomes its length. EINVAL, EFAULT.
    pub fn put(&self, at: usize, length: usize) -> Result<()> {
        let room: i32 = vm::user::get(length)?;
        let room = usize::try_from(room).map_err(|_| Errno::EINVAL)?;
        let bytes = self.bytes();
        let fitting = &bytes[..bytes.len().min(room)];
        // Where nothing goes may be anywhere.
        if !fitting.is_empty() {
            vm::user::copy_out(at, fitting)?;
        }
        vm::user::put(length, &(bytes.len() as i32))
    }
}
