//! File system notification (Linux: `fsnotify`): the marks that `inotify` instances put on inodes, and
//! the reports of events to them.
//!
//! *Interface*: [`crate::event::marks`] puts and takes marks, [`forget_all`] removes those of an instance;
//! [`file()`], [`linked`] and [`name`] report events, [`opened`] and [`closed`] those of a description;
//! [`gone`] when an inode ends. Each report costs a load and a branch while there is no mark anywhere.
//!
//! Generated `read` and `write` report nothing: a description of a file with a mark on it or its directory
//! gets no generated `read` and `write` ([`OpenFile::tells`]), so the plain call serves it, which checks the
//! marks. The first mark on an inode removes these routines from the tables; no path of the path cache leads
//! to such a file.
//!
//! An inode has the union of its marks in one word; the marks are in one registry, under one monitor, which
//! is the last of all but an instance's queue.

mod instance;

use abi::errno::{Errno, Result};
use abi::linux::*;
use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use sync::{Monitor, epoch};

use super::attr::FileKind;
use super::inode::Inode;
use crate::fs::file::OpenFile;
use account::user::Charge;
pub use instance::InotifyInstance;
use vm::fallible::try_reserve;

/// The limits, which can be set.
pub mod limits {
    use core::sync::atomic::AtomicUsize;

    /// Events that wait in one instance.
    pub static QUEUED: AtomicUsize = AtomicUsize::new(16384);
    /// Instances of one user.
    pub static INSTANCES: AtomicUsize = AtomicUsize::new(128);
    /// Marks of one user; memory may allow fewer.
    pub static WATCHES: AtomicUsize = AtomicUsize::new(65536);
}

/// File system and number.
type Id = (u64, u64);

/// The events of one inode that an instance wants.
struct Mark {
    instance: Arc<InotifyInstance>,
    wd: i32,
    mask: u32,
    /// The creator's charge.
    _charge: Charge,
}

/// A watched inode.
struct Watched {
    inode: Weak<dyn Inode>,
    marks: Vec<Mark>,
}

/// All marks: by inode; and the inode of each, by instance and number.
struct Registry {
    watched: BTreeMap<Id, Watched>,
    numbers: BTreeMap<(usize, i32), Id>,
}

static REGISTRY: Monitor<Registry> = Monitor::new(Registry {
    watched: BTreeMap::new(),
    numbers: BTreeMap::new(),
});

/// How many marks there are.
static MARKS: AtomicUsize = AtomicUsize::new(0);

/// Whether there is any mark.
#[inline]
pub fn any() -> bool {
    MARKS.load(Ordering::Relaxed) != 0
}

/// The union of the marks on `inode`; none on one that cannot tell.
fn wanted(inode: &dyn Inode) -> u32 {
    inode
        .watched()
        .map_or(0, |word| word.load(Ordering::SeqCst))
}

/// Whether there is a mark on `inode`.
pub(crate) fn is_watched(inode: &dyn Inode) -> bool {
    wanted(inode) != 0
}

impl Watched {
    /// The inode's word follows its marks. The inode, for the caller to drop when the registry is free.
    fn follow(&self) -> Option<Arc<dyn Inode>> {
        let inode = self.inode.upgrade()?;
        if let Some(word) = inode.watched() {
            let all = self.marks.iter().fold(0, |all, mark| all | mark.mask);
            word.store(all, Ordering::SeqCst);
        }
        Some(inode)
    }
}

/// Objects to drop when the registry is free.
type Taken = (Option<Mark>, Option<Arc<dyn Inode>>);

impl Registry {
    /// Removes the mark `wd` of `instance` and reports that. Returns the objects that the caller drops when
    /// the registry is free; EINVAL.
    fn take(&mut self, instance: &InotifyInstance, wd: i32) -> Result<Taken> {
        let key = (core::ptr::from_ref(instance).addr(), wd);
        let id = self.numbers.remove(&key).ok_or(Errno::EINVAL)?;
        instance.push(wd, IN_IGNORED, 0, &[]);
        MARKS.fetch_sub(1, Ordering::Relaxed);
        let Some(watched) = self.watched.get_mut(&id) else {
            return Ok((None, None));
        };
        let mine = |mark: &Mark| mark.wd == wd && core::ptr::eq(&*mark.instance, instance);
        let place = watched.marks.iter().position(mine);
        let mark = place.map(|place| watched.marks.swap_remove(place));
        let inode = watched.follow();
        if watched.marks.is_empty() {
            self.watched.remove(&id);
        }
        Ok((mark, inode))
    }
}

