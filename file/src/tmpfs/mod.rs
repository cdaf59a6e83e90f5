//! tmpfs: the file system in memory. The root, `/tmp`, `/dev` and every mounted `tmpfs` are of it.
//!
//! *Interface.* [`TmpFs::new`]; all else through [`Inode`] and [`FileSystem`]. Directories keep their entries
//! (`dir`), regular files their pages (`store`, read and written by generated code: `regular`).
//!
//! Every change of names holds the file system's one `tree` monitor, so a rename sees an unchanging tree; a
//! look-up takes only the monitor of its directory. The callers have checked permission bits; this file
//! system checks kinds, existence and emptiness.

pub mod budget;
pub mod dir;
mod dir_order;
mod handle;
mod inode;
pub mod page_store;
pub mod regular;
#[cfg(test)]
mod tests;
pub mod unpack;

use abi::errno::{Errno, Result};
use abi::linux::{F_SEAL_EXEC, S_IFMT, S_ISGID, S_ISUID, Statfs, TMPFS_MAGIC};
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use sync::hash_table::Removed;
use sync::{Monitor, epoch};

use crate::fs::attr::{Attr, FileKind, FileTime};
use crate::fs::dentry::Dentry;
use crate::fs::fsnotify;
use crate::fs::inactive::Inactive;
use crate::fs::inode::{FileHandle, Inode};
use crate::fs::meta::Meta;
use crate::fs::mount::{FileSystem, anonymous_dev};
use crate::fs::path_cache;
use crate::fs::perm;
use crate::fs::published::{Published, PublishedParts};
use crate::fs::write_count::WriteCount;
use crate::fs::xattrs::XattrSet;
use crate::io::IoBuf;
use crate::pipe::fifo::FifoSlot;
use account::{Capability, Cred, caller};
/// The root exists: from now on files in memory may take half of the free memory.
pub use budget::bind as limit;
use budget::{FsLimits, NODES, PAGES};
use dir::Directory;
use handle::Handles;
use page_store::PageStore;

/// The shared data of all nodes of one file system.
pub struct Super {
    kind: &'static str,
    dev: u64,
    next_ino: AtomicU64,
    tree: Monitor<()>,
    purse: Arc<FsLimits>,
    handles: Handles,
}

/// A file system in memory.
pub struct TmpFs {
    shared: Arc<Super>,
    root: Arc<TmpInode>,
}

/// The contents of a node, besides its attributes.
enum Body {
    Regular(PageStore),
    Directory(Directory),
    Symlink(Text),
    Device(u64),
    Fifo(FifoSlot),
    Socket,
}

/// Where a symbolic link leads.
struct Text {
    bytes: Vec<u8>,
    /// How many these are.
    len: AtomicU64,
}

/// A file in memory.
pub struct TmpInode {
    ino: u64,
    kind: FileKind,
    fs: Arc<Super>,
    meta: Monitor<Meta>,
    /// The values of [`Meta`], written while it is held, and more, for those who take no monitor.
    shown: Published,
    body: Body,
    home: Monitor<Home>,
    /// Its pages have been mapped before.
    mapped: AtomicBool,
    /// The events that its watchers want ([`crate::fs::fsnotify`]).
    watched: AtomicU32,
    inactive: Inactive,
    busy: WriteCount,
    /// It may get a name although it has none.
    nameless: AtomicBool,
    /// It is among those with handles.
    handled: AtomicBool,
    this: Weak<TmpInode>,
}

/// The directory that a node is in, and the name it got there last.
#[derive(Default)]
struct Home {
    parent: Weak<TmpInode>,
    name: Option<Arc<[u8]>>,
}

/// Objects removed from a directory, to be dropped when no monitor is held.
type Gone = Removed<Dentry>;

impl TmpFs {
    /// An empty file system whose root directory has `mode`; `kind` as in `/proc/mounts`.
    pub fn new(kind: &'static str, mode: u32) -> Arc<TmpFs> {
        let shared = Arc::new(Super {
            kind,
            dev: anonymous_dev(),
            next_ino: AtomicU64::new(1),
            tree: Monitor::new(()),
            purse: Arc::default(),
            handles: Handles::default(),
        });
        let body = Body::Directory(Directory::new());
        shared.purse.nodes.force(&NODES);
        let root = shared.node(
            FileKind::Directory,
            Meta::new(mode, 2, 0, 0, crate::fs::now()),
            || body,
        );
        Arc::new(TmpFs { shared, root })
    }

    /// Sets its limits: pages of its files, and files. EINVAL: it has more.
    pub fn bound(&self, pages: Option<usize>, nodes: Option<usize>) -> Result<()> {
        let purse = &self.shared.purse;
        pages.map_or(Ok(()), |most| purse.pages.bound(most))?;
        nodes.map_or(Ok(()), |most| purse.nodes.bound(most))
    }
}

