//! Messages in the programs' format: `struct msghdr`, its pieces, its control data.
//!
//! *Interface*: [`Sending`] and [`Received`] are the data beside the bytes; [`send`] and [`receive`] are
//! `sendmsg` and `recvmsg` with a header at a user address.

use abi::errno::{Errno, Result};
use abi::linux::*;
use account::caller;
use alloc::sync::Arc;
use alloc::vec::Vec;
use vm::user;

use super::ancillary;
use super::record::Ancillary;
use super::{Address, Socket};
use crate::fdtable::scm_rights::ScmRights;
use crate::fs::file::OpenFile;
use crate::io::IoBuf;

/// The data to send beside the bytes, and the flags.
#[derive(Default)]
pub struct Sending {
    /// `MSG_*`.
    pub flags: u32,
    /// Does not wait.
    pub nonblocking: bool,
    /// The destination, if not the peer.
    pub to: Option<Address>,
    /// Descriptors, credentials.
    pub along: Ancillary,
    /// Control messages, for families that read them themselves.
    pub control: Vec<u8>,
}

/// The received data beside the bytes.
#[derive(Default)]
pub struct Received {
    /// Bytes that the call reports.
    pub count: usize,
    /// Something was there, though it may have had no bytes.
    pub found: bool,
    /// The sender.
    pub from: Option<Address>,
    /// Descriptors, credentials.
    pub along: Ancillary,
    /// Further counts of descriptors that stay where they are (MSG_PEEK).
    pub seen: Option<Vec<Arc<OpenFile>>>,
    /// `MSG_*`.
    pub flags: u32,
}

/// The caller, as messages say.
pub fn credentials() -> Ucred {
    let cred = caller::cred();
    Ucred {
        pid: caller::number(),
        uid: cred.uid,
        gid: cred.gid,
    }
}

/// The pieces of a message. EMSGSIZE, EFAULT, ENOMEM.
fn pieces(header: &Msghdr) -> Result<Vec<Iovec>> {
    if header.iovlen > IOV_MAX as u64 {
        return Err(Errno::EMSGSIZE);
    }
    user::array(header.iov as usize, header.iovlen as usize)
}

/// `sendmsg`: how many bytes. Errors of sendmsg(2).
pub fn send(of: &OpenFile, header: &Msghdr, flags: u32) -> Result<usize> {
    let socket = Socket::of(of)?;
    let pieces = pieces(header)?;
    let mut buf = IoBuf::scattered(&pieces)?;
    let to = match (header.name, header.namelen) {
        (_, ..0) => return Err(Errno::EINVAL),
        (0, _) | (_, 0) => None,
        (name, length) => Some(Address::get(
            name as usize,
            length.min(SOCKADDR_MAX as i32),
        )?),
    };
    let mut control = match (header.control, header.controllen) {
        (_, 0) => Vec::new(),
        (control, length) => ancillary::get(control as usize, length)?,
    };
    let along = match socket.family.reads_control() {
        true => Ancillary::default(),
        false => ancillary::read(&core::mem::take(&mut control))?,
    };
    let sending = Sending {
        flags,
        nonblocking: of.nonblocking() || flags & MSG_DONTWAIT != 0,
        to,
        along,
        control,
    };
    socket.send(&mut buf, sending)
}

/// `recvmsg`, which writes its results to the header at user address `at`; returns the number of bytes.
/// Errors of recvmsg(2).
pub fn receive(of: &OpenFile, at: usize, flags: u32) -> Result<usize> {
    let socket = Socket::of(of)?;
    let mut header: Msghdr = user::get(at)?;
    if header.namelen < 0 {
        return Err(Errno::EINVAL);
    }
    let pieces = pieces(&header)?;
    let mut buf = IoBuf::scattered(&pieces)?;
    let nonblocking = of.nonblocking() || flags & MSG_DONTWAIT != 0;
    let mut received = socket.receive(&mut buf, flags, nonblocking)?;
    let count = received.count;
    let mut said = received.flags | flags & MSG_CMSG_CLOEXEC;
    let from = received.from.take();
    let room = header.controllen;
    let used = ancillary::put(socket, received, header.control as usize, room, flags)?;
    said |= used.flags;
    if header.name != 0 {
        let from = from.unwrap_or_default();
        let length = from.bytes().len().min(header.namelen as usize);
        user::copy_out(header.name as usize, &from.bytes()[..length])?;
        header.namelen = from.bytes().len() as i32;
        user::put(at + core::mem::offset_of!(Msghdr, namelen), &header.namelen)?;
    }
    user::put(at + core::mem::offset_of!(Msghdr, flags), &said)?;
    let length = used.bytes as u64;
    user::put(at + core::mem::offset_of!(Msghdr, controllen), &length)?;
    Ok(count)
}

/// Drops the descriptors that a plain read finds.
pub fn discard(received: Received) {
    let rights: Option<ScmRights> = received.along.rights;
    drop(rights);
}
