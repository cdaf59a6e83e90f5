//! Mounts, the mount table, and [`VfsPath`]: an inode reached through a mount (Linux: `struct path`).
//!
//! *Interface.* [`VfsPath::follow_mounts`] crosses into the mount on a directory or file, [`VfsPath::parent`]
//! is `..`, [`VfsPath::path`] the path of a directory. [`mount`] adds to the table, [`mount_from`] reads it,
//! and [`super::mount_tree`] changes the tree that its mounts are. A change of the table is a change of names
//! ([`super::path_cache::changed`]).
//!
//! *Unsafe*: a copy of the table, and places that mounts cover, which live until a grace period; what the
//! root of a mount shows.

use abi::errno::{Errno, Result};
use abi::linux::{NAME_MAX, Statfs};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use machine::irqs_off::IrqsOff;
use sync::{Monitor, epoch};

use super::attr::{ANONYMOUS_DEV, PIPE_DEV, SOCKET_DEV};
use super::inode::{FileHandle, Inode};
use super::published::Published;
use crate::arc_swap::{ArcSwap, Displaced};
use vm::fallible::{
    try_arc, try_box, try_concat, try_copy, try_extend, try_push, try_reserve, try_string,
};

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
    fn by_handle(&self, _handle: FileHandle) -> Option<Arc<dyn Inode>> {
        None
    }
    /// The result of `statfs`.
    fn statfs(&self) -> Statfs;
}

static NEXT_DEV: AtomicU64 = AtomicU64::new(1);