impl FileSystem for TmpFs {
    fn kind(&self) -> &'static str {
        self.shared.kind
    }

    fn root(&self) -> Arc<dyn Inode> {
        self.root.clone()
    }

    fn bound(&self, pages: Option<usize>, nodes: Option<usize>) -> Result<()> {
        TmpFs::bound(self, pages, nodes)
    }

    fn by_handle(&self, handle: FileHandle) -> Option<Arc<dyn Inode>> {
        self.shared.by_handle(handle)
    }

    fn statfs(&self) -> Statfs {
        if epoch::pending() > 0 {
            // Removed objects no longer count.
            epoch::synchronize();
        }
        let frames = vm::frame::stats();
        let free = frames.free.saturating_sub(frames.reserve);
        let (most, left) = self.shared.purse.pages.room(&PAGES);
        let left = left.min(free) as u64;
        let (nodes, spare) = self.shared.purse.nodes.room(&NODES);
        Statfs {
            kind: TMPFS_MAGIC,
            bsize: abi::layout::PAGE as i64,
            blocks: most as u64,
            bfree: left,
            bavail: left,
            files: nodes as u64,
            ffree: spare as u64,
            fsid: [self.shared.dev as i32, 0],
            namelen: abi::linux::NAME_MAX as i64,
            frsize: abi::layout::PAGE as i64,
            ..Statfs::default()
        }
    }
}

impl Super {
    /// A node of `kind` with these attributes.
    #[inline]
    fn node(
        self: &Arc<Self>,
        kind: FileKind,
        meta: Meta,
        body: impl FnOnce() -> Body,
    ) -> Arc<TmpInode> {
        let body = body();
        let ino = self.next_ino.fetch_add(1, Ordering::Relaxed);
        let meta = Meta {
            mode: meta.mode & !S_IFMT | kind.mode_bits(),
            ..meta
        };
        let node = Arc::new_cyclic(|this| TmpInode {
            ino,
            kind,
            fs: self.clone(),
            shown: Published::new(self.dev, ino, body.rdev(), &meta),
            meta: Monitor::new(meta),
            body,
            home: Monitor::new(Home::default()),
            mapped: AtomicBool::new(false),
            watched: AtomicU32::new(0),
            inactive: Inactive::new(),
            busy: WriteCount::new(),
            nameless: AtomicBool::new(false),
            handled: AtomicBool::new(false),
            this: this.clone(),
        });
        let rest = match &node.body {
            Body::Regular(store) => PublishedParts {
                size: Some(&store.core().size),
                blocks: Some(store.blocks()),
                touched: Some(store.core().touched()),
                ..PublishedParts::default()
            },
            Body::Directory(dir) => PublishedParts {
                size: Some(dir.size()),
                names: Some(dir.names()),
                ..PublishedParts::default()
            },
            Body::Symlink(text) => PublishedParts {
                size: Some(&text.len),
                ..PublishedParts::default()
            },
            Body::Device(_) | Body::Fifo(_) | Body::Socket => PublishedParts::default(),
        };
        node.shown.settle(PublishedParts {
            list: Some(&node.inactive),
            ..rest
        });
        node
    }
}

impl Body {
    /// The device that it is, if it is one.
    fn rdev(&self) -> u64 {
        match self {
            Body::Device(rdev) => *rdev,
            _ => 0,
        }
    }
}

impl TmpInode {
    fn dir(&self) -> Result<&Directory> {
        match &self.body {
            Body::Directory(dir) => Ok(dir),
            _ => Err(Errno::ENOTDIR),
        }
    }

    fn store(&self) -> Option<&PageStore> {
        match &self.body {
            Body::Regular(store) => Some(store),
            _ => None,
        }
    }

    /// Generated code only flags that it wrote; the time is recorded at a `stat` or close.
    fn settle(&self) {
        let wrote = |s: &PageStore| s.core().is_touched() && s.core().take_touched();
        if self.store().is_some_and(wrote) {
            self.touch();
        }
    }

    /// The attributes: those of `meta`, and those that depend on the contents.
    fn attr_of(&self, meta: &Meta, size: u64, blocks: u64) -> Attr {
        Attr {
            dev: self.fs.dev,
            ino: self.ino,
            mode: meta.mode,
            nlink: meta.nlink,
            uid: meta.uid,
            gid: meta.gid,
            rdev: self.body.rdev(),
            size,
            blocks,
            atime: meta.atime,
            mtime: meta.mtime,
            ctime: meta.ctime,
            btime: meta.btime,
        }
    }

