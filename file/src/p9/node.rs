//! The inode of a 9p file: its handle at the server, where it was found, and its attributes as last
//! reported.
//!
//! *Interface*: [`P9Inode`], through [`Inode`]; [`P9Inodes`] are those of one share that somebody has.
//!
//! A look-up asks the server, each time, and what it says is what the calls behind it go by: who opens or
//! looks at a path sees what the host has. There is one node for each file that somebody has, so that a
//! working directory follows when it is renamed here, and locks and named pipes meet. The server's handle may
//! stand for a path: a look-up by another name puts that one's in its place.

use abi::errno::{Errno, Result};
use abi::linux::{
    O_ACCMODE, O_DSYNC, O_NOFOLLOW, O_RDONLY, O_RDWR, O_SYNC, O_WRONLY, S_IFMT, S_ISGID, major,
    minor,
};
use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use sync::{Monitor, Once, epoch};

use super::P9Mount;
use super::backing::P9Backing;
use super::file::{P9Dir, P9File, P9Handle};
use super::session::{Fid, NewAttr, set};
use crate::fdtable::{each_description, replug_everywhere};
use crate::fs::attr::{Attr, FileKind, ModeBits, SetAttr};
use crate::fs::dev;
use crate::fs::file::OpenFile;
use crate::fs::inode::{DirSink, Inode, OpenRequest};
use crate::fs::rename_seq::RenameGuard;
use crate::fs::write_count::WriteCount;
use crate::page_cache::{self, CachedFile, ChangeMark, index};
use crate::pipe::fifo::FifoSlot;
use account::Cred;
use vm::fallible::{try_arc, try_insert, try_slice};

/// A file.
pub struct P9Inode {
    pub(super) shared: Arc<P9Mount>,
    number: u64,
    kind: FileKind,
    /// The part that changes.
    state: Monitor<Heard>,
    /// Open for reading and writing since it was made, for the first who opens it.
    fresh: Monitor<Option<(Arc<Fid>, u32)>>,
    fifo: FifoSlot,
    busy: WriteCount,
    /// Its pages, since it was opened.
    pages: Once<Arc<CachedFile>>,
    this: Once<Weak<P9Inode>>,
}

/// The state of a file, as last heard.
struct Heard {
    fid: Arc<Fid>,
    attr: Attr,
    /// The directory, and the name there; none of the root, nor of what was removed.
    home: Option<(Arc<P9Inode>, Arc<[u8]>)>,
    /// The mark from before it was asked for by this name, until it is opened.
    seen: Option<ChangeMark>,
}

/// A file that somebody has, and the directory and name by which it was found last.
struct Known {
    node: Weak<P9Inode>,
    above: u64,
    name: Arc<[u8]>,
}

/// The files of a share that somebody has, by their numbers. Nothing is dropped while they are held.
#[derive(Default)]
pub struct P9Inodes(Monitor<BTreeMap<u64, Known>>);

impl P9Inodes {
    /// The node called `name` in the directory with number `above`. With `forget` it is not found by that
    /// name any more.
    fn called(&self, above: u64, name: &[u8], forget: bool) -> Option<Arc<P9Inode>> {
        // Bound: **linear**, where a name is removed or moved: the files of one share that somebody has.
        let mut nodes = self.0.lock();
        let is = |known: &Known| known.above == above && *known.name == *name;
        let number = nodes
            .iter()
            .find(|(_, known)| is(known))
            .map(|(number, _)| *number)?;
        let node = nodes.get(&number)?.node.upgrade();
        if forget {
            nodes.remove(&number);
        }
        node
    }

    /// It was found elsewhere.
    fn moved(&self, number: u64, above: u64, name: &Arc<[u8]>) {
        let mut nodes = self.0.lock();
        if let Some(known) = nodes.get_mut(&number) {
            known.above = above;
            known.name = name.clone();
        }
    }
}

