//! Control messages: descriptors and credentials as programs write and read them.
//!
//! *Interface*: [`get`] from the program, which [`each`] goes through and [`read`] understands, [`put`] to
//! it.
#![expect(clippy::disallowed_methods, reason = "room is made before")]

use abi::errno::{Errno, Result};
use abi::linux::*;
use alloc::sync::Arc;
use alloc::vec::Vec;
use vm::user;

use super::Socket;
use super::message::Received;
use super::record::Ancillary;
use crate::callout;
use crate::fdtable::scm_rights::{ScmRights, let_go};
use crate::fdtable::tables;
use crate::fs::file::OpenFile;
use account::{Capability, caller};
use vm::fallible::{try_filled, try_reserve};

/// Bytes of a control message before its data.
const HEADER: usize = size_of::<Cmsghdr>();

/// The most bytes of control data, as on Linux.
const MOST: u64 = 20_480;

fn align(length: usize) -> usize {
    length.next_multiple_of(8)
}

/// The `length` bytes of control messages at user address `at`. ENOBUFS, EFAULT, ENOMEM.
pub fn get(at: usize, length: u64) -> Result<Vec<u8>> {
    if length > MOST {
        return Err(Errno::ENOBUFS);
    }
    let mut bytes = try_filled(0u8, length as usize)?;
    user::copy_in(&mut bytes, at)?;
    Ok(bytes)
}

/// The control messages in `bytes`, one by one: level, kind, data. EINVAL.
pub fn each(bytes: &[u8], mut meet: impl FnMut(i32, i32, &[u8]) -> Result<()>) -> Result<()> {
    let mut rest = bytes;
    while let Some(head) = rest.get(..HEADER) {
        let head: Cmsghdr = bytemuck::pod_read_unaligned(head);
        let length = usize::try_from(head.len).map_err(|_| Errno::EINVAL)?;
        let data = rest.get(HEADER..length).ok_or(Errno::EINVAL)?;
        meet(head.level, head.kind, data)?;
        rest = rest.get(align(length)..).unwrap_or_default();
    }
    Ok(())
}

/// The contents of the control messages in `bytes`. EINVAL, EBADF, EPERM, ESRCH, ETOOMANYREFS, ENOMEM.
pub fn read(bytes: &[u8]) -> Result<Ancillary> {
    let mut files: Vec<Arc<OpenFile>> = Vec::new();
    let mut along = Ancillary::default();
    each(bytes, |level, kind, data| {
        match (level, kind) {
            (SOL_SOCKET, SCM_RIGHTS) => rights(data, &mut files)?,
            (SOL_SOCKET, SCM_CREDENTIALS) => {
                if data.len() != size_of::<Ucred>() {
                    return Err(Errno::EINVAL);
                }
                let wanted: Ucred = bytemuck::pod_read_unaligned(data);
                check(&wanted)?;
                along.credentials = Some(wanted);
            }
            (SOL_SOCKET, _) => return Err(Errno::EINVAL),
            // Of another layer.
            _ => {}
        }
        Ok(())
    })?;
    if !files.is_empty() {
        along.rights = Some(ScmRights::new(files, Socket::carrier)?);
    }
    Ok(along)
}

/// Adds the open files behind the descriptors in `data`. EINVAL, EBADF.
fn rights(data: &[u8], files: &mut Vec<Arc<OpenFile>>) -> Result<()> {
    let table = tables::own()?;
    let numbers = data.chunks_exact(4);
    if files.len() + numbers.len() > SCM_MAX_FD {
        return Err(Errno::EINVAL);
    }
    try_reserve(files, numbers.len())?;
    for number in numbers {
        let fd = i32::from_ne_bytes(number.try_into().map_err(|_| Errno::EINVAL)?);
        files.push(table.pass(fd)?);
    }
    Ok(())
}

/// Whether the caller may say that it is `wanted`. EPERM, ESRCH.
fn check(wanted: &Ucred) -> Result<()> {
    let cred = caller::cred();
    let uids = [cred.uid, cred.euid, cred.suid];
    let gids = [cred.gid, cred.egid, cred.sgid];
    let mine = wanted.pid == caller::number();
    if !mine && !cred.has(Capability::SysAdmin) {
        return Err(Errno::EPERM);
    }
    if !uids.contains(&wanted.uid) && !cred.has(Capability::Setuid) {
        return Err(Errno::EPERM);
    }
    if !gids.contains(&wanted.gid) && !cred.has(Capability::Setgid) {
        return Err(Errno::EPERM);
    }
    if !mine && !callout::exists(wanted.pid) {
        return Err(Errno::ESRCH);
    }
    if wanted.uid == u32::MAX || wanted.gid == u32::MAX {
        return Err(Errno::EINVAL);
    }
    Ok(())
}

