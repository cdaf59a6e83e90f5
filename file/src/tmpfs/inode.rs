//! Nodes in memory as the file system's users see them.
//!
//! *Interface*: [`Inode`] of a [`TmpInode`]. Every change of names holds the file system's one `tree`
//! monitor, so a rename sees an unchanging tree; a look-up takes only the monitor of its directory.

use super::budget::{NODES, PAGES};
use super::dir::{self, Directory};
use super::page_store::PageStore;
use super::{Body, Gone, Text, TmpInode, pages_of_text};
use crate::fs::acl::{Acl, AclKind};
use crate::fs::attr::{Attr, FileKind, ModeBits, SetAttr};
use crate::fs::dev;
use crate::fs::directory::Directory as OpenDirectory;
use crate::fs::file::{File, OpenFile};
use crate::fs::inactive::Inactive;
use crate::fs::inode::{
    DirEntry, DirSink, FileHandle, Inode, OpenRequest, XattrFlags, fixed_entries,
};
use crate::fs::meta;
use crate::fs::path_cache;
use crate::fs::perm;
use crate::fs::published::Published;
use crate::fs::rename_seq::RenameGuard;
use crate::fs::write_count::WriteCount;
use crate::fs::xattrs;
use crate::page_cache::unmap;
use crate::pipe::fifo::FifoSlot;
use abi::errno::{Errno, Result};
use abi::linux::{DT_DIR, F_SEAL_EXEC, RENAME_EXCHANGE, RENAME_NOREPLACE, RENAME_WHITEOUT};
use account::Cred;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::ptr;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use sync::hash_table::Removed;
use vm::fallible::{try_copy, try_slice};

/// The node behind an entry of a directory in memory.
pub(super) fn node(inode: &Arc<dyn Inode>) -> Option<&TmpInode> {
    let any: &dyn Any = &**inode;
    any.downcast_ref()
}

fn counted(inode: &Arc<dyn Inode>) -> Option<Arc<TmpInode>> {
    node(inode)?.this.upgrade()
}

impl Inode for TmpInode {
    fn attr(&self) -> Attr {
        self.settle();
        let (size, blocks) = match &self.body {
            Body::Regular(store) => (store.size(), store.blocks().load(Ordering::Relaxed)),
            Body::Directory(dir) => (dir.size().load(Ordering::Relaxed), 0),
            Body::Symlink(text) => (text.bytes.len() as u64, 0),
            _ => (0, 0),
        };
        // Bound: a few words; for extended attributes, those of one file.
        self.attr_of(&self.meta.lock(), size, blocks)
    }

    fn id(&self) -> (u64, u64) {
        (self.fs.dev, self.ino)
    }

    fn kind(&self) -> FileKind {
        self.kind
    }

    fn bits(&self) -> ModeBits {
        self.meta.lock().bits()
    }

    fn permits(&self, cred: &Cred, want: u32) -> Result<()> {
        let meta = self.meta.lock();
        perm::check(cred, meta.bits(), meta.access_list(), want)
    }

    fn published(&self) -> Option<&Published> {
        Some(&self.shown)
    }

    fn set_attr(&self, set: &SetAttr) -> Result<()> {
        let sealed = self.store().is_some_and(|s| s.seals() & F_SEAL_EXEC != 0);
        if let (Some(mode), true) = (set.mode, sealed)
            && (mode ^ self.meta.lock().mode) & 0o111 != 0
        {
            return Err(Errno::EPERM);
        }
        let stripped = if set.mode.is_some() || set.strip {
            let closes = set.mode.is_some_and(|mode| mode & meta::SET_ID != 0);
            self.change(closes, |meta| meta.set(set))?
        } else {
            let mut meta = self.meta.lock();
            let done = meta.set(set);
            self.shown.publish(&meta);
            drop(meta);
            done?
        };
        drop(stripped);
        if set.mode.is_some() || set.uid.is_some() || set.gid.is_some() {
            path_cache::changed();
        }
        Ok(())
    }

    fn as_regular(self: Arc<Self>) -> Option<Arc<dyn File>> {
        match self.body {
            Body::Regular(_) => Some(self),
            _ => None,
        }
    }

    fn open(self: Arc<Self>, how: OpenRequest) -> Result<Arc<OpenFile>> {
        match &self.body {
            Body::Regular(_) => Ok(how.finish(self.clone())),
            Body::Directory(_) => Ok(how.finish(Arc::new(OpenDirectory))),
            Body::Device(rdev) if self.kind == FileKind::Char => dev::open(*rdev, how),
            Body::Fifo(slot) => slot.open(how),
            Body::Symlink(_) => Err(Errno::ELOOP),
            Body::Device(_) | Body::Socket => Err(Errno::ENXIO),
        }
    }

