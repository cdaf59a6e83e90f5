//! `F_NOTIFY`: an open directory sends signals about events in it.
//!
//! *Interface*: [`set`] is the call; [`descriptor_closed`] ends the notifications of a closed descriptor;
//! [`tell`] sends, for the signal-sending thread.
//!
//! The directory gets a mark of an `inotify` instance without a reader: each event notes a member of the list
//! on which that thread sleeps.

use abi::errno::{Errno, Result};
use abi::linux::*;
use alloc::sync::Arc;
use sync::ready::Member;

use super::inotify::{self, Instance};
use crate::file::OpenFile;
use crate::file::told::{self, CHANGES, MESSAGE, Owner, Place, Told};
use crate::files::ties::Tie;
use crate::fs::{Kind, watch};
use account::quota;
use vm::fallible::{try_arc, try_box};

const DN_ACCESS: u32 = 1;
const DN_MODIFY: u32 = 2;
const DN_CREATE: u32 = 4;
const DN_DELETE: u32 = 8;
const DN_RENAME: u32 = 16;
const DN_ATTRIB: u32 = 32;
const DN_MULTISHOT: u32 = 1 << 31;

/// A description's notification setting.
pub struct Notice {
    instance: Arc<Instance>,
    place: Place,
    /// The descriptor, and the table where it is, by [`crate::files::Files::lock_owner`].
    fd: i32,
    table: usize,
    /// As the program set it. One shot: until the first event.
    wanted: u32,
    _tie: Tie,
}

impl Drop for Notice {
    fn drop(&mut self) {
        watch::forget_all(&self.instance);
    }
}

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
        end(of, table);
        return Ok(());
    }
    let inode = of.inode().filter(|inode| inode.kind() == Kind::Directory);
    let inode = inode.ok_or(Errno::ENOTDIR)?;
    let owner = Owner::caller(0)?;
    let told = of.tell_by_signals()?;
    // Bound: a few words, and making what tells, once.
    let mut notice = told.notice.lock();
    if notice.is_none() {
        let place = Place::new(of)?;
        let list = told::list().ok_or(Errno::ENOMEM)?;
        let member = try_arc(Member::new(list, place.key(CHANGES)))?;
        *notice = Some(try_box(Notice {
            instance: inotify::telling(&member)?,
            place,
            fd,
            table,
            wanted: 0,
            _tie: Tie::new(),
        })?);
    }
    let Some(own) = notice.as_mut() else {
        return Ok(());
    };
    (own.fd, own.table) = (fd, table);
    own.wanted |= wanted;
    let (instance, mask) = (own.instance.clone(), events(own.wanted));
    drop(notice);
    told.own(owner);
    let marked = watch::add(&instance, inode, mask, || {
        quota::watch().map_err(|_| Errno::ENOMEM)
    });
    if marked.is_err() {
        end(of, table);
    }
    marked.map(drop)
}

/// Ends what `of` was asked for by way of `table`.
fn end(of: &OpenFile, table: usize) {
    let Some(told) = of.told() else {
        return;
    };
    let mut notice = told.notice.lock();
    let gone = match notice.as_ref().is_some_and(|own| own.table == table) {
        true => notice.take(),
        false => None,
    };
    drop(notice);
    drop(gone);
}

/// A descriptor of `of` in `table` was closed.
pub fn descriptor_closed(table: usize, of: &OpenFile) {
    end(of, table);
}

/// Something has happened that the one with place `id` tells of.
pub fn tell(told: &Told, id: usize) {
    let mut notice = told.notice.lock();
    let Some(own) = notice.as_mut().filter(|own| own.place.0 == id) else {
        return;
    };
    let fd = own.fd;
    if own.wanted & DN_MULTISHOT == 0 {
        own.wanted = 0;
    }
    drop(notice);
    told.send(fd, MESSAGE);
}