    fn touch(&self) {
        self.touch_at(crate::fs::now());
    }

    fn touch_at(&self, now: FileTime) {
        let mut meta = self.meta.lock();
        meta.mtime = now;
        meta.ctime = now;
        self.shown.note_times(&meta);
    }

    /// How many there are from `now` on.
    fn change_links(&self, by: i32, now: FileTime) -> u32 {
        let mut meta = self.meta.lock();
        meta.nlink = meta.nlink.saturating_add_signed(by);
        meta.ctime = now;
        self.shown.note_links(&meta);
        meta.nlink
    }

    /// A node for this directory: the group is inherited from a directory with the set-group-ID bit, and so
    /// are permissions and access control lists from one with a default; else `umask` is removed from it.
    /// ENOSPC when there are too many.
    fn make(
        &self,
        (mode, umask): (u32, u32),
        cred: &Cred,
        nlink: u32,
        kind: FileKind,
        now: FileTime,
        body: impl FnOnce() -> Body,
    ) -> Result<Arc<TmpInode>> {
        let above = self.meta.lock();
        let mut gid = cred.fsgid;
        let group = above.gid;
        let hands_on = above.mode & S_ISGID != 0;
        let (mut mode, lists) = above.for_new(mode, umask, kind)?;
        drop(above);
        if hands_on {
            gid = group;
            if kind == FileKind::Directory {
                mode |= S_ISGID;
            } else if mode & 0o010 != 0 && !perm::keeps_group(cred, gid) {
                mode &= !S_ISGID;
            }
        }
        let mut meta = Meta::new(mode, nlink, cred.fsuid, gid, now);
        if lists.iter().any(Option::is_some) {
            meta.extra = XattrSet::inherited(lists)?;
        }
        let loses = meta.loses();
        let taken = self.fs.purse.nodes.take(1, &NODES)?;
        let node = self.fs.node(kind, meta, body);
        if let (Body::Regular(store), true) = (&node.body, loses) {
            store.close(true);
        }
        taken.keep();
        Ok(node)
    }

    fn enter(&self, name: &[u8], node: &Arc<TmpInode>, now: FileTime) -> Result<Gone> {
        let (name, gone) = self.dir()?.lock().add(name, node.clone())?;
        node.set_home(self, name);
        if node.kind == FileKind::Directory {
            self.change_links(1, now);
        }
        self.touch_at(now);
        Ok(gone)
    }

    /// A node lost a name (a directory: its only one).
    fn lost_name(&self, now: FileTime) {
        let links = if let Body::Directory(dir) = &self.body {
            dir.lock().end();
            self.change_links(-2, now)
        } else {
            self.change_links(-1, now)
        };
        let further = links != 0;
        if !further {
            if self.inactive.is_known() {
                path_cache::forget(self);
            }
        } else if self.kind != FileKind::Directory {
            self.fs.purse.nodes.give(1, &NODES);
        }
        // No path is known that leads to a file without a name; one may go by a directory or link, or lead to
        // a file by another name of it.
        if further || matches!(self.kind, FileKind::Directory | FileKind::Symlink) {
            path_cache::changed();
        }
    }

    fn node_of(&self, inode: Arc<dyn Inode>) -> Result<Arc<TmpInode>> {
        let node = inode.downcast::<TmpInode>().ok_or(Errno::EXDEV)?;
        if Arc::ptr_eq(&node.fs, &self.fs) {
            Ok(node)
        } else {
            Err(Errno::EXDEV)
        }
    }

    /// Whether this directory is `other` or lies below it.
    fn lies_below(&self, other: &TmpInode) -> bool {
        let mut at = self.this.upgrade();
        while let Some(node) = at {
            if node.ino == other.ino {
                return true;
            }
            at = node.home.lock().parent.upgrade();
        }
        false
    }

    fn set_home(&self, parent: &TmpInode, name: Arc<[u8]>) {
        let old = core::mem::replace(
            &mut *self.home.lock(),
            Home {
                parent: parent.this.clone(),
                name: Some(name),
            },
        );
        drop(old);
    }

    fn exchange(
        &self,
        name: &[u8],
        node: &Arc<TmpInode>,
        to: &Arc<TmpInode>,
        new_name: &[u8],
        other: &Arc<TmpInode>,
    ) -> Result<[Gone; 2]> {
        if other.kind == FileKind::Directory && self.lies_below(other) {
            return Err(Errno::EINVAL);
        }
        let (here, there) = (self.dir()?, to.dir()?);
        let back = here.lock().prepare(name, other.clone())?;
        let forth = there.lock().prepare(new_name, node.clone())?;
        node.set_home(to, forth.name.clone());
        other.set_home(self, back.name.clone());
        // Perhaps the same directory: one after the other.
        let left = here.lock().replace(back);
        let other_left = there.lock().replace(forth);
        let links = |n: &Arc<TmpInode>| i32::from(n.kind == FileKind::Directory);
        if self.ino != to.ino {
            let now = crate::fs::now();
            self.change_links(links(other) - links(node), now);
            to.change_links(links(node) - links(other), now);
        }
        Ok([left, other_left])
    }

