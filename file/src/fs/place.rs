//! An inode reached through a mount, and the table of mounts.
//!
//! *Interface.* [`Place::down`] crosses into the mount on a directory, [`Place::parent`] is `..`,
//! [`Place::path`] a directory's path. [`mount`], [`unmount`] and [`mount_from`] are the table. A change of
//! the table is a change of names ([`super::names::changed`]).

use abi::errno::{Errno, Result};
use abi::linux::{NAME_MAX, Statfs};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use sync::{Monitor, epoch};

use super::inode::{Handle, Inode};
use super::shown::Shown;
use vm::fallible::{try_arc, try_box, try_copy, try_extend, try_push, try_reserve};

/// A file system that can be mounted.
pub trait FileSystem: Send + Sync {
    /// The name of its kind, as in `/proc/filesystems`.
    fn kind(&self) -> &'static str;
    /// Its root directory.
    fn root(&self) -> Arc<dyn Inode>;
    /// Options of its own that `/proc/mounts` shows, each behind a comma.
    fn options(&self) -> &'static str {
        ""
    }
    /// Bounds its pages and its files, of one that has such bounds. EINVAL: it has more.
    fn bound(&self, _pages: Option<usize>, _nodes: Option<usize>) -> Result<()> {
        Ok(())
    }
    /// The file that once gave this as its handle, while there is one.
    fn by_handle(&self, _handle: Handle) -> Option<Arc<dyn Inode>> {
        None
    }
    /// The result of `statfs`.
    fn statfs(&self) -> Statfs;
}

/// The result of `statfs` for a file system of this `kind` without sizes.
pub fn without_room(kind: i64) -> Statfs {
    Statfs {
        kind,
        bsize: 4096,
        frsize: 4096,
        namelen: NAME_MAX as i64,
        ..Statfs::default()
    }
}

/// Mounted read-only (`MS_RDONLY`).
pub const MS_RDONLY: u64 = 1;
/// Set-user-id bits are ignored.
pub const MS_NOSUID: u64 = 2;
/// Device nodes do not open.
pub const MS_NODEV: u64 = 4;
/// Programs do not run.
pub const MS_NOEXEC: u64 = 8;
/// Change the flags of a mount.
pub const MS_REMOUNT: u64 = 32;
/// Show a directory at a second place.
pub const MS_BIND: u64 = 4096;

/// A file system in its place in the tree.
pub struct Mount {
    /// Number, as in `/proc/PID/mountinfo`.
    pub id: u32,
    /// The mounted file system.
    pub fs: Arc<dyn FileSystem>,
    /// Its root directory.
    pub root: Arc<dyn Inode>,
    /// The directory it covers; `None` for the root.
    pub covers: Option<Place>,
    /// First column of `/proc/mounts`.
    pub source: String,
    flags: AtomicU32,
    /// How many mounts cover a directory of this one.
    covered: AtomicU32,
}

impl Mount {
    /// Whether something is mounted on a directory of this one.
    #[inline]
    pub fn covers_some(&self) -> bool {
        self.covered.load(Ordering::Relaxed) != 0
    }

    /// `MS_*`.
    pub fn flags(&self) -> u64 {
        u64::from(self.flags.load(Ordering::Relaxed))
    }

    /// `EROFS` on a file system that was mounted read-only.
    pub fn writable(&self) -> Result<()> {
        if self.flags() & MS_RDONLY != 0 {
            Err(Errno::EROFS)
        } else {
            Ok(())
        }
    }
}

/// An inode reached through a mount.
#[derive(Clone)]
pub struct Place {
    /// The mount.
    pub mount: Arc<Mount>,
    /// The inode.
    pub inode: Arc<dyn Inode>,
}

impl Place {
    /// Whether both are the same file through the same mount.
    pub fn same(&self, other: &Place) -> bool {
        Arc::ptr_eq(&self.mount, &other.mount) && self.inode.id() == other.inode.id()
    }

    /// Another inode of the same mount.
    pub fn beside(&self, inode: Arc<dyn Inode>) -> Place {
        Place {
            mount: self.mount.clone(),
            inode,
        }
    }

    /// The root of the mount here, or this place itself.
    pub fn down(self) -> Place {
        let mut place = self;
        while place.mount.covered.load(Ordering::Relaxed) != 0 && maybe_covered(&*place.inode) {
            let on_top = TABLE
                .lock()
                .iter()
                .rfind(|m| m.covers.as_ref().is_some_and(|c| c.same(&place)))
                .cloned();
            match on_top {
                Some(mount) => {
                    let inode = mount.root.clone();
                    place = Place { mount, inode };
                }
                None => break,
            }
        }
        place
    }

    /// Whether this is the root directory of its mount.
    pub fn is_mount_root(&self) -> bool {
        self.inode.id() == self.mount.root.id()
    }