/// Reports the events of `mask` on `inode` to `instance`: returns the number of the mark, an old one if there
/// is one, and whether it is the first on `inode`. EEXIST for an old one with `IN_MASK_CREATE`, ENOSPC,
/// ENOMEM.
pub(crate) fn put(
    instance: &Arc<InotifyInstance>,
    inode: &Arc<dyn Inode>,
    mask: u32,
    charge: impl Fn() -> Result<Charge>,
) -> Result<(i32, bool)> {
    let events = mask & (IN_ALL_EVENTS | IN_EXCL_UNLINK | IN_ONESHOT) | IN_UNMOUNT;
    let id = inode.id();
    let address = Arc::as_ptr(instance).addr();
    let mut paid = None;
    let (mut registry, wd, first) = loop {
        // Bound: **global**: **linear** in the marks on one inode, when something happens to it; what is
        // shown of one instance, its marks; nobody takes it for files that nobody watches.
        let mut registry = REGISTRY.lock();
        let there = registry.watched.get_mut(&id);
        let old = there.and_then(|watched| {
            let mine = |mark: &&mut Mark| Arc::ptr_eq(&mark.instance, instance);
            watched.marks.iter_mut().find(mine)
        });
        if let Some(mark) = old {
            if mask & IN_MASK_CREATE != 0 {
                return Err(Errno::EEXIST);
            }
            let kept = if mask & IN_MASK_ADD != 0 {
                mark.mask
            } else {
                0
            };
            mark.mask = events | kept;
            let wd = mark.wd;
            break (registry, wd, false);
        }
        let Some(charge) = paid.take() else {
            drop(registry);
            paid = Some(charge()?);
            continue;
        };
        let wd = instance.next_number(|wd| registry.numbers.contains_key(&(address, wd)));
        #[expect(
            clippy::disallowed_methods,
            reason = "a node, of what each thread was promised; the watch is charged for"
        )]
        let watched = registry.watched.entry(id).or_insert_with(|| Watched {
            inode: Arc::downgrade(inode),
            marks: Vec::new(),
        });
        let first = watched.marks.is_empty();
        let room = try_reserve(&mut watched.marks, 1);
        if room.is_ok() {
            #[expect(clippy::disallowed_methods, reason = "there is room")]
            watched.marks.push(Mark {
                instance: instance.clone(),
                wd,
                mask: events,
                _charge: charge,
            });
        } else if first {
            registry.watched.remove(&id);
        }
        room?;
        break (registry, wd, first);
    };
    #[expect(
        clippy::disallowed_methods,
        reason = "a node, of what each thread was promised; the watch is charged for"
    )]
    let other = registry.numbers.insert((address, wd), id);
    if other.is_none() {
        MARKS.fetch_add(1, Ordering::SeqCst);
    }
    let counted = registry.watched.get(&id).and_then(Watched::follow);
    drop(registry);
    drop(counted);
    Ok((wd, first))
}

/// Takes the mark `wd` of `instance`. EINVAL.
pub fn take(instance: &InotifyInstance, wd: i32) -> Result<()> {
    let taken = REGISTRY.lock().take(instance, wd);
    taken.map(drop)
}

/// Takes all marks of `instance`, which ends.
pub fn forget_all(instance: &InotifyInstance) {
    let address = core::ptr::from_ref(instance).addr();
    loop {
        let mut registry = REGISTRY.lock();
        let mut range = registry.numbers.range((address, i32::MIN)..);
        let next = range.next().map(|(&key, _)| key);
        let Some((_, wd)) = next.filter(|key| key.0 == address) else {
            return;
        };
        let taken = registry.take(instance, wd);
        drop(registry);
        drop(taken);
    }
}

/// Reports `event` to the watchers of the inode `id`, under `name` if they watch a directory. `unlinked`: the
/// file has no name any more.
fn deliver(id: Id, event: u32, cookie: u32, name: &[u8], unlinked: bool) {
    let mut spent = Vec::new();
    let registry = REGISTRY.lock();
    let Some(watched) = registry.watched.get(&id) else {
        return;
    };
    for mark in &watched.marks {
        let about = mark.mask & event & IN_ALL_EVENTS;
        if about == 0 || (unlinked && mark.mask & IN_EXCL_UNLINK != 0) {
            continue;
        }
        mark.instance.push(mark.wd, event, cookie, name);
        if mark.mask & IN_ONESHOT != 0 && try_reserve(&mut spent, 1).is_ok() {
            #[expect(clippy::disallowed_methods, reason = "there is room")]
            spent.push((mark.instance.clone(), mark.wd));
        }
    }
    drop(registry);
    for (instance, wd) in spent {
        let taken = REGISTRY.lock().take(&instance, wd);
        drop(taken);
    }
}

/// The flag of an event on a directory.
fn kind_bit(inode: &dyn Inode) -> u32 {
    match inode.kind() {
        FileKind::Directory => IN_ISDIR,
        _ => 0,
    }
}

/// Reports `event` of the file `inode` to its watchers, and to those of its directory.
#[inline]
pub fn file(inode: &dyn Inode, event: u32) {
    if any() {
        about_file(inode, event);
    }
}