impl Drop for P9Inode {
    fn drop(&mut self) {
        // Bound: a look in the tree of those files.
        let mut nodes = self.shared.nodes.0.lock();
        // Another may have come in its place.
        let own = (nodes.get(&self.number)).is_some_and(|known| known.node.strong_count() == 0);
        if own {
            nodes.remove(&self.number);
        }
    }
}

impl P9Inode {
    /// The root directory. ENOTDIR.
    pub fn root(shared: &Arc<P9Mount>, fid: Arc<Fid>) -> Result<Arc<P9Inode>> {
        let attr = shared.attr(&fid)?;
        if attr.kind() != FileKind::Directory {
            return Err(Errno::ENOTDIR);
        }
        Self::new(shared, fid, attr, None)
    }

    fn new(
        shared: &Arc<P9Mount>,
        fid: Arc<Fid>,
        attr: Attr,
        home: Option<(Arc<P9Inode>, Arc<[u8]>)>,
    ) -> Result<Arc<P9Inode>> {
        let node = try_arc(P9Inode {
            shared: shared.clone(),
            number: attr.ino,
            kind: attr.kind(),
            state: Monitor::new(Heard {
                fid,
                attr,
                home,
                seen: None,
            }),
            fresh: Monitor::new(None),
            fifo: FifoSlot::new(),
            busy: WriteCount::new(),
            pages: Once::new(),
            this: Once::new(),
        })?;
        // It is new, so nobody was faster.
        let _ours = node.this.set(Arc::downgrade(&node));
        Ok(node)
    }

    /// The node of what was found as `name` here: the one that there is, or a new one.
    fn found(
        &self,
        name: &[u8],
        fid: Arc<Fid>,
        attr: Attr,
        seen: ChangeMark,
    ) -> Result<Arc<P9Inode>> {
        let home = (self.here()?, try_slice(name)?);
        let state = (fid.clone(), attr, home.clone());
        let new = Self::new(&self.shared, fid, attr, Some(home))?;
        // Bound: a few words of one file.
        new.state.lock().seen = Some(seen);
        let mut other_kind = None;
        let mut nodes = self.shared.nodes.0.lock();
        let there = nodes.get(&attr.ino).and_then(|known| known.node.upgrade());
        let known = match there {
            Some(node) if node.kind == new.kind => Some(node),
            other => {
                other_kind = other;
                let known = Known {
                    node: Arc::downgrade(&new),
                    above: self.number,
                    name: state.2.1.clone(),
                };
                let inserted = try_insert(&mut nodes, attr.ino, known);
                drop(nodes);
                drop(other_kind.take());
                inserted?;
                return Ok(new);
            }
        };
        drop(nodes);
        drop(other_kind);
        let node = known.ok_or(Errno::EIO)?;
        self.shared
            .nodes
            .moved(node.number, self.number, &state.2.1);
        let (fid, attr, home) = state;
        let heard = Heard {
            fid: fid.clone(),
            attr,
            home: Some(home),
            seen: Some(seen),
        };
        // Bound: a few words of one file.
        let old = core::mem::replace(&mut *node.state.lock(), heard);
        drop(old);
        if node.pages().is_some_and(|pages| pages.is_dirty()) {
            // The host does not know yet. A failure to tell it is noted.
            let _as_heard = node.refresh(&fid, false);
        }
        Ok(node)
    }

    /// Itself, counted.
    fn here(&self) -> Result<Arc<P9Inode>> {
        let this = self.this.get().and_then(Weak::upgrade);
        this.ok_or(Errno::EIO)
    }

    /// The server's handle.
    pub(super) fn fid(&self) -> Arc<Fid> {
        // Bound: a few words of one file.
        self.state.lock().fid.clone()
    }

    /// The same, of a directory. ENOTDIR.
    fn dir(&self) -> Result<Arc<Fid>> {
        match self.kind {
            FileKind::Directory => Ok(self.fid()),
            _ => Err(Errno::ENOTDIR),
        }
    }