/// The outcome of writing control data.
pub struct ControlWritten {
    /// Bytes of control data.
    pub bytes: usize,
    /// MSG_CTRUNC, if there was not room for all.
    pub flags: u32,
}

/// A control buffer of the program, being filled.
struct Room {
    at: usize,
    left: usize,
    used: ControlWritten,
}

impl Room {
    /// Writes one message, of which `length` bytes at most fit.
    fn write(&mut self, level: i32, kind: i32, data: &[u8]) -> Result<()> {
        if self.left < HEADER {
            self.used.flags |= MSG_CTRUNC;
            return Ok(());
        }
        let mut length = HEADER + data.len();
        if self.left < length {
            self.used.flags |= MSG_CTRUNC;
            length = self.left;
        }
        let head = Cmsghdr {
            len: length as u64,
            level,
            kind,
        };
        user::put(self.at, &head)?;
        user::copy_out(self.at + HEADER, &data[..length - HEADER])?;
        self.advance(length);
        Ok(())
    }

    fn advance(&mut self, length: usize) {
        let whole = align(length).min(self.left);
        self.at += whole;
        self.left -= whole;
        self.used.bytes += whole;
    }
}

/// Writes what was received to the control buffer of `room` bytes at user address `at`. Descriptors without
/// room are dropped. EFAULT.
pub fn put(
    socket: &Socket,
    received: Received,
    at: usize,
    room: u64,
    flags: u32,
) -> Result<ControlWritten> {
    let mut room = Room {
        at,
        left: if at == 0 {
            0
        } else {
            room.min(1 << 20) as usize
        },
        used: ControlWritten { bytes: 0, flags: 0 },
    };
    if socket.options.pass_credentials() && socket.family.tells_sender() {
        // For unmarked bytes: no sender.
        let who = received.along.credentials.unwrap_or(Ucred {
            pid: 0,
            uid: NOBODY,
            gid: NOBODY,
        });
        if room.at == 0 || room.left == 0 {
            room.used.flags |= MSG_CTRUNC;
        } else {
            room.write(SOL_SOCKET, SCM_CREDENTIALS, bytemuck::bytes_of(&who))?;
        }
    }
    if let Some(packet) = &received.along.packet {
        let family = socket.family;
        family.tell(socket, packet, &mut |level, kind, data| {
            room.write(level, kind, data)
        })?;
    }
    let cloexec = flags & MSG_CMSG_CLOEXEC != 0;
    if let Some(rights) = received.along.rights {
        let files = rights.land();
        // From here on each has its count as if it had a descriptor, until it has one.
        let result = install(&mut room, &files, cloexec);
        files.into_iter().for_each(let_go);
        result?;
    } else if let Some(files) = received.seen {
        install(&mut room, &files, cloexec)?;
    }
    Ok(room.used)
}

/// The overflow user, and group.
const NOBODY: u32 = 65534;

/// Gives the caller descriptors of `files`, as many as there is room for, and writes their message.
fn install(room: &mut Room, files: &[Arc<OpenFile>], cloexec: bool) -> Result<()> {
    let table = tables::own()?;
    let fit = room.left.saturating_sub(HEADER) / 4;
    let count = files.len().min(fit);
    let mut done = 0;
    for of in files.iter().take(count) {
        let Ok(fd) = table.install(of.clone(), cloexec) else {
            break;
        };
        let place = room.at + HEADER + 4 * done;
        if user::put(place, &fd).is_err() {
            // As if there were no room.
            let _closed = table.close(fd);
            break;
        }
        done += 1;
    }
    if done < files.len() {
        room.used.flags |= MSG_CTRUNC;
    }
    if done > 0 {
        let length = HEADER + 4 * done;
        let head = Cmsghdr {
            len: length as u64,
            level: SOL_SOCKET,
            kind: SCM_RIGHTS,
        };
        user::put(room.at, &head)?;
        room.advance(length);
    }
    Ok(())
}
