//! The lock-free look-up of a parent: the directory and the last name of a path, for calls that make or
//! remove a name.
//!
//! *Interface*: [`find`] goes along a path as [`super::lockfree_walk`] does, up to its last name, and answers
//! a [`ParentLookup`]. The caller may change that directory. Other paths have no answer here, as there: the
//! walk ([`super::walk`](mod@super::walk)) finds it, or says what is wrong. A path that begins with the
//! directory of the last one is followed from there ([`super::parent_cache`]).
//!
//! *Unsafe*: as `file/src/fs/lockfree_walk.rs`.

use abi::linux::S_IFDIR;
use alloc::sync::Arc;
use core::ptr;
use machine::irqs_off::IrqsOff;

use super::attr::FileKind;
use super::context::FsContext;
use super::dentry::{Dentry, component};
use super::inode::Inode;
use super::mount::{MS_RDONLY, Mount, VfsPath, on_top};
use super::parent_cache::{self, Directory, Search};
use super::perm;
use super::published::Published;
use account::Cred;

/// A name in a directory, which it has or has not.
pub struct ParentLookup<'a, 'p> {
    mount: &'a Mount,
    dir: &'a Arc<dyn Inode>,
    shown: &'a Published,
    /// The name.
    pub name: &'p [u8],
    entry: Option<&'a Dentry>,
}

/// Bytes that are zero behind a path.
pub const ZEROS: usize = size_of::<u64>();

/// Where the last name of `path` is, or is not, from the root directory or the working directory of
/// `context`. `cred` may make and remove names there. The path ends at its first zero byte, before the
/// [`ZEROS`] at the end of the bytes. No answer for one that ends in a slash or a dot.
#[inline]
pub fn find<'a, 'p>(
    context: &'a FsContext,
    path: &'p [u8],
    cred: &Cred,
    off: &'a IrqsOff,
) -> Option<ParentLookup<'a, 'p>> {
    let longest = path.len().checked_sub(ZEROS)?;
    let absolute = path.first() == Some(&b'/');
    let start = context.start(absolute, off);
    let beginning = Directory::of(start)?;
    let search = Search::from(start, beginning.shown, cred.who());
    // SAFETY: the context has the starting directory.
    let recent = unsafe { parent_cache::find(search, path, off) };
    let (first, mut at) = recent.unwrap_or((beginning, usize::from(absolute)));
    let Directory {
        mut mount,
        inode: mut dir,
        mut shown,
    } = first;
    loop {
        let (hash, end) = component(path, at)?;
        let length = end.wrapping_sub(at);
        if length == 0 {
            if path.get(at) == Some(&b'/') {
                at += 1;
                continue;
            }
            // It is empty, or ends in a slash.
            return None;
        }
        if end >= longest {
            return None;
        }
        let is_last = path.get(end) != Some(&b'/');
        let want = perm::EXEC | if is_last { perm::WRITE } else { 0 };
        // SAFETY: a directory's table stays as long as its inode.
        let names = unsafe { shown.names().as_ref() }?;
        if !shown.access().lets(cred, S_IFDIR, want) {
            return None;
        }
        // SAFETY: interrupts are off as long as the entry is used, whose lifetime is that of `off`.
        let entry = unsafe { names.find(hash, |entry| entry.is_piece(path, at, length)) };
        if is_last {
            let name = path.get(at..end)?;
            // The starting directory is the context's, and not remembered.
            if !ptr::eq(dir, first.inode) {
                let inode = dir;
                let directory = Directory {
                    mount,
                    inode,
                    shown,
                };
                parent_cache::note(search, path.get(..at)?, directory);
            }
            let dots = matches!(name, b"." | b"..");
            return (!dots && mount.flags() & MS_RDONLY == 0).then_some(ParentLookup {
                mount,
                dir,
                shown,
                name,
                entry,
            });
        }
        let entry = entry?;
        (dir, shown) = (&entry.inode, entry.published()?);
        if shown.is_covered() {
            (mount, dir, shown) = on_top(mount, dir, shown, off)?;
        }
        // A file has no entries, which is seen then.
        at = end.wrapping_add(1);
    }
}

impl ParentLookup<'_, '_> {
    /// The directory, counted, if it has no such name.
    #[inline]
    pub fn vacant(&self) -> Option<VfsPath> {
        if self.entry.is_some() {
            return None;
        }
        let mount = ptr::from_ref(self.mount);
        // SAFETY: every mount is in an `Arc`, and this one stays while interrupts are off, as they are while
        // there is a `ParentLookup`.
        let mount = unsafe {
            Arc::increment_strong_count(mount);
            Arc::from_raw(mount)
        };
        Some(VfsPath {
            mount,
            inode: self.dir.clone(),
        })
    }