    /// Asks the server for the attributes, by `fid`, once it has all that was written. `ours`: what has
    /// changed since it was asked is known to be our own doing.
    pub(super) fn refresh(&self, fid: &Fid, ours: bool) -> Result<Attr> {
        /// Others who write make an answer worthless, so often at most.
        const TURNS: usize = 4;
        let pages = self.pages().filter(|pages| !pages.is_long());
        let mut ours = ours;
        for _ in 0..TURNS {
            if let Some(pages) = &pages
                && pages.is_dirty()
            {
                pages.flush();
                ours = true;
            }
            let seen = page_cache::mark();
            let attr = self.shared.attr(fid)?;
            if attr.kind() != self.kind {
                return Err(Errno::EIO);
            }
            self.state.lock().attr = attr;
            match &pages {
                None => return Ok(attr),
                Some(pages) if CachedFile::would_be_long(attr.size) => self.outgrow(pages),
                Some(pages) => match pages.revalidate(&attr, seen, ours) {
                    Ok(true) => return Ok(attr),
                    Ok(false) => {}
                    Err(_) => self.outgrow(pages),
                },
            }
        }
        Ok(self.attr())
    }

    /// Its pages, if it was ever opened.
    pub(super) fn pages(&self) -> Option<Arc<CachedFile>> {
        let known = || index::known(self.id());
        self.pages.get().cloned().or_else(known)
    }

    /// Its pages, for who opens it. None: it is too long for them, or there is no memory.
    fn to_open(&self, fid: &Fid) -> Result<Option<Arc<CachedFile>>> {
        let size = self.state.lock().attr.size;
        if CachedFile::would_be_long(size) && self.pages().is_none() {
            return Ok(None);
        }
        let make = || {
            let host = P9Backing::new(self.shared.session.clone())?;
            CachedFile::new(self.id(), host, self.shared.errors.clone())
        };
        let pages = match self.pages.get() {
            Some(pages) => pages.clone(),
            None => {
                let found = index::find(self.id(), make)?;
                let _first = self.pages.set(found);
                self.pages.get().ok_or(Errno::EIO)?.clone()
            }
        };
        let (heard, attr) = {
            let mut state = self.state.lock();
            (state.seen.take(), state.attr)
        };
        // Just looked up: the host need not be asked again.
        let fresh = match heard {
            Some(seen) if !pages.is_long() && !CachedFile::would_be_long(attr.size) => {
                pages.revalidate(&attr, seen, false).unwrap_or(false)
            }
            _ => false,
        };
        if !fresh {
            // A handle by a path that is gone is told nothing.
            let _as_heard = self.refresh(fid, false);
        }
        Ok((!pages.is_long()).then_some(pages))
    }

    /// Nothing is kept of it any more, and no routine copies from there: it has become too long.
    pub(super) fn outgrow(&self, pages: &Arc<CachedFile>) {
        pages.set_long();
        each_description(|of| {
            let opened = of.file_as::<P9File>();
            if opened.is_some_and(|opened| opened.is_of(pages)) {
                replug_everywhere(of);
            }
        });
        // All threads that were inside a routine have left.
        // Bound: a grace period, asleep, when a file becomes too long for its pages to be kept.
        epoch::synchronize();
        pages.empty();
    }

    fn node_of(&self, inode: &Arc<dyn Inode>) -> Result<Arc<P9Inode>> {
        let node = inode.clone().downcast::<P9Inode>().ok_or(Errno::EXDEV)?;
        match Arc::ptr_eq(&node.shared, &self.shared) {
            true => Ok(node),
            false => Err(Errno::EXDEV),
        }
    }

    /// The group of what `cred` makes here, and whether a directory hands that on.
    fn group(&self, cred: &Cred) -> (u32, bool) {
        let above = self.state.lock().attr;
        match above.mode & S_ISGID {
            0 => (self.shared.owner.to_host(0, cred.fsgid).1, false),
            _ => (self.shared.owner.to_host(0, above.gid).1, true),
        }
    }

