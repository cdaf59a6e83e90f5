//! The changeable `stat` attributes of files whose file system stores nothing else: message queues,
//! pseudo-terminals.
//!
//! *Interface*: [`Ownership`] is kept under a monitor by the file's object.

use abi::errno::{Errno, Result};
use abi::linux::S_IFMT;

use super::attr::{Attr, FileTime, ModeBits, SetAttr};
use super::now;

/// Kind, owner, permissions and times.
#[derive(Clone, Copy)]
pub struct Ownership {
    /// Type and permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Last read.
    pub atime: FileTime,
    /// Last change of contents.
    pub mtime: FileTime,
    /// Last change of contents or attributes.
    pub ctime: FileTime,
}

impl Ownership {
    /// For a new file.
    pub fn new(mode: u32, uid: u32, gid: u32) -> Ownership {
        let now = now();
        Ownership {
            mode,
            uid,
            gid,
            atime: now,
            mtime: now,
            ctime: now,
        }
    }

    /// As attributes of the inode `id`, which has `nlink` names.
    pub fn attr(&self, id: (u64, u64), nlink: u32) -> Attr {
        Attr {
            dev: id.0,
            ino: id.1,
            mode: self.mode,
            nlink,
            uid: self.uid,
            gid: self.gid,
            atime: self.atime,
            mtime: self.mtime,
            ctime: self.ctime,
            btime: self.ctime,
            ..Attr::default()
        }
    }

    /// Applies `set`. EAGAIN: the attributes that permission depended on have changed.
    pub fn set(&mut self, set: &SetAttr) -> Result<()> {
        let bits = ModeBits {
            mode: self.mode,
            uid: self.uid,
            gid: self.gid,
        };
        if set.seen.is_some_and(|seen| seen != bits) {
            return Err(Errno::EAGAIN);
        }
        if let Some(mode) = set.mode {
            self.mode = self.mode & S_IFMT | mode & !S_IFMT;
        }
        self.uid = set.uid.unwrap_or(self.uid);
        self.gid = set.gid.unwrap_or(self.gid);
        self.atime = set.atime.unwrap_or(self.atime);
        self.mtime = set.mtime.unwrap_or(self.mtime);
        self.ctime = now();
        Ok(())
    }
}
