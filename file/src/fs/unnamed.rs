//! The changeable `stat` attributes of files without a name: pipes, sockets, and what event descriptors
//! share.
//!
//! *Interface*: an [`UnnamedInode`] is a part of the object; [`ANONYMOUS`] is the one of all files that have
//! none of their own (counters, timers and their like), as Linux's `anon_inodefs` has one for all. It keeps
//! the owner that it was made for, and everything else from the first change on.

use abi::errno::Result;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use sync::Monitor;

use super::attr::{Attr, SetAttr};
use super::ownership::Ownership;

/// The attributes of a file without a name.
pub struct UnnamedInode {
    /// The creator's user, and its group in the upper half.
    owner: AtomicU64,
    is_changed: AtomicBool,
    changed: Monitor<Option<Ownership>>,
}

/// The attributes that all files share which have none of their own. They are the superuser's.
pub static ANONYMOUS: UnnamedInode = UnnamedInode::new(0, 0);

impl UnnamedInode {
    /// Those of a file that user `uid` and group `gid` make.
    pub const fn new(uid: u32, gid: u32) -> UnnamedInode {
        UnnamedInode {
            owner: AtomicU64::new(word(uid, gid)),
            is_changed: AtomicBool::new(false),
            changed: Monitor::new(None),
        }
    }

    /// The file serves for another that `uid` and `gid` make. Nothing of it was changed.
    pub fn belong_to(&self, uid: u32, gid: u32) {
        self.owner.store(word(uid, gid), Ordering::Relaxed);
    }

    /// Whether anything but the owner that it was made for has been set.
    pub fn is_changed(&self) -> bool {
        self.is_changed.load(Ordering::Acquire)
    }

    /// The owner, and its group.
    pub fn owner(&self) -> (u32, u32) {
        let attr = self.attr(Attr::default());
        (attr.uid, attr.gid)
    }

    /// `made`, which says what the file has from its making on, with the owner and all that was changed.
    pub fn attr(&self, made: Attr) -> Attr {
        if self.is_changed() {
            // Bound: a few words of one file's attributes.
            let changed = self.changed.lock();
            if let Some(now) = &*changed {
                return Attr {
                    nlink: made.nlink,
                    size: made.size,
                    ..now.attr((made.dev, made.ino), made.nlink)
                };
            }
        }
        let owner = self.owner.load(Ordering::Relaxed);
        Attr {
            uid: owner as u32,
            gid: (owner >> 32) as u32,
            ..made
        }
    }

    /// Applies `set` to a file that was made as `made` says. EAGAIN: the attributes that permission depended
    /// on have changed.
    pub fn set(&self, made: Attr, set: &SetAttr) -> Result<()> {
        let now = self.attr(made);
        let mut changed = self.changed.lock();
        let unchanged = || Ownership {
            mode: now.mode,
            uid: now.uid,
            gid: now.gid,
            atime: now.atime,
            mtime: now.mtime,
            ctime: now.ctime,
        };
        changed.get_or_insert_with(unchanged).set(set)?;
        self.is_changed.store(true, Ordering::Release);
        Ok(())
    }
}

const fn word(uid: u32, gid: u32) -> u64 {
    uid as u64 | (gid as u64) << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_kept_and_the_rest_is_as_made() {
        let made = Attr {
            mode: 0o600,
            ino: 7,
            nlink: 1,
            ..Attr::default()
        };
        let inode = UnnamedInode::new(5, 6);
        assert_eq!((inode.owner(), inode.is_changed()), ((5, 6), false));
        inode.belong_to(8, 9);
        let mode = SetAttr {
            mode: Some(0o640),
            ..SetAttr::default()
        };
        inode.set(made, &mode).unwrap();
        let now = inode.attr(made);
        assert_eq!((now.mode, now.uid, now.gid, now.ino), (0o640, 8, 9, 7));
        let owner = SetAttr {
            uid: Some(1),
            seen: Some(super::super::attr::ModeBits::of(&made)),
            ..SetAttr::default()
        };
        assert_eq!(inode.set(made, &owner), Err(abi::errno::Errno::EAGAIN));
        assert_eq!(inode.owner(), (8, 9));
    }
}
