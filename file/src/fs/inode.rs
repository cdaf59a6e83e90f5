//! A file as its file system knows it.
//!
//! *Interface.* The methods of [`Inode`] check what the file system itself must (kinds, existence,
//! emptiness); `walk` and the calls handle permission bits, mounts and symbolic links. Names are one
//! component, without `/`, never `.` or `..`, at most `NAME_MAX` bytes.

use abi::errno::{Errno, Result};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::sync::atomic::AtomicU32;

use super::acl::{Acl, AclKind};
use super::attr::{Attr, FileKind, ModeBits, SetAttr};
use super::dirents::DirentBuf;
use super::mount::VfsPath;
use super::perm;
use super::published::Published;
use super::write_count::WriteCount;
use crate::fs::file::{File, OpenFile};
use account::Cred;

/// One entry of a directory.
pub struct DirEntry<'a> {
    /// Number of the inode.
    pub ino: u64,
    /// Offset at which the next `readdir` continues after this entry.
    pub next: u64,
    /// `DT_*`.
    pub kind: u8,
    /// The name.
    pub name: &'a [u8],
}

/// The receiver of `readdir`'s entries.
pub trait DirSink {
    /// Takes an entry, or answers `false`: no room, try this one first next time.
    fn entry(&mut self, entry: DirEntry<'_>) -> bool;
    /// Where it lays them out itself, for who has many.
    fn records(&mut self) -> Option<&mut DirentBuf> {
        None
    }
}

impl<F: FnMut(DirEntry<'_>) -> bool> DirSink for F {
    fn entry(&mut self, entry: DirEntry<'_>) -> bool {
        self(entry)
    }
}

/// Passes the fixed first entries of a directory to `sink`, each a name, an inode and a `DT_*`, from position
/// `at` on. Returns the position behind them; as an error, the position of the entry without room.
pub fn fixed_entries(
    fixed: &[(&[u8], u64, u8)],
    at: u64,
    sink: &mut dyn DirSink,
) -> core::result::Result<u64, u64> {
    let mut at = at;
    while let Some(&(name, ino, kind)) = fixed.get(at as usize) {
        let next = at + 1;
        let entry = DirEntry {
            ino,
            next,
            kind,
            name,
        };
        if !sink.entry(entry) {
            return Err(at);
        }
        at = next;
    }
    Ok(at)
}

/// Whether an extended attribute may be new, or has to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XattrFlags {
    /// It must not be there (`XATTR_CREATE`). EEXIST.
    pub create: bool,
    /// It must be there (`XATTR_REPLACE`). ENODATA.
    pub replace: bool,
}

/// How a file is to be opened.
pub struct OpenRequest {
    /// `O_*`, access mode included.
    pub flags: u32,
    /// The place where it was found, if by a path.
    pub place: Option<VfsPath>,
}

impl OpenRequest {
    /// The open file description with behaviour `file`, for [`Inode::open`] and devices to return.
    pub fn finish(self, file: Arc<dyn File>) -> Arc<OpenFile> {
        OpenFile::at(file, self)
    }
}

/// The permanent identity of a file: no file of any file system gets it again.
pub type FileHandle = [u32; 3];

