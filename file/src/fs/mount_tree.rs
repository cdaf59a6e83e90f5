//! Changes of the mount tree: bind, move, remount, unmount.
//!
//! *Interface*: [`bind`] shows a directory or file at a second place, alone or with all that is mounted below
//! it; [`relocate`] moves a mount with all that lies on it; [`remount`] and [`change`] change flags;
//! [`unmount`] takes a mount out of the tree.
//!
//! A change of what lies on a place first withdraws what walks without a lock read ([`publish`],
//! [`hide`]) and waits for a grace period. Until it is done, walks to that place wait for the table.

use abi::errno::{Errno, Result};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use sync::epoch;
use vm::fallible::{try_arc, try_copy, try_push, try_reserve, try_string};

use super::attr::FileKind;
use super::inode::Inode;
use super::mount::{
    MS_RDONLY, Mount, TABLE, VfsPath, attach, hide, is_attached, publish, show_top, uncover,
};

fn is_directory(place: &VfsPath) -> bool {
    place.inode.kind() == FileKind::Directory
}

/// The place that `mount` covers.
fn covered(mount: &Mount) -> Option<VfsPath> {
    mount.covers().as_ref().clone()
}

/// All mounts of `table` that lie on `mount`, each behind what it lies on. ENOMEM, if there are any.
fn on_top_of(mount: &Arc<Mount>, table: &[Arc<Mount>]) -> Result<Vec<Arc<Mount>>> {
    let mut found: Vec<Arc<Mount>> = Vec::new();
    let (mut below, mut seen) = (mount.clone(), 0);
    loop {
        for on_it in table {
            if covered(on_it).is_some_and(|place| Arc::ptr_eq(&place.mount, &below)) {
                try_push(&mut found, on_it.clone())?;
            }
        }
        match found.get(seen) {
            Some(next) => below = next.clone(),
            None => return Ok(found),
        }
        seen += 1;
    }
}

/// Whether `inode` is `top` or lies below it in their file system.
fn is_below(inode: &Arc<dyn Inode>, top: &Arc<dyn Inode>) -> bool {
    let top = top.id();
    let mut inode = Some(inode.clone());
    while let Some(here) = inode {
        if here.id() == top {
            return true;
        }
        inode = here.parent();
    }
    false
}

/// Shows `from` at `at` as well; if `whole`, with copies of all mounts below `from`. ENOMEM; ENOTDIR: only
/// one is a directory; EINVAL: one of them is in no tree.
pub fn bind(from: &VfsPath, at: VfsPath, whole: bool) -> Result<()> {
    if is_directory(from) != is_directory(&at) {
        return Err(Errno::ENOTDIR);
    }
    let copy = |of: &Mount, root: &Arc<dyn Inode>, covers: VfsPath| {
        let source: String = try_string(of.source.as_bytes())?;
        Mount::make(
            of.fs.clone(),
            root.clone(),
            Some(covers),
            source,
            of.flags(),
        )
    };
    // Bound: **global**: the mounts; **quadratic** in those of the tree that goes or is copied, for whoever
    // may mount.
    let table = try_copy(&TABLE.lock())?;
    if !is_attached(&table, &from.mount) {
        return Err(Errno::EINVAL);
    }
    let mut copies = Vec::new();
    try_push(&mut copies, copy(&from.mount, &from.inode, at)?)?;
    if whole {
        // Those of the tree that are copied, each beside its copy.
        let mut pairs: Vec<(Arc<Mount>, Arc<Mount>)> = Vec::new();
        try_push(&mut pairs, (from.mount.clone(), copies[0].clone()))?;
        for mount in &on_top_of(&from.mount, &table)? {
            let Some(place) = covered(mount) else {
                continue;
            };
            let below = pairs.iter().find(|(old, _)| Arc::ptr_eq(old, &place.mount));
            let Some((old, new)) = below else {
                continue;
            };
            if Arc::ptr_eq(old, &from.mount) && !is_below(&place.inode, &from.inode) {
                continue;
            }
            let place = VfsPath {
                mount: new.clone(),
                inode: place.inode,
            };
            let new = copy(mount, &mount.root, place)?;
            try_push(&mut copies, new.clone())?;
            try_push(&mut pairs, (mount.clone(), new))?;
        }
    }
    attach(&copies)
}