    fn truncate(&self, size: u64) -> Result<()> {
        match &self.body {
            Body::Regular(store) => {
                self.admit_length(size)?;
                let shorter = size < store.size();
                self.drop_privileges();
                store.resize(size)?;
                if shorter && self.mapped.load(Ordering::Acquire) {
                    unmap::forget_beyond(self.id(), size);
                }
                self.touch();
                Ok(())
            }
            Body::Directory(_) => Err(Errno::EISDIR),
            _ => Err(Errno::EINVAL),
        }
    }

    fn lookup(self: Arc<Self>, name: &[u8]) -> Result<Arc<dyn Inode>> {
        // Bound: one directory, as in `dir.rs`.
        match self.dir()?.lock().get(name) {
            Some(inode) => Ok(inode.clone()),
            None => Err(Errno::ENOENT),
        }
    }

    fn parent(&self) -> Option<Arc<dyn Inode>> {
        // Bound: a few words.
        let above = self.home.lock().parent.upgrade();
        above.map(|node| node as Arc<dyn Inode>)
    }

    fn is_in(&self, directory: &dyn Inode) -> bool {
        let home = self.home.lock();
        ptr::addr_eq(home.parent.as_ptr(), directory)
    }

    fn name(&self) -> Option<Arc<[u8]>> {
        // Bound: one directory, as in `dir.rs`.
        if self.dir().is_ok_and(|dir| dir.lock().is_dead()) {
            return None;
        }
        self.home.lock().name.clone()
    }

    fn create(
        &self,
        name: &[u8],
        mode: u32,
        umask: u32,
        rdev: u64,
        cred: &Cred,
    ) -> Result<Arc<dyn Inode>> {
        let kind = FileKind::of_mode(mode).ok_or(Errno::EINVAL)?;
        if kind == FileKind::Symlink {
            return Err(Errno::EINVAL);
        }
        // Bound: **global** in one file system: one change of names, and for a rename the way up to the root.
        let tree = self.fs.tree.lock();
        let now = crate::fs::now();
        let node = if kind == FileKind::Regular {
            // Of its own: such a body is long, and is made where it stays.
            let body = || Body::Regular(PageStore::new(&self.fs.purse));
            self.make((mode, umask), cred, 1, kind, now, body)?
        } else {
            let nlink = if kind == FileKind::Directory { 2 } else { 1 };
            let body = || match kind {
                FileKind::Directory => Body::Directory(Directory::new()),
                FileKind::Char | FileKind::Block => Body::Device(rdev),
                FileKind::Fifo => Body::Fifo(FifoSlot::new()),
                _ => Body::Socket,
            };
            self.make((mode, umask), cred, nlink, kind, now, body)?
        };
        let gone = self.enter(name, &node, now)?;
        drop(tree);
        drop(gone);
        Ok(node)
    }

    fn symlink(&self, name: &[u8], target: &[u8], cred: &Cred) -> Result<Arc<dyn Inode>> {
        let tree = self.fs.tree.lock();
        let pages = pages_of_text(target.len());
        let taken = self.fs.purse.pages.take(pages, &PAGES)?;
        let text = Text {
            bytes: try_copy(target)?,
            len: AtomicU64::new(target.len() as u64),
        };
        let body = || Body::Symlink(text);
        let now = crate::fs::now();
        let node = self.make((0o777, 0), cred, 1, FileKind::Symlink, now, body)?;
        taken.keep();
        let gone = self.enter(name, &node, now)?;
        drop(tree);
        drop(gone);
        Ok(node)
    }

    fn tmpfile(&self, name: &[u8], mode: u32, umask: u32, cred: &Cred) -> Result<Arc<dyn Inode>> {
        self.dir()?;
        let body = || Body::Regular(PageStore::new(&self.fs.purse));
        let node = self.make(
            (mode, umask),
            cred,
            0,
            FileKind::Regular,
            crate::fs::now(),
            body,
        )?;
        node.set_home(self, try_slice(name)?);
        Ok(node)
    }

    fn let_link(&self) {
        self.nameless.store(true, Ordering::Relaxed);
    }