    /// The new node `name` belongs to its maker, as far as the host allows.
    fn own(&self, name: &[u8], cred: &Cred) -> Result<Arc<P9Inode>> {
        let session = &self.shared.session;
        let fid = session.walk(&*self.dir()?, Some(name))?;
        if cred.fsuid != 0 {
            let (uid, _) = self.shared.owner.to_host(cred.fsuid, 0);
            let new = NewAttr {
                valid: set::UID,
                uid,
                ..NewAttr::default()
            };
            // A host that is not the superuser's cannot.
            let _refused = session.set(&fid, &new);
        }
        let seen = page_cache::mark();
        let attr = self.shared.attr(&fid)?;
        self.found(name, fid, attr, seen)
    }

    /// Removes a name.
    fn remove(&self, name: &[u8], directory: bool) -> Result<()> {
        self.shared.session.unlink(&*self.dir()?, name, directory)?;
        if let Some(node) = self.shared.nodes.called(self.number, name, true) {
            let mut state = node.state.lock();
            state.attr.nlink = match directory {
                true => 0,
                false => state.attr.nlink.saturating_sub(1),
            };
            let gone = state.attr.nlink == 0;
            // It has no path any more, but `..` still leads to its old directory.
            if gone && let Some((_, name)) = &mut state.home {
                *name = Arc::default();
            }
            drop(state);
            if gone {
                index::forget(node.id());
            }
        }
        Ok(())
    }
}

impl Inode for P9Inode {
    fn attr(&self) -> Attr {
        let mut attr = self.state.lock().attr;
        let pages = self.pages.get().filter(|pages| pages.is_dirty());
        if let Some(pages) = pages {
            attr.size = pages.size();
        }
        attr
    }

    fn id(&self) -> (u64, u64) {
        (self.shared.dev, self.number)
    }

    fn kind(&self) -> FileKind {
        self.kind
    }

    fn set_attr(&self, wanted: &SetAttr) -> Result<()> {
        let (fid, seen) = {
            let state = self.state.lock();
            (state.fid.clone(), ModeBits::of(&state.attr))
        };
        if wanted.seen.is_some_and(|bits| bits != seen) {
            return Err(Errno::EAGAIN);
        }
        let owner = &self.shared.owner;
        let mut new = NewAttr::default();
        let mut bit = |is: bool, bit| new.valid |= if is { bit } else { 0 };
        bit(wanted.mode.is_some(), set::MODE);
        bit(wanted.uid.is_some(), set::UID);
        bit(wanted.gid.is_some(), set::GID);
        bit(wanted.atime.is_some(), set::ATIME);
        bit(wanted.mtime.is_some(), set::MTIME);
        new.mode = self.kind.mode_bits() | wanted.mode.unwrap_or(0) & 0o7777;
        (new.uid, new.gid) = owner.to_host(wanted.uid.unwrap_or(0), wanted.gid.unwrap_or(0));
        if wanted.mtime.is_some()
            && let Some(pages) = self.pages()
        {
            // A later store would change the time.
            pages.flush();
        }
        new.atime = wanted.atime.unwrap_or_default();
        new.mtime = wanted.mtime.unwrap_or_default();
        if new.valid != 0 {
            self.shared.session.set(&fid, &new)?;
        }
        if let Some(pages) = self.pages() {
            pages.touched();
        }
        self.refresh(&fid, true).map(drop)
    }