    /// The directory above, for a process whose root is `root`: never above that.
    pub fn parent(&self, root: &Place) -> Place {
        let mut place = self.clone();
        loop {
            if place.same(root) {
                return place;
            }
            if !place.is_mount_root() {
                break;
            }
            match &place.mount.covers {
                Some(covered) => place = covered.clone(),
                None => return place,
            }
        }
        match place.inode.parent() {
            Some(inode) => place.beside(inode).down(),
            None => place,
        }
    }

    /// The path of this directory seen from `root`. `ENOENT` when it was removed or lies outside `root`.
    pub fn path(&self, root: &Place) -> Result<Vec<u8>> {
        let mut names: Vec<Arc<[u8]>> = Vec::new();
        let mut place = self.clone();
        while !place.same(root) {
            if place.is_mount_root() {
                place = place.mount.covers.clone().ok_or(Errno::ENOENT)?;
                continue;
            }
            try_push(&mut names, place.inode.name().ok_or(Errno::ENOENT)?)?;
            let above = place.inode.parent().ok_or(Errno::ENOENT)?;
            place = place.beside(above);
        }
        if names.is_empty() {
            return try_copy(b"/");
        }
        let mut path = Vec::new();
        let length: usize = names.iter().map(|name| 1 + name.len()).sum();
        try_reserve(&mut path, length)?;
        for name in names.iter().rev() {
            try_push(&mut path, b'/')?;
            try_extend(&mut path, name)?;
        }
        Ok(path)
    }
}

/// A bit for each covered directory, by its number, so that most others are known not to be without looking
/// at the table.
static COVERED: AtomicU64 = AtomicU64::new(0);

fn mark_of(inode: &dyn Inode) -> u64 {
    let (dev, ino) = inode.id();
    1 << ((ino ^ dev.wrapping_mul(7)) % 64)
}

fn maybe_covered(inode: &dyn Inode) -> bool {
    COVERED.load(Ordering::Acquire) & mark_of(inode) != 0
}

/// After an unmount; the table's monitor is held.
fn mark_again(table: &[Arc<Mount>]) {
    let covered = table.iter().filter_map(|m| m.covers.as_ref());
    let marks = covered.fold(0, |marks, place| marks | mark_of(&*place.inode));
    COVERED.store(marks, Ordering::Release);
}

static TABLE: Monitor<Vec<Arc<Mount>>> = Monitor::new(Vec::new());

/// A copy of the table for readers without a lock; null while there is none.
static COPY: AtomicPtr<Vec<Arc<Mount>>> = AtomicPtr::new(ptr::null_mut());

/// Publishes a copy of `table`, or none. The former copy is freed when this is dropped, with no monitor held.
fn publish(table: Option<&Vec<Arc<Mount>>>) -> OldCopy {
    let copy = table.and_then(|table| try_box(try_copy(table).ok()?).ok());
    let copy = copy.map_or(ptr::null_mut(), Box::into_raw);
    OldCopy(COPY.swap(copy, Ordering::AcqRel))
}

struct OldCopy(*mut Vec<Arc<Mount>>);

impl Drop for OldCopy {
    fn drop(&mut self) {
        fn free(copy: usize) {
            // SAFETY: it came from a box, was taken out by exchange and is retired once.
            drop(unsafe {
                Box::from_raw(ptr::with_exposed_provenance_mut::<Vec<Arc<Mount>>>(copy))
            });
        }
        if !self.0.is_null() {
            epoch::retire(free, self.0.expose_provenance());
        }
    }
}

/// The mount on `inode` of `mount`, which shows `shown`, or these themselves. None: it cannot be decided
/// without a lock.
///
/// # Safety
/// Interrupts are off for as long as the answer is used.
#[inline]
pub unsafe fn on_top<'a>(
    mount: &'a Mount,
    inode: &'a Arc<dyn Inode>,
    shown: &Shown,
) -> Option<(&'a Mount, &'a Arc<dyn Inode>)> {
    // SAFETY: a mount is not told of any more a grace period before it goes.
    if let Some(top) = unsafe { shown.top().as_ref() }
        && top
            .covers
            .as_ref()
            .is_some_and(|c| ptr::eq(&*c.mount, mount))
        && !top.root.shown().is_none_or(Shown::is_covered)
    {
        return Some((top, &top.root));
    }
    // SAFETY: as the caller promises.
    unsafe { among_all(mount, inode) }
}

/// As [`on_top`], by a look at all mounts.
///
/// # Safety
/// As there.
#[inline(never)]
unsafe fn among_all<'a>(
    mount: &'a Mount,
    inode: &'a Arc<dyn Inode>,
) -> Option<(&'a Mount, &'a Arc<dyn Inode>)> {
    let (mut mount, mut inode) = (mount, inode);
    while mount.covers_some() && maybe_covered(&**inode) {
        // SAFETY: a copy is freed a grace period after it was taken out.
        let copy = unsafe { COPY.load(Ordering::Acquire).as_ref() }?;
        let id = inode.id();
        let covers = |m: &&Arc<Mount>| {
            let covered = m.covers.as_ref();
            covered.is_some_and(|c| ptr::eq(&*c.mount, mount) && c.inode.id() == id)
        };
        let Some(top) = copy.iter().rfind(covers) else {
            break;
        };
        (mount, inode) = (top, &top.root);
    }
    Some((mount, inode))
}

