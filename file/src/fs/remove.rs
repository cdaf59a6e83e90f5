//! The right to change a directory, and the removal of a name from one.
//!
//! *Interface*: [`remove`]; [`may_change`] and [`may_remove`] for other changes.

use abi::errno::{Errno, Result};
use abi::linux::{IN_DELETE, S_ISVTX};

use super::walk::{LastComponent, WalkTarget};
use super::{Attr, FileKind, VfsPath, fsnotify, perm};
use account::Cred;

/// Whether `cred` may make and remove names in `dir`, and the mount lets it. `EACCES`, `EROFS`.
pub fn may_change(cred: &Cred, dir: &VfsPath) -> Result<()> {
    dir.inode.permits(cred, perm::WRITE | perm::EXEC)?;
    dir.mount.writable()
}

/// In a directory with the sticky bit, only the owners of directory and file remove a name. `EPERM`.
pub fn may_remove(cred: &Cred, dir: &VfsPath, victim: &Attr) -> Result<()> {
    may_change(cred, dir)?;
    let above = dir.inode.attr();
    let sticky = above.mode & S_ISVTX != 0;
    if sticky && cred.fsuid != above.uid && !perm::owns(cred, victim) {
        return Err(Errno::EPERM);
    }
    Ok(())
}

/// Removes the name `target`, which is no directory's, for `cred`. Errors of unlink(2); EBUSY: something is
/// mounted there.
pub fn remove(cred: &Cred, target: WalkTarget<'_>) -> Result<()> {
    if target.last != LastComponent::Name {
        return Err(Errno::EISDIR);
    }
    let victim = target.place.ok_or(Errno::ENOENT)?;
    may_remove(cred, &target.dir, &victim.inode.attr())?;
    if victim.inode.kind() == FileKind::Directory {
        return Err(Errno::EISDIR);
    }
    if victim.is_mount_root() {
        return Err(Errno::EBUSY);
    }
    target.dir.inode.unlink(&target.name)?;
    fsnotify::linked(&*victim.inode);
    // Its watchers are notified of its end first.
    fsnotify::end(victim.inode);
    fsnotify::name(&*target.dir.inode, &target.name, IN_DELETE, false);
    Ok(())
}
