//! Marks of `inotify` instances come and go, and with them the routines of open descriptions.
//!
//! *Interface*: [`add`] puts a mark; one is taken by [`fsnotify::take`]. [`renamed`], [`linked`],
//! [`settle`] and [`tell`] report events after which a description may have to report, or need not any more.
//! Each of these costs a load and a branch while there is no mark anywhere. Other events are reported by
//! [`crate::fs::fsnotify`].
//!
//! A mark touches what it concerns: closed descriptions of the inode, or of the files of the directory, wait
//! no longer, and open ones get other code. The tables are walked only where there may be an open one. When a
//! mark goes nothing is done: a description that need not report any more finds that at its next call, and
//! then gets its code back.

use abi::errno::Result;
use alloc::sync::Arc;
use alloc::vec::Vec;
use sync::epoch;

use crate::fdtable;
use crate::fs::file::OpenFile;
use crate::fs::fsnotify::{
    self, InotifyInstance, about, about_rename, any, is_watched, should_tell,
};
use crate::fs::{FileKind, Inode, path_cache};
use account::user::Charge;
use vm::fallible::try_reserve;

/// Reports the events of `mask` on `inode` to `instance`: returns the number of the mark, an old one if there
/// is one. EEXIST for that with `IN_MASK_CREATE`, ENOSPC, ENOMEM.
pub fn add(
    instance: &Arc<InotifyInstance>,
    inode: &Arc<dyn Inode>,
    mask: u32,
    charge: impl Fn() -> Result<Charge>,
) -> Result<i32> {
    let (wd, first) = fsnotify::put(instance, inode, mask, charge)?;
    if first && inode.watched().is_some() {
        // Later opens take the ordinary path.
        let is_directory = inode.kind() == FileKind::Directory;
        be_over(match is_directory {
            true => path_cache::forget_with_files(&**inode),
            false => path_cache::forget(&**inode),
        });
        if is_directory || may_be_open(inode) {
            refresh(|of| core::ptr::addr_eq(of, &**inode) || is_directory && of.is_in(&**inode));
        }
    }
    Ok(wd)
}

/// Waits until opens that a dispatcher is making are over, and the descriptions gone that have `waited`.
fn be_over(waited: bool) {
    if waited {
        // Bound: a grace period, asleep, when descriptions that waited have to report from now on.
        epoch::synchronize();
    } else {
        // Bound: a grace period, asleep, at the first mark on an inode.
        epoch::grace();
    }
}

/// Whether there may be an open description of the file `inode`. One that is made from now on finds the mark.
fn may_be_open(inode: &Arc<dyn Inode>) -> bool {
    // Each name has the inode once, the caller too, and an open description once or twice.
    Arc::strong_count(inode) > 1 + inode.attr().nlink as usize
}

/// A name has moved: `inode` is now the one of `new` in the second directory, and was that of `old` in the
/// first.
#[inline]
pub fn renamed(inode: &dyn Inode, from: (&dyn Inode, &[u8]), to: (&dyn Inode, &[u8])) {
    if any() && about_rename(inode, from, to) {
        // Its open descriptions now report to others, or to none.
        be_over(path_cache::forget(inode));
        refresh(|of| core::ptr::addr_eq(of, inode));
    }
}

/// `inode` has got a further name, in `directory`: later opens report to those who watch that.
#[inline]
pub fn linked(inode: &dyn Inode, directory: &dyn Inode) {
    if any() && is_watched(directory) {
        be_over(path_cache::forget(inode));
    }
}

/// `of` has its descriptor: a mark that was made meanwhile may have missed it.
#[inline]
pub fn settle(of: &Arc<OpenFile>) {
    if any() && should_tell(of) != of.tells() {
        of.set_tells(!of.tells());
        fdtable::replug_everywhere(of);
    }
}

/// `event` has happened through `of`. When nothing must be reported any more, it gets its code back.
#[inline]
pub fn tell(of: &Arc<OpenFile>, event: u32) {
    if of.tells() {
        if any() && should_tell(of) {
            about(of, event);
        } else {
            of.set_tells(false);
            fdtable::replug_everywhere(of);
        }
    }
}

/// Checks the open descriptions of `concerned` inodes again, and plugs fitting code.
fn refresh(concerned: impl Fn(&dyn Inode) -> bool) {
    let mut changed: Vec<Arc<OpenFile>> = Vec::new();
    fdtable::each_description(|of| {
        let differs =
            of.inode().is_some_and(|inode| concerned(&**inode)) && should_tell(of) != of.tells();
        if differs && try_reserve(&mut changed, 1).is_ok() {
            #[expect(clippy::disallowed_methods, reason = "there is room")]
            changed.push(of.clone());
        }
    });
    for of in &changed {
        of.set_tells(should_tell(of));
        fdtable::replug_everywhere(of);
    }
}