#[cold]
fn about_file(inode: &dyn Inode, event: u32) {
    let bit = kind_bit(inode);
    if let Some(parent) = inode.parent()
        && wanted(&*parent) & event != 0
        && let Some(name) = inode.name()
    {
        let unlinked = inode.attr().nlink == 0;
        deliver(parent.id(), event | bit, 0, &name, unlinked);
    }
    if wanted(inode) & event != 0 {
        deliver(inode.id(), event | bit, 0, &[], false);
    }
}

/// A watcher of `inode` may get its end: drops the remaining references to it now.
pub fn end(inode: Arc<dyn Inode>) {
    let waits = any() && wanted(&*inode) != 0;
    drop(inode);
    if waits {
        // Bound: a grace period, asleep, when the last name of a watched file is removed.
        epoch::synchronize();
    }
}

/// The number of names of `inode` has changed.
#[inline]
pub fn linked(inode: &dyn Inode) {
    if any() && wanted(inode) & IN_ATTRIB != 0 {
        deliver(inode.id(), IN_ATTRIB | kind_bit(inode), 0, &[], false);
    }
}

/// `event` has happened to `name` in `dir`, which is or was that of a directory or not.
#[inline]
pub fn name(dir: &dyn Inode, name: &[u8], event: u32, is_directory: bool) {
    if any() && wanted(dir) & event != 0 {
        let bit = if is_directory { IN_ISDIR } else { 0 };
        deliver(dir.id(), event | bit, 0, name, false);
    }
}

/// A name has moved: `inode` is now the one of `to`, and was that of `from`. Whether others watch it now, or
/// none.
#[cold]
pub(crate) fn about_rename(
    inode: &dyn Inode,
    from: (&dyn Inode, &[u8]),
    to: (&dyn Inode, &[u8]),
) -> bool {
    static COOKIES: AtomicU32 = AtomicU32::new(0);
    let cookie = COOKIES.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
    let bit = kind_bit(inode);
    for ((dir, name), event) in [(from, IN_MOVED_FROM), (to, IN_MOVED_TO)] {
        if wanted(dir) & event != 0 {
            deliver(dir.id(), event | bit, cookie, name, false);
        }
    }
    (wanted(from.0) == 0) != (wanted(to.0) == 0)
}

/// A moved file reports to its watchers.
#[inline]
pub fn moved(inode: &dyn Inode) {
    if any() && wanted(inode) & IN_MOVE_SELF != 0 {
        deliver(inode.id(), IN_MOVE_SELF, 0, &[], false);
    }
}

/// The inode `id`, whose word was not zero, ends: nothing leads to it any more. `unmounted`: it goes with its
/// file system.
#[cold]
pub fn gone(id: Id, unmounted: bool) {
    let event = if unmounted {
        IN_UNMOUNT
    } else {
        IN_DELETE_SELF
    };
    let mut registry = REGISTRY.lock();
    let Some(watched) = registry.watched.remove(&id) else {
        return;
    };
    for mark in &watched.marks {
        if unmounted || mark.mask & event != 0 {
            mark.instance.push(mark.wd, event, 0, &[]);
        }
        mark.instance.push(mark.wd, IN_IGNORED, 0, &[]);
        let key = (Arc::as_ptr(&mark.instance).addr(), mark.wd);
        registry.numbers.remove(&key);
        MARKS.fetch_sub(1, Ordering::Relaxed);
    }
    drop(registry);
}

/// Whether accesses through `of` must be reported.
pub(crate) fn should_tell(of: &OpenFile) -> bool {
    let Some(inode) = of.inode().filter(|_| of.flags() & O_PATH == 0) else {
        return false;
    };
    wanted(&**inode) != 0 || inode.parent().is_some_and(|parent| wanted(&*parent) != 0)
}

/// `of` was opened, and is not visible yet.
#[inline]
pub fn opened(of: &OpenFile) {
    if any() && should_tell(of) {
        of.set_tells(true);
        about(of, IN_OPEN);
    }
}

/// Reports `event`, which has happened through `of`.
pub(crate) fn about(of: &OpenFile, event: u32) {
    if let Some(inode) = of.inode() {
        about_file(&**inode, event);
    }
}

/// The last descriptor of `of` is gone.
#[inline]
pub fn closed(of: &OpenFile) {
    if of.tells() {
        told_closed(of);
    }
}

#[cold]
fn told_closed(of: &OpenFile) {
    let event = if of.writable() {
        IN_CLOSE_WRITE
    } else {
        IN_CLOSE_NOWRITE
    };
    about(of, event);
}

/// The data of each mark of `instance`: number, inode, mask.
pub fn marks(instance: &InotifyInstance, mut each: impl FnMut(i32, Id, u32)) {
    let address = core::ptr::from_ref(instance).addr();
    let registry = REGISTRY.lock();
    let range = registry
        .numbers
        .range((address, i32::MIN)..=(address, i32::MAX));
    for (&(_, wd), &id) in range {
        let marks = registry.watched.get(&id);
        let mark = marks.and_then(|watched| watched.marks.iter().find(|mark| mark.wd == wd));
        each(wd, id, mark.map_or(0, |mark| mark.mask));
    }
}