    fn link(&self, name: &[u8], inode: Arc<dyn Inode>) -> Result<()> {
        let node = self.node_of(inode)?;
        if node.kind == FileKind::Directory {
            return Err(Errno::EPERM);
        }
        let tree = self.fs.tree.lock();
        // A file's first name is counted with the file.
        // Bound: a word.
        let further = usize::from(node.meta.lock().nlink != 0);
        if further == 0 && !node.nameless.load(Ordering::Relaxed) {
            return Err(Errno::ENOENT);
        }
        let taken = self.fs.purse.nodes.take(further, &NODES)?;
        let now = crate::fs::now();
        let gone = self.enter(name, &node, now)?;
        taken.keep();
        node.change_links(1, now);
        node.nameless.store(false, Ordering::Relaxed);
        drop(tree);
        drop(gone);
        Ok(())
    }

    fn unlink(&self, name: &[u8]) -> Result<()> {
        let tree = self.fs.tree.lock();
        let mut dir = self.dir()?.lock();
        let gone = dir.remove(name, |entry| entry.kind != FileKind::Directory);
        let Some(entry) = gone.get() else {
            return Err(match dir.get(name) {
                Some(_) => Errno::EISDIR,
                None => Errno::ENOENT,
            });
        };
        drop(dir);
        let now = crate::fs::now();
        node(&entry.inode).ok_or(Errno::ENOENT)?.lost_name(now);
        self.touch_at(now);
        drop(tree);
        drop(gone);
        Ok(())
    }

    fn rmdir(&self, name: &[u8]) -> Result<()> {
        let tree = self.fs.tree.lock();
        let mut dir = self.dir()?.lock();
        let there = dir.get(name).and_then(node).ok_or(Errno::ENOENT)?;
        if !there.dir()?.lock().is_empty() {
            return Err(Errno::ENOTEMPTY);
        }
        let gone = dir.remove(name, |_| true);
        drop(dir);
        let now = crate::fs::now();
        gone.get()
            .and_then(|entry| node(&entry.inode))
            .ok_or(Errno::ENOENT)?
            .lost_name(now);
        self.change_links(-1, now);
        self.touch_at(now);
        drop(tree);
        drop(gone);
        Ok(())
    }

    fn rename(
        &self,
        name: &[u8],
        new_dir: &Arc<dyn Inode>,
        new_name: &[u8],
        flags: u32,
        cred: &Cred,
    ) -> Result<()> {
        let to = self.node_of(new_dir.clone())?;
        // Dropped last, with the monitor free: the removed entry and its inode.
        let mut gone: [Gone; 2] = [Removed::nothing(), Removed::nothing()];
        let _tree = self.fs.tree.lock();
        let now = crate::fs::now();
        let (here, there) = (self.dir()?, to.dir()?);
        // Bound: one directory, as in `dir.rs`.
        let node = here
            .lock()
            .get(name)
            .and_then(counted)
            .ok_or(Errno::ENOENT)?;
        // Bound: one directory, as in `dir.rs`.
        let other = there.lock().get(new_name).and_then(counted);
        if flags & RENAME_NOREPLACE != 0 && other.is_some() {
            return Err(Errno::EEXIST);
        }
        if node.kind == FileKind::Directory && to.lies_below(&node) {
            return Err(Errno::EINVAL);
        }
        let other_kind = other.as_ref().map(|other| other.kind);
        let moved = [Some(node.kind), other_kind].contains(&Some(FileKind::Directory));
        let _moving = moved.then(RenameGuard::begin);
        if flags & RENAME_EXCHANGE != 0 {
            let other = other.ok_or(Errno::ENOENT)?;
            [gone[0], gone[1]] = self.exchange(name, &node, &to, new_name, &other)?;
        } else {
            if let Some(other) = &other {
                if other.ino == node.ino {
                    return Ok(());
                }
                match (node.kind == FileKind::Directory, &other.body) {
                    (true, Body::Directory(dir)) => {
                        if !dir.lock().is_empty() {
                            return Err(Errno::ENOTEMPTY);
                        }
                    }
                    (true, _) => return Err(Errno::ENOTDIR),
                    (false, Body::Directory(_)) => return Err(Errno::EISDIR),
                    (false, _) => {}
                }
            }
            let whiteout = match flags & RENAME_WHITEOUT {
                0 => None,
                _ => Some(self.make((0, 0), cred, 1, FileKind::Char, now, || Body::Device(0))?),
            };
            let left = match whiteout {
                Some(whiteout) => Some((here.lock().prepare(name, whiteout.clone())?, whiteout)),
                None => None,
            };
            let links = i32::from(node.kind == FileKind::Directory);
            let new_name = match other {
                Some(other) => {
                    let entry = there.lock().prepare(new_name, node.clone())?;
                    let new_name = entry.name.clone();
                    gone[0] = there.lock().replace(entry);
                    other.lost_name(now);
                    new_name
                }
                None => {
                    let (new_name, outgrown) = there.lock().add(new_name, node.clone())?;
                    gone[0] = outgrown;
                    to.change_links(links, now);
                    new_name
                }
            };
            gone[1] = match left {
                Some((entry, whiteout)) => {
                    whiteout.set_home(self, entry.name.clone());
                    here.lock().replace(entry)
                }
                None => here.lock().remove(name, |_| true),
            };
            self.change_links(-links, now);
            node.set_home(&to, new_name);
        }
        node.change_links(0, now);
        self.touch_at(now);
        if to.ino != self.ino {
            to.touch_at(now);
        }
        path_cache::changed();
        Ok(())
    }