    /// The directory, counted, if it has such a name, which `cred` may remove: no directory's, and nothing is
    /// mounted there.
    #[inline]
    pub fn removable(&self, cred: &Cred) -> Option<Arc<dyn Inode>> {
        let entry = self.entry?;
        let shown = entry.published()?;
        if entry.kind == FileKind::Directory || shown.is_covered() {
            return None;
        }
        let may = self.shown.access().lets_remove(cred, || shown.access());
        may.then(|| self.dir.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fs::attr::SetAttr;
    use crate::fs::mount::{FileSystem, detached};
    use crate::tmpfs::TmpFs;
    use abi::linux::S_IFREG;
    use machine::irqs_off::irqs_off;

    /// The place of `path` for `cred`: vacant, removable, or neither, and its last name.
    fn at(root: &FsContext, path: &str, cred: &Cred) -> Option<(bool, bool, String)> {
        let padded = [path.as_bytes(), &[0; ZEROS + 1]].concat();
        irqs_off(|off| {
            let parent = find(root, &padded, cred, off)?;
            let name = String::from_utf8_lossy(parent.name).into_owned();
            Some((
                parent.vacant().is_some(),
                parent.removable(cred).is_some(),
                name,
            ))
        })
    }

    #[test]
    fn a_name_is_vacant_or_removable_for_who_may_change_its_directory() {
        let fs = TmpFs::new("tmpfs", 0o755);
        let root = detached(fs.clone(), fs.root());
        let (boss, user, other) = (Cred::root(), Cred::ordinary(7, 7), Cred::ordinary(8, 8));
        let dir = |name: &[u8], mode| {
            let made = root.inode.create(name, S_IFDIR | mode, 0, 0, &boss);
            made.unwrap()
        };
        let (shared, free) = (dir(b"shared", 0o1777), dir(b"free", 0o777));
        for place in [&shared, &free] {
            place.create(b"file", S_IFREG | 0o600, 0, 0, &user).unwrap();
        }
        shared.create(b"sub", S_IFDIR | 0o755, 0, 0, &boss).unwrap();
        root.inode.symlink(b"link", b"free", &boss).unwrap();

        let root = FsContext::new(root);
        let there = Some((false, true, "file".into()));
        let kept = Some((false, false, "file".into()));
        assert_eq!(at(&root, "/shared/file", &boss), there);
        assert_eq!(at(&root, "shared//file", &user), there);
        assert_eq!(at(&root, "/shared/file", &other), kept);
        assert_eq!(at(&root, "/free/file", &other), there);
        assert_eq!(
            at(&root, "/free/new", &other),
            Some((true, false, "new".into()))
        );
        assert_eq!(at(&root, "new", &boss), Some((true, false, "new".into())));
        // A directory is no such name.
        assert_eq!(
            at(&root, "/shared/sub", &boss),
            Some((false, false, "sub".into()))
        );
        // Without the right to change the directory, by a link, and to no name one walks.
        for path in ["/new", "/link/new", "/none/new", "/shared/file/new"] {
            assert_eq!(at(&root, path, &user), None, "{path}");
        }
        for path in ["", "/", "/free/", "/free/new/", "/free/.", "/free/.."] {
            assert_eq!(at(&root, path, &boss), None, "{path}");
        }
    }

    /// A directory is remembered by its path, until something on the way changes.
    #[test]
    fn a_path_is_followed_from_the_last_directory_while_that_is_where_it_was() {
        let fs = TmpFs::new("tmpfs", 0o755);
        let root = detached(fs.clone(), fs.root());
        let (boss, user) = (Cred::root(), Cred::ordinary(7, 7));
        let make = |dir: &Arc<dyn Inode>, name: &[u8], mode| {
            let made = dir.create(name, mode, 0, 0, &boss);
            made.unwrap()
        };
        let top = make(&root.inode, b"top", S_IFDIR | 0o755);
        let inner = make(&top, b"inner", S_IFDIR | 0o777);
        make(&inner, b"file", S_IFREG | 0o644);
        let deep = make(&inner, b"deep", S_IFDIR | 0o777);
        make(&deep, b"file", S_IFREG | 0o644);
        let context = FsContext::new(root.clone());
        let there = Some((false, true, "file".into()));
        let new = Some((true, false, "file".into()));
        for _ in 0..2 {
            for path in ["/top/inner/file", "top/inner/file", "/top/inner/deep/file"] {
                for cred in [&user, &boss] {
                    assert_eq!(at(&context, path, cred), there, "{path}");
                }
            }
        }
        // The same path from another root.
        let other = TmpFs::new("tmpfs", 0o755);
        let other = detached(other.clone(), other.root());
        let theirs = make(&other.inode, b"top", S_IFDIR | 0o755);
        make(&theirs, b"inner", S_IFDIR | 0o777);
        let elsewhere = FsContext::new(other);
        let path = "/top/inner/file";
        for _ in 0..2 {
            assert_eq!(at(&elsewhere, path, &user), new);
            assert_eq!(at(&context, path, &user), there);
        }
        // Rights on the way.
        let set_mode = |mode| {
            let set = SetAttr {
                mode: Some(mode),
                ..SetAttr::default()
            };
            top.set_attr(&set).unwrap();
        };
        set_mode(0o700);
        assert_eq!(at(&context, path, &user), None);
        assert_eq!(at(&context, path, &boss), there);
        set_mode(0o755);
        assert_eq!(at(&context, path, &user), there);
        // Another directory gets its name, and then it is removed.
        let rename = |from: &[u8], to: &[u8]| {
            let done = top.rename(from, &top, to, 0, &boss);
            done.unwrap();
        };
        make(&top, b"empty", S_IFDIR | 0o777);
        rename(b"inner", b"former");
        rename(b"empty", b"inner");
        assert_eq!(at(&context, path, &user), new);
        top.rmdir(b"inner").unwrap();
        assert_eq!(at(&context, path, &user), None);
        assert_eq!(at(&context, "/top/former/file", &user), there);
    }
}
