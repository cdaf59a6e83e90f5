//! Path walk: resolves a path to an inode and its mount.
//!
//! *Interface.* [`walk`] resolves a path for one process ([`WalkContext`]) and answers a [`WalkTarget`]: the
//! directory of the last component, that component, and the place it names if there is one. Errors are those
//! of path_resolution(7): `ENOENT`, `ENOTDIR`, `EACCES`, `ELOOP` after 40 links, `ENAMETOOLONG`.

use abi::errno::{Errno, Result};
use abi::linux::{
    NAME_MAX, RESOLVE_BENEATH, RESOLVE_IN_ROOT, RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS,
    RESOLVE_NO_XDEV,
};
use alloc::borrow::Cow;
use alloc::sync::Arc;
use core::cell::Cell;

use super::attr::FileKind;
use super::mount::VfsPath;
use super::perm;
use super::rename_seq::RenameSnapshot;
use account::Cred;
use vm::fallible::{try_copy, try_extend, try_push};

/// Symbolic links that one walk follows.
const MAX_LINKS: u32 = 40;

/// The identity of a walk, and its root.
pub struct WalkContext<'a> {
    /// The process's root.
    pub root: VfsPath,
    /// Its rights.
    pub cred: &'a Cred,
    /// Permissions that files it makes do not get, unless their directory says which they get.
    pub umask: u32,
    /// `RESOLVE_*`: the restrictions of the walk.
    pub resolve: u64,
    /// It has followed a magic link: for another process, or later, the path may lead elsewhere.
    pub jumped: Cell<bool>,
}

impl<'a> WalkContext<'a> {
    /// A walk that may go everywhere that `cred` may.
    pub fn new(root: VfsPath, cred: &'a Cred, umask: u32) -> WalkContext<'a> {
        WalkContext {
            root,
            cred,
            umask,
            resolve: 0,
            jumped: Cell::new(false),
        }
    }
}

/// The kind of a path's last component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastComponent {
    /// A name.
    Name,
    /// `.`
    Dot,
    /// `..`
    DotDot,
    /// None: the path was all slashes.
    Root,
}

/// The target of a path.
pub struct WalkTarget<'p> {
    /// The directory that the last component was looked up in.
    pub dir: VfsPath,
    /// The last component.
    pub name: Cow<'p, [u8]>,
    /// The kind of that component.
    pub last: LastComponent,
    /// The path ended in a slash.
    pub slash: bool,
    /// The place that it names; `None` when there is none.
    pub place: Option<VfsPath>,
}

impl WalkTarget<'_> {
    /// The place named; `ENOENT` when there is none.
    pub fn existing(self) -> Result<VfsPath> {
        self.place.ok_or(Errno::ENOENT)
    }
}

/// `ENOTDIR` unless `place` is a directory, `EACCES` unless `cred` may search it.
pub fn searchable(place: &VfsPath, cred: &Cred) -> Result<()> {
    if place.inode.kind() != FileKind::Directory {
        return Err(Errno::ENOTDIR);
    }
    place.inode.permits(cred, perm::EXEC)
}

impl WalkContext<'_> {
    fn refuses(&self, what: u64) -> bool {
        self.resolve & what != 0
    }

    /// EXDEV if the walk may not leave the mount of `here` for that of `next`.
    fn stays(&self, here: &VfsPath, next: &VfsPath) -> Result<()> {
        if self.refuses(RESOLVE_NO_XDEV) && !Arc::ptr_eq(&here.mount, &next.mount) {
            return Err(Errno::EXDEV);
        }
        Ok(())
    }

    /// The root, for a path that begins there. EXDEV.
    fn top(&self, here: Option<&VfsPath>) -> Result<VfsPath> {
        if self.refuses(RESOLVE_BENEATH) {
            return Err(Errno::EXDEV);
        }
        if let Some(here) = here {
            self.stays(here, &self.root)?;
        }
        Ok(self.root.clone())
    }

    /// The directory above `here`. EXDEV; EAGAIN: since the walk began a directory was moved, and this may
    /// lie outside by now.
    fn above(&self, here: &VfsPath, still: Option<&RenameSnapshot>) -> Result<VfsPath> {
        if self.refuses(RESOLVE_BENEATH) && here.same(&self.root) {
            return Err(Errno::EXDEV);
        }
        let above = here.parent(&self.root);
        self.stays(here, &above)?;
        if still.is_some_and(|still| !still.holds()) {
            return Err(Errno::EAGAIN);
        }
        Ok(above)
    }

    /// The target of a magic link. ELOOP, EXDEV.
    fn jump(&self, here: &VfsPath, to: Result<VfsPath>) -> Result<VfsPath> {
        if self.refuses(RESOLVE_NO_MAGICLINKS) {
            return Err(Errno::ELOOP);
        }
        self.jumped.set(true);
        let to = to?;
        if self.refuses(RESOLVE_BENEATH | RESOLVE_IN_ROOT) {
            return Err(Errno::EXDEV);
        }
        self.stays(here, &to)?;
        Ok(to)
    }
}

