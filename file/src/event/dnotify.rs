//! `dnotify` (`F_NOTIFY`): an open directory sends signals about events in it.
//!
//! *Interface*: [`set`] is the call. Its description keeps a [`Dnotify`].
//!
//! The directory gets a mark of an `inotify` instance without a reader: each event notes a member of the list
//! on which that thread sleeps.

use abi::errno::{Errno, Result};
use abi::linux::*;
use alloc::sync::Arc;
use sync::ready_list::ReadyMember;

use super::marks;
use crate::close_cleanup::CloseCleanup;
use crate::fs::FileKind;
use crate::fs::file::OpenFile;
use crate::fs::file::fasync::{self, CHANGES, FileOwner, ReadyPlace};
use crate::fs::file::fasync::{DN_MULTISHOT, Dnotify, end_notice};
use crate::fs::fsnotify::InotifyInstance;
use account::quota;
use vm::fallible::{try_arc, try_box};

const DN_ACCESS: u32 = 1;
const DN_MODIFY: u32 = 2;
const DN_CREATE: u32 = 4;
const DN_DELETE: u32 = 8;
const DN_RENAME: u32 = 16;
const DN_ATTRIB: u32 = 32;

/// The events that are reported for `wanted`.
fn events(wanted: u32) -> u32 {
    const EACH: [(u32, u32); 6] = [
        (DN_ACCESS, IN_ACCESS),
        (DN_MODIFY, IN_MODIFY),
        (DN_CREATE, IN_CREATE | IN_MOVED_TO),
        (DN_DELETE, IN_DELETE | IN_MOVED_FROM),
        (DN_RENAME, IN_MOVED_FROM),
        (DN_ATTRIB, IN_ATTRIB),
    ];
    let told = EACH.iter().filter(|(bit, _)| wanted & bit != 0);
    let told = told.fold(0, |all, (_, events)| all | events);
    match wanted & DN_MULTISHOT {
        0 => told | IN_ONESHOT,
        _ => told,
    }
}

/// Has `of`, by descriptor `fd` of `table`, tell of what `wanted` says, too; nothing any more without that.
/// ENOTDIR, ENOMEM.
pub fn set(of: &Arc<OpenFile>, fd: i32, table: usize, wanted: u32) -> Result<()> {
    if wanted & !DN_MULTISHOT == 0 {
        end_notice(of, table);
        return Ok(());
    }
    let inode = of
        .inode()
        .filter(|inode| inode.kind() == FileKind::Directory);
    let inode = inode.ok_or(Errno::ENOTDIR)?;
    let owner = FileOwner::caller(0)?;
    let fasync = of.make_fasync()?;
    // Bound: a few words, and making what tells, once.
    let mut notice = fasync.notice.lock();
    if notice.is_none() {
        let place = ReadyPlace::new(of)?;
        let list = fasync::ready_list().ok_or(Errno::ENOMEM)?;
        let member = try_arc(ReadyMember::new(list, place.key(CHANGES)))?;
        *notice = Some(try_box(Dnotify {
            instance: InotifyInstance::telling(&member)?,
            place,
            fd,
            table,
            wanted: 0,
            _tie: CloseCleanup::new(),
        })?);
    }
    let Some(own) = notice.as_mut() else {
        return Ok(());
    };
    (own.fd, own.table) = (fd, table);
    own.wanted |= wanted;
    let (instance, mask) = (own.instance.clone(), events(own.wanted));
    drop(notice);
    fasync.own(owner);
    let marked = marks::add(&instance, inode, mask, || {
        quota::watch().map_err(|_| Errno::ENOMEM)
    });
    if marked.is_err() {
        end_notice(of, table);
    }
    marked.map(drop)
}