/// Moves the mount at `from`, with all that lies on it, over `to`. EINVAL: `from` is not the root of a mount
/// in the tree, or is the root of everything, or only one of the two is a directory; ELOOP: `to` lies in it.
pub fn relocate(from: &VfsPath, to: VfsPath) -> Result<()> {
    if !from.is_mount_root() || is_directory(from) != is_directory(&to) {
        return Err(Errno::EINVAL);
    }
    let mount = &from.mount;
    let new = try_arc(Some(to.clone()))?;
    let mut table = TABLE.lock();
    let at = table.iter().position(|m| Arc::ptr_eq(m, mount));
    let (Some(at), Some(old)) = (at, covered(mount)) else {
        return Err(Errno::EINVAL);
    };
    if !is_attached(&table, &to.mount) {
        return Err(Errno::EINVAL);
    }
    let mut up = Some(to.clone());
    while let Some(place) = up {
        if Arc::ptr_eq(&place.mount, mount) {
            return Err(Errno::ELOOP);
        }
        up = covered(&place.mount);
    }
    drop(publish(None));
    hide(&old);
    hide(&to);
    // Bound: a grace period, asleep, before an unmount is refused, and in each unmount and move with the
    // mounts held: walks to a place with a mount wait.
    epoch::synchronize();
    let exchanged = mount.set_covers(new);
    // The last one that covers a place is on top of the others.
    if let Some(slots) = table.get_mut(at..) {
        slots.rotate_left(1);
    }
    super::mount::cover(&to);
    uncover(&table, &old);
    show_top(&table, &old);
    show_top(&table, &to);
    let none = publish(Some(&table));
    drop(table);
    drop(none);
    drop(exchanged.get());
    super::path_cache::changed();
    Ok(())
}

/// Changes the flags of the mount at `place`. EINVAL: `place` is not the root of a mount.
pub fn change(place: &VfsPath, flags: u64) -> Result<()> {
    if !place.is_mount_root() {
        return Err(Errno::EINVAL);
    }
    place.mount.set_flags(flags);
    super::path_cache::changed();
    Ok(())
}

/// As [`change`]; whether it may be written is changed for all mounts of the file system.
pub fn remount(place: &VfsPath, flags: u64) -> Result<()> {
    if !place.is_mount_root() {
        return Err(Errno::EINVAL);
    }
    for mount in TABLE.lock().iter() {
        if Arc::ptr_eq(&mount.fs, &place.mount.fs) {
            mount.set_flags(mount.flags() & !MS_RDONLY | flags & MS_RDONLY);
        }
    }
    change(place, flags)
}

/// How a mount ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum UnmountHow {
    /// If nothing in it is in use.
    Unused,
    /// If nothing in it is in use, and nothing was when it was asked for before.
    IfExpired,
    /// At once, with all that is mounted there; users keep their files.
    Detached,
}

/// Takes the mount at `place` out of the tree. EINVAL: `place` is not the root of a mount in the tree; EBUSY:
/// something in it is in use, or something is mounted there; EAGAIN: [`UnmountHow::IfExpired`] asks the first
/// time.
pub fn unmount(place: VfsPath, end: UnmountHow) -> Result<()> {
    let detach = end == UnmountHow::Detached;
    if !place.is_mount_root() {
        return Err(Errno::EINVAL);
    }
    super::path_cache::purge();
    let VfsPath { mount, inode } = place;
    drop(inode);
    if !detach && mount.covers_some() {
        return Err(Errno::EBUSY);
    }
    if !detach && Arc::strong_count(&mount) > 2 && epoch::pending() > 0 {
        // A description that was closed while others had the table is dropped a grace period later.
        epoch::synchronize();
    }
    let mut table = TABLE.lock();
    if !is_attached(&table, &mount) {
        return Err(Errno::EINVAL);
    }
    let Some(place) = covered(&mount) else {
        // The root of everything.
        return Err(Errno::EBUSY);
    };
    // The root covers nothing, and so will these. A mount on which none lies needs no memory to go.
    let nowhere = table.iter().map(|m| m.covers()).find(|c| c.is_none());
    let nowhere = nowhere.ok_or(Errno::EINVAL)?;
    let rest = on_top_of(&mount, &table)?;
    let mut places = Vec::new();
    let mut exchanged = Vec::new();
    try_reserve(&mut places, rest.len())?;
    try_reserve(&mut exchanged, rest.len())?;
    for place in rest.iter().filter_map(|mount| covered(mount)) {
        try_push(&mut places, place)?;
    }
    drop(publish(None));
    core::iter::once(&place).chain(&places).for_each(hide);
    // A CPU that remembers a directory there looks at this first.
    super::path_cache::changed();
    epoch::synchronize();
    // One count belongs to the table, one to this function; every user of the mount has another, and so has
    // every mount on it.
    let busy = !detach && (!rest.is_empty() || Arc::strong_count(&mount) > 2);
    let early = !busy && end == UnmountHow::IfExpired && !mount.expired.load(Ordering::Relaxed);
    mount.expired.store(early, Ordering::Relaxed);
    let mut own = None;
    if !busy && !early {
        table.retain(|m| !Arc::ptr_eq(m, &mount) && !is_attached(&rest, m));
        own = Some(mount.set_covers(nowhere.clone()));
        uncover(&table, &place);
        for (mount, place) in rest.iter().zip(&places) {
            try_push(&mut exchanged, mount.set_covers(nowhere.clone()))?;
            uncover(&table, place);
        }
    }
    for place in core::iter::once(&place).chain(&places) {
        show_top(&table, place);
    }
    let none = publish(Some(&table));
    drop(table);
    drop(none);
    for covers in own.into_iter().chain(exchanged) {
        drop(covers.get());
    }
    if busy || early {
        return Err(if busy { Errno::EBUSY } else { Errno::EAGAIN });
    }
    super::path_cache::changed();
    Ok(())
}