/// Lets `covered` show the last of the mounts of `table` that cover it.
fn show_top(table: &[Arc<Mount>], covered: &Place) {
    let Some(shown) = covered.inode.shown() else {
        return;
    };
    let id = covered.inode.id();
    let covers = |m: &&Arc<Mount>| m.covers.as_ref().is_some_and(|c| c.inode.id() == id);
    shown.set_top(table.iter().rfind(covers).map(|mount| &**mount));
}

static NEXT_ID: AtomicU32 = AtomicU32::new(1);

/// Mounts `fs` over the directory `covers`, or as the root of everything. Returns its root. ENOMEM.
pub fn mount(
    fs: Arc<dyn FileSystem>,
    root: Arc<dyn Inode>,
    covers: Option<Place>,
    source: String,
    flags: u64,
) -> Result<Place> {
    let mount = try_arc(Mount {
        id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
        root: root.clone(),
        fs,
        covers,
        source,
        flags: AtomicU32::new(flags as u32 & (MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC) as u32),
        covered: AtomicU32::new(0),
    })?;
    let mut table = TABLE.lock();
    try_reserve(&mut table, 1)?;
    if let Some(covered) = &mount.covers {
        covered.mount.covered.fetch_add(1, Ordering::Relaxed);
        COVERED.fetch_or(mark_of(&*covered.inode), Ordering::AcqRel);
        if let Some(shown) = covered.inode.shown() {
            shown.cover(true);
        }
    }
    try_push(&mut table, mount.clone())?;
    if let Some(covered) = &mount.covers {
        show_top(&table, covered);
    }
    let old = publish(Some(&table));
    drop(table);
    drop(old);
    super::names::changed();
    Ok(Place { mount, inode: root })
}

/// Changes the flags of the mount at `place`. `EINVAL` when `place` is not its root.
pub fn remount(place: &Place, flags: u64) -> Result<()> {
    if !place.is_mount_root() {
        return Err(Errno::EINVAL);
    }
    let kept = (MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC) as u32;
    place
        .mount
        .flags
        .store(flags as u32 & kept, Ordering::Relaxed);
    super::names::changed();
    Ok(())
}

/// Takes the mount at `place` out of the tree. `EINVAL` when `place` is not its root, `EBUSY` while something
/// in it is in use, unless `detach`.
pub fn unmount(place: Place, detach: bool) -> Result<()> {
    if !place.is_mount_root() {
        return Err(Errno::EINVAL);
    }
    super::names::purge();
    let Place { mount, inode } = place;
    drop(inode);
    if mount.covers.is_none() || mount.covered.load(Ordering::Relaxed) != 0 {
        return Err(Errno::EBUSY);
    }
    if !detach && Arc::strong_count(&mount) > 2 && epoch::pending() > 0 {
        // A description that was closed while others had the table is dropped a grace period later.
        epoch::synchronize();
    }
    let mut table = TABLE.lock();
    // From here on, until it is decided, every walk through this mount waits for the table.
    drop(publish(None));
    if let Some(covered) = &mount.covers
        && let Some(shown) = covered.inode.shown()
    {
        shown.set_top(None);
    }
    epoch::synchronize();
    // One count belongs to the table, one to this function; every user of the mount has another.
    let busy = !detach && Arc::strong_count(&mount) > 2;
    let before = table.len();
    table.retain(|m| busy || !Arc::ptr_eq(m, &mount));
    let removed = table.len() != before;
    mark_again(&table);
    if let Some(covered) = &mount.covers {
        show_top(&table, covered);
    }
    let none = publish(Some(&table));
    drop(table);
    drop(none);
    if busy {
        return Err(Errno::EBUSY);
    }
    if !removed {
        return Err(Errno::EINVAL);
    }
    if let Some(covered) = &mount.covers {
        covered.mount.covered.fetch_sub(1, Ordering::Relaxed);
        if let Some(shown) = covered.inode.shown() {
            shown.cover(false);
        }
    }
    super::names::changed();
    Ok(())
}

/// The mount with the lowest number that is `from` or more.
pub fn mount_from(from: u64) -> Option<Arc<Mount>> {
    let table = TABLE.lock();
    let later = table.iter().filter(|m| u64::from(m.id) >= from);
    later.min_by_key(|m| m.id).cloned()
}

/// The root of everything; `None` before there is one.
pub fn root() -> Option<Place> {
    let mount = TABLE.lock().first()?.clone();
    let inode = mount.root.clone();
    Some(Place { mount, inode })
}

/// A place for `inode` in a file system that is mounted nowhere.
pub fn detached(fs: Arc<dyn FileSystem>, inode: Arc<dyn Inode>) -> Place {
    let mount = Arc::new(Mount {
        id: 0,
        root: fs.root(),
        fs,
        covers: None,
        source: String::new(),
        flags: AtomicU32::new(0),
        covered: AtomicU32::new(0),
    });
    Place { mount, inode }
}