/// Resolves `path` from `start`. A symbolic link as last component is followed if `follow`, or if a slash
/// comes after it.
pub fn walk<'p>(
    view: &WalkContext,
    start: VfsPath,
    path: &'p [u8],
    follow: bool,
) -> Result<WalkTarget<'p>> {
    if path.is_empty() {
        return Err(Errno::ENOENT);
    }
    let mut text = Cow::Borrowed(path);
    let mut at = 0;
    let mut links = 0;
    let scoped = view.refuses(RESOLVE_BENEATH | RESOLVE_IN_ROOT);
    let still = scoped.then(RenameSnapshot::now);
    let mut here = if path[0] == b'/' {
        view.top(None)?
    } else {
        start
    };
    loop {
        at += text[at..].iter().take_while(|b| **b == b'/').count();
        if at == text.len() {
            // Only slashes: the root itself.
            return Ok(WalkTarget {
                dir: here.clone(),
                name: Cow::Borrowed(b""),
                last: LastComponent::Root,
                slash: true,
                place: Some(here),
            });
        }
        let len = text[at..].iter().take_while(|b| **b != b'/').count();
        let name = &text[at..at + len];
        let after = at + len + text[at + len..].iter().take_while(|b| **b == b'/').count();
        let is_last = after == text.len();
        let slash = after != at + len;
        searchable(&here, view.cred)?;
        if name.len() > NAME_MAX {
            return Err(Errno::ENAMETOOLONG);
        }
        let last = match name {
            b"." => LastComponent::Dot,
            b".." => LastComponent::DotDot,
            _ => LastComponent::Name,
        };
        let found = match last {
            LastComponent::Dot => Ok(here.clone()),
            LastComponent::DotDot => view.above(&here, still.as_ref()),
            _ => here
                .inode
                .clone()
                .lookup(name)
                .map(|i| here.with_inode(i).follow_mounts()),
        };
        let mut next = match found {
            Ok(next) => next,
            Err(Errno::ENOENT) if is_last => {
                return Ok(WalkTarget {
                    name: piece(&text, at, len)?,
                    dir: here,
                    last,
                    slash,
                    place: None,
                });
            }
            Err(e) => return Err(e),
        };
        let mut kind = FileKind::Directory;
        if last == LastComponent::Name {
            view.stays(&here, &next)?;
            kind = next.inode.kind();
            if kind == FileKind::Symlink && (!is_last || slash || follow) {
                links += 1;
                if links > MAX_LINKS || view.refuses(RESOLVE_NO_SYMLINKS) {
                    return Err(Errno::ELOOP);
                }
                if let Some(jump) = next.inode.follow() {
                    next = view.jump(&here, jump)?;
                    kind = next.inode.kind();
                } else {
                    let mut target = next.inode.readlink()?;
                    if target.is_empty() {
                        return Err(Errno::ENOENT);
                    }
                    if slash {
                        try_push(&mut target, b'/')?;
                        try_extend(&mut target, &text[after..])?;
                    }
                    if target[0] == b'/' {
                        here = view.top(Some(&here))?;
                    }
                    text = Cow::Owned(target);
                    at = 0;
                    continue;
                }
            }
        }
        if is_last {
            if slash && kind != FileKind::Directory {
                return Err(Errno::ENOTDIR);
            }
            return Ok(WalkTarget {
                name: piece(&text, at, len)?,
                dir: here,
                last,
                slash,
                place: Some(next),
            });
        }
        here = next;
        at = after;
    }
}

/// `len` bytes of `text` from `at` on, which outlive `text` if it is the caller's path itself.
fn piece<'p>(text: &Cow<'p, [u8]>, at: usize, len: usize) -> Result<Cow<'p, [u8]>> {
    Ok(match text {
        Cow::Borrowed(path) => Cow::Borrowed(&path[at..at + len]),
        Cow::Owned(text) => Cow::Owned(try_copy(&text[at..at + len])?),
    })
}
