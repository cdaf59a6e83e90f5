//! The fast path of opening a regular file in memory: a dispatcher's own open makes the description where
//! the walk has found the path.
//!
//! *Interface*: [`FoundPath::described`] with interrupts off. It answers nothing where the ordinary open has
//! more to do than a few words: somebody watches files or has a lease, the file becomes shorter, memory or
//! descriptions are short, a monitor is taken. [`OpenFile::can_close_fast`] is for the fast path of `close`.
//!
//! Source: dissertation, 7.3.1 (what `open` costs) and 4.1.2 (made by its class).
//!
//! *Unsafe*: mounts that stay while interrupts are off.

use abi::linux::{O_ACCMODE, O_LARGEFILE, O_RDONLY, O_TRUNC};
use alloc::sync::Arc;

use super::fsnotify;
use super::inactive::Inactive;
use super::inactive_inodes;
use super::inode::{Inode, OpenRequest};
use super::lease;
use super::lockfree_walk::FoundPath;
use super::mount::{MS_RDONLY, VfsPath};
use super::published::Published;
use super::write_count::WriteAccess;
use crate::fs::file::OpenFile;
use account::quota;

/// Frames that have to be free: the heap then has what this takes.
const ROOM: usize = 64;

/// Whether nobody has to be told of an open or a close.
fn is_quiet() -> bool {
    !fsnotify::any() && !lease::any()
}

impl FoundPath<'_> {
    /// A new description of the regular file with the inactive list `list`, opened with `flags`, which its
    /// rights allow.
    #[inline]
    pub fn described(&self, list: &Inactive, flags: u32) -> Option<Arc<OpenFile>> {
        let FoundPath {
            mount,
            inode,
            shown,
        } = *self;
        let room = is_quiet() && vm::frame::admits(ROOM) && quota::has_description();
        if flags & O_TRUNC != 0 || !room || !shown.has_name() {
            return None;
        }
        let file = inode.clone().as_regular()?;
        let writing = match flags & O_ACCMODE {
            O_RDONLY => None,
            _ if mount.flags() & MS_RDONLY != 0 => return None,
            _ => WriteAccess::begin(inode).ok()?,
        };
        if !inactive_inodes::keep_now(inode, list, shown) {
            return None;
        }
        // SAFETY: every mount is in an `Arc`, and this one stays while interrupts are off, as they are while
        // there is a `FoundPath`.
        let mount = unsafe {
            Arc::increment_strong_count(mount);
            Arc::from_raw(mount)
        };
        let place = VfsPath {
            mount,
            inode: inode.clone(),
        };
        let how = OpenRequest {
            flags: flags | O_LARGEFILE,
            place: Some(place),
        };
        let of = OpenFile::regular(file, how, list, shown);
        if let Some(writing) = writing {
            of.keep_writing(writing);
        }
        Some(of)
    }
}

impl OpenFile {
    /// Whether the last count of this description of a regular file, which has a list for its `flags`
    /// ([`OpenFile::list_for`]), may be given up with interrupts off: it has no code, nobody is to be told,
    /// and its inode stays, since it has a name.
    #[inline(always)]
    pub(crate) fn can_close_fast(self: &Arc<Self>, flags: u32) -> bool {
        let writes = flags & O_ACCMODE != O_RDONLY;
        // The place, the behaviour and the right to write have a count each.
        let more = |inode: &Arc<dyn Inode>| Arc::strong_count(inode) > 2 + usize::from(writes);
        self.has_no_code()
            && is_quiet()
            && Arc::weak_count(self) == 0
            && self.inode().is_some_and(more)
            && self.published().is_some_and(Published::has_name)
            && !(writes && self.is_unsettled())
    }
}