    /// Changes what shows no permission but the times.
    fn change_quietly<R>(&self, change: impl FnOnce(&mut Meta) -> R) -> R {
        let mut meta = self.meta.lock();
        let done = change(&mut meta);
        self.shown.note_times(&meta);
        done
    }
}

/// Stores `data` as the regular file `inode` of a file system in memory, and tells `done` of each part
/// that it has stored. `ENOSPC`.
pub fn fill<'a>(
    inode: &Arc<dyn Inode>,
    data: &'a [u8],
    done: &mut dyn FnMut(&'a [u8]),
) -> Result<()> {
    /// Of so many bytes memory is needed twice.
    const PART: usize = 64 * abi::layout::PAGE;
    let node = inode.clone().downcast::<TmpInode>().ok_or(Errno::EINVAL)?;
    let store = node.store().ok_or(Errno::EINVAL)?;
    store.resize(0)?;
    let mut at = 0;
    for part in data.chunks(PART) {
        let mut buf = IoBuf::drain(part);
        store.write(at, &mut buf)?;
        if buf.remaining() > 0 {
            return Err(Errno::ENOSPC);
        }
        done(part);
        at += part.len() as u64;
    }
    Ok(())
}

impl TmpInode {
    /// Changes attributes. While the file has set-id bits or capabilities, no generated code writes it;
    /// `closes`: it may get them.
    fn change<R>(&self, closes: bool, change: impl FnOnce(&mut Meta) -> R) -> R {
        let Some(store) = self.store() else {
            let mut meta = self.meta.lock();
            let done = change(&mut meta);
            self.shown.publish(&meta);
            return done;
        };
        store.alone(|| {
            if closes {
                store.close(true);
            }
            let mut meta = self.meta.lock();
            let done = change(&mut meta);
            self.shown.publish(&meta);
            let closed = meta.loses();
            drop(meta);
            store.close(closed);
            done
        })
    }

    /// Makes a new, still unknown file sealable; a file that must never be executed is sealed so at once.
    pub fn let_seal(&self, executes: bool) {
        if let Some(store) = self.store() {
            store.start_with(if executes { 0 } else { F_SEAL_EXEC });
        }
    }

    /// Before a write: takes the file's capabilities away, and the set-id bits unless the running process may
    /// write such files. Where none runs, nobody may: what unpacks an archive sets the bits behind the bytes.
    fn drop_privileges(&self) {
        if !self.meta.lock().loses() {
            return;
        }
        let writer = caller::cred();
        let stripped = self.change(false, |meta| {
            if !writer.has(Capability::Fsetid) {
                meta.mode &= !S_ISUID;
                if meta.mode & 0o010 != 0 || !writer.in_group(meta.gid) {
                    meta.mode &= !S_ISGID;
                }
            }
            meta.strip()
        });
        drop(stripped);
    }
}

impl Drop for TmpInode {
    fn drop(&mut self) {
        if *self.handled.get_mut() {
            self.fs.handles.forget(self.ino);
        }
        if *self.watched.get_mut() != 0 {
            let unmounted = self.meta.get_mut().nlink != 0;
            fsnotify::gone((self.fs.dev, self.ino), unmounted);
        }
        // Of a tree that goes as a whole files have their names still.
        let nodes = match self.kind {
            FileKind::Directory => 1,
            _ => self.meta.get_mut().nlink.max(1) as usize,
        };
        self.fs.purse.nodes.give(nodes, &NODES);
        if let Body::Symlink(text) = &self.body {
            let pages = pages_of_text(text.bytes.len());
            self.fs.purse.pages.give(pages, &PAGES);
        }
        // A deep tree is taken apart here: recursion would be as deep as the tree, and a list of its
        // directories needs memory.
        let Body::Directory(dir) = &mut self.body else {
            return;
        };
        let mut contents = dir.contents();
        while let Some(entry) = contents.next() {
            // An inode that others have too goes when they let go of it.
            let node = entry.inode.downcast::<TmpInode>();
            if let Some(mut node) = node.and_then(Arc::into_inner)
                && let Body::Directory(inner) = &mut node.body
            {
                contents.join(inner.contents());
            }
        }
    }
}

/// Pages that the text of a symbolic link counts for: a short one is a part of its file.
fn pages_of_text(len: usize) -> usize {
    usize::from(len > 128)
}