    fn open(self: Arc<Self>, how: OpenRequest) -> Result<Arc<OpenFile>> {
        let session = &self.shared.session;
        match self.kind {
            FileKind::Regular => {
                // Bound: one handle.
                let made = self.fresh.lock().take();
                // A mode that neither reads nor writes is none of the host's.
                let mode = match how.flags & O_ACCMODE {
                    O_ACCMODE => O_RDWR,
                    mode => mode,
                };
                let handle = match made {
                    Some((fid, unit)) => P9Handle {
                        fid,
                        unit,
                        reads: true,
                        writes: true,
                    },
                    None => self.handle(mode, how.flags & (O_SYNC | O_DSYNC | O_NOFOLLOW))?,
                };
                // Bytes that each write brings to the host at once are not kept.
                let through = how.flags & (O_SYNC | O_DSYNC) == 0 && handle.reads;
                let pages = self.to_open(&handle.fid)?;
                let opened = P9File::new(self.clone(), handle, pages, through);
                let file = try_arc(opened)?;
                Ok(how.finish(file))
            }
            FileKind::Directory => {
                let fid = session.walk(&self.fid(), None)?;
                session.open(&fid, abi::linux::O_RDONLY)?;
                Ok(how.finish(try_arc(P9Dir::new(fid, self.shared.errors.clone()))?))
            }
            FileKind::Fifo => self.fifo.open(how),
            FileKind::Char => dev::open(self.attr().rdev, how),
            FileKind::Symlink => Err(Errno::ELOOP),
            FileKind::Block | FileKind::Socket => Err(Errno::ENXIO),
        }
    }

    fn truncate(&self, size: u64) -> Result<()> {
        match self.kind {
            FileKind::Regular => {}
            FileKind::Directory => return Err(Errno::EISDIR),
            _ => return Err(Errno::EINVAL),
        }
        let fid = self.fid();
        super::file::admit_length(self.attr().size, size)?;
        self.resize(&fid, size)
    }

    fn lookup(self: Arc<Self>, name: &[u8]) -> Result<Arc<dyn Inode>> {
        let seen = page_cache::mark();
        let fid = self.shared.session.walk(&*self.dir()?, Some(name))?;
        let attr = self.shared.attr(&fid)?;
        Ok(self.found(name, fid, attr, seen)?)
    }

    fn parent(&self) -> Option<Arc<dyn Inode>> {
        let state = self.state.lock();
        let above = state.home.as_ref().map(|(above, _)| above.clone());
        above.map(|node| node as Arc<dyn Inode>)
    }

    fn name(&self) -> Option<Arc<[u8]>> {
        let state = self.state.lock();
        let name = state.home.as_ref().map(|(_, name)| name.clone());
        name.filter(|name| !name.is_empty())
    }

    fn create(
        &self,
        name: &[u8],
        mode: u32,
        umask: u32,
        rdev: u64,
        cred: &Cred,
    ) -> Result<Arc<dyn Inode>> {
        let dir = self.dir()?;
        let session = &self.shared.session;
        let kind = FileKind::of_mode(mode).ok_or(Errno::EINVAL)?;
        let (gid, hands_on) = self.group(cred);
        let mut bits = mode & 0o7777 & !umask;
        match kind {
            FileKind::Regular => {
                let fid = session.walk(&dir, None)?;
                let flags = O_RDWR | abi::linux::O_CREAT | abi::linux::O_EXCL;
                let unit = session.create(&fid, name, flags, S_IFMT & mode | bits, gid)?;
                let node = self.own(name, cred)?;
                // Bound: one handle.
                let old = node.fresh.lock().replace((fid, unit));
                drop(old);
                return Ok(node);
            }
            FileKind::Directory => {
                if hands_on {
                    bits |= S_ISGID;
                }
                session.mkdir(&dir, name, bits, gid)?;
            }
            FileKind::Symlink => return Err(Errno::EINVAL),
            _ => {
                let mode = kind.mode_bits() | bits;
                session.mknod(&dir, name, mode, (major(rdev), minor(rdev)), gid)?;
            }
        }
        Ok(self.own(name, cred)?)
    }

    fn symlink(&self, name: &[u8], target: &[u8], cred: &Cred) -> Result<Arc<dyn Inode>> {
        let dir = self.dir()?;
        let (gid, _) = self.group(cred);
        self.shared.session.symlink(&dir, name, target, gid)?;
        Ok(self.own(name, cred)?)
    }

