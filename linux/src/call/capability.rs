//! `capget` and `capset`.
//!
//! *Interface*: see [`super::FAMILIES`]. Three versions of the call: the first knows 32 capabilities, the
//! others 64.

use abi::errno::{Errno, Result};
use abi::linux::{CAP_VERSION_1, CAP_VERSION_2, CAP_VERSION_3, CapData, CapHeader};
use abi::nr;
use vm::user;

use super::{Args, Handler};
use account::capability::{CapSet, Capabilities};
use process::{Task, tree};

/// See [`super::FAMILIES`].
pub const CALLS: &[(usize, Handler)] = &[(nr::CAPGET, capget), (nr::CAPSET, capset)];

/// The process that the header at `address` names, 0 for the caller's own, and how many [`CapData`] there
/// are. An unknown version is answered there by the newest. EINVAL, EFAULT.
fn header(address: usize) -> Result<(i32, usize)> {
    let version: u32 = user::get(address)?;
    let parts = match version {
        CAP_VERSION_1 => 1,
        CAP_VERSION_2 | CAP_VERSION_3 => 2,
        _ => {
            user::put(address, &CAP_VERSION_3)?;
            return Err(Errno::EINVAL);
        }
    };
    let header: CapHeader = user::get(address)?;
    Ok((header.pid, parts))
}

fn part(caps: &Capabilities, index: usize) -> CapData {
    let half = |set: CapSet| (set.bits() >> (32 * index)) as u32;
    CapData {
        effective: half(caps.effective),
        permitted: half(caps.permitted),
        inheritable: half(caps.inheritable),
    }
}

fn place(data: usize, index: usize) -> usize {
    data.wrapping_add(index * size_of::<CapData>())
}

fn capget(a: &mut Args) -> Result<usize> {
    let data = a.word(1);
    let (pid, parts) = match header(a.word(0)) {
        // A caller without a buffer only asks for the version.
        Err(Errno::EINVAL) if data == 0 => return Ok(0),
        named => named?,
    };
    if data == 0 {
        return Ok(0);
    }
    let task = match pid {
        ..0 => return Err(Errno::EINVAL),
        0 => Task::current(),
        tid => tree::find_task(tid).ok_or(Errno::ESRCH)?,
    };
    let caps = task.cred.with(|cred| cred.caps);
    for index in 0..parts {
        user::put(place(data, index), &part(&caps, index))?;
    }
    Ok(0)
}

fn capset(a: &mut Args) -> Result<usize> {
    let (pid, parts) = header(a.word(0))?;
    if pid != 0 && pid != Task::current().tid {
        return Err(Errno::EPERM);
    }
    let mut words = [0u64; 3];
    for index in 0..parts {
        let part: CapData = user::get(place(a.word(1), index))?;
        let halves = [part.effective, part.permitted, part.inheritable];
        for (word, half) in words.iter_mut().zip(halves) {
            *word |= u64::from(half) << (32 * index);
        }
    }
    let [effective, permitted, inheritable] = words.map(CapSet::from_bits);
    Task::current().change_cred(|c| c.caps.set(effective, permitted, inheritable))?;
    Ok(0)
}