/// A file in a file system.
pub trait Inode: Send + Sync + Any {
    /// The attributes.
    fn attr(&self) -> Attr;
    /// The part that it shows without a lock, always the same. None where that is not kept.
    fn published(&self) -> Option<&Published> {
        None
    }
    /// File system and number: equal for the same file only.
    fn id(&self) -> (u64, u64) {
        let attr = self.attr();
        (attr.dev, attr.ino)
    }
    /// Mode, owner and group.
    fn bits(&self) -> ModeBits {
        ModeBits::of(&self.attr())
    }
    /// Whether `cred` may do what `want` (`perm::READ`…) says. `EACCES`.
    fn permits(&self, cred: &Cred, want: u32) -> Result<()> {
        perm::check(cred, self.bits(), None, want)
    }
    /// The kind of file.
    fn kind(&self) -> FileKind {
        self.attr().kind()
    }
    /// Changes attributes; permission was checked. The change time follows.
    fn set_attr(&self, _set: &SetAttr) -> Result<()> {
        Err(Errno::EPERM)
    }
    /// Opens the file. Access was checked.
    fn open(self: Arc<Self>, how: OpenRequest) -> Result<Arc<OpenFile>>;
    /// The behaviour of a regular file in memory, which needs nothing else to be opened.
    fn as_regular(self: Arc<Self>) -> Option<Arc<dyn File>> {
        None
    }
    /// Sets the length in bytes.
    fn truncate(&self, _size: u64) -> Result<()> {
        Err(Errno::EINVAL)
    }
    /// The inode called `name` in this directory.
    fn lookup(self: Arc<Self>, _name: &[u8]) -> Result<Arc<dyn Inode>> {
        Err(Errno::ENOTDIR)
    }
    /// The directory that this file is in, or was in last; `None` at the root of the file system.
    fn parent(&self) -> Option<Arc<dyn Inode>> {
        None
    }
    /// Whether [`parent`](Self::parent) is `directory`.
    fn is_in(&self, directory: &dyn Inode) -> bool {
        self.parent()
            .is_some_and(|parent| parent.id() == directory.id())
    }
    /// The name in that directory (of several, one); `None` at the root and of a removed directory.
    fn name(&self) -> Option<Arc<[u8]>> {
        None
    }
    /// Makes a file of the kind that `mode` names, owned by `cred`; `rdev` is a device's number. It does not
    /// get the permissions in `umask`, unless the directory says what new files get.
    fn create(
        &self,
        _name: &[u8],
        _mode: u32,
        _umask: u32,
        _rdev: u64,
        _cred: &Cred,
    ) -> Result<Arc<dyn Inode>> {
        Err(Errno::EPERM)
    }
    /// Makes a symbolic link to `target`.
    fn symlink(&self, _name: &[u8], _target: &[u8], _cred: &Cred) -> Result<Arc<dyn Inode>> {
        Err(Errno::EPERM)
    }
    /// Makes a file without a name (`O_TMPFILE`); `name` is what `/proc` calls it, the rest as for
    /// [`Inode::create`].
    fn tmpfile(
        &self,
        _name: &[u8],
        _mode: u32,
        _umask: u32,
        _cred: &Cred,
    ) -> Result<Arc<dyn Inode>> {
        Err(Errno::EOPNOTSUPP)
    }
    /// A file without a name may be given one (`O_TMPFILE`).
    fn let_link(&self) {}
    /// Gives `inode`, of the same file system, another name in this directory.
    fn link(&self, _name: &[u8], _inode: Arc<dyn Inode>) -> Result<()> {
        Err(Errno::EPERM)
    }
    /// Removes a name that is not a directory's.
    fn unlink(&self, _name: &[u8]) -> Result<()> {
        Err(Errno::EPERM)
    }
    /// Removes an empty directory.
    fn rmdir(&self, _name: &[u8]) -> Result<()> {
        Err(Errno::EPERM)
    }
    /// Moves `name` to `new_name` in `new_dir` of the same file system; `flags` are `RENAME_*`. A whiteout
    /// belongs to `cred`.
    fn rename(
        &self,
        _name: &[u8],
        _new_dir: &Arc<dyn Inode>,
        _new_name: &[u8],
        _flags: u32,
        _cred: &Cred,
    ) -> Result<()> {
        Err(Errno::EPERM)
    }
    /// A handle, by which its file system finds it under any name ([`super::mount::FileSystem::by_handle`]).
    /// EOPNOTSUPP, ENOMEM.
    fn handle(&self) -> Result<FileHandle> {
        Err(Errno::EOPNOTSUPP)
    }
    /// Whether its last name has gone, of a file system that alone gives and takes names.
    fn is_nameless(&self) -> bool {
        false
    }
    /// The text of a symbolic link.
    fn readlink(&self) -> Result<Vec<u8>> {
        Err(Errno::EINVAL)
    }
    /// The target of a magic link (`/proc/PID/cwd`); `None` for all others.
    fn follow(&self) -> Option<Result<VfsPath>> {
        None
    }
    /// Hands the entries from offset `from` on to `sink` (`.` and `..` included, they are 0 and 1); returns
    /// the offset where it stopped.
    fn readdir(&self, _from: u64, _sink: &mut dyn DirSink) -> Result<u64> {
        Err(Errno::ENOTDIR)
    }
    /// The value of extended attribute `name`, which is not an access control list. EOPNOTSUPP, EINVAL,
    /// ENODATA.
    fn attribute(&self, _name: &[u8]) -> Result<Vec<u8>> {
        Err(Errno::EOPNOTSUPP)
    }
    /// Gives such an attribute a value, or takes it away. The change time follows. EOPNOTSUPP, ENODATA,
    /// EEXIST, ENOSPC, ENOMEM.
    fn set_attribute(&self, _name: &[u8], _value: Option<&[u8]>, _how: XattrFlags) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }
    /// Hands the names of all attributes to `each`, those of the lists first; those of class `trusted` only
    /// if `all`.
    fn attributes(&self, _all: bool, _each: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        Ok(())
    }
    /// An access control list, in Linux's form. EOPNOTSUPP, ENODATA.
    fn list(&self, _which: AclKind) -> Result<Vec<u8>> {
        Err(Errno::EOPNOTSUPP)
    }
    /// Sets or removes an access control list; the access list determines the permission bits. `seen` has the
    /// attributes on which the permission was decided: EAGAIN if they have changed. Without `keep_group` the
    /// set-group-ID bit is removed. EOPNOTSUPP, EACCES: a default list for a file that is not a directory.
    /// ENOSPC, ENOMEM.
    fn set_list(
        &self,
        _which: AclKind,
        _list: Option<Acl>,
        _seen: ModeBits,
        _keep_group: bool,
    ) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }
    /// The writers and executors of this file, if it can be executed.
    fn busy(&self) -> Option<&WriteCount> {
        None
    }
    /// The inactive list of this file's descriptions, if it has one.
    fn inactive(&self) -> Option<&crate::fs::inactive::Inactive> {
        None
    }
    /// The union of the watched events of this file; `None` where watching is impossible.
    fn watched(&self) -> Option<&AtomicU32> {
        None
    }
}

impl dyn Inode {
    /// As its type, for the file system itself. None: it is of another file system.
    pub fn downcast<T: Inode>(self: Arc<Self>) -> Option<Arc<T>> {
        let any: Arc<dyn Any + Send + Sync> = self;
        any.downcast().ok()
    }
}