    fn link(&self, name: &[u8], inode: Arc<dyn Inode>) -> Result<()> {
        let node = self.node_of(&inode)?;
        if node.kind == FileKind::Directory {
            return Err(Errno::EPERM);
        }
        let fid = node.fid();
        self.shared.session.link(&*self.dir()?, name, &fid)?;
        // Made, and all that is not known yet is how many names it has.
        let _as_before = node.refresh(&fid, false);
        Ok(())
    }

    fn unlink(&self, name: &[u8]) -> Result<()> {
        self.remove(name, false)
    }

    fn rmdir(&self, name: &[u8]) -> Result<()> {
        self.remove(name, true)
    }

    fn rename(
        &self,
        name: &[u8],
        new_dir: &Arc<dyn Inode>,
        new_name: &[u8],
        flags: u32,
        _cred: &Cred,
    ) -> Result<()> {
        let to = self.node_of(new_dir)?;
        let (from_fid, to_fid) = (self.dir()?, to.dir()?);
        if flags != 0 {
            return Err(Errno::EINVAL);
        }
        let kept = try_slice(new_name)?;
        let _moving = RenameGuard::begin();
        self.shared
            .session
            .rename((&from_fid, name), (&to_fid, new_name))?;
        let nodes = &self.shared.nodes;
        // The node that had the name is gone.
        let gone = nodes.called(to.number, new_name, true);
        if let Some(node) = nodes.called(self.number, name, false) {
            nodes.moved(node.number, to.number, &kept);
            let old = node.state.lock().home.replace((to, kept));
            drop(old);
        }
        if let Some(node) = gone {
            let mut state = node.state.lock();
            state.attr.nlink = state.attr.nlink.saturating_sub(1);
            let gone = state.attr.nlink == 0;
            drop(state);
            if gone {
                index::forget(node.id());
            }
        }
        Ok(())
    }

    fn readlink(&self) -> Result<Vec<u8>> {
        match self.kind {
            FileKind::Symlink => self.shared.session.readlink(&self.fid()),
            _ => Err(Errno::EINVAL),
        }
    }

    fn readdir(&self, from: u64, sink: &mut dyn DirSink) -> Result<u64> {
        let session = &self.shared.session;
        let fid = session.walk(&*self.dir()?, None)?;
        session.open(&fid, abi::linux::O_RDONLY)?;
        session.readdir(&fid, from, sink)
    }

    fn busy(&self) -> Option<&WriteCount> {
        (self.kind == FileKind::Regular).then_some(&self.busy)
    }
}

impl P9Inode {
    /// Sets the length, by `fid`.
    pub(super) fn resize(&self, fid: &Fid, size: u64) -> Result<()> {
        let new = NewAttr {
            valid: set::SIZE,
            size,
            ..NewAttr::default()
        };
        let there = || self.shared.session.set(fid, &new);
        let pages = self.pages().filter(|pages| !pages.is_long());
        match pages {
            Some(pages) if pages.admit(size).is_ok() => pages.resize(size, there)?,
            Some(pages) => {
                self.outgrow(&pages);
                there()?;
            }
            None => there()?,
        }
        // A handle by a path that is gone still has an open file.
        self.state.lock().attr.size = size;
        let _as_set = self.refresh(fid, true);
        Ok(())
    }

    /// Opens it at the host, for `mode` and with `flags`. For writing alone it is opened for both if it may
    /// be, since a page of which a part is written is read first.
    fn handle(&self, mode: u32, flags: u32) -> Result<P9Handle> {
        let session = &self.shared.session;
        let both = match mode {
            O_WRONLY => &[O_RDWR, O_WRONLY][..],
            _ => &[mode],
        };
        let mut result = Err(Errno::EIO);
        for &mode in both {
            let fid = session.walk(&self.fid(), None)?;
            result = session.open(&fid, mode | flags).map(|unit| P9Handle {
                fid,
                unit,
                reads: mode != O_WRONLY,
                writes: mode != O_RDONLY,
            });
            if result.is_ok() {
                break;
            }
        }
        result
    }
}