    fn is_nameless(&self) -> bool {
        self.meta.lock().nlink == 0
    }

    fn handle(&self) -> Result<FileHandle> {
        TmpInode::handle(self)
    }

    fn readlink(&self) -> Result<Vec<u8>> {
        match &self.body {
            Body::Symlink(text) => try_copy(&text.bytes),
            _ => Err(Errno::EINVAL),
        }
    }

    fn readdir(&self, from: u64, sink: &mut dyn DirSink) -> Result<u64> {
        let above = self.parent().map_or(self.ino, |p| p.id().1);
        let dots: [(&[u8], u64, u8); 2] = [(b".", self.ino, DT_DIR), (b"..", above, DT_DIR)];
        let at = match fixed_entries(&dots, from, sink) {
            Ok(at) => at,
            Err(full) => return Ok(full),
        };
        let dir = self.dir()?.lock();
        if dir.is_dead() {
            return Err(Errno::ENOENT);
        }
        Ok(match sink.records() {
            Some(records) => list(&dir, at, |entry| records.put(&entry)),
            None => list(&dir, at, |entry| sink.entry(entry)),
        })
    }

    fn attribute(&self, name: &[u8]) -> Result<Vec<u8>> {
        xattrs::known(name)?;
        self.meta.lock().value(name)
    }

    fn set_attribute(&self, name: &[u8], value: Option<&[u8]>, how: XattrFlags) -> Result<()> {
        xattrs::known(name)?;
        let closes = name == xattrs::CAPABILITY && value.is_some();
        let value = value.map(|bytes| xattrs::XattrValue::new(name, bytes));
        let new = value.transpose()?;
        let old = if name == xattrs::CAPABILITY {
            self.change(closes, |meta| meta.set_value(name, new, how))
        } else {
            self.change_quietly(|meta| meta.set_value(name, new, how))
        };
        old.map(drop)
    }

    fn attributes(&self, all: bool, each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        self.meta.lock().names(all, each)
    }

    fn list(&self, which: AclKind) -> Result<Vec<u8>> {
        if self.kind == FileKind::Symlink {
            return Err(Errno::EOPNOTSUPP);
        }
        self.meta.lock().list(which)
    }

    fn set_list(
        &self,
        which: AclKind,
        list: Option<Acl>,
        seen: ModeBits,
        keep_group: bool,
    ) -> Result<()> {
        if self.kind == FileKind::Symlink {
            return Err(Errno::EOPNOTSUPP);
        }
        if which == AclKind::Default && self.kind != FileKind::Directory {
            return if list.is_some() {
                Err(Errno::EACCES)
            } else {
                Ok(())
            };
        }
        let list = list.map(xattrs::StoredAcl::new).transpose()?;
        let old = match which {
            AclKind::Access => self.change(false, |meta| meta.set_access(list, seen, keep_group)),
            AclKind::Default => self.change_quietly(|meta| meta.set_default(list, seen)),
        };
        drop(old?);
        path_cache::changed();
        Ok(())
    }

    fn busy(&self) -> Option<&WriteCount> {
        self.store().map(|_| &self.busy)
    }

    fn inactive(&self) -> Option<&Inactive> {
        Some(&self.inactive)
    }

    fn watched(&self) -> Option<&AtomicU32> {
        Some(&self.watched)
    }
}

/// Hands the entries of `dir` from place `from` on to `put`; the place where it stopped.
#[inline(always)]
fn list(dir: &dir::Names, from: u64, mut put: impl FnMut(DirEntry<'_>) -> bool) -> u64 {
    let mut at = from;
    for entry in dir.from(from) {
        let next = entry.place.wrapping_add(1);
        let taken = put(DirEntry {
            ino: entry.ino,
            next,
            kind: entry.kind.dirent_type(),
            name: &entry.name,
        });
        if !taken {
            return entry.place;
        }
        at = next;
    }
    at
}
