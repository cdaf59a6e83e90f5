//! A description's holder takes a lease, changes or releases it.
//!
//! *Interface*: [`set`]. The leases are in [`crate::fs::lease`].
//!
//! Source: fcntl(2), "Leases".

use abi::errno::{Errno, Result};
use abi::linux::*;
use alloc::sync::Arc;
use sync::epoch;

use crate::fdtable;
use crate::fs::file::OpenFile;
use crate::fs::file::fasync::FileOwner;
use crate::fs::lease::{Id, WAITING, change, disown, enter, expire, take};
use crate::fs::{FileKind, path_cache};
use account::Capability;
use account::caller;

/// Sets the lease of `of`, by descriptor `fd`. EACCES, EINVAL, EAGAIN: the file is open in a conflicting way;
/// ENOMEM.
pub fn set(of: &Arc<OpenFile>, fd: i32, kind: i32) -> Result<()> {
    if !matches!(kind, F_RDLCK | F_WRLCK | F_UNLCK) {
        return Err(Errno::EINVAL);
    }
    let Some(inode) = of.inode() else {
        return Err(Errno::EINVAL);
    };
    let attr = inode.attr();
    let cred = caller::cred();
    if cred.fsuid != attr.uid && !cred.has(Capability::Lease) {
        return Err(Errno::EACCES);
    }
    if attr.kind() != FileKind::Regular {
        return Err(Errno::EINVAL);
    }
    let id = inode.id();
    expire(id);
    if kind == F_UNLCK {
        let gone = take(id, |lease| lease.is_of(of)).ok_or(Errno::EAGAIN)?;
        disown(&gone);
        return Ok(());
    }
    if kind == F_RDLCK && of.writable() {
        return Err(Errno::EAGAIN);
    }
    let owner = FileOwner::caller(0)?;
    let told = of.make_fasync()?;
    let before = enter(of, fd, id, kind)?;
    // A later open finds the lease; an earlier one, by a dispatcher too, is found now.
    path_cache::forget(&**inode);
    // Bound: a grace period, asleep, when a lease is taken.
    epoch::grace();
    if is_open(of, id, kind) {
        match before {
            None => drop(take(id, |lease| lease.is_of(of))),
            Some(before) => change(id, of, before),
        }
        return Err(Errno::EAGAIN);
    }
    told.own(owner);
    WAITING.wake_all();
    Ok(())
}

/// Whether the file is open elsewhere in a way that conflicts with a lease of `kind`.
fn is_open(of: &OpenFile, id: Id, kind: i32) -> bool {
    let mut found = false;
    fdtable::each_description(|other| {
        let counts = other.flags() & O_PATH == 0 && (kind == F_WRLCK || other.writable());
        found |= counts
            && !core::ptr::eq(&**other, of)
            && other.inode().is_some_and(|inode| inode.id() == id);
    });
    found
}