/// A device number for a file system without a device, major 0.
pub fn anonymous_dev() -> u64 {
    loop {
        let dev = abi::linux::makedev(0, NEXT_DEV.fetch_add(1, Ordering::Relaxed) as u32);
        // Locks tell files apart by device and number.
        if ![SOCKET_DEV, PIPE_DEV, ANONYMOUS_DEV].contains(&dev) {
            return dev;
        }
    }
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
/// Show a directory or file at a second place.
pub const MS_BIND: u64 = 4096;
/// Move a mount to another place.
pub const MS_MOVE: u64 = 8192;
/// With all that is mounted below.
pub const MS_REC: u64 = 16384;
/// No copies of it are made by `MS_BIND`.
pub const MS_UNBINDABLE: u64 = 1 << 17;
/// Neither gives its changes to others nor takes theirs.
pub const MS_PRIVATE: u64 = 1 << 18;
/// Takes changes of others.
pub const MS_SLAVE: u64 = 1 << 19;
/// Gives its changes to others and takes theirs.
pub const MS_SHARED: u64 = 1 << 20;

/// A file system in its place in the tree.
pub struct Mount {
    /// Number, as in `/proc/PID/mountinfo`.
    pub id: u32,
    /// The mounted file system.
    pub fs: Arc<dyn FileSystem>,
    /// Its root directory.
    pub root: Arc<dyn Inode>,
    /// The part that this shows.
    top: Top,
    /// The place that it covers; `None` for the root, and once it was taken out of the tree.
    covers: ArcSwap<Option<VfsPath>>,
    /// First column of `/proc/mounts`.
    pub source: String,
    flags: AtomicU32,
    /// How many mounts cover a directory of this one.
    covered: AtomicU32,
    /// The last mount that covers its root directory, or none while it cannot be told: changed with the
    /// table's monitor held, and stays while interrupts are off.
    above: AtomicPtr<Mount>,
    /// It was found unused by an unmount that asks twice.
    pub(super) expired: AtomicBool,
}

/// The part that an inode shows, which its holder keeps.
struct Top(Option<NonNull<Published>>);

// SAFETY: it points to what all threads may read, and that stays as long as its holder.
unsafe impl Send for Top {}
// SAFETY: as above.
unsafe impl Sync for Top {}

impl Top {
    fn of(root: &Arc<dyn Inode>) -> Top {
        Top(root.published().map(NonNull::from))
    }
}

impl Mount {
    /// The part that its root directory shows.
    #[inline]
    fn shows(&self) -> Option<&Published> {
        // SAFETY: it is a part of the root, always the same, and this keeps that.
        self.top.0.map(|shown| unsafe { shown.as_ref() })
    }

    /// Whether something is mounted on a directory of this one.
    #[inline]
    pub fn covers_some(&self) -> bool {
        self.covered.load(Ordering::Relaxed) != 0
    }

    /// The place that it covers; `None` for the root, and once it was taken out of the tree.
    pub fn covers(&self) -> Arc<Option<VfsPath>> {
        self.covers.get()
    }

    /// Its root directory, reached through itself.
    pub fn top(self: &Arc<Self>) -> VfsPath {
        VfsPath {
            mount: self.clone(),
            inode: self.root.clone(),
        }
    }

    /// `MS_*`.
    pub fn flags(&self) -> u64 {
        u64::from(self.flags.load(Ordering::Relaxed))
    }

    /// Sets those flags.
    pub(super) fn set_flags(&self, flags: u64) {
        self.flags.store(kept(flags), Ordering::Relaxed);
    }

    /// The path of its root directory within the file system; None when it was removed. ENOMEM.
    pub fn origin(&self) -> Result<Option<Vec<u8>>> {
        let mut names = Vec::new();
        let (top, mut inode) = (self.fs.root().id(), self.root.clone());
        while inode.id() != top {
            let (Some(name), Some(above)) = (inode.name(), inode.parent()) else {
                return Ok(None);
            };
            try_push(&mut names, name)?;
            inode = above;
        }
        joined(&names).map(Some)
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
pub struct VfsPath {
    /// The mount.
    pub mount: Arc<Mount>,
    /// The inode.
    pub inode: Arc<dyn Inode>,
}

impl VfsPath {
    /// Whether both are the same file through the same mount.
    pub fn same(&self, other: &VfsPath) -> bool {
        Arc::ptr_eq(&self.mount, &other.mount) && self.inode.id() == other.inode.id()
    }

    /// Whether no file here may be executed, nor its pages be mapped to be (`MS_NOEXEC`).
    pub fn is_noexec(&self) -> bool {
        self.mount.flags() & MS_NOEXEC != 0
    }

    /// Whether set-id bits and capabilities of a file here count for nothing (`MS_NOSUID`).
    pub fn is_nosuid(&self) -> bool {
        self.mount.flags() & MS_NOSUID != 0
    }

    /// The part that the inode shows.
    #[inline]
    pub(super) fn shows(&self) -> Option<&Published> {
        match Arc::ptr_eq(&self.inode, &self.mount.root) {
            true => self.mount.shows(),
            false => self.inode.published(),
        }
    }

    /// Another inode of the same mount.
    pub fn with_inode(&self, inode: Arc<dyn Inode>) -> VfsPath {
        VfsPath {
            mount: self.mount.clone(),
            inode,
        }
    }

    /// The root of the mount here, or this place itself.
    pub fn follow_mounts(self) -> VfsPath {
        match self.may_be_covered() {
            // Bound: **global**: the mounts.
            true => self.down_in(&TABLE.lock()),
            false => self,
        }
    }

    fn may_be_covered(&self) -> bool {
        self.mount.covers_some() && maybe_covered(&*self.inode)
    }

    /// The same by `table`, of which it looks at each mount once at most.
    fn down_in(self, table: &[Arc<Mount>]) -> VfsPath {
        let mut place = self;
        while let Some(mount) = place.last_on_it(table) {
            place = mount.top();
        }
        place
    }

    /// The last mount on it. One on the root of a mount is found without the table, whose monitor is held.
    fn last_on_it(&self, table: &[Arc<Mount>]) -> Option<Arc<Mount>> {
        if !self.may_be_covered() {
            return None;
        }
        if !self.is_mount_root() {
            return last_on(table, self).cloned();
        }
        let above = self.mount.above.load(Ordering::Relaxed);
        // SAFETY: it is that of an `Arc` in the table (`show_top`), which nobody takes out meanwhile.
        (!above.is_null()).then(|| unsafe {
            Arc::increment_strong_count(above);
            Arc::from_raw(above)
        })
    }

    /// Whether this is the root directory of its mount.
    pub fn is_mount_root(&self) -> bool {
        self.inode.id() == self.mount.root.id()
    }

    /// The directory above, for a process whose root is `root`: never above that.
    pub fn parent(&self, root: &VfsPath) -> VfsPath {
        let mut place = self.clone();
        loop {
            if place.same(root) {
                return place;
            }
            if !place.is_mount_root() {
                break;
            }
            let covered = place.mount.covers();
            match &*covered {
                Some(covered) => place = covered.clone(),
                None => return place,
            }
        }
        match place.inode.parent() {
            Some(inode) => place.with_inode(inode).follow_mounts(),
            None => place,
        }
    }

    /// The path of this directory seen from `root`. `ENOENT` when it was removed or lies outside `root`.
    pub fn path(&self, root: &VfsPath) -> Result<Vec<u8>> {
        let mut names: Vec<Arc<[u8]>> = Vec::new();
        let mut place = self.clone();
        while !place.same(root) {
            if place.is_mount_root() {
                let covered = place.mount.covers();
                place = covered.as_ref().clone().ok_or(Errno::ENOENT)?;
                continue;
            }
            try_push(&mut names, place.inode.name().ok_or(Errno::ENOENT)?)?;
            let above = place.inode.parent().ok_or(Errno::ENOENT)?;
            place = place.with_inode(above);
        }
        joined(&names)
    }

    /// Its current path as `/proc` shows it: the name alone outside the tree, a mark behind it if it has lost
    /// its names. ENOMEM: it may be long.
    pub fn display_path(&self) -> Result<String> {
        let mut path = match root()
            .ok_or(Errno::ENOENT)
            .and_then(|root| self.path(&root))
        {
            Err(Errno::ENOMEM) => return Err(Errno::ENOMEM),
            Err(_) => try_concat(&[b"/", &*self.inode.name().unwrap_or_default()])?,
            Ok(path) => path,
        };
        if self.inode.attr().nlink == 0 {
            try_extend(&mut path, b" (deleted)")?;
        }
        try_string(&path)
    }
}

/// The absolute path of `names`, the last one first. ENOMEM.
fn joined(names: &[Arc<[u8]>]) -> Result<Vec<u8>> {
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

pub(super) static TABLE: Monitor<Vec<Arc<Mount>>> = Monitor::new(Vec::new());

/// A copy of the table for readers without a lock; null while there is none.
static COPY: AtomicPtr<Vec<Arc<Mount>>> = AtomicPtr::new(ptr::null_mut());

/// Publishes a copy of `table`, or none. The former copy is freed when this is dropped, with no monitor held.
pub(super) fn publish(table: Option<&Vec<Arc<Mount>>>) -> RetiredTable {
    let copy = table.and_then(|table| try_box(try_copy(table).ok()?).ok());
    let copy = copy.map_or(ptr::null_mut(), Box::into_raw);
    RetiredTable(COPY.swap(copy, Ordering::AcqRel))
}

pub(super) struct RetiredTable(*mut Vec<Arc<Mount>>);

impl Drop for RetiredTable {
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

/// As many mounts on top of each other as are looked at without a lock.
const LEVELS: usize = 16;

/// The mount on `inode` of `mount`, which shows `shown`, or these themselves; with it the part that its root
/// shows. None: it cannot be decided without a lock, or the root shows none.
#[inline]
pub fn on_top<'a>(
    mount: &'a Mount,
    inode: &'a Arc<dyn Inode>,
    shown: &'a Published,
    off: &'a IrqsOff,
) -> Option<(&'a Mount, &'a Arc<dyn Inode>, &'a Published)> {
    if let Some(top) = top_of(mount, shown, off)
        && let Some(next) = top.shows()
        && !next.is_covered()
    {
        return Some((top, &top.root, next));
    }
    far_on_top(mount, inode, shown, off)
}

/// The last mount on the inode that shows `shown`, if it is on that of `mount`.
#[inline(always)]
fn top_of<'a>(mount: &Mount, shown: &Published, off: &'a IrqsOff) -> Option<&'a Mount> {
    // SAFETY: a mount is not told of any more a grace period before it goes, which does not end while
    // interrupts are off.
    let top = unsafe { shown.top().as_ref::<'a>() }?;
    let covers = top.covers.peek(off).as_ref()?;
    ptr::eq(&*covers.mount, mount).then_some(top)
}

/// As [`on_top`], where there are several, or others on the same inode.
#[inline(never)]
fn far_on_top<'a>(
    mount: &'a Mount,
    inode: &'a Arc<dyn Inode>,
    shown: &'a Published,
    off: &'a IrqsOff,
) -> Option<(&'a Mount, &'a Arc<dyn Inode>, &'a Published)> {
    let (mut mount, mut inode, mut shown) = (mount, inode, shown);
    for _ in 0..LEVELS {
        if !mount.covers_some() || !maybe_covered(&**inode) {
            return Some((mount, inode, shown));
        }
        let is_root = ptr::addr_eq(Arc::as_ptr(inode), Arc::as_ptr(&mount.root));
        let known = top_of(mount, shown, off).or_else(|| {
            // SAFETY: as in `top_of`.
            let above = unsafe { mount.above.load(Ordering::Acquire).as_ref::<'a>() };
            above.filter(|_| is_root)
        });
        let top = match known {
            Some(top) => top,
            None => {
                // SAFETY: a copy is freed a grace period after it was taken out.
                let copy = unsafe { COPY.load(Ordering::Acquire).as_ref() }?;
                let id = inode.id();
                let on_it = |m: &&Arc<Mount>| {
                    let covered = m.covers.peek(off);
                    covered
                        .as_ref()
                        .is_some_and(|c| ptr::eq(&*c.mount, mount) && c.inode.id() == id)
                };
                match copy.iter().rfind(on_it) {
                    Some(top) => top,
                    None => return Some((mount, inode, shown)),
                }
            }
        };
        (mount, inode, shown) = (top, &top.root, top.shows()?);
    }
    None
}

/// The last of the mounts of `table` that cover `place`.
fn last_on<'t>(table: &'t [Arc<Mount>], place: &VfsPath) -> Option<&'t Arc<Mount>> {
    let covers = |m: &&Arc<Mount>| {
        let covered = m.covers();
        covered.as_ref().as_ref().is_some_and(|c| c.same(place))
    };
    table.iter().rfind(covers)
}

/// Lets `covered` show the last of the mounts of `table` that cover it.
pub(super) fn show_top(table: &[Arc<Mount>], covered: &VfsPath) {
    if covered.is_mount_root() {
        let above = last_on(table, covered).map_or(ptr::null(), Arc::as_ptr);
        (covered.mount.above).store(above.cast_mut(), Ordering::Release);
    }
    let Some(shown) = covered.inode.published() else {
        return;
    };
    let id = covered.inode.id();
    let on_it = |m: &&Arc<Mount>| {
        m.covers()
            .as_ref()
            .as_ref()
            .is_some_and(|c| c.inode.id() == id)
    };
    shown.set_top(table.iter().rfind(on_it).map(|mount| &**mount));
}

/// Nothing is shown on `covered` until [`show_top`]: a walk to it waits for the table.
pub(super) fn hide(covered: &VfsPath) {
    if covered.is_mount_root() {
        (covered.mount.above).store(ptr::null_mut(), Ordering::Release);
    }
    if let Some(shown) = covered.inode.published() {
        shown.set_top(None);
    }
}

/// A mount more on `covered`; the monitor of the table is held.
pub(super) fn cover(covered: &VfsPath) {
    covered.mount.covered.fetch_add(1, Ordering::Relaxed);
    COVERED.fetch_or(mark_of(&*covered.inode), Ordering::AcqRel);
    if let Some(shown) = covered.inode.published() {
        shown.cover(true);
    }
}

/// A mount fewer on `covered`, with `table` as it is now.
pub(super) fn uncover(table: &[Arc<Mount>], covered: &VfsPath) {
    let marks = table.iter().fold(0, |marks, m| {
        let mark = m
            .covers()
            .as_ref()
            .as_ref()
            .map(|place| mark_of(&*place.inode));
        marks | mark.unwrap_or(0)
    });
    COVERED.store(marks, Ordering::Release);
    covered.mount.covered.fetch_sub(1, Ordering::Relaxed);
    if let Some(shown) = covered.inode.published() {
        shown.cover(false);
    }
}

/// The flags that a mount keeps.
fn kept(flags: u64) -> u32 {
    (flags & (MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC)) as u32
}

static NEXT_ID: AtomicU32 = AtomicU32::new(1);

impl Mount {
    /// A mount that is not in the tree yet: `root` of `fs`, to cover `covers`. ENOMEM.
    pub(super) fn make(
        fs: Arc<dyn FileSystem>,
        root: Arc<dyn Inode>,
        covers: Option<VfsPath>,
        source: String,
        flags: u64,
    ) -> Result<Arc<Mount>> {
        try_arc(Mount {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            top: Top::of(&root),
            root,
            fs,
            covers: ArcSwap::new(try_arc(covers)?),
            source,
            flags: AtomicU32::new(kept(flags)),
            covered: AtomicU32::new(0),
            above: AtomicPtr::new(ptr::null_mut()),
            expired: AtomicBool::new(false),
        })
    }

    /// Covers another place; the monitor of the table is held.
    pub(super) fn set_covers(&self, covers: Arc<Option<VfsPath>>) -> Displaced<Option<VfsPath>> {
        self.covers.exchange(covers)
    }
}

/// Whether `mount` is in the tree that `table` is.
pub(super) fn is_attached(table: &[Arc<Mount>], mount: &Arc<Mount>) -> bool {
    table.iter().any(|m| Arc::ptr_eq(m, mount))
}

/// Mounts `fs` over the place `covers`, or as the root of everything. Returns its root. ENOMEM; EINVAL:
/// `covers` is in no tree.
pub fn mount(
    fs: Arc<dyn FileSystem>,
    root: Arc<dyn Inode>,
    covers: Option<VfsPath>,
    source: String,
    flags: u64,
) -> Result<VfsPath> {
    let mount = Mount::make(fs, root, covers, source, flags)?;
    attach(core::slice::from_ref(&mount))?;
    Ok(mount.top())
}

/// Puts `mounts` into the table, each behind the one that it lies on. ENOMEM; EINVAL: the place that the
/// first one covers is in no tree.
pub(super) fn attach(mounts: &[Arc<Mount>]) -> Result<()> {
    let mut table = TABLE.lock();
    let first = mounts.first().map(|mount| mount.covers());
    if let Some(Some(place)) = first.as_deref()
        && !is_attached(&table, &place.mount)
    {
        return Err(Errno::EINVAL);
    }
    try_extend(&mut table, mounts)?;
    for mount in mounts {
        if let Some(covered) = &*mount.covers() {
            cover(covered);
            show_top(&table, covered);
        }
    }
    let old = publish(Some(&table));
    drop(table);
    drop(old);
    super::path_cache::changed();
    Ok(())
}

/// The mount with the lowest number that is `from` or more.
pub fn mount_from(from: u64) -> Option<Arc<Mount>> {
    let table = TABLE.lock();
    let later = table.iter().filter(|m| u64::from(m.id) >= from);
    later.min_by_key(|m| m.id).cloned()
}

/// The root of everything; `None` before there is one.
pub fn root() -> Option<VfsPath> {
    let mount = TABLE.lock().first()?.clone();
    Some(mount.top())
}

/// A place for `inode` in a file system that is mounted nowhere.
pub fn detached(fs: Arc<dyn FileSystem>, inode: Arc<dyn Inode>) -> VfsPath {
    let root = fs.root();
    let mount = Arc::new(Mount {
        id: 0,
        top: Top::of(&root),
        root,
        fs,
        covers: ArcSwap::new(Arc::new(None)),
        source: String::new(),
        flags: AtomicU32::new(0),
        covered: AtomicU32::new(0),
        above: AtomicPtr::new(ptr::null_mut()),
        expired: AtomicBool::new(false),
    });
    VfsPath { mount, inode }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tmpfs::TmpFs;
    use abi::linux::S_IFDIR;
    use account::Cred;
    use machine::irqs_off::irqs_off;

    /// A directory of a file system of its own.
    fn directory() -> VfsPath {
        let fs = TmpFs::new("tmpfs", 0o755);
        let root = detached(fs.clone(), fs.root());
        let made = root.inode.create(b"at", S_IFDIR, 0, 0, &Cred::root());
        root.with_inode(made.unwrap())
    }

    /// A mount more on `at`: of a new file system, or of the directory `bound`.
    fn put(table: &mut Vec<Arc<Mount>>, at: &VfsPath, bound: Option<&VfsPath>) -> VfsPath {
        let (fs, root) = match bound {
            Some(place) => (place.mount.fs.clone(), place.inode.clone()),
            None => {
                let fs = TmpFs::new("tmpfs", 0o755);
                (fs.clone() as Arc<dyn FileSystem>, fs.root())
            }
        };
        let mount = Mount::make(fs, root, Some(at.clone()), String::new(), 0).unwrap();
        table.push(mount.clone());
        cover(at);
        show_top(table, at);
        mount.top()
    }

    fn take(table: &mut Vec<Arc<Mount>>, mount: &Arc<Mount>) {
        let covered = mount.covers().as_ref().clone().unwrap();
        hide(&covered);
        table.retain(|other| !Arc::ptr_eq(other, mount));
        drop(mount.set_covers(Arc::new(None)).get());
        uncover(table, &covered);
        show_top(table, &covered);
    }

    fn without_lock(place: &VfsPath) -> Option<u32> {
        let shown = place.inode.published().unwrap();
        irqs_off(|off| {
            let top = on_top(&place.mount, &place.inode, shown, off);
            top.map(|(mount, _, _)| mount.id)
        })
    }

    #[test]
    fn a_stack_of_mounts_is_walked_by_their_links() {
        let at = directory();
        let (mut table, mut tops) = (Vec::new(), Vec::new());
        let mut top = at.clone();
        for level in 1..3 * LEVELS {
            // Where each has a root of its own, and where all are the same directory.
            let bound = (level > LEVELS).then_some(&at);
            top = put(&mut table, &top, bound);
            tops.push(top.clone());
            assert!(at.clone().down_in(&table).same(&top));
            // The table is looked at for the first of them alone.
            assert!(tops[0].clone().down_in(&[]).same(&top));
            let seen = (level < LEVELS).then_some(top.mount.id);
            assert_eq!(without_lock(&at), seen, "{level}");
        }
        while let Some(top) = tops.pop() {
            assert!(at.clone().down_in(&table).same(&top));
            take(&mut table, &top.mount);
        }
        assert!(at.clone().down_in(&table).same(&at));
    }

    /// As by a process whose working directory has been covered since.
    #[test]
    fn the_last_of_several_mounts_on_one_place_is_seen() {
        let at = directory();
        let mut table = Vec::new();
        let first = put(&mut table, &at, None);
        let on_first = put(&mut table, &first, None);
        let second = put(&mut table, &at, None);
        let on_second = [
            put(&mut table, &second, None),
            put(&mut table, &second, None),
        ];
        assert!(at.clone().down_in(&table).same(&on_second[1]));
        assert!(first.clone().down_in(&table).same(&on_first));
        take(&mut table, &on_second[1].mount);
        assert!(at.clone().down_in(&table).same(&on_second[0]));
        take(&mut table, &on_second[0].mount);
        take(&mut table, &second.mount);
        assert!(at.clone().down_in(&table).same(&on_first));
    }
}
