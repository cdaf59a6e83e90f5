//! Marks of `inotify` instances come and go, and with them the routines of open descriptions.
//!
//! *Interface*: [`add`] and [`remove`] put and take marks; [`renamed`], [`settle`] and [`tell`] report events
//! after which a description may have to report, or need not any more. Each of these three costs a load and a
//! branch while there is no mark anywhere. Other events are reported by [`crate::fs::watch`].

use abi::errno::Result;
use alloc::sync::Arc;
use alloc::vec::Vec;
use sync::epoch;

use crate::files;
use crate::fs::file::OpenFile;
use crate::fs::watch::{self, Instance, about, about_rename, any, should_tell};
use crate::fs::{Inode, names};
use account::user::Charge;
use vm::fallible::try_reserve;

/// Reports the events of `mask` on `inode` to `instance`: returns the number of the mark, an old one if there
/// is one. EEXIST for that with `IN_MASK_CREATE`, ENOSPC, ENOMEM.
pub fn add(
    instance: &Arc<Instance>,
    inode: &Arc<dyn Inode>,
    mask: u32,
    charge: impl Fn() -> Result<Charge>,
) -> Result<i32> {
    let (wd, first) = watch::put(instance, inode, mask, charge)?;
    if first {
        // Later opens take the ordinary path, and those that a dispatcher is making are over.
        names::purge();
        // Bound: a grace period, asleep, at the first mark on an inode.
        epoch::synchronize();
        refresh();
    }
    Ok(wd)
}

/// Takes the mark `wd` of `instance`. EINVAL.
pub fn remove(instance: &Instance, wd: i32) -> Result<()> {
    if watch::take(instance, wd)? {
        refresh();
    }
    Ok(())
}

/// A name has moved: `inode` is now the one of `new` in the second directory, and was that of `old` in the
/// first.
#[inline]
pub fn renamed(inode: &dyn Inode, from: (&dyn Inode, &[u8]), to: (&dyn Inode, &[u8])) {
    if any() && about_rename(inode, from, to) {
        // Its open descriptions now report to others, or to none.
        refresh();
    }
}

/// `of` has its descriptor: a mark that was made meanwhile may have missed it.
#[inline]
pub fn settle(of: &Arc<OpenFile>) {
    if any() && should_tell(of) != of.tells() {
        of.set_tells(!of.tells());
        files::replug_everywhere(of);
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
            files::replug_everywhere(of);
        }
    }
}

/// Checks every open description again, and plugs fitting code.
fn refresh() {
    let mut changed: Vec<Arc<OpenFile>> = Vec::new();
    files::each_description(|of| {
        let differs = of.inode().is_some() && should_tell(of) != of.tells();
        if differs && try_reserve(&mut changed, 1).is_ok() {
            #[expect(clippy::disallowed_methods, reason = "there is room")]
            changed.push(of.clone());
        }
    });
    for of in &changed {
        of.set_tells(should_tell(of));
        files::replug_everywhere(of);
    }
}
